package router_test

import (
	"testing"

	"polylog/core"
	"polylog/core/message"
	"polylog/router"
	"polylog/router/routertest"
	"polylog/router/state"
)

func op(t testing.TB, exchange, key, value string) router.TxOp {
	t.Helper()
	m := message.Message{Key: []byte(key), Value: []byte(value)}
	batch, err := m.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	return router.TxOp{To: router.Address{Exchange: core.TopicName(exchange), Keys: []string{key}}, Batch: batch}
}

type transacted struct {
	routed []router.Routed
	err    error
}

func transact(r *router.Router, ops ...router.TxOp) transacted {
	done := make(chan transacted, 1)
	r.Transact(nobody, ops, func(routed []router.Routed, err error) { done <- transacted{routed, err} })
	return <-done
}

func TestTransact(t *testing.T) {
	a, la := routertest.Start(t, nil)
	b, _ := routertest.Join(t, la, "2", nil)
	for name, r := range map[string]*router.Router{"leader": a, "follower": b} {
		t.Run(name, func(t *testing.T) {
			ctx := timeout(t)
			in, dead := declare(t, r, name+"-in", router.QueueConfig{}), declare(t, r, name+"-dead", router.QueueConfig{})
			from := declare(t, r, name+"-from", router.QueueConfig{AckConfig: router.AckConfig{DeadLetter: dead.Name}})
			publish(t, r, from, "1", "2", "3", "4")
			c := consume(t, r, router.ConsumeSpec{Queue: from.ID, Prefetch: 4})
			var rs []router.Receipt
			for range 4 {
				d, err := c.Next(ctx)
				if err != nil {
					t.Fatal(err)
				}
				rs = append(rs, d.Receipt)
			}
			settle := func(o router.Outcome, rs ...router.Receipt) router.TxOp {
				return router.TxOp{Queue: from.ID, Outcome: o, Receipts: rs}
			}
			// One message that cannot be published, and nothing is done.
			out := transact(r, op(t, "", in.Name.Name, "x"), settle(router.Done, rs[0]), op(t, "none", "k", "y"))
			if core.KindOf(out.err) != core.NotFound || len(out.routed) != 2 || out.routed[0].Err != nil || core.KindOf(out.routed[1].Err) != core.NotFound {
				t.Fatal(out)
			}
			if n, err := r.CountQueue(ctx, in.ID, ""); err != nil || n.Ready != 0 {
				t.Fatal(n, err)
			}
			if n, err := r.CountQueue(ctx, from.ID, ""); err != nil || n.Unsettled != 4 {
				t.Fatal(n, err)
			}
			out = transact(r, op(t, "", in.Name.Name, "x"), op(t, "", "nobody", "y"), settle(router.Done, rs[0], rs[1]),
				settle(router.Reject, rs[2]), settle(router.Release, rs[3]), op(t, "", in.Name.Name, "z"))
			if out.err != nil || len(out.routed) != 3 || out.routed[0].Queues != 1 || out.routed[1].Queues != 0 || out.routed[2].Queues != 1 {
				t.Fatal(out)
			}
			// What was settled does not come again, even if the consumer goes at once.
			c.Close()
			again := consume(t, r, router.ConsumeSpec{Queue: from.ID, Prefetch: 10})
			if d, err := again.Next(ctx); err != nil || string(d.Record.Value) != "4" {
				t.Fatal(d, err)
			}
			if n, err := r.CountQueue(ctx, from.ID, ""); err != nil || n.Ready != 0 || n.Unsettled != 1 {
				t.Fatal(n, err)
			}
			for q, want := range map[*router.Queue][]string{in: {"x", "z"}, dead: {"3"}} {
				c := consume(t, r, router.ConsumeSpec{Queue: q.ID})
				for _, v := range want {
					if d, err := c.Next(ctx); err != nil || string(d.Record.Value) != v {
						t.Fatal(d, err)
					}
				}
			}
			if out := transact(r); out.err != nil {
				t.Fatal(out)
			}
		})
	}
}

// What a transaction rejects goes through the queue's dead letter exchange, as what is
// rejected without one does.
func TestTransactDeadLetters(t *testing.T) {
	a, la := routertest.Start(t, nil)
	b, _ := routertest.Join(t, la, "2", nil)
	for name, r := range map[string]*router.Router{"leader": a, "follower": b} {
		t.Run(name, func(t *testing.T) {
			dead := declare(t, r, name+"-dead", router.QueueConfig{})
			from := declare(t, r, name+"-from", router.QueueConfig{Limits: router.QueueLimits{
				HasDeadLetter: true, HasDeadLetterKey: true, DeadLetterKey: dead.Name.Name, DeliveryLimit: 1,
			}})
			publish(t, r, from, "1", "2", "3")
			c := consume(t, r, router.ConsumeSpec{Queue: from.ID, Prefetch: 3})
			one, two, three := next(t, c, "1", false), next(t, c, "2", false), next(t, c, "3", false)
			settle := func(o router.Outcome, ds ...router.Delivery) router.TxOp {
				op := router.TxOp{Queue: from.ID, Outcome: o}
				for i := range ds {
					op.Receipts = append(op.Receipts, ds[i].Receipt)
				}
				return op
			}
			if out := transact(r, settle(router.Reject, three, one), settle(router.Fail, two)); out.err != nil {
				t.Fatal(out.err)
			}
			two = next(t, c, "2", true)
			if out := transact(r, settle(router.Fail, two)); out.err != nil { // once too often
				t.Fatal(out.err)
			}
			buried := consume(t, r, router.ConsumeSpec{Queue: dead.ID})
			for _, want := range []struct {
				value string
				why   router.DeathReason
			}{{"3", router.DeathRejected}, {"1", router.DeathRejected}, {"2", router.DeathLimit}} {
				d := next(t, buried, want.value, false)
				if len(d.Deaths) != 1 || d.Deaths[0].Reason != want.why || d.Deaths[0].Queue != from.Name {
					t.Fatalf("%q: %+v", want.value, d.Deaths)
				}
			}
			counts(t, r, from, 0, 0)
		})
	}
}

