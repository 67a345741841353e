package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

func TestTopicVerbs(t *testing.T) {
	s := start(t, t.TempDir())
	topic := func(args ...string) []string { return append([]string{"topic", "-b", s.kafka}, args...) }

	must(t, "", topic("create", "orders", "bills", "-p", "3", "-c", "retention.ms=1000", "-c", "cleanup.policy=compact,delete")...)
	if got := must(t, "", topic("list")...); !strings.Contains(got, "orders  3\n") || !strings.Contains(got, "bills   3\n") {
		t.Errorf("list:\n%s", got)
	}
	must(t, "", topic("alter", "orders", "-p", "5", "-c", "retention.ms=2000", "--reset", "cleanup.policy")...)
	must(t, "a\nb\nc\n", "pub", "-b", s.kafka, "orders", "-p", "4")
	got := must(t, "", topic("describe", "orders")...)
	for _, want := range []string{"topic orders", "4          1       2      1         0      3    ", "dynamic topic"} {
		if !strings.Contains(got, want) {
			t.Errorf("describe lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "default") {
		t.Errorf("describe shows defaults:\n%s", got)
	}
	if got := must(t, "", topic("describe", "orders", "--all")...); !strings.Contains(got, "segment.bytes") {
		t.Errorf("describe --all:\n%s", got)
	}
	must(t, "", topic("delete", "orders", "bills")...)
	if got := must(t, "", topic("list")...); strings.Contains(got, "orders") {
		t.Errorf("list:\n%s", got)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{topic("delete", "orders"), exitFailed, "delete topic orders: does not exist"},
		{topic("describe", "orders"), exitFailed, "describe topic orders: does not exist"},
		{topic("create", "a b"), exitFailed, "create topic a b: "},
		{topic("create", "a", "-c", "retention.ms=soon"), exitFailed, "retention.ms"},
		{topic("create", "a", "-c", "retention"), exitUsage, "is not name=value"},
		{topic("alter", "a"), exitUsage, "nothing to alter"},
		{topic("create"), exitUsage, "an argument is missing; usage: polylog topic create NAME..."},
		{topic(), exitUsage, "a verb is missing"},
		{topic("create", "a", "-r", "5"), exitFailed, "create topic a: "},
		{topic("rename"), exitUsage, "unknown command"},
		{[]string{"topic", "-b", "127.0.0.1:1", "list"}, exitFailed, "no broker answers at 127.0.0.1:1: "},
	} {
		if code, _, errs := call(t, "", c.args...); code != c.code || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: code %d, %q; want %q", c.args, code, errs, c.want)
		}
	}
}

func TestPubAndSub(t *testing.T) {
	s := start(t, t.TempDir(), "--broker-config=group.initial.rebalance.delay.ms=0")
	sub := func(args ...string) string {
		return must(t, "", append([]string{"sub", "-b", s.kafka, "words"}, args...)...)
	}

	must(t, "", "topic", "create", "words", "-b", s.kafka)
	if got := sub("--to-end"); got != "" {
		t.Errorf("an empty topic: %q", got)
	}
	for i, z := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		must(t, fmt.Sprintf("k%d:%s\n", i, z), "pub", "words", "-b", s.kafka, "-K", ":", "-H", "codec="+z, "-z", z)
	}
	between := time.Now().UTC().Add(time.Second).Format(time.RFC3339)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"all":           {[]string{"-e"}, "none\ngzip\nsnappy\nlz4\nzstd\n"},
		"from the 4th":  {[]string{"-e", "--from", "3"}, "lz4\nzstd\n"},
		"two":           {[]string{"-n", "2", "--from", "start"}, "none\ngzip\n"},
		"from the end":  {[]string{"-e", "--from", "end"}, ""},
		"from the past": {[]string{"-e", "--from", "2020-01-01T00:00:00Z"}, "none\ngzip\nsnappy\nlz4\nzstd\n"},
		"from tomorrow": {[]string{"-e", "--from", between}, ""},
		"beyond":        {[]string{"-e", "--from", "99"}, ""},
	} {
		if got := sub(c.args...); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	var m message
	if err := json.Unmarshal([]byte(sub("-n", "1", "--from", "2", "-o", "json")), &m); err != nil {
		t.Fatal(err)
	}
	if m.Topic != "words" || m.Offset != 2 || *m.Key != "k2" || *m.Value != "snappy" || m.Headers[0].Name != "codec" || *m.Headers[0].Value != "snappy" {
		t.Errorf("%+v", m)
	}
	// A group goes on where it left off.
	for _, want := range []string{"none\ngzip\n", "snappy\n", "lz4\nzstd\n"} {
		if got := sub("--group", "readers", "--from", "start", "-n", fmt.Sprint(strings.Count(want, "\n"))); got != want {
			t.Errorf("group: %q, want %q", got, want)
		}
	}
	for _, args := range [][]string{{"--from", "yesterday"}, {"-o", "xml"}, {"-e", "-g", "g"}} {
		if code, _, errs := call(t, "", append([]string{"sub", "-b", s.kafka, "words"}, args...)...); code != exitUsage {
			t.Errorf("%v: code %d, %s", args, code, errs)
		}
	}
	for _, args := range [][]string{{"-z", "brotli"}, {"-H", "h"}} {
		if code, _, errs := call(t, "", append([]string{"pub", "-b", s.kafka, "words", "x"}, args...)...); code != exitUsage {
			t.Errorf("%v: code %d, %s", args, code, errs)
		}
	}
	if code, _, errs := call(t, "", "pub", "-b", s.kafka, "a b", "x", "--timeout", "2s"); code != exitFailed || !strings.Contains(errs, "publish to a b: ") {
		t.Errorf("an illegal name: code %d, %s", code, errs)
	}
}

