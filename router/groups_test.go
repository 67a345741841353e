package router_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

func TestGroupOffsets(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	ctx := t.Context()
	topic := routertest.Topic(t, r, "a", 2, nil)
	p := topic.Partitions
	errs, err := r.CommitOffsets(ctx, nobody, "g", []router.OffsetCommit{
		{Queue: p[0], Offset: 3, LeaderEpoch: 2, Metadata: "m"},
		{Queue: p[1], Offset: 4, LeaderEpoch: -1, Metadata: strings.Repeat("m", 4097)},
		{Queue: 99, Offset: 5, LeaderEpoch: -1},
	}, router.GroupMeta{ProtocolType: "consumer"})
	if err != nil || errs[0] != nil || !errors.Is(errs[1], core.TooLarge) || !errors.Is(errs[2], core.NotFound) {
		t.Fatalf("commit: %v, %v", errs, err)
	}
	o, ok, err := r.FetchOffset("g", p[0])
	if err != nil || !ok || o.Offset != 3 || o.LeaderEpoch != 2 || o.Metadata != "m" || o.Topic.Name.Name != "a" || o.Partition != 0 {
		t.Errorf("offset is %+v, %v, %v", o, ok, err)
	}
	if _, ok, err := r.FetchOffset("nobody", p[0]); ok || err != nil {
		t.Errorf("offset of an unknown group: %v, %v", ok, err)
	}
	if all, err := r.Offsets("g"); err != nil || len(all) != 1 {
		t.Errorf("all offsets: %+v, %v", all, err)
	}
	if gs, err := r.Groups(); err != nil || len(gs) != 1 || gs[0].Name != "g" || gs[0].ProtocolType != "consumer" {
		t.Errorf("groups: %+v, %v", gs, err)
	}
	errs, err = r.DeleteOffsets(ctx, nobody, "g", p)
	if err != nil || errs[0] != nil || !errors.Is(errs[1], core.NotFound) {
		t.Errorf("delete offsets: %v, %v", errs, err)
	}
	if err := r.DeleteGroup(ctx, nobody, "g"); err != nil {
		t.Error(err)
	}
	if err := r.DeleteGroup(ctx, nobody, "g"); !errors.Is(err, core.NotFound) {
		t.Errorf("delete again: %v", err)
	}
}

func TestExpiry(t *testing.T) {
	clock := routertest.NewClock(time.UnixMilli(1_000_000))
	r, _ := routertest.Start(t, func(o *router.Options) { o.Clock = clock.Now })
	ctx := t.Context()
	q := routertest.Topic(t, r, "a", 1, nil).Partitions[0]
	for _, g := range []string{"busy", "idle"} {
		if _, err := r.CommitOffsets(ctx, nobody, g, []router.OffsetCommit{{Queue: q, Offset: 1}}, router.GroupMeta{}); err != nil {
			t.Fatal(err)
		}
	}
	r.OnGroupActive(func(group string) bool { return group == "busy" })
	clock.Advance(7*24*time.Hour - time.Millisecond)
	if err := r.Expire(ctx); err != nil {
		t.Fatal(err)
	}
	if gs, _ := r.Groups(); len(gs) != 2 {
		t.Errorf("too early: %+v", gs)
	}
	const eighth = 7 * 24 * time.Hour / 8 // how often it is noted that a group has members
	clock.Advance(eighth + time.Millisecond)
	if err := r.Expire(ctx); err != nil {
		t.Fatal(err)
	}
	if gs, _ := r.Groups(); len(gs) != 1 || gs[0].Name != "busy" {
		t.Errorf("more than a week later: %+v", gs)
	}
	// A new leader knows no members yet.
	r.OnGroupActive(func(string) bool { return false })
	if err := r.Expire(ctx); err != nil {
		t.Fatal(err)
	}
	if o, ok, err := r.FetchOffset("busy", q); !ok || o.Offset != 1 || err != nil {
		t.Errorf("under a new leader: %+v, %v, %v", o, ok, err)
	}
	clock.Advance(eighth - time.Millisecond) // its members leave now, before that is noted again
	clock.Advance(7*24*time.Hour - time.Millisecond)
	if err := r.Expire(ctx); err != nil {
		t.Fatal(err)
	}
	if gs, _ := r.Groups(); len(gs) != 1 {
		t.Error("the offsets went less than a week after the members")
	}
	clock.Advance(2 * time.Millisecond)
	if err := r.Expire(ctx); err != nil {
		t.Fatal(err)
	}
	if gs, _ := r.Groups(); len(gs) != 0 {
		t.Errorf("a week after its members left: %+v", gs)
	}
}

