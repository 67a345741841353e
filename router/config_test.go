package router_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

func TestConfigKeys(t *testing.T) {
	for kind, keys := range map[string][]router.ConfigKey{"topic": router.TopicConfigKeys(), "broker": router.BrokerConfigKeys()} {
		if !slices.IsSortedFunc(keys, func(a, b router.ConfigKey) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%s keys are not sorted by name", kind)
		}
		check := router.CheckTopicConfig
		if kind == "broker" {
			check = router.CheckBrokerConfig
		}
		for _, k := range keys {
			if k.Doc == "" || k.Type == 0 {
				t.Errorf("%s: no documentation or no type", k.Name)
			}
			if err := check(k.Name, k.Default); err != nil && !k.Unset {
				t.Errorf("%s: its default is not accepted: %v", k.Name, err)
			}
			for _, s := range k.Synonyms {
				if !slices.ContainsFunc(router.BrokerConfigKeys(), func(b router.ConfigKey) bool { return b.Name == s.Name }) {
					t.Errorf("%s: synonym %s is no broker key", k.Name, s.Name)
				}
			}
		}
	}
}

// entry is what holds for one key of a topic, in words: value, source and candidates.
func entry(t *testing.T, r *router.Router, topic, key string) string {
	t.Helper()
	found, ok := r.Topic(core.TopicName(topic))
	if !ok {
		t.Fatalf("no topic %s", topic)
	}
	for _, e := range r.DescribeTopicConfig(found) {
		if e.Key.Name != key {
			continue
		}
		var words []string
		for _, c := range e.Candidates {
			words = append(words, c.Name+"="+c.Value+"@"+string('0'+rune(c.Source)))
		}
		return strings.Join(words, " ")
	}
	t.Fatalf("no key %s", key)
	return ""
}

func TestConfigSources(t *testing.T) {
	r, _ := routertest.Start(t, func(o *router.Options) {
		o.Defaults = map[string]string{"log.retention.hours": "2", "num.partitions": "4"}
	})
	ctx := t.Context()
	topic := routertest.Topic(t, r, "a", -1, nil)
	if len(topic.Partitions) != 4 {
		t.Errorf("%d partitions, want num.partitions, 4", len(topic.Partitions))
	}
	want := func(key, words string) {
		t.Helper()
		if diff := cmp.Diff(words, entry(t, r, "a", key)); diff != "" {
			t.Error(diff)
		}
	}
	want("retention.ms", "log.retention.hours=7200000@4 log.retention.hours=604800000@5")
	want("segment.index.bytes", "log.index.size.max.bytes=10485760@5")

	set := func(k, v string) router.ConfigChange { return router.ConfigChange{Key: k, Value: v} }
	if err := r.AlterBrokerConfig(ctx, nobody, []router.ConfigChange{set("log.retention.minutes", "3")}, false, false); err != nil {
		t.Fatal(err)
	}
	want("retention.ms", "log.retention.minutes=180000@3 log.retention.hours=7200000@4 log.retention.hours=604800000@5")
	if got, _ := r.Topic(topic.Name); got.Config.RetentionMS != 180_000 {
		t.Errorf("retention.ms is %d after the broker's changed", got.Config.RetentionMS)
	}
	if err := r.AlterTopicConfig(ctx, nobody, topic.Name, []router.ConfigChange{set("retention.ms", "9")}, false, false); err != nil {
		t.Fatal(err)
	}
	want("retention.ms", "retention.ms=9@1 log.retention.minutes=180000@3 log.retention.hours=7200000@4 log.retention.hours=604800000@5")

	if err := r.AlterBrokerConfig(ctx, nobody, []router.ConfigChange{set("node.id", "3")}, false, false); core.KindOf(err) != core.Invalid {
		t.Errorf("a read-only key: %v", err)
	}
}

func TestFixedKeysAreNotTakenSilently(t *testing.T) {
	for key, c := range map[string]struct{ is, other, want string }{
		"node.id":                  {"-1", "7", "use node-id"},
		"socket.request.max.bytes": {"104857600", "1000", "is fixed at 104857600"},
		"delete.topic.enable":      {"false", "maybe", "want true or false"},
	} {
		if err := router.CheckBrokerConfig(key, c.is); err != nil {
			t.Errorf("%s=%s: %v", key, c.is, err)
		}
		if err := router.CheckBrokerConfig(key, c.other); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v, want %q", key, c.other, err, c.want)
		}
	}
	if err := router.CheckBrokerConfig("log.dirs", ""); err == nil {
		t.Error("log.dirs: a key without value was set")
	}
}

func TestTopicsAreNotDeletedWhereThatIsOff(t *testing.T) {
	r, _ := routertest.Start(t, func(o *router.Options) {
		o.Defaults = map[string]string{"delete.topic.enable": "false"}
	})
	topic := routertest.Topic(t, r, "a", 1, nil)
	if err := r.DeleteTopic(t.Context(), nobody, topic.Name); !errors.Is(err, router.ErrDeletionDisabled) {
		t.Errorf("got %v", err)
	}
	if _, ok := r.Topic(topic.Name); !ok {
		t.Error("the topic is gone")
	}
}

func TestAlterTopicConfig(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	topic := routertest.Topic(t, r, "a", 1, map[string]string{"segment.ms": "5"})
	alter := func(dry, all bool, changes ...router.ConfigChange) error {
		return r.AlterTopicConfig(t.Context(), nobody, topic.Name, changes, dry, all)
	}
	overrides := func(want map[string]string) {
		t.Helper()
		now, _ := r.Topic(topic.Name)
		if diff := cmp.Diff(want, now.Overrides); diff != "" {
			t.Error(diff)
		}
	}
	steps := []router.ConfigChange{
		{Key: "cleanup.policy", Op: router.ConfigAppend, Value: "compact"},
		{Key: "retention.ms", Op: router.ConfigSet, Value: "7"},
		{Key: "segment.ms", Op: router.ConfigDelete},
	}
	if err := alter(true, false, steps...); err != nil {
		t.Fatal(err)
	}
	overrides(map[string]string{"segment.ms": "5"})
	if err := alter(false, false, steps...); err != nil {
		t.Fatal(err)
	}
	overrides(map[string]string{"cleanup.policy": "delete,compact", "retention.ms": "7"})
	if err := alter(false, false, router.ConfigChange{Key: "cleanup.policy", Op: router.ConfigSubtract, Value: "delete"}); err != nil {
		t.Fatal(err)
	}
	overrides(map[string]string{"cleanup.policy": "compact", "retention.ms": "7"})
	if now, _ := r.Topic(topic.Name); !now.Config.Compact || now.Config.Delete {
		t.Errorf("policy is %+v", now.Config)
	}
	if err := alter(false, true, router.ConfigChange{Key: "segment.ms", Value: "8"}); err != nil {
		t.Fatal(err)
	}
	overrides(map[string]string{"segment.ms": "8"})

	for name, c := range map[string]router.ConfigChange{
		"unknown":            {Key: "no.such", Value: "1"},
		"unknown deleted":    {Key: "no.such", Op: router.ConfigDelete},
		"appended to number": {Key: "segment.ms", Op: router.ConfigAppend, Value: "1"},
		"bad value":          {Key: "segment.ms", Value: "0"},
		"bad operation":      {Key: "segment.ms", Op: 9},
	} {
		if err := alter(false, false, c); core.KindOf(err) != core.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	overrides(map[string]string{"segment.ms": "8"})
}
