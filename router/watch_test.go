package router_test

import (
	"sync"
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

// TestConsumersMissNothing has consumers read and wait while producers publish: a
// lost wake-up is a test that never ends.
func TestConsumersMissNothing(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	p := routertest.Topic(t, r, "a", 2, nil).Partitions
	const producers, each = 3, 200
	var all sync.WaitGroup
	for i := range producers {
		b := routertest.Batch(t, int64(i), "x")
		all.Go(func() {
			for n := range each {
				r.Publish(nobody, p[n%len(p)], b, func(res router.PublishResult) {
					if res.Err != nil {
						t.Error(res.Err)
					}
				})
			}
		})
	}
	for range 4 {
		all.Go(func() {
			woken := make(chan struct{}, 1)
			stop := r.Watch(p, func() {
				select {
				case woken <- struct{}{}:
				default:
				}
			})
			defer stop()
			var dst router.Batches
			next := make([]core.Offset, len(p))
			for next[0]+next[1] < producers*each {
				for i, q := range p {
					before := len(dst.Items)
					if _, err := r.Read(q, next[i], router.ReadOptions{MaxBytes: 1000}, &dst); err != nil {
						t.Error(err)
						return
					}
					for _, b := range dst.Items[before:] {
						if b.Offset != next[i] {
							t.Errorf("offset %d after %d", b.Offset, next[i]-1)
							return
						}
						next[i]++
					}
				}
				if len(dst.Items) == 0 {
					<-woken
				}
				dst.Release()
			}
		})
	}
	all.Wait()
}

// BenchmarkRead is a read of 1 MiB of a queue, as a consumer that catches up does.
func BenchmarkRead(b *testing.B) {
	for _, c := range []struct {
		name string
		size int
		cold bool
	}{{"tail/batch=16KiB", 16 << 10, false}, {"disk/batch=16KiB", 16 << 10, true}, {"tail/batch=200B", 200, false}} {
		b.Run(c.name, func(b *testing.B) {
			r, log := routertest.Start(b, nil)
			log.SetCold(c.cold)
			q := routertest.Topic(b, r, "a", 1, nil).Partitions[0]
			batch := routertest.Batch(b, 1, string(make([]byte, c.size/2)))
			for size := 0; size < 2<<20; size += len(batch) {
				mustPublish(b, r, q, batch)
			}
			var dst router.Batches
			b.SetBytes(1 << 20)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Read(q, 0, router.ReadOptions{MaxBytes: 1 << 20}, &dst); err != nil {
					b.Fatal(err)
				}
				dst.Release()
			}
		})
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
