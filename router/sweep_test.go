package router_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
	"polylog/router/state"
)

// TestDeletedTopicIsGoneAtOnce deletes a topic that nobody sweeps yet: nothing of it
// can be read, written or committed to, but the log keeps its entries.
func TestDeletedTopicIsGoneAtOnce(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	topic := routertest.Topic(t, r, "a", 2, nil)
	q := topic.Partitions[0]
	mustPublish(t, r, q, routertest.Batch(t, 1, "x"))
	if _, err := r.CommitOffsets(t.Context(), nobody, "g", []router.OffsetCommit{{Queue: q, Offset: 1}}, router.GroupMeta{}); err != nil {
		t.Fatal(err)
	}
	if err := r.DeleteTopic(t.Context(), nobody, topic.Name); err != nil {
		t.Fatal(err)
	}
	check := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, core.NotFound) {
			t.Errorf("%s: %v, want not found", what, err)
		}
	}
	_, err := r.Head(q)
	check("head", err)
	var dst router.Batches
	_, err = r.Read(q, 0, router.ReadOptions{MaxBytes: 1 << 20, AtLeastOne: true}, &dst)
	check("read", err)
	_, _, _, err = r.OffsetByTime(t.Context(), q, 0)
	check("offset by time", err)
	_, _, err = r.EpochEnd(q, 1)
	check("end of epoch", err)
	check("publish", routertest.Publish(r, q, routertest.Batch(t, 1, "x")).Err)
	trims, err := r.Trim(t.Context(), nobody, []router.TrimRequest{{Queue: q, Before: 1}})
	if err != nil {
		t.Fatal(err)
	}
	check("trim", trims[0].Err)
	commits, err := r.CommitOffsets(t.Context(), nobody, "g", []router.OffsetCommit{{Queue: q, Offset: 1}}, router.GroupMeta{})
	if err != nil {
		t.Fatal(err)
	}
	check("commit", commits[0])
	if offsets, err := r.Offsets("g"); err != nil || len(offsets) > 0 {
		t.Errorf("offsets %v, %v", offsets, err)
	}
}

// TestSweepLoop deletes a topic of many partitions: the leader's loop removes them in
// several commands.
func TestSweepLoop(t *testing.T) {
	r, log := routertest.Start(t, func(o *router.Options) { o.RetentionInterval = time.Hour })
	topic := routertest.Topic(t, r, "a", 5000, nil)
	mustPublish(t, r, topic.Partitions[4999], routertest.Batch(t, 1, "x"))
	if err := r.DeleteTopic(t.Context(), nobody, topic.Name); err != nil {
		t.Fatal(err)
	}
	for log.Commands(state.CodeSweep) < 3 { // 2,000 each
		if t.Context().Err() != nil {
			return
		}
		runtime.Gosched()
	}
}

// TestEmptyQueues asks for everything of a partition that nothing was published to.
func TestEmptyQueues(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	q := routertest.Topic(t, r, "a", 1, nil).Partitions[0]
	if h, err := r.Head(q); err != nil || h != (router.Head{MaxTime: -1, MaxTimeOffset: -1}) {
		t.Errorf("head %+v, %v", h, err)
	}
	var dst router.Batches
	if _, err := r.Read(q, 0, router.ReadOptions{MaxBytes: 1 << 20}, &dst); err != nil || len(dst.Items) > 0 {
		t.Errorf("read %v, %v", dst.Items, err)
	}
	if _, _, ok, err := r.OffsetByTime(t.Context(), q, 0); ok || err != nil {
		t.Errorf("offset by time: %v, %v", ok, err)
	}
	if _, _, ok, err := r.OffsetOfMaxTime(t.Context(), q); ok || err != nil {
		t.Errorf("offset of the largest time: %v, %v", ok, err)
	}
	if epoch, end, err := r.EpochEnd(q, 0); epoch != 0 || end != 0 || err != nil {
		t.Errorf("end of epoch: %d, %d, %v", epoch, end, err)
	}
	trims, err := r.Trim(t.Context(), nobody, []router.TrimRequest{{Queue: q, Before: -1}, {Queue: q, Before: 1}})
	if err != nil || trims[0] != (router.TrimResult{}) || !errors.Is(trims[1].Err, core.OutOfRange) {
		t.Errorf("trim: %v, %v", trims, err)
	}
	if ps, err := r.Producers([]core.QueueID{q}, 10); len(ps) > 0 || err != nil {
		t.Errorf("producers: %v, %v", ps, err)
	}
}

// TestLongTrim trims more than one command may: it takes several.
func TestLongTrim(t *testing.T) {
	r, log := routertest.Start(t, nil)
	p := routertest.Topic(t, r, "a", 2, nil).Partitions
	b := routertest.Batch(t, 1, "x", "y")
	const batches = 12_000
	for range batches {
		r.Publish(nobody, p[0], b, func(router.PublishResult) {})
	}
	mustPublish(t, r, p[1], b)
	got, err := r.Trim(t.Context(), nobody, []router.TrimRequest{{p[1], 1}, {p[0], 2*batches - 1}, {p[0], 2*batches + 1}, {p[1], 2}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []core.Offset{1, 2*batches - 1, 2*batches - 1, 2} {
		if got[i].Start != want || (got[i].Err != nil) != (i == 2) {
			t.Errorf("trim %d: %+v, want start %d", i, got[i], want)
		}
	}
	if h, err := r.Head(p[0]); err != nil || h.Start != 2*batches-1 || h.End != 2*batches {
		t.Errorf("head %+v, %v", h, err)
	}
	if n := log.Commands(state.CodeTrimQueues); n != 3 { // 5,000 batches each
		t.Errorf("%d commands, want 3", n)
	}
}

func TestMaxPartitions(t *testing.T) {
	r, _ := routertest.Start(t, func(o *router.Options) { o.Defaults = map[string]string{"max.partitions": "5"} })
	ctx := t.Context()
	a := routertest.Topic(t, r, "a", 3, nil)
	for _, dry := range []bool{true, false} {
		spec := router.TopicSpec{Name: core.TopicName("b"), Partitions: 3, ValidateOnly: dry}
		if _, err := r.CreateTopic(ctx, nobody, spec); !errors.Is(err, core.Limit) {
			t.Errorf("a topic too large: %v", err)
		}
		if _, err := r.CreatePartitions(ctx, nobody, a.Name, 6, dry); !errors.Is(err, core.Limit) {
			t.Errorf("too many partitions: %v", err)
		}
	}
	if _, err := r.CreatePartitions(ctx, nobody, a.Name, 5, false); err != nil {
		t.Error(err)
	}
	if err := r.DeleteTopic(ctx, nobody, a.Name); err != nil {
		t.Fatal(err)
	}
	routertest.Topic(t, r, "b", 5, nil)
}
