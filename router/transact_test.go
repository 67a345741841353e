package router_test

import (
	"testing"

	"polylog/core"
	"polylog/core/message"
	"polylog/router"
	"polylog/router/routertest"
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