func TestDumpAndCheck(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	must(t, "", "topic", "create", "words", "-b", s.kafka, "-p", "2")
	must(t, "", "pub", "words", "-b", s.kafka, "-p", "1", "one", "two")
	if code, _, errs := call(t, "", "check", "--data-dir", dir); code != exitFailed || !strings.Contains(errs, "in use") {
		t.Errorf("check of a running broker's data: code %d, %s", code, errs)
	}
	s.end(t)
	if got := must(t, "", "check", "--data-dir", dir); !strings.Contains(got, "1 topics, 2 queues, ") || !strings.Contains(got, " 2 records, ") {
		t.Errorf("check:\n%s", got)
	}
	got := must(t, "", "dump", "--data-dir", dir)
	for _, want := range []string{"create topic {Name:words Partitions:2", "append queue=2", "entry 1 "} {
		if !strings.Contains(got, want) {
			t.Errorf("dump lacks %q:\n%s", want, got)
		}
	}
	if got := must(t, "", "dump", "--data-dir", dir, "--headers", "--from", "2"); strings.Contains(got, "append") || strings.Contains(got, "entry 1 ") || !strings.Contains(got, "entry 2 ") {
		t.Errorf("dump of headers:\n%s", got)
	}
	for _, verb := range []string{"dump", "check"} {
		if code, _, errs := call(t, "", verb, "--data-dir", t.TempDir()); code != exitFailed || !strings.Contains(errs, "is not a polylog data directory") {
			t.Errorf("%s of an empty directory: code %d, %s", verb, code, errs)
		}
	}
}

func TestVersion(t *testing.T) {
	if got := must(t, "", "version"); !strings.HasPrefix(got, "polylog development") {
		t.Errorf("got %q", got)
	}
	if code, out, _ := call(t, "", "--help"); code != exitOK || !strings.Contains(out, "serve") {
		t.Errorf("help: %d %s", code, out)
	}
	if got := must(t, "", "--version"); got != "polylog "+build()+"\n" {
		t.Errorf("got %q", got)
	}
	for want, args := range map[string][]string{
		"a verb is missing":       nil,
		"; did you mean: serve\n": {"servee"},
		"unexpected argument \"s\"; usage: polylog check [flags]": {"check", "s"},
	} {
		if code, _, errs := call(t, "", args...); code != exitUsage || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: %d %q, want %q", args, code, errs, want)
		}
	}
	if code, _, errs := call(t, "", "nonsense"); code != exitUsage || strings.Count(errs, "\n") != 1 {
		t.Errorf("nonsense: %d %s", code, errs)
	}
}

// A question to a broker that has just died is asked again, for as long as the verb waits;
// any other error is told at once.
func TestUntilReached(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	other := errors.New("other")
	for _, c := range []struct {
		errs []error // of one try after the other; the last for ever
		want error
	}{
		{[]error{dial, fmt.Errorf("unable to dial: %w", dial), nil}, nil},
		{[]error{dial, other}, other},
		{[]error{other, nil}, other},
		{[]error{dial}, dial},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, errs := &brokerFlags{timeout: 30 * time.Second}, c.errs
			err := b.untilReached(t.Context(), func() error {
				err := errs[0]
				errs = errs[min(1, len(errs)-1):]
				return err
			})
			if !errors.Is(err, c.want) {
				t.Errorf("%v: got %v, want %v", c.errs, err, c.want)
			}
		})
	}
}

// A verb that the cluster does not do in time says what may be wrong, and not only that it ran
// out of time.
func TestTimeoutNamesTheCluster(t *testing.T) {
	s := start(t, t.TempDir())
	b := brokerFlags{process: &process{}, addr: s.kafka, timeout: time.Second}
	err := b.admin(t.Context(), func(ctx context.Context, _ *kadm.Client) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if err == nil || !strings.Contains(err.Error(), "the cluster may have no leader") {
		t.Error(err)
	}
}
