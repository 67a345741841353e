package amqp

import (
	"context"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// consumer is one basic.consume of a queue. Its deliveries are made on the writer's goroutine,
// whenever the client has read enough of what it was sent.
type consumer struct {
	turn
	share
	ch    *channel
	tag   string
	queue *router.Queue
	noAck bool

	// As the client asked for it.
	exclusive bool
	prefetch  int
	arguments message.Table

	from    *router.Consumer // guarded by channel.mu until started; then it does not change
	started bool             // consume-ok was sent; guarded by channel.mu
	ended   bool             // no more deliveries; guarded by channel.mu

	taken []router.Delivery // the writer's own
}

// takeAtOnce is how many deliveries are made before the output's size is looked at again.
const takeAtOnce = 64

// bufferedDeliveries is how many deliveries may wait at this node for a consumer without
// prefetch.
const bufferedDeliveries = 512

// consume begins to consume a queue. The consumer gives no deliveries before start.
func (ch *channel) consume(ctx context.Context, q *router.Queue, tag string, m *spec.BasicConsume) (*consumer, error) {
	if m.Exclusive && q.SingleActive {
		return nil, soft(spec.AccessRefused, "%s in exclusive use", ch.conn.queueText(q.Name.Name))
	}
	priority, err := ch.consumerPriority(q, m.Arguments)
	if err != nil {
		return nil, err
	}
	k := &consumer{ch: ch, tag: tag, queue: q, noAck: m.NoAck, exclusive: m.Exclusive, prefetch: ch.prefetch, arguments: m.Arguments}
	k.timeout = ch.conn.ackTimeout(q, m.Arguments)
	prefetch := ch.prefetch
	if m.NoAck {
		prefetch = 0 // nothing is ever unacknowledged
	}
	from, err := ch.conn.srv.router.Consume(ctx, ch.conn.principal, router.ConsumeSpec{
		Queue:     q.ID,
		Prefetch:  prefetch,
		Buffer:    bufferedDeliveries,
		Priority:  priority,
		Exclusive: m.Exclusive,
		CountLost: q.Kind == router.Quorum && !m.NoAck,
		Wake:      func() { ch.conn.ready(k) },
	})
	switch core.KindOf(err) {
	case core.OK:
	case core.Conflict:
		return nil, soft(spec.AccessRefused, "%s in exclusive use", ch.conn.queueText(q.Name.Name))
	case core.NotFound:
		return nil, ch.conn.noQueue(q.Name.Name)
	default:
		return nil, ch.conn.refused(err, "read", ch.conn.queueText(q.Name.Name))
	}
	ch.mu.Lock()
	k.from = from
	alive := ch.addHolderLocked(k)
	if alive {
		if ch.consumers == nil {
			ch.consumers = map[string]*consumer{}
		}
		ch.consumers[tag] = k
	}
	ch.mu.Unlock()
	if !alive {
		from.Close()
	}
	return k, nil
}

// addHolderLocked has the channel close a holder when it ends. It is false when it has ended.
func (ch *channel) addHolderLocked(h holder) bool {
	if ch.over {
		return false
	}
	for other := range ch.holders {
		ch.mixedTimeouts = ch.mixedTimeouts || other.holding().timeout != h.holding().timeout
		break // if all had the same one
	}
	if ch.holders == nil {
		ch.holders = map[holder]struct{}{}
	}
	ch.holders[h] = struct{}{}
	return true
}

// start lets deliveries flow.
func (k *consumer) start() {
	k.ch.mu.Lock()
	k.started = true
	k.ch.mu.Unlock()
	k.ch.conn.ready(k)
}

// feed implements source.
func (k *consumer) feed() {
	k.ch.mu.Lock()
	ready := k.started && !k.ended
	k.ch.mu.Unlock()
	if !ready {
		return
	}
	for k.ch.conn.hasRoom() {
		var err error
		k.taken, err = k.from.Take(k.taken[:0], takeAtOnce)
		n := len(k.taken)
		open := k.deliver(k.taken)
		clear(k.taken)
		if err != nil {
			k.over(err)
			return
		}
		if n < takeAtOnce || !open {
			return // what comes later wakes us
		}
	}
	k.ch.conn.ready(k)
}

// deliver sends deliveries to the client, and returns false where it gets no more. Those that a
// cancel overtook, or the end of the channel, go back; where nothing is acknowledged, what is
// queued for the client counts as done.
func (k *consumer) deliver(ds []router.Delivery) bool {
	n := k.send(ds)
	if n < len(ds) {
		k.settle(router.Release, receipts(ds[n:]), nil)
	}
	if k.noAck && n > 0 {
		k.ch.settling.flush()
	}
	return n == len(ds)
}

// send queues deliveries, as long as the client gets any, and returns how many.
func (k *consumer) send(ds []router.Delivery) int {
	ch := k.ch
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if k.ended {
		return 0
	}
	var out outgoing
	now, users := ch.conn.srv.now(), ch.conn.srv.router.HasUsers()
	for i := range ds {
		d := &ds[i]
		out.read(d, k.queue.Kind, now, users)
		m := spec.BasicDeliver{
			ConsumerTag: k.tag, DeliveryTag: ch.lastTag + 1, Redelivered: d.Redelivered,
			Exchange: out.exchange, RoutingKey: out.routingKey,
		}
		if !ch.sendContent(&m, &out.props, out.body) {
			return i
		}
		tag := ch.holdLocked(k, d.Receipt, k.noAck, now)
		if k.noAck {
			ch.settling.acks = append(ch.settling.acks, held{tag, k, d.Receipt, now})
		}
	}
	return len(ds)
}

func receipts(ds []router.Delivery) []router.Receipt {
	rs := make([]router.Receipt, len(ds))
	for i := range ds {
		rs[i] = ds[i].Receipt
	}
	return rs
}

// over is for the end of deliveries that nobody here asked for: the queue is gone, or cannot
// be read.
func (k *consumer) over(err error) {
	ch := k.ch
	ch.mu.Lock()
	mine := !k.ended && ch.consumers[k.tag] == k
	k.ended = true
	if mine {
		delete(ch.consumers, k.tag)
		k.done = true
	}
	ch.mu.Unlock()
	if !mine || core.KindOf(err) == core.Closed {
		return
	}
	if core.KindOf(err) != core.NotFound {
		ch.conn.log.Error("amqp consumer ended", "queue", k.queue.Name.String(), "consumer", k.tag, "err", err)
	}
	if ch.conn.caps.consumerCancelNotify {
		ch.send(&spec.BasicCancel{ConsumerTag: k.tag, NoWait: true})
	}
	ch.closeIdle(k)
}

// cancel ends deliveries. What was delivered stays with the channel.
func (ch *channel) cancel(tag string) *consumer {
	ch.mu.Lock()
	k := ch.consumers[tag]
	if k == nil {
		ch.mu.Unlock()
		return nil
	}
	delete(ch.consumers, tag)
	k.ended, k.done = true, true
	ch.mu.Unlock()
	k.from.Cancel()
	ch.closeIdle(k)
	return k
}

// closeIdle closes a holder that gives no more, if the client has answered everything.
func (ch *channel) closeIdle(h holder) {
	ch.mu.Lock()
	idle := h.holding().done && h.holding().held == 0
	if idle {
		delete(ch.holders, h)
	}
	ch.mu.Unlock()
	if idle {
		ch.settling.flush()
		h.close()
	}
}

// settle implements holder.
func (k *consumer) settle(o router.Outcome, rs []router.Receipt, done func()) {
	settleFrom(k.from, o, rs, done)
}

// txQueue implements transactional.
func (k *consumer) txQueue() core.QueueID { return k.queue.ID }

// close implements holder.
func (k *consumer) close() { k.from.Close() }
