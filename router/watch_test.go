package router_test

import (
	"testing"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

func TestWatch(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	topic := routertest.Topic(t, r, "a", 3, nil)
	p := topic.Partitions
	b := routertest.Batch(t, 1, "x")
	woken, other := 0, 0
	stop := r.Watch([]core.QueueID{p[0], p[1]}, func() { woken++ })
	stopOther := r.Watch([]core.QueueID{p[1]}, func() { other++ })
	check := func(what string, wantWoken, wantOther int) {
		t.Helper()
		if woken != wantWoken || other != wantOther {
			t.Errorf("%s: woken %d and %d times, want %d and %d", what, woken, other, wantWoken, wantOther)
		}
	}
	mustPublish(t, r, p[0], b)
	check("the first's queue", 1, 0)
	mustPublish(t, r, p[1], b)
	check("both's queue", 2, 1)
	mustPublish(t, r, p[2], b)
	check("nobody's queue", 2, 1)
	stop()
	stop()
	mustPublish(t, r, p[1], b)
	check("after stop", 2, 2)
	if err := r.DeleteTopic(t.Context(), nobody, topic.Name); err != nil {
		t.Fatal(err)
	}
	check("deleted", 2, 3)
	stopOther()
}

func TestWatchTwoQueuesInOneBurst(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	p := routertest.Topic(t, r, "a", 2, nil).Partitions
	woken := 0
	stop := r.Watch(p, func() { woken++ })
	defer stop()
	// Deleting touches both queues in one entry.
	if err := r.DeleteTopic(t.Context(), nobody, core.TopicName("a")); err != nil {
		t.Fatal(err)
	}
	if woken != 1 {
		t.Errorf("woken %d times by one burst", woken)
	}
}

// BenchmarkPublish is a publish of one 100-byte record through the router and a real
// state machine, without raft and disk.
func BenchmarkPublish(b *testing.B) {
	r, _ := routertest.Start(b, nil)
	q := routertest.Topic(b, r, "a", 1, nil).Partitions[0]
	batch := routertest.Batch(b, 1, string(make([]byte, 50)))
	b.ReportAllocs()
	for b.Loop() {
		r.Publish(nobody, q, batch, func(router.PublishResult) {})
	}
}
