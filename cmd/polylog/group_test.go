package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestGroupVerbs(t *testing.T) {
	s := start(t, t.TempDir(), "--broker-config=group.initial.rebalance.delay.ms=0")
	group := func(args ...string) []string { return append([]string{"group", "-b", s.kafka}, args...) }
	must(t, "", "topic", "create", "words", "-b", s.kafka)
	must(t, "", "pub", "words", "-b", s.kafka, "a", "b", "c", "d", "e")
	must(t, "", "sub", "words", "-b", s.kafka, "-g", "readers", "--from", "start", "-n", "2")

	if got := must(t, "", group("list")...); !strings.Contains(got, "readers  Empty  ") {
		t.Errorf("list:\n%s", got)
	}
	describe := func(row string) {
		t.Helper()
		if got := must(t, "", group("describe", "readers")...); !strings.Contains(got, "state Empty") || !strings.Contains(got, row) {
			t.Errorf("describe lacks %q:\n%s", row, got)
		}
	}
	describe("words  0          2         5    3    -\n")
	tomorrow := time.Now().UTC().Add(24 * time.Hour).Format(time.RFC3339)
	for _, c := range []struct {
		args []string
		row  string
	}{
		{[]string{"--to", "4"}, "words  0          2    4\n"},
		{[]string{"--to", "start", "--dry-run"}, "words  0          4    0\n"},
		{[]string{"--to", "99", "--topic", "words"}, "words  0          4    5\n"},
		{[]string{"--to", "start", "-p", "0"}, "words  0          5    0\n"},
		{[]string{"--to", tomorrow}, "words  0          0    5\n"},
		{[]string{"--to", "end"}, "words  0          5    5\n"},
	} {
		if got := must(t, "", append(group("reset", "readers"), c.args...)...); !strings.Contains(got, c.row) {
			t.Errorf("reset %v lacks %q:\n%s", c.args, c.row, got)
		}
	}
	describe("words  0          5         5    0    -\n")
	must(t, "", group("delete", "readers")...)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{group("describe", "readers"), exitFailed, "describe group readers: does not exist"},
		{group("delete", "readers"), exitFailed, "delete group readers: does not exist"},
		{group("reset", "readers", "--to", "end"), exitFailed, "it has no positions"},
		{group("reset", "readers", "--to", "end", "-t", "nix"), exitFailed, "topic nix: does not exist"},
		{group("reset", "readers", "--to", "end", "-t", "words", "-p", "7"), exitFailed, "no such partitions"},
		{group("reset", "readers"), exitUsage, "--to is missing"},
		{group("reset", "readers", "--to", "soon"), exitUsage, "--to: \"soon\" is none of"},
		{group(), exitUsage, "a verb is missing"},
	} {
		if code, _, errs := call(t, "", c.args...); code != c.code || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: code %d, %q; want %q", c.args, code, errs, c.want)
		}
	}
}

// A member is shown with what it reads, and goes on by itself when the broker is back.
func TestGroupMemberOutlivesTheBroker(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--broker-config=group.initial.rebalance.delay.ms=0"}
	s := start(t, dir, args...)
	must(t, "", "pub", "words", "-b", s.kafka, "one")
	out := &lines{output: &output{}, more: make(chan struct{}, 10)}
	var errs output
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, process{out: out, err: &errs}, []string{"sub", "words", "-b", s.kafka, "-g", "live", "--from", "start"})
	}()
	<-out.more
	if got := must(t, "", "group", "describe", "live", "-b", s.kafka); !strings.Contains(got, "members 1") || !strings.Contains(got, "polylog-cli@") {
		t.Errorf("describe:\n%s", got)
	}
	if got, _, errs := call(t, "", "group", "delete", "live", "-b", s.kafka); got != exitFailed || !strings.Contains(errs, "it has members") {
		t.Errorf("delete: %d, %s", got, errs)
	}
	s.end(t)
	s = start(t, dir, append(args, "--kafka-listen", s.kafka)...)
	must(t, "", "pub", "words", "-b", s.kafka, "two")
	// What was not committed before the restart may come again.
	for !strings.HasSuffix(out.String(), "two\n") {
		select {
		case <-out.more:
		case c := <-code:
			t.Fatalf("sub ended with code %d: %s", c, errs.String())
		}
	}
	cancel()
	// It may be stopped before it has joined again, and says so then.
	if c := <-code; c != exitOK && !strings.Contains(errs.String(), "commit positions of group live") {
		t.Errorf("code %d, %s", c, errs.String())
	}
}

// lines says when something was written.
type lines struct {
	*output
	more chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	defer func() { l.more <- struct{}{} }()
	return l.output.Write(b)
}

func TestBytesThatAreNoTextAreNotLost(t *testing.T) {
	s := start(t, t.TempDir())
	must(t, "k\xff=\xff\xfe\n", "pub", "mix", "-b", s.kafka, "-K", "=", "-H", "h=\xfd", "-H", "h=two")
	var got message
	if err := json.Unmarshal([]byte(must(t, "", "sub", "mix", "-b", s.kafka, "-e", "-o", "json")), &got); err != nil {
		t.Fatal(err)
	}
	if got.Key != nil || string(got.KeyBase64) != "k\xff" || got.Value != nil || string(got.ValueBase64) != "\xff\xfe" {
		t.Errorf("%+v", got)
	}
	if len(got.Headers) != 2 || string(got.Headers[0].ValueBase64) != "\xfd" || *got.Headers[1].Value != "two" {
		t.Errorf("%+v", got.Headers)
	}
}
