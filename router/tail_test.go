package router_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

// taken is a record that a tail handed out.
type taken struct {
	topic string
	key   string
}

// takeAll takes what there is now, at most maxBytes at a time.
func takeAll(t *testing.T, tail *router.Tail, maxBytes int) (all []taken) {
	t.Helper()
	var dst router.TailBatches
	for {
		if err := tail.Take(&dst, maxBytes); err != nil {
			t.Fatal(err)
		}
		if len(dst.Items) == 0 {
			return all
		}
		for _, b := range dst.Items {
			for rec, err := range core.Records(b.Data, core.MaxInflated) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, taken{b.Topic.Name.Name, string(rec.Key)})
			}
		}
		dst.Release()
	}
}

// TestTailsFollowTheLog appends to many queues at random. Tails on the leader and on a
// follower that lags, with fast readers and slow ones, hand out the same, in the log's order.
func TestTailsFollowTheLog(t *testing.T) {
	a, la := routertest.Start(t, nil)
	b, lb := routertest.Join(t, la, "2", nil)
	one, two := routertest.Topic(t, a, "one", 3, nil), routertest.Topic(t, a, "two", 2, nil)
	mustPublish(t, a, one.Partitions[0], routertest.Batch(t, 1, "before"))
	var tails []*router.Tail
	for _, r := range []*router.Router{a, b} {
		for range 2 {
			tail := r.Tail(router.TailSpec{})
			defer tail.Close()
			tails = append(tails, tail)
		}
		only := r.Tail(router.TailSpec{Topics: func(t *router.Topic) bool { return t.Name.Name == "two" }})
		defer only.Close()
		tails = append(tails, only)
	}
	got := make([][]taken, len(tails))
	var want, wantTwo []taken
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 600 {
		topic := one
		if rnd.IntN(2) == 0 {
			topic = two
		}
		var keys []string
		for n := range 1 + rnd.IntN(3) {
			keys = append(keys, fmt.Sprintf("%d.%d", i, n))
			want = append(want, taken{topic.Name.Name, keys[n]})
		}
		mustPublish(t, a, topic.Partitions[rnd.IntN(len(topic.Partitions))], routertest.Batch(t, 1, keys...))
		if rnd.IntN(20) == 0 {
			lb.Hold()
		}
		if rnd.IntN(20) == 0 {
			lb.Release()
		}
		for n, tail := range tails {
			if n%3 == 0 && rnd.IntN(3) == 0 { // the others are slow
				got[n] = append(got[n], takeAll(t, tail, 1+rnd.IntN(1000))...)
			}
		}
	}
	lb.Release()
	for _, w := range want {
		if w.topic == "two" {
			wantTwo = append(wantTwo, w)
		}
	}
	for n, tail := range tails {
		got[n] = append(got[n], takeAll(t, tail, 1+rnd.IntN(100_000))...)
		expect := want
		if n%3 == 2 {
			expect = wantTwo
		}
		if !slices.Equal(got[n], expect) {
			t.Errorf("tail %d: %d records, want %d: %v…", n, len(got[n]), len(expect), got[n][:min(5, len(got[n]))])
		}
	}
}

func TestTailWaits(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	q := routertest.Topic(t, r, "a", 1, nil).Partitions[0]
	woken := 0
	tail := r.Tail(router.TailSpec{Wake: func() { woken++ }})
	mustPublish(t, r, q, routertest.Batch(t, 1, "x"))
	mustPublish(t, r, q, routertest.Batch(t, 1, "y"))
	if woken != 1 {
		t.Errorf("woken %d times before anything was taken", woken)
	}
	if err := tail.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := takeAll(t, tail, 1); len(got) != 2 {
		t.Fatal(got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tail.Wait(ctx); core.KindOf(err) != core.Unavailable {
		t.Fatal(err)
	}
	tail.Close()
	tail.Close()
	if err := tail.Wait(t.Context()); core.KindOf(err) != core.Closed {
		t.Fatal(err)
	}
	mustPublish(t, r, q, routertest.Batch(t, 1, "z"))
	if woken != 1 {
		t.Error("woken after it was closed")
	}
}

// TestTailPassesOverWhatIsGone: topics that were deleted, and records that retention
// removed before they were taken, are no error and no end.
func TestTailPassesOverWhatIsGone(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	a, b := routertest.Topic(t, r, "a", 1, nil), routertest.Topic(t, r, "b", 1, nil)
	tail := r.Tail(router.TailSpec{})
	defer tail.Close()
	for i := range 10 {
		mustPublish(t, r, a.Partitions[0], routertest.Batch(t, 1, fmt.Sprint(i)))
		mustPublish(t, r, b.Partitions[0], routertest.Batch(t, 1, fmt.Sprint(i)))
	}
	if err := r.DeleteTopic(t.Context(), nobody, a.Name); err != nil {
		t.Fatal(err)
	}
	trimmed, err := r.Trim(t.Context(), nobody, []router.TrimRequest{{Queue: b.Partitions[0], Before: 7}})
	if err != nil || trimmed[0].Err != nil {
		t.Fatal(trimmed, err)
	}
	want := []taken{{"b", "7"}, {"b", "8"}, {"b", "9"}}
	if got := takeAll(t, tail, 1<<20); !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

// TestTailBesidePublishers: a tail misses nothing and repeats nothing while publishers work.
func TestTailBesidePublishers(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	p := routertest.Topic(t, r, "a", 4, nil).Partitions
	tail := r.Tail(router.TailSpec{})
	defer tail.Close()
	const publishers, each = 4, 200
	var all sync.WaitGroup
	for i := range publishers {
		all.Go(func() {
			for n := range each {
				res := routertest.Publish(r, p[(i+n)%len(p)], routertest.Batch(t, 1, fmt.Sprintf("%d.%d", i, n)))
				if res.Err != nil {
					t.Error(res.Err)
				}
			}
		})
	}
	next := make([]int, publishers)
	for seen := 0; seen < publishers*each; {
		if err := tail.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, one := range takeAll(t, tail, 4<<10) {
			var i, n int
			if _, err := fmt.Sscanf(one.key, "%d.%d", &i, &n); err != nil {
				t.Fatal(err)
			}
			if n != next[i] {
				t.Fatalf("publisher %d: message %d after %d", i, n, next[i]-1)
			}
			next[i]++
			seen++
		}
	}
	all.Wait()
}
