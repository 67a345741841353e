package router_test

import (
	"fmt"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/message"
	"polylog/core/vfs"
	"polylog/router"
	"polylog/router/routertest"
)

// later publishes a message to the exchange "later", for a time.
func later(t testing.TB, r *router.Router, value string, at time.Time) {
	t.Helper()
	m := message.Message{Key: []byte("k"), Value: []byte(value), DeliverAt: at.UnixMilli(), Priority: -1}
	batch, err := m.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan router.Routed, 1)
	r.PublishTo(nobody, router.Address{Exchange: core.TopicName("later"), Keys: []string{"k"}}, batch, func(out router.Routed) { done <- out })
	if out := <-done; out != (router.Routed{Queues: 1}) {
		t.Fatal(out)
	}
}

// delaying declares the exchange "later" and a queue that is bound to it.
func delaying(t testing.TB, r *router.Router) *router.Queue {
	t.Helper()
	x := router.ExchangeConfig{Type: "x-delayed-message", Arguments: message.Table{{Name: "x-delayed-type", Value: message.String("direct")}}}
	if _, _, err := r.DeclareExchange(timeout(t), nobody, core.TopicName("later"), x); err != nil {
		t.Fatal(err)
	}
	q := declare(t, r, "q", router.QueueConfig{})
	if err := r.Bind(timeout(t), nobody, router.Binding{Source: core.TopicName("later"), Destination: q.Name, Key: "k"}); err != nil {
		t.Fatal(err)
	}
	return q
}

// Delayed messages come when they are due, and once, whoever leads then.
func TestDelayedAcrossLeaders(t *testing.T) {
	clock := routertest.NewClock(time.UnixMilli(1_700_000_000_000))
	set := func(o *router.Options) { o.Clock = clock.Now }
	a, la := routertest.Start(t, set)
	b, lb := routertest.Join(t, la, "2", set)
	q := delaying(t, a)
	start := clock.Now()
	for _, s := range []int{3, 1, 2} {
		later(t, a, fmt.Sprint(s), start.Add(time.Duration(s)*time.Second))
	}
	later(t, a, "now", start)
	checkTimers(t, a)
	ready(t, a, q, 1)
	clock.Advance(time.Second - time.Millisecond)
	checkTimers(t, a)
	ready(t, a, q, 1)
	clock.Advance(time.Millisecond)
	checkTimers(t, a)
	ready(t, a, q, 2)
	lb.SetLeader(true)
	checkTimers(t, b)
	ready(t, b, q, 2)
	clock.Advance(10 * time.Second)
	checkTimers(t, b)
	checkTimers(t, b)
	ready(t, b, q, 4)
	c := consume(t, b, router.ConsumeSpec{Queue: q.ID})
	for _, v := range []string{"now", "1", "2", "3"} {
		ack(t, c, next(t, c, v, false).Receipt)
	}
	counts(t, b, q, 0, 0)
}

// What is held back keeps its entry in the log, while all around it goes, and outlives a power
// cut; when it has been delivered the entry goes.
func TestDelayedIsKept(t *testing.T) {
	fs := vfs.NewMem()
	n := openReal(t, fs, "data", 4<<10)
	q := delaying(t, n.Router)
	due := time.Now().Add(time.Hour)
	later(t, n.Router, "late", due)
	held := n.store.Applied()
	drain := func(n *realNode, more int) {
		c := consume(t, n.Router, router.ConsumeSpec{Queue: q.ID})
		for i := range more {
			v := fmt.Sprint(i)
			publish(t, n.Router, q, v)
			ack(t, c, next(t, c, v, false).Receipt)
		}
		c.Close()
	}
	drain(n, 200)
	if first := n.store.FirstLive(); first == 0 || first > held {
		t.Fatalf("the log is needed from %d on, and %d is held back", first, held)
	}
	left := fs.CrashClone(vfs.CrashCloneCfg{})
	n.close(t)

	n = openRealAt(t, left, "data", 4<<10, func() time.Time { return due })
	defer n.close(t)
	c := consume(t, n.Router, router.ConsumeSpec{Queue: q.ID})
	d, err := c.Next(timeout(t))
	if err != nil || string(d.Record.Value) != "late" {
		t.Fatalf("%q, %v", d.Record.Value, err)
	}
	ack(t, c, d.Receipt) // flagged, where the power went before the mark of the consumer before was lowered
	counts(t, n.Router, q, 0, 0)
	if first := n.store.FirstLive(); first != 0 {
		t.Fatalf("the log is needed from %d on", first)
	}
}
