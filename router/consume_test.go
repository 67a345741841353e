package router_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

// timeout ends a test that hangs; nothing is measured by it.
func timeout(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func declare(t testing.TB, r *router.Router, name string, c router.QueueConfig) *router.Queue {
	t.Helper()
	q, _, err := r.DeclareQueue(timeout(t), nobody, core.TopicName(name), c)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func publish(t testing.TB, r *router.Router, q *router.Queue, values ...string) {
	t.Helper()
	for _, v := range values {
		if res := routertest.Publish(r, q.ID, routertest.Batch(t, 1000, v)); res.Err != nil {
			t.Fatal(res.Err)
		}
	}
}

func consume(t testing.TB, r *router.Router, spec router.ConsumeSpec) *router.Consumer {
	t.Helper()
	c, err := r.Consume(timeout(t), nobody, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// next takes the next message, which must be v.
func next(t testing.TB, c *router.Consumer, v string, redelivered bool) router.Delivery {
	t.Helper()
	d, err := c.Next(timeout(t))
	if err != nil {
		t.Fatalf("waiting for %q: %v", v, err)
	}
	if string(d.Record.Value) != v || d.Redelivered != redelivered {
		t.Fatalf("%q, redelivered %v; want %q, %v", d.Record.Value, d.Redelivered, v, redelivered)
	}
	return d
}

func ack(t testing.TB, c *router.Consumer, rs ...router.Receipt) {
	t.Helper()
	kinds, err := c.Ack(timeout(t), rs...)
	if err != nil || slices.ContainsFunc(kinds, func(k core.Kind) bool { return k != core.OK }) {
		t.Fatalf("ack: %v, %v", kinds, err)
	}
}

// counts waits for what a group is doing to be as said: releases are not answered.
func counts(t testing.TB, r *router.Router, q *router.Queue, ready, unsettled int64) {
	t.Helper()
	ctx := timeout(t)
	for {
		c, err := r.CountQueue(ctx, q.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		if c.Ready == ready && c.Unsettled == unsettled {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%+v, want %d ready, %d unsettled", c, ready, unsettled)
		}
	}
}

func TestConsumeAckRequeue(t *testing.T) {
	r, log := routertest.Start(t, nil)
	q := declare(t, r, "q", router.QueueConfig{})
	publish(t, r, q, "a", "b", "c")
	c := consume(t, r, router.ConsumeSpec{Queue: q.ID, Prefetch: 2})
	a, b := next(t, c, "a", false), next(t, c, "b", false)
	counts(t, r, q, 1, 2)
	ack(t, c, b.Receipt)
	next(t, c, "c", false)
	c.Settle(router.Release, 0, []router.Receipt{a.Receipt}, nil)
	a = next(t, c, "a", true)
	ack(t, c, a.Receipt)
	if kinds, err := c.Ack(timeout(t), b.Receipt); err != nil || kinds[0] != core.Conflict {
		t.Fatalf("a second ack: %v, %v", kinds, err)
	}
	c.Close()
	counts(t, r, q, 1, 0)
	// What was never delivered is not flagged, what was is.
	publish(t, r, q, "d")
	c = consume(t, r, router.ConsumeSpec{Queue: q.ID})
	ack(t, c, next(t, c, "c", true).Receipt, next(t, c, "d", false).Receipt)
	head, err := r.Head(q.ID)
	if err != nil || head.Start != 4 || head.End != 4 {
		t.Fatalf("%+v, %v: everything is settled", head, err)
	}
	if r.EnforceRetention(timeout(t)) != nil || log.Trimmed() == 0 {
		t.Fatal("what is settled does not free the log")
	}
}

func TestSeveralRecordsInABatch(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	q := declare(t, r, "q", router.QueueConfig{})
	if res := routertest.Publish(r, q.ID, routertest.Batch(t, 5, "a", "b", "c")); res.Err != nil {
		t.Fatal(res.Err)
	}
	publish(t, r, q, "d")
	c := consume(t, r, router.ConsumeSpec{Queue: q.ID})
	for _, v := range []string{"a", "b", "c", "d"} {
		next(t, c, v, false)
	}
}

// TestTheNextOneAlone has a queue that serves one consumer at a time change hands: at once where its
// consumer is cancelled, whatever that still holds, and in order where it closes.
func TestTheNextOneAlone(t *testing.T) {
	for name, exclusive := range map[string]bool{"single active": false, "exclusive": true} {
		t.Run(name, func(t *testing.T) {
			r, _ := routertest.Start(t, nil)
			q := declare(t, r, "q", router.QueueConfig{AckConfig: router.AckConfig{SingleActive: !exclusive}})
			publish(t, r, q, "a", "b", "c")
			spec := router.ConsumeSpec{Queue: q.ID, Prefetch: 1, Exclusive: exclusive}
			first := consume(t, r, spec)
			a := next(t, first, "a", false)
			first.Cancel()
			second := consume(t, r, spec)
			next(t, second, "b", false)
			ack(t, first, a.Receipt)
			second.Close()
			third := consume(t, r, spec)
			ack(t, third, next(t, third, "b", true).Receipt)
			next(t, third, "c", false)
		})
	}
}

// TestGapsTakeNoCredit has producers leave gaps, which are nobody's messages.
func TestGapsTakeNoCredit(t *testing.T) {
	const batches, gap = 12, 3
	for name, spec := range map[string]router.ConsumeSpec{"buffer": {Buffer: 4}, "credit": {Credit: batches}} {
		t.Run(name, func(t *testing.T) {
			r, _ := routertest.Start(t, nil)
			q := declare(t, r, "q", router.QueueConfig{})
			for i := range batches {
				b := routertest.Batch(t, 1000, fmt.Sprint(i))
				binary.BigEndian.PutUint32(b[23:], gap) // the last record's offset in the batch
				core.SetBatchCRC(b)
				if res := routertest.Publish(r, q.ID, b); res.Err != nil {
					t.Fatal(res.Err)
				}
			}
			spec.Queue = q.ID
			c := consume(t, r, spec)
			for i := range batches {
				next(t, c, fmt.Sprint(i), false)
			}
		})
	}
}

// TestUnlimitedConsumerIsHeldByItsBuffer takes more than the buffer holds, bit by bit.
func TestUnlimitedConsumerIsHeldByItsBuffer(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	q := declare(t, r, "q", router.QueueConfig{})
	for i := range 40 {
		publish(t, r, q, fmt.Sprint(i))
	}
	c := consume(t, r, router.ConsumeSpec{Queue: q.ID, Buffer: 4})
	for i := range 40 {
		ack(t, c, next(t, c, fmt.Sprint(i), false).Receipt)
	}
	counts(t, r, q, 0, 0)
}

func TestDeadLetter(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	dead := declare(t, r, "dead", router.QueueConfig{})
	q := declare(t, r, "q", router.QueueConfig{AckConfig: router.AckConfig{DeadLetter: core.TopicName("dead"), DeliveryLimit: 1}})
	publish(t, r, q, "a", "b")
	c := consume(t, r, router.ConsumeSpec{Queue: q.ID, Prefetch: 1})
	c.Settle(router.Fail, 0, []router.Receipt{next(t, c, "a", false).Receipt}, nil)
	d := next(t, c, "a", true)
	if d.Attempts != 1 {
		t.Fatalf("%d attempts", d.Attempts)
	}
	c.Settle(router.Fail, 0, []router.Receipt{d.Receipt}, nil)
	c.Settle(router.Reject, 0, []router.Receipt{next(t, c, "b", false).Receipt}, nil)
	dc := consume(t, r, router.ConsumeSpec{Queue: dead.ID})
	for i, v := range []string{"a", "b"} {
		d := next(t, dc, v, false)
		if len(d.Deaths) != 1 || d.Deaths[0].Queue.Name != "q" || d.Deaths[0].Offset != core.Offset(i) {
			t.Fatalf("deaths %+v", d.Deaths)
		}
	}
	counts(t, r, q, 0, 0)
}

// Messages whose dead letters lead to too many places for one command follow in the next ones; who
// waits for the settlement hears of it when all are there.
func TestManyLettersAreSettledInSteps(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	ctx := timeout(t)
	wide := core.TopicName("wide")
	if _, _, err := r.DeclareExchange(ctx, nobody, wide, router.ExchangeConfig{Type: "fanout"}); err != nil {
		t.Fatal(err)
	}
	const queues, messages = 500, 410 // 205,000 places
	var first, last *router.Queue
	for i := range queues {
		last = declare(t, r, fmt.Sprint("q", i), router.QueueConfig{})
		if first == nil {
			first = last
		}
		if err := r.Bind(ctx, nobody, router.Binding{Source: wide, Destination: last.Name}); err != nil {
			t.Fatal(err)
		}
	}
	from := declare(t, r, "from", router.QueueConfig{Limits: router.QueueLimits{HasDeadLetter: true, DeadLetterExchange: "wide"}})
	for i := range messages {
		publish(t, r, from, fmt.Sprint(i))
	}
	c := consume(t, r, router.ConsumeSpec{Queue: from.ID, Prefetch: messages})
	var rs []router.Receipt
	for i := range messages {
		rs = append(rs, next(t, c, fmt.Sprint(i), false).Receipt)
	}
	told := make(chan error, 1)
	c.Settle(router.Reject, 0, rs, func(_ []core.Kind, err error) { told <- err })
	select {
	case err := <-told:
		if err != nil {
			t.Fatal(err)
		}
	case <-ctx.Done():
		t.Fatal("nobody was told")
	}
	for _, q := range []*router.Queue{first, last} {
		got, err := r.CountQueue(ctx, q.ID, "")
		if err != nil || got.Ready != messages {
			t.Errorf("%s has %d messages when the settlement is told, want %d: %v", q.Name, got.Ready, messages, err)
		}
	}
	counts(t, r, from, 0, 0)
}

// TestEveryNodeServes has consumers and publishers on three nodes. Nothing is delivered
// twice, nothing is lost, and each gets its share.
func TestEveryNodeServes(t *testing.T) {
	r1, log := routertest.Start(t, nil)
	r2, _ := routertest.Join(t, log, "2", nil)
	r3, _ := routertest.Join(t, log, "3", nil)
	routers := []*router.Router{r1, r2, r3}
	q := declare(t, r2, "q", router.QueueConfig{})
	var cs []*router.Consumer
	for _, r := range routers {
		cs = append(cs, consume(t, r, router.ConsumeSpec{Queue: q.ID, Prefetch: 1}))
	}
	const n = 60
	for i := range n {
		publish(t, routers[i%3], q, fmt.Sprint(i))
	}
	seen := map[string]bool{}
	for range n / 3 {
		for _, c := range cs {
			d, err := c.Next(timeout(t))
			if err != nil || d.Redelivered || seen[string(d.Record.Value)] {
				t.Fatalf("%+v, %v", d, err)
			}
			seen[string(d.Record.Value)] = true
			ack(t, c, d.Receipt)
		}
	}
	counts(t, r3, q, 0, 0)
}

// TestDeliveriesWaitForTheLocalLog has a node that applies late.
func TestDeliveriesWaitForTheLocalLog(t *testing.T) {
	r1, log := routertest.Start(t, nil)
	r2, log2 := routertest.Join(t, log, "2", nil)
	q := declare(t, r1, "q", router.QueueConfig{})
	c := consume(t, r2, router.ConsumeSpec{Queue: q.ID})
	log2.Hold()
	publish(t, r1, q, "a")
	counts(t, r2, q, 0, 1)
	if ds, err := c.Take(nil, 1); len(ds) > 0 || err != nil {
		t.Fatalf("%v, %v: this node does not have it yet", ds, err)
	}
	log2.Release()
	next(t, c, "a", false)
}

// TestLeaderChanges moves leadership under consumers: what was acknowledged does not come
// back, what was not does, flagged, and what was never delivered is not flagged.
func TestLeaderChanges(t *testing.T) {
	r1, log1 := routertest.Start(t, nil)
	r2, log2 := routertest.Join(t, log1, "2", nil)
	r3, _ := routertest.Join(t, log1, "3", nil)
	q := declare(t, r1, "q", router.QueueConfig{})
	publish(t, r1, q, "a", "b", "c")
	c2 := consume(t, r2, router.ConsumeSpec{Queue: q.ID, Prefetch: 2})
	a, b := next(t, c2, "a", false), next(t, c2, "b", false)
	ack(t, c2, a.Receipt)
	next(t, c2, "c", false)
	log2.SetLeader(true)
	b2 := next(t, c2, "b", true)
	next(t, c2, "c", true)
	// An acknowledgement of the delivery under the old leader is too late: the consumer
	// has another one of it by now.
	if kinds, err := c2.Ack(timeout(t), b.Receipt); err != nil || kinds[0] != core.Conflict {
		t.Fatalf("%v, %v", kinds, err)
	}
	ack(t, c2, b2.Receipt)
	publish(t, r3, q, "d")
	next(t, c2, "d", false)
	log1.SetLeader(true)
	next(t, c2, "c", true)
	next(t, c2, "d", true)
	c3 := consume(t, r3, router.ConsumeSpec{Queue: q.ID})
	c2.Close()
	next(t, c3, "c", true)
	ack(t, c3, next(t, c3, "d", true).Receipt)
	publish(t, r2, q, "e")
	next(t, c3, "e", false)
}

// TestNodeIsCutOff loses a node with deliveries in its hands: another one gets them.
func TestNodeIsCutOff(t *testing.T) {
	r1, log1 := routertest.Start(t, nil)
	r2, log2 := routertest.Join(t, log1, "2", nil)
	q := declare(t, r1, "q", router.QueueConfig{AckConfig: router.AckConfig{DeliveryLimit: 1}})
	publish(t, r1, q, "a", "b")
	c2 := consume(t, r2, router.ConsumeSpec{Queue: q.ID, CountLost: true})
	a := next(t, c2, "a", false)
	next(t, c2, "b", false)
	ack(t, c2, a.Receipt)
	log2.Cut(true)
	c1 := consume(t, r1, router.ConsumeSpec{Queue: q.ID})
	if d := next(t, c1, "b", true); d.Attempts != 1 {
		t.Fatalf("%d attempts", d.Attempts)
	}
	log2.Cut(false)
	for {
		c, err := r1.CountQueue(timeout(t), q.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		if c.Consumers == 2 {
			break
		}
	}
	publish(t, r1, q, "c", "d")
	next(t, c1, "c", false)
	next(t, c2, "d", false) // it has come back and takes its turn
}

func TestQueueIsDeletedUnderItsConsumer(t *testing.T) {
	r1, log := routertest.Start(t, nil)
	r2, _ := routertest.Join(t, log, "2", nil)
	q := declare(t, r1, "q", router.QueueConfig{})
	c := consume(t, r2, router.ConsumeSpec{Queue: q.ID})
	publish(t, r1, q, "a")
	next(t, c, "a", false)
	if _, err := r1.DeleteQueue(timeout(t), nobody, q.Name, true, false); !errors.Is(err, core.Conflict) {
		t.Fatalf("if-unused: %v", err)
	}
	if _, err := r1.DeleteQueue(timeout(t), nobody, q.Name, false, true); !errors.Is(err, core.Conflict) {
		t.Fatalf("if-empty: %v", err)
	}
	if n, err := r1.DeleteQueue(timeout(t), nobody, q.Name, false, false); n != 1 || err != nil {
		t.Fatalf("%d messages, %v", n, err)
	}
	if _, err := c.Next(timeout(t)); !errors.Is(err, core.NotFound) {
		t.Fatalf("%v, want not found", err)
	}
	if res := routertest.Publish(r2, q.ID, routertest.Batch(t, 0, "x")); !errors.Is(res.Err, core.NotFound) {
		t.Fatalf("publish: %v", res.Err)
	}
	if _, err := r2.Consume(timeout(t), nobody, router.ConsumeSpec{Queue: q.ID}); !errors.Is(err, core.NotFound) {
		t.Fatalf("consume: %v", err)
	}
}

func TestPurgeLeavesWhatIsDelivered(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	q := declare(t, r, "q", router.QueueConfig{})
	publish(t, r, q, "a", "b", "c")
	c := consume(t, r, router.ConsumeSpec{Queue: q.ID, Prefetch: 1})
	a := next(t, c, "a", false)
	if n, err := r.PurgeQueue(timeout(t), nobody, q.ID, ""); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	ack(t, c, a.Receipt)
	publish(t, r, q, "d")
	next(t, c, "d", false)
	counts(t, r, q, 0, 1)
}

// TestLeases takes messages as a pull over HTTP does: the consumer goes, the lease stays.
func TestLeases(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	q := declare(t, r, "q", router.QueueConfig{})
	publish(t, r, q, "a", "b", "c")
	pull := func(n int64, lease time.Duration) (ds []router.Delivery) {
		c := consume(t, r, router.ConsumeSpec{Queue: q.ID, Credit: n, Lease: lease})
		defer c.Close()
		for range n {
			d, err := c.Next(timeout(t))
			if err != nil {
				t.Fatal(err)
			}
			ds = append(ds, d)
		}
		return ds
	}
	ds := pull(2, time.Hour)
	counts(t, r, q, 1, 2)
	a, b := ds[0].Receipt, ds[1].Receipt
	settled := make(chan error, 1)
	r.Settle(nobody, q.ID, "", router.Done, 0, []router.Receipt{a}, func(_ []core.Kind, err error) { settled <- err })
	if err := <-settled; err != nil {
		t.Fatal(err)
	}
	// The lease of b is cut short; another pull gets it.
	if kinds, err := r.Extend(timeout(t), nobody, q.ID, "", time.Millisecond, []router.Receipt{a, b}); err != nil ||
		!slices.Equal(kinds, []core.Kind{core.Conflict, core.OK}) {
		t.Fatalf("%v, %v", kinds, err)
	}
	again := pull(2, time.Hour)
	slices.SortFunc(again, func(x, y router.Delivery) int { return int(x.Offset - y.Offset) })
	if again[0].Offset != b.Offset || !again[0].Redelivered || again[0].Attempts != 1 || string(again[1].Record.Value) != "c" {
		t.Fatalf("%+v", again)
	}
}

func TestGroupsOfOneQueue(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	topic := routertest.Topic(t, r, "t", 1, nil)
	q := topic.Partitions[0]
	if res := routertest.Publish(r, q, routertest.Batch(t, 5, "a", "b")); res.Err != nil {
		t.Fatal(res.Err)
	}
	for _, g := range []string{"x", "y"} {
		if created, err := r.CreateAckGroup(timeout(t), nobody, q, g, router.FromStart, router.AckConfig{}); !created || err != nil {
			t.Fatal(created, err)
		}
	}
	x := consume(t, r, router.ConsumeSpec{Queue: q, Group: "x"})
	y := consume(t, r, router.ConsumeSpec{Queue: q, Group: "y"})
	ack(t, x, next(t, x, "a", false).Receipt, next(t, x, "b", false).Receipt)
	next(t, y, "a", false)
	if err := r.DeleteAckGroup(timeout(t), nobody, q, "y"); err != nil {
		t.Fatal(err)
	}
	d, err := y.Next(timeout(t))
	if err == nil && string(d.Record.Value) == "b" { // it was in the buffer
		_, err = y.Next(timeout(t))
	}
	if !errors.Is(err, core.NotFound) {
		t.Fatalf("%v, want not found", err)
	}
}

func TestExclusiveConsumer(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	q := declare(t, r, "q", router.QueueConfig{})
	c := consume(t, r, router.ConsumeSpec{Queue: q.ID, Exclusive: true})
	if _, err := r.Consume(timeout(t), nobody, router.ConsumeSpec{Queue: q.ID}); !errors.Is(err, core.Conflict) {
		t.Fatalf("%v, want conflict", err)
	}
	c.Close()
	consume(t, r, router.ConsumeSpec{Queue: q.ID})
}

// What was confirmed just before a purge goes with it.
func TestPurgeTakesWhatWasConfirmed(t *testing.T) {
	r, _, _ := atRest(t)
	q := declare(t, r, "q", router.QueueConfig{})
	consume(t, r, router.ConsumeSpec{Queue: q.ID, Idle: true}) // the dispatcher has the queue, and hears of messages
	for range 200 {
		send(t, r, "q", plain("a"))
		if n, err := r.PurgeQueue(timeout(t), nobody, q.ID, ""); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
}

// A consumer under a newer lease gets what an older one still holds, in its place, and that one is
// told: also when it is on another node, which does not know yet that it has lost its lease. What it
// says of its deliveries counts no more.
func TestFencedConsumer(t *testing.T) {
	r1, log1 := routertest.Start(t, nil)
	r2, _ := routertest.Join(t, log1, "2", nil)
	q := declare(t, r1, "q", router.QueueConfig{})
	old := consume(t, r2, router.ConsumeSpec{Queue: q.ID, Prefetch: 2, Fence: 7})
	publish(t, r1, q, "a", "b", "c")
	held := next(t, old, "a", false)
	next(t, old, "b", false)
	c := consume(t, r1, router.ConsumeSpec{Queue: q.ID, Fence: 8})
	next(t, c, "a", true)
	next(t, c, "b", true)
	next(t, c, "c", false)
	if _, err := old.Next(timeout(t)); core.KindOf(err) != core.Fenced {
		t.Errorf("the older consumer: %v", err)
	}
	if kinds, err := old.Ack(timeout(t), held.Receipt); err == nil && kinds[0] != core.Conflict {
		t.Errorf("the older consumer's acknowledgement: %v", kinds)
	}
	if _, err := r2.Consume(timeout(t), nobody, router.ConsumeSpec{Queue: q.ID, Fence: 7}); core.KindOf(err) != core.Fenced {
		t.Errorf("a consumer under the older lease: %v", err)
	}
	old.Close()
}