func TestRetention(t *testing.T) {
	clock := routertest.NewClock(time.UnixMilli(10_000))
	r, log := routertest.Start(t, func(o *router.Options) { o.Clock = clock.Now })
	b := routertest.Batch(t, 0, "x", "y")
	size := int64(len(b))
	type config = map[string]string
	topics := map[string]config{
		"time":    {"retention.ms": "1000"},
		"size":    {"retention.ms": "-1", "retention.bytes": "150"},
		"ever":    {"retention.ms": "-1"},
		"compact": {"retention.ms": "1000", "cleanup.policy": "compact"},
		"both":    {"retention.ms": "1000", "cleanup.policy": "compact,delete"},
	}
	if size > 150 || 2*size < 150 {
		t.Fatalf("a batch has %d bytes", size)
	}
	queues := map[string]core.QueueID{}
	for name, c := range topics {
		queues[name] = routertest.Topic(t, r, name, 1, c).Partitions[0]
		for _, ms := range []int64{8000, 8500, 9000, 8900, 9500} {
			mustPublish(t, r, queues[name], routertest.Batch(t, ms, "x", "y"))
		}
	}
	starts := func(want map[string]core.Offset) {
		t.Helper()
		if err := r.EnforceRetention(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, q := range queues {
			if head, err := r.Head(q); err != nil || head.Start != want[name] || head.End != 10 {
				t.Errorf("%s: %+v, %v; want start %d", name, head, err, want[name])
			}
		}
	}
	starts(map[string]core.Offset{"time": 4, "size": 6, "both": 4})
	clock.Advance(200 * time.Millisecond)
	// The batch of 8900 goes: it is old, and none younger is before it.
	starts(map[string]core.Offset{"time": 8, "size": 6, "both": 8})
	clock.Advance(time.Hour)
	starts(map[string]core.Offset{"time": 10, "size": 6, "both": 10})
	if log.Trimmed() != 0 {
		t.Errorf("the log was trimmed to %d without a checkpoint", log.Trimmed())
	}
	// With a checkpoint it may go up to what somebody still refers to: here, as
	// those are counted in coarse steps, nothing, and then everything.
	checkpoint := func(want func(core.LogIndex) bool) {
		t.Helper()
		if err := log.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		if err := r.EnforceRetention(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := log.Trimmed(); !want(got) {
			t.Errorf("the log is trimmed to %d", got)
		}
	}
	checkpoint(func(i core.LogIndex) bool { return i == 0 })
	for _, name := range []string{"ever", "size", "compact"} {
		if err := r.DeleteTopic(t.Context(), nobody, core.TopicName(name)); err != nil {
			t.Fatal(err)
		}
	}
	checkpoint(func(i core.LogIndex) bool { return i == 0 }) // what they had is still there
	if err := r.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkpoint(func(i core.LogIndex) bool { return i > 30 })
}

func TestTrim(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	p := routertest.Topic(t, r, "a", 2, nil).Partitions
	b := routertest.Batch(t, 1, "x", "y", "z")
	for _, q := range p {
		mustPublish(t, r, q, b)
	}
	res, err := r.Trim(t.Context(), nobody, []router.TrimRequest{{Queue: p[0], Before: 2}, {Queue: 99, Before: 1}, {Queue: p[1], Before: -1}, {Queue: p[1], Before: 7}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		start core.Offset
		kind  core.Kind
	}{{2, core.OK}, {-1, core.NotFound}, {3, core.OK}, {3, core.OutOfRange}} {
		if res[i].Start != want.start || core.KindOf(res[i].Err) != want.kind {
			t.Errorf("trim %d: %+v, want %+v", i, res[i], want)
		}
	}
	// The batch that the start lies in is still read whole.
	if got := offsets(t, r, p[0], 2, router.ReadOptions{MaxBytes: 1000}); len(got) != 1 || got[0] != 0 {
		t.Errorf("read %v", got)
	}
}
