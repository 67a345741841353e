package amqp

import (
	"context"

	"polylog/core"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// getter takes single messages of a queue for basic.get. A channel keeps one for each queue that
// it gets from, up to maxGetters.
type getter struct {
	share
	queue core.QueueID
	from  *router.Consumer
}

// settle implements holder.
func (g *getter) settle(o router.Outcome, rs []router.Receipt, done func()) {
	settleFrom(g.from, o, rs, done)
}

// txQueue implements transactional.
func (g *getter) txQueue() core.QueueID { return g.queue }

// close implements holder.
func (g *getter) close() { g.from.Close() }

// maxGetters bounds the getters that a channel keeps: the leader keeps a queue at work for each.
const maxGetters = 16

// getter finds or makes the channel's getter of a queue.
func (ch *channel) getter(ctx context.Context, q *router.Queue) (*getter, error) {
	ch.mu.Lock()
	g := ch.getters[q.ID]
	ch.mu.Unlock()
	if g != nil {
		return g, nil
	}
	from, err := ch.conn.srv.router.Consume(ctx, ch.conn.principal, router.ConsumeSpec{
		Queue: q.ID, Getter: true, CountLost: q.Kind == router.Quorum,
	})
	if err != nil {
		return nil, err
	}
	g = &getter{queue: q.ID, from: from}
	g.timeout = ch.conn.ackTimeout(q, nil)
	ch.mu.Lock()
	alive := ch.addHolderLocked(g)
	extra := core.QueueID(0)
	if alive {
		if ch.getters == nil {
			ch.getters = map[core.QueueID]*getter{}
		}
		if len(ch.getters) == maxGetters {
			for extra = range ch.getters {
				break // any of them
			}
		}
		ch.getters[q.ID] = g
	}
	ch.mu.Unlock()
	if extra != 0 {
		ch.forgetGetter(extra)
	}
	if !alive {
		from.Close()
	}
	return g, nil
}

// get answers basic.get.
func (ch *channel) get(ctx context.Context, q *router.Queue, noAck bool) error {
	c := ch.conn
	g, err := ch.getter(ctx, q)
	var d router.Delivery
	var some bool
	var ready int64
	if err == nil {
		d, some, ready, err = g.from.Get(ctx)
	}
	switch {
	case core.KindOf(err) == core.NotFound:
		ch.forgetGetter(q.ID)
		return c.noQueue(q.Name.Name)
	case err != nil:
		ch.forgetGetter(q.ID)
		return c.refused(err, "read", c.queueText(q.Name.Name))
	case !some:
		ch.send(&spec.BasicGetEmpty{})
		return nil
	}
	if noAck {
		g.settle(router.Done, []router.Receipt{d.Receipt}, nil)
	}
	var out outgoing
	now := c.srv.now()
	out.read(&d, q.Kind, now, c.srv.router.HasUsers())
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.sendContent(&spec.BasicGetOk{
		DeliveryTag: ch.holdLocked(g, d.Receipt, noAck, now), Redelivered: d.Redelivered,
		Exchange: out.exchange, RoutingKey: out.routingKey, MessageCount: number(ready),
	}, &out.props, out.body)
	return nil
}

// forgetGetter closes a getter that failed, or is one too many, once nothing of it is held any more.
func (ch *channel) forgetGetter(q core.QueueID) {
	ch.mu.Lock()
	g := ch.getters[q]
	delete(ch.getters, q)
	if g != nil {
		g.done = true
	}
	ch.mu.Unlock()
	if g != nil {
		ch.closeIdle(g)
	}
}