// What a full queue drops because a transaction gave something back, or said that it failed, is in the dead letter
// queue when the transaction is answered.
func TestTransactOverflows(t *testing.T) {
	a, la := routertest.Start(t, nil)
	b, _ := routertest.Join(t, la, "2", nil)
	for name, r := range map[string]*router.Router{"leader": a, "follower": b} {
		for what, outcome := range map[string]router.Outcome{"released": router.Release, "failed": router.Fail} {
			t.Run(name+" "+what, func(t *testing.T) {
				dead := declare(t, r, name+what+"-dead", router.QueueConfig{})
				from := declare(t, r, name+what, router.QueueConfig{Limits: router.QueueLimits{
					HasMaxLength: true, MaxLength: 2, HasDeadLetter: true, HasDeadLetterKey: true, DeadLetterKey: dead.Name.Name,
				}})
				publish(t, r, from, "1", "2")
				c := consume(t, r, router.ConsumeSpec{Queue: from.ID, Prefetch: 2, Credit: 2})
				one, two := next(t, c, "1", false), next(t, c, "2", false)
				publish(t, r, from, "3", "4")
				counts(t, r, from, 2, 2)
				out := transact(r, router.TxOp{Queue: from.ID, Outcome: outcome, Receipts: []router.Receipt{one.Receipt, two.Receipt}})
				if out.err != nil {
					t.Fatal(out.err)
				}
				if n, err := r.CountQueue(timeout(t), dead.ID, ""); err != nil || n.Ready != 2 {
					t.Fatalf("%+v are dead, want 2 ready: %v", n, err)
				}
				counts(t, r, from, 2, 0)
			})
		}
	}
}

// A transaction with a delivery that the leader before made does nothing: the message is
// delivered again by then, or will be.
func TestTransactOfAnotherTerm(t *testing.T) {
	r1, log1 := routertest.Start(t, nil)
	r2, log2 := routertest.Join(t, log1, "2", nil)
	q, in := declare(t, r1, "q", router.QueueConfig{}), declare(t, r1, "in", router.QueueConfig{})
	other := declare(t, r1, "other", router.QueueConfig{})
	publish(t, r1, q, "a", "b")
	publish(t, r1, other, "x")
	c := consume(t, r1, router.ConsumeSpec{Queue: q.ID, Prefetch: 1})
	old := next(t, c, "a", false)
	log2.SetLeader(true)
	again := next(t, c, "a", true)
	done := func(q *router.Queue, d router.Delivery) router.TxOp {
		return router.TxOp{Queue: q.ID, Receipts: []router.Receipt{d.Receipt}}
	}
	out := transact(r1, op(t, "", "in", "y"), done(q, old))
	if core.KindOf(out.err) != core.Conflict {
		t.Fatal(out)
	}
	counts(t, r1, q, 1, 1)
	counts(t, r1, in, 0, 0)
	// The term of all deliveries has to be the leader's, in the log too.
	x := next(t, consume(t, r1, router.ConsumeSpec{Queue: other.ID, Prefetch: 1}), "x", false)
	if out := transact(r1, op(t, "", "in", "y"), done(q, again), done(other, x)); out.err != nil {
		t.Fatal(out.err)
	}
	counts(t, r1, in, 1, 0)
	log1.SetLeader(true)
	c.Close()
	c2 := consume(t, r2, router.ConsumeSpec{Queue: q.ID})
	next(t, c2, "b", true) // and not the one that was acknowledged
}

// What a transaction is about to settle goes to nobody else when its consumer goes before it is committed, but does, at
// once, when the transaction came to nothing.
func TestTransactAfterConsumer(t *testing.T) {
	a, logA := routertest.Start(t, nil)
	b, logB := routertest.Join(t, logA, "2", nil)
	for name, at := range map[string]struct {
		*router.Router
		log *routertest.Log
	}{"leader": {a, logA}, "follower": {b, logB}} {
		t.Run(name, func(t *testing.T) {
			r, log := at.Router, at.log
			q := declare(t, r, name, router.QueueConfig{})
			publish(t, r, q, "1", "2")
			c := consume(t, r, router.ConsumeSpec{Queue: q.ID, Prefetch: 2})
			one, two := next(t, c, "1", false), next(t, c, "2", false)
			done := func(d router.Delivery) router.TxOp {
				return router.TxOp{Queue: q.ID, Receipts: []router.Receipt{d.Receipt}}
			}
			if out := transact(r, done(two), op(t, "none", "k", "y")); core.KindOf(out.err) != core.NotFound {
				t.Fatal(out)
			}
			var again *router.Consumer
			log.Before(func(cmd core.Command) {
				if cmd.Code != state.CodeTransact {
					return
				}
				log.Before(nil)
				c.Close()
				again = consume(t, r, router.ConsumeSpec{Queue: q.ID})
				if n, err := r.CountQueue(timeout(t), q.ID, ""); err != nil || n.Delayed != 1 {
					t.Error(n, err)
				}
			})
			if out := transact(r, done(one)); out.err != nil {
				t.Fatal(out)
			}
			next(t, again, "2", true)
			counts(t, r, q, 0, 1)
		})
	}
}
