package router_test

import (
	"context"
	"errors"
	"testing"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

// timed is a batch of records with these times.
func timed(t *testing.T, codec int, times ...int64) []byte {
	t.Helper()
	var bb core.BatchBuilder
	for _, ms := range times {
		bb.Add(ms, nil, []byte("value"))
	}
	b, err := bb.Build(nil, core.BatchOptions{Codec: codec, Producer: core.Nobody})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOffsetByTime(t *testing.T) {
	for codec := range 5 {
		r, _ := routertest.Start(t, nil)
		q := routertest.Topic(t, r, "a", 1, nil).Partitions[0]
		if _, _, ok, err := r.OffsetOfMaxTime(t.Context(), q); ok || err != nil {
			t.Errorf("max time of an empty queue: %v, %v", ok, err)
		}
		mustPublish(t, r, q, timed(t, codec, 2, 4))
		mustPublish(t, r, q, timed(t, codec, 6, 8))
		mustPublish(t, r, q, timed(t, codec, 5, 3))
		check := func(ms int64, off core.Offset, ts int64) {
			t.Helper()
			gotOff, gotTS, ok, err := r.OffsetByTime(t.Context(), q, ms)
			if gotOff != off || gotTS != ts || ok != (off >= 0) || err != nil {
				t.Errorf("codec %d, time %d: %d, %d, %v, %v; want %d, %d", codec, ms, gotOff, gotTS, ok, err, off, ts)
			}
		}
		check(-5, 0, 2)
		check(2, 0, 2)
		check(3, 1, 4)
		check(5, 2, 6)
		check(7, 3, 8)
		check(9, -1, -1)
		if off, ts, ok, err := r.OffsetOfMaxTime(t.Context(), q); off != 3 || ts != 8 || !ok || err != nil {
			t.Errorf("max time: %d, %d, %v, %v", off, ts, ok, err)
		}
		// A trimmed record is not found, even when its batch is still there.
		if _, err := r.Trim(t.Context(), nobody, []router.TrimRequest{{Queue: q, Before: 4}}); err != nil {
			t.Fatal(err)
		}
		check(6, -1, -1)
		check(1, 4, 5)
		if _, err := r.Trim(t.Context(), nobody, []router.TrimRequest{{Queue: q, Before: 5}}); err != nil {
			t.Fatal(err)
		}
		check(5, -1, -1)
		check(1, 5, 3)
	}
}

func TestEpochEnd(t *testing.T) {
	r, log := routertest.Start(t, nil)
	q := routertest.Topic(t, r, "a", 1, nil).Partitions[0]
	b := routertest.Batch(t, 1, "x")
	for _, term := range []core.Term{2, 2, 5} {
		log.SetTerm(term)
		mustPublish(t, r, q, b)
	}
	log.SetTerm(7)
	for asked, want := range map[core.Term]struct {
		epoch core.Term
		end   core.Offset
	}{
		1: {1, 0}, 2: {2, 2}, 3: {2, 2}, 4: {2, 2}, 5: {5, 3}, 6: {5, 3}, 7: {7, 3},
	} {
		epoch, end, err := r.EpochEnd(q, asked)
		if epoch != want.epoch || end != want.end || err != nil {
			t.Errorf("epoch %d: %d, %d, %v; want %d, %d", asked, epoch, end, err, want.epoch, want.end)
		}
	}
	if _, _, err := r.EpochEnd(q, 8); !errors.Is(err, core.OutOfRange) {
		t.Errorf("a later epoch: %v", err)
	}
}

// TestOffsetByTimeEnds gives up when nobody waits for the answer any more.
func TestOffsetByTimeEnds(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	q := routertest.Topic(t, r, "a", 1, nil).Partitions[0]
	mustPublish(t, r, q, timed(t, core.CodecGzip, 2, 4))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, _, err := r.OffsetByTime(ctx, q, 3); core.KindOf(err) != core.Uncertain {
		t.Fatal(err)
	}
}
