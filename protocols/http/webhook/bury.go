package webhook

import (
	"context"
	"slices"
	"strconv"
	"time"

	"polylog/core"
	"polylog/core/message"
	"polylog/router"
)

// Headers that a dead letter has beside IDHeader: whose it is, and why.
const (
	SubscriptionHeader = "x-webhook-subscription"
	CauseHeader        = "x-webhook-cause"    // a Class
	DetailHeader       = "x-webhook-detail"   // one line
	StatusHeader       = "x-webhook-status"   // of the last answer
	AttemptsHeader     = "x-webhook-attempts" // that were made
	OriginHeader       = "x-webhook-origin"   // topic or queue, as a path
	DiedHeader         = "x-webhook-died"     // RFC 3339
)

var buryHeaders = []string{IDHeader, SubscriptionHeader, CauseHeader, DetailHeader, StatusHeader, AttemptsHeader, OriginHeader, DiedHeader}

// bury puts a message into the dead letter queue, with what it died of, and settles it, in one
// step. A queue that is consumed itself knows what to do with its dead.
func (p *endpoint) bury(it *item, why *Result, now time.Time) {
	s := it.source
	if p.sub.DeadLetter.Name == "" {
		s.gone(it)
		p.line.finished(it)
		s.consumer.Settle(router.Reject, 0, []router.Receipt{it.Receipt}, nil)
		return
	}
	p.flying++
	dead := *it // which gets another receipt here when the leader's dispatcher begins anew
	p.e.loops.Go(func() { p.back <- sent{item: it, buried: true, err: p.moveDead(&dead, why, now)} })
}

func (p *endpoint) moveDead(it *item, why *Result, now time.Time) error {
	ctx, cancel := context.WithTimeout(context.Background(), buryTime)
	defer cancel()
	r := p.e.router
	if _, err := r.Queue(p.sub.DeadLetter); core.KindOf(err) == core.NotFound {
		if _, _, err := r.DeclareQueue(ctx, us, p.sub.DeadLetter, router.QueueConfig{Durable: true}); err != nil {
			return err
		}
	}
	data, err := p.deadLetter(it, why, now).Batch(nil)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	r.Transact(us, []router.TxOp{
		{To: router.Address{Exchange: core.Name{Namespace: p.sub.DeadLetter.Namespace}, Keys: []string{p.sub.DeadLetter.Name}}, Batch: data},
		{Queue: it.source.queue, Group: it.source.group, Outcome: router.Done, Receipts: []router.Receipt{it.Receipt}},
	}, func(_ []router.Routed, err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const buryTime = 15 * time.Second

// deadLetter is a message with what it died of. It expires no more.
func (p *endpoint) deadLetter(it *item, why *Result, now time.Time) *message.Message {
	m := message.Read(&it.Record)
	m.ExpiresAt, m.TTL, m.DeliverAt = 0, 0, 0
	origin := it.source.origin.source()
	if v, ok := m.Headers.Get(OriginHeader); ok && it.source.redriven {
		origin = v.Str()
	}
	m.Headers = slices.DeleteFunc(slices.Clone(m.Headers), func(h message.Header) bool { return slices.Contains(buryHeaders, h.Name) })
	add := func(name, value string) {
		if value != "" {
			m.Headers = append(m.Headers, message.Header{Name: name, Value: message.String(value)})
		}
	}
	add(IDHeader, it.id)
	add(SubscriptionHeader, p.sub.Name.Name)
	add(CauseHeader, string(why.Class))
	add(DetailHeader, why.Detail)
	if why.Status > 0 {
		add(StatusHeader, strconv.Itoa(why.Status))
	}
	add(AttemptsHeader, strconv.Itoa(it.Attempts+1))
	add(OriginHeader, origin)
	add(DiedHeader, now.UTC().Format(time.RFC3339))
	return &m
}
