package amqp

import (
	"context"
	"time"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// A channel whose client keeps a delivery for too long without an answer is closed, so that
// others get the message (https://www.rabbitmq.com/docs/consumers#acknowledgement-timeout).

// Where a timeout is said: as an argument of a queue or a consumer, and in policies; in ms.
const (
	argConsumerTimeout    = "x-consumer-timeout"
	policyConsumerTimeout = "consumer-timeout"
)

// ackTimeout is how long a client may keep deliveries of q, in ms: the least that consumer,
// queue and policies say, or else what the server does. 0: for ever.
func (c *conn) ackTimeout(q *router.Queue, consumer message.Table) int64 {
	least := int64(0)
	take := func(v *message.Value) {
		if v == nil {
			return
		}
		if n, ok := v.Int(); ok && n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	take(argument(consumer, argConsumerTimeout))
	if q != nil {
		take(argument(q.Arguments, argConsumerTimeout))
		for _, p := range c.srv.router.PoliciesOf(q) {
			take(argument(p.Definition, policyConsumerTimeout))
		}
	}
	if least == 0 {
		least = max(c.srv.opts.ConsumerTimeout.Milliseconds(), 0)
	}
	return least
}

// overdue is the timeout of a delivery that was kept for longer than that, in ms; 0 where there
// is none. mixed says that the deliveries do not all have the same one, so that the oldest does
// not tell for all.
func (u *unacked) overdue(now int64, mixed bool) int64 {
	for i := range u.list {
		h := &u.list[i]
		if h.from == nil {
			continue
		}
		if most := h.from.holding().timeout; most > 0 && now-h.at > most {
			return most
		}
		if !mixed {
			break
		}
	}
	return 0
}

// checkTimeout closes the channel if its client keeps a delivery for too long. now is in ms.
func (ch *channel) checkTimeout(now int64) {
	ch.mu.Lock()
	most := ch.unacked.overdue(now, ch.mixedTimeouts)
	ch.mu.Unlock()
	if most > 0 && ch.isOpen() {
		ch.conn.srv.metrics.ackTimeouts.Add(1)
		ch.fail(context.Background(), soft(spec.PreconditionFailed,
			"delivery acknowledgement on channel %d timed out. Timeout value used: %d ms. This timeout value can be configured, see consumers doc guide to learn more", ch.id, most), 0)
	}
}

// closeOverdue closes the channels whose clients keep deliveries for too long.
func (s *Server) closeOverdue(cs []*conn) {
	now := s.now()
	var chs []*channel
	for _, c := range cs {
		c.out.mu.Lock()
		chs = chs[:0]
		for _, ch := range c.channels {
			chs = append(chs, ch)
		}
		c.out.mu.Unlock()
		for _, ch := range chs {
			ch.checkTimeout(now)
		}
	}
}

// overdueInterval is between two looks for them.
const overdueInterval = time.Second
