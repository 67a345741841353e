package router_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

var nobody router.Principal

func TestTopicLifecycle(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	ctx := t.Context()
	spec := router.TopicSpec{Name: core.TopicName("a"), Partitions: 3, Configs: map[string]string{"retention.ms": "5"}}
	dry := spec
	dry.ValidateOnly = true
	if _, err := r.CreateTopic(ctx, nobody, dry); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Topic(spec.Name); ok {
		t.Fatal("validating created the topic")
	}
	topic, err := r.CreateTopic(ctx, nobody, spec)
	if err != nil {
		t.Fatal(err)
	}
	if len(topic.Partitions) != 3 || topic.Config.RetentionMS != 5 || topic.ID.IsZero() {
		t.Fatalf("topic is %+v", topic)
	}
	if same, _ := r.Topic(spec.Name); same != topic {
		t.Error("the same version of a topic is made twice")
	}
	if found, p, ok := r.TopicOfQueue(topic.Partitions[2]); !ok || found != topic || p != 2 {
		t.Errorf("TopicOfQueue = %v, %d, %v", found, p, ok)
	}
	if topic, err = r.CreatePartitions(ctx, nobody, spec.Name, 4, false); err != nil || len(topic.Partitions) != 4 {
		t.Fatalf("CreatePartitions = %+v, %v", topic, err)
	}
	routertest.Topic(t, r, "b", -1, nil)
	names := []string{}
	for _, one := range r.Topics("") {
		names = append(names, one.Name.Name)
	}
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" {
		t.Error(diff)
	}
	if err := r.DeleteTopic(ctx, nobody, spec.Name); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.TopicByID(topic.ID); ok {
		t.Error("the topic is still there")
	}
	if _, err := r.Head(topic.Partitions[0]); !errors.Is(err, core.NotFound) {
		t.Errorf("Head of a deleted queue: %v", err)
	}
}

func TestTopicRefusals(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	routertest.Topic(t, r, "a.b", 2, nil)
	create := func(name string, partitions int, configs ...string) error {
		spec := router.TopicSpec{Name: core.TopicName(name), Partitions: partitions, Configs: map[string]string{}}
		for _, c := range configs {
			k, v, _ := strings.Cut(c, "=")
			spec.Configs[k] = v
		}
		_, err := r.CreateTopic(t.Context(), nobody, spec)
		return err
	}
	more := func(name string, total int) error {
		_, err := r.CreatePartitions(t.Context(), nobody, core.TopicName(name), total, true)
		return err
	}
	for name, c := range map[string]struct {
		err    error
		want   core.Kind
		config bool
	}{
		"empty name":       {create("", 1), core.Invalid, false},
		"dots":             {create("..", 1), core.Invalid, false},
		"slash":            {create("a/b", 1), core.Invalid, false},
		"umlaut":           {create("ä", 1), core.Invalid, false},
		"long":             {create(strings.Repeat("a", 250), 1), core.Invalid, false},
		"exists":           {create("a.b", 1), core.Exists, false},
		"collision":        {create("a_b", 1), core.Invalid, false},
		"no partitions":    {create("b", 0), core.Invalid, false},
		"many partitions":  {create("b", 100_001), core.Invalid, false},
		"unknown key":      {create("b", 1, "no.such=1"), core.Invalid, true},
		"no number":        {create("b", 1, "retention.ms=x"), core.Invalid, true},
		"too small":        {create("b", 1, "retention.ms=-2"), core.Invalid, true},
		"not in list":      {create("b", 1, "cleanup.policy=shred"), core.Invalid, true},
		"lags":             {create("b", 1, "min.compaction.lag.ms=5", "max.compaction.lag.ms=4"), core.Invalid, true},
		"remote storage":   {create("b", 1, "remote.storage.enable=true"), core.Invalid, true},
		"fewer partitions": {more("a.b", 1), core.Invalid, false},
		"same partitions":  {more("a.b", 2), core.Invalid, false},
		"no topic":         {more("c", 5), core.NotFound, false},
		"fine":             {create("b", 1, "min.insync.replicas=2", "flush.ms=7"), core.OK, false},
	} {
		if got := core.KindOf(c.err); got != c.want {
			t.Errorf("%s: %v, want kind %v", name, c.err, c.want)
		}
		if _, ok := errors.AsType[*router.ConfigError](c.err); ok != c.config {
			t.Errorf("%s: a ConfigError is %v, want %v", name, ok, c.config)
		}
	}
}

// The broker's own topics can be read by others, and nothing else.
func TestInternalTopic(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	us := router.Itself("test")
	own, err := r.CreateTopic(timeout(t), us, router.TopicSpec{Name: core.TopicName("__own"), Partitions: 1, Internal: true})
	if err != nil {
		t.Fatal(err)
	}
	once := func(p router.Principal) error {
		_, _, err := r.PublishOnce(timeout(t), p, own, "k", [16]byte{}, time.Minute, []router.QueueBatch{{Queue: own.Partitions[0], Data: routertest.Batch(t, 1000, "v")}})
		return err
	}
	trimmed, err := r.Trim(timeout(t), nobody, []router.TrimRequest{{Queue: own.Partitions[0]}})
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"publish": routertest.Publish(r, own.Partitions[0], routertest.Batch(t, 1000, "v")).Err,
		"once":    once(nobody),
		"trim":    trimmed[0].Err,
		"delete":  r.DeleteTopic(timeout(t), nobody, own.Name),
		"a will":  r.Authorize(nobody, router.OpWrite, router.Resource{Kind: router.ResourceTopic, Name: own.Name}),
	} {
		if !errors.Is(err, core.Denied) {
			t.Errorf("%s: %v, want denied", what, err)
		}
	}
	if err := errors.Join(once(us), r.DeleteTopic(timeout(t), us, own.Name)); err != nil {
		t.Error(err)
	}
}
