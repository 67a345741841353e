package amqp

import (
	"context"
	"math"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// The handlers of class basic. publish is in publish.go.

// basicQos sets the prefetch of consumers to come. RabbitMQ from 4.3 on takes a global one for
// the same.
func (ch *channel) basicQos(_ context.Context, m *spec.BasicQos) error {
	if m.PrefetchSize != 0 {
		return hard(spec.NotImplemented, "prefetch_size!=0 (%d)", m.PrefetchSize)
	}
	ch.mu.Lock()
	ch.prefetch = int(m.PrefetchCount)
	ch.mu.Unlock()
	ch.send(&spec.BasicQosOk{})
	return nil
}

func (ch *channel) basicConsume(ctx context.Context, m *spec.BasicConsume) error {
	name, err := ch.named(m.Queue)
	if err != nil {
		return err
	}
	if ch.hasConsumer(m.ConsumerTag) {
		return hard(spec.NotAllowed, "attempt to reuse consumer tag '%s'", m.ConsumerTag)
	}
	if name == replyQueue {
		return ch.consumeReplies(m)
	}
	if err := ch.conn.mayQueue(router.OpRead, name); err != nil {
		return err
	}
	q, err := ch.conn.accessible(ctx, name)
	if t := ch.conn.streamInstead(err, name); t != nil {
		return ch.consumeStream(ctx, m, t)
	}
	if err != nil {
		return err
	}
	tag := m.ConsumerTag
	if tag == "" {
		tag = serverNamed("amq.ctag-")
	}
	k, err := ch.consume(ctx, q, tag, m)
	if err != nil {
		return err
	}
	ch.reply(m.NoWait, &spec.BasicConsumeOk{ConsumerTag: tag})
	k.start()
	return nil
}

func (ch *channel) hasConsumer(tag string) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.consumers[tag] != nil || ch.streams[tag] != nil || ch.replies != nil && ch.replies.tag == tag
}

// consumerPriority is that of a consumer with these arguments.
func (ch *channel) consumerPriority(q *router.Queue, args message.Table) (int, error) {
	v := argument(args, "x-priority")
	if v == nil {
		return 0, nil
	}
	if wrong := wrongInt(*v); wrong != "" {
		return 0, invalidArgument("x-priority", ch.conn.queueText(q.Name.Name), wrong)
	}
	return int(min(max(intOf(*v), math.MinInt32), math.MaxInt32)), nil
}

func (ch *channel) basicCancel(ctx context.Context, m *spec.BasicCancel) error {
	ch.cancelReplies(m.ConsumerTag)
	ch.cancelStream(m.ConsumerTag)
	if k := ch.cancel(m.ConsumerTag); k != nil && k.queue.AutoDelete {
		if err := ch.conn.awaitEnds(ctx, []core.QueueID{k.queue.ID}); err != nil {
			return err
		}
	}
	ch.reply(m.NoWait, &spec.BasicCancelOk{ConsumerTag: m.ConsumerTag})
	return nil
}

// awaitEnds waits until queues that go with their last consumer have heard of one's end: such a
// queue is gone when the client knows that it may be.
func (c *conn) awaitEnds(ctx context.Context, queues []core.QueueID) error {
	for _, q := range queues {
		// Nobody needs the counts.
		if _, err := c.srv.router.CountQueue(ctx, q, ""); err != nil && core.KindOf(err) != core.NotFound {
			return err
		}
	}
	return nil
}

func (ch *channel) basicGet(ctx context.Context, m *spec.BasicGet) error {
	name, err := ch.named(m.Queue)
	if err != nil {
		return err
	}
	if err := ch.conn.mayQueue(router.OpRead, name); err != nil {
		return err
	}
	q, err := ch.conn.accessible(ctx, name)
	if t := ch.conn.streamInstead(err, name); t != nil {
		return ch.conn.notByStreams("basic.get", t)
	}
	if err != nil {
		return err
	}
	if q.SingleActive && q.Kind == router.Quorum {
		return soft(spec.ResourceLocked, "cannot obtain access to locked %s. basic.get operations are not supported by quorum queues with single active consumer", ch.conn.queueText(name))
	}
	return ch.get(ctx, q, m.NoAck)
}

func (ch *channel) basicAck(_ context.Context, m *spec.BasicAck) error {
	hs, err := ch.answered(m.DeliveryTag, m.Multiple)
	switch {
	case err != nil:
		return err
	case ch.tx != nil:
		ch.tx.settle(router.Done, hs)
	default:
		ch.settling.ack(hs)
	}
	return nil
}

func (ch *channel) basicNack(_ context.Context, m *spec.BasicNack) error {
	o := router.Reject
	if m.Requeue {
		o = router.Release
	}
	return ch.reject(m.DeliveryTag, m.Multiple, o)
}

func (ch *channel) basicReject(_ context.Context, m *spec.BasicReject) error {
	o := router.Reject
	if m.Requeue {
		o = router.Fail
	}
	return ch.reject(m.DeliveryTag, false, o)
}

// reject gives deliveries back. That one failed counts in quorum queues only.
func (ch *channel) reject(tag uint64, multiple bool, o router.Outcome) error {
	hs, err := ch.answered(tag, multiple)
	switch k := ofStream(hs); {
	case err != nil:
		return err
	case k != nil:
		return ch.conn.notByStreams("basic.nack and basic.reject", k.topic)
	case ch.tx != nil:
		ch.tx.settle(o, hs)
	default:
		ch.giveBack(hs, o)
	}
	return nil
}

// ofStream is a consumer of a stream that deliveries come from; nil where there is none.
func ofStream(hs []held) *streamConsumer {
	for i := range hs {
		if k, ok := hs[i].from.(*streamConsumer); ok {
			return k
		}
	}
	return nil
}

// giveBack settles deliveries that were not done. Methods that are answered wait until dead ones
// are where they go: a client may look there next.
func (ch *channel) giveBack(hs []held, o router.Outcome) {
	ch.settling.flush()
	f := &ch.conn.flight
	byHolder(hs, func(h holder, rs []router.Receipt) {
		f.add(0)
		h.settle(o, rs, func() { f.done(0) })
	})
	ch.released(hs)
}

func (ch *channel) basicRecover(_ context.Context, m *spec.BasicRecover) error {
	if err := ch.recoverAll(m.Requeue); err != nil {
		return err
	}
	ch.send(&spec.BasicRecoverOk{})
	return nil
}

func (ch *channel) basicRecoverAsync(_ context.Context, m *spec.BasicRecoverAsync) error {
	return ch.recoverAll(m.Requeue)
}

// recoverAll has everything delivered again that was not answered.
func (ch *channel) recoverAll(requeue bool) error {
	if !requeue {
		return hard(spec.NotImplemented, "requeue=false")
	}
	hs, err := ch.answered(0, true)
	if err != nil {
		return err
	}
	ch.giveBack(hs, router.Release)
	return nil
}
