package webhook

import (
	"context"
	"strconv"
	"time"

	"polylog/core"
	"polylog/core/message"
	"polylog/router"
)

// source is one group that an endpoint consumes: a partition's, or a queue's. How many
// messages it gets is counted here, since in ordered mode a message that comes back must find
// room, however many wait behind it.
type source struct {
	p        *endpoint
	queue    core.QueueID
	group    string
	origin   origin
	redriven bool // its messages were dead and have their ids with them
	consumer *router.Consumer

	held   map[core.Offset]*item
	away   map[core.Offset]*absence // in ordered mode: put off
	credit int                      // deliveries that may still come
	done   []router.Receipt         // to be settled
}

// item is a message that is held.
type item struct {
	router.Delivery
	source *source
	id     string
	key    string // of the line, in ordered mode
}

// absence is a message that was put off, whose place in its line is kept.
type absence struct {
	key     string
	due     time.Time // when it comes back; of one that is awaited when to look where it is
	awaited bool      // there is credit for it
}

// RedriveQueue is the queue of dead letters that a push subscription delivers once more.
func RedriveQueue(subscription core.Name) core.Name {
	return core.Name{Namespace: subscription.Namespace, Name: subscription.Name + ".redrive"}
}

// Delete deletes a subscription, pushed or not, and with it what was to be sent to its endpoint once more.
// Error kinds: NotFound, Denied.
func Delete(ctx context.Context, r *router.Router, p router.Principal, n core.Name) error {
	if err := r.DeleteSubscription(ctx, p, n); err != nil {
		return err
	}
	if _, err := r.DeleteQueue(ctx, p, RedriveQueue(n), false, false); err != nil && core.KindOf(err) != core.NotFound {
		return err
	}
	return nil
}

// IDHeader is the header of a dead letter that has the id under which it was sent.
const IDHeader = "x-webhook-id"

// open begins to consume.
func (p *endpoint) open(ctx context.Context) error {
	p.line.reset()
	p.sources = nil
	r := p.e.router
	if p.sub.Topic.IsZero() {
		q, err := r.QueueByID(p.sub.Queue)
		if err != nil {
			return err
		}
		p.add(q.ID, "", origin{namespace: q.Name.Namespace, queue: q.Name.Name, unique: uniqueQueue(q)})
	} else {
		t, ok := r.TopicByID(p.sub.Topic)
		if !ok {
			return core.E(core.NotFound, "the topic was deleted")
		}
		for i, q := range t.Partitions {
			p.add(q, p.sub.Group, origin{namespace: t.Name.Namespace, topic: t.Name.Name, unique: t.ID.String(), partition: i})
		}
	}
	if q, err := r.Queue(RedriveQueue(p.sub.Name)); err == nil {
		p.add(q.ID, "", origin{namespace: q.Name.Namespace, queue: q.Name.Name, unique: uniqueQueue(q)}).redriven = true
	}
	for _, s := range p.sources {
		err := s.open(ctx)
		if core.KindOf(err) == core.NotFound && s.group != "" { // a partition that is new
			if t, ok := r.TopicByID(p.sub.Topic); ok && p.current() { // or what was changed meanwhile would be as it was
				_, _, err = r.SetSubscription(ctx, us, router.SubscriptionSpec{Name: p.sub.Name, Topic: t, From: router.FromStart, Config: p.sub.AckConfig})
			}
			if err == nil {
				err = s.open(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func uniqueQueue(q *router.Queue) string {
	return q.Name.String() + "@" + time.UnixMilli(q.Created).UTC().Format(time.RFC3339Nano)
}

func (p *endpoint) add(q core.QueueID, group string, o origin) *source {
	s := &source{p: p, queue: q, group: group, origin: o, held: map[core.Offset]*item{}, away: map[core.Offset]*absence{}}
	p.sources = append(p.sources, s)
	return s
}

// openTime bounds how long it takes to begin.
const openTime = 10 * time.Second

func (s *source) open(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	if s.p.push.Ordered {
		if err := s.recall(); err != nil {
			return err
		}
	}
	s.credit = s.p.window
	s.consumer, err = s.p.e.router.Consume(ctx, us, router.ConsumeSpec{
		Queue: s.queue, Group: s.group, Credit: int64(s.credit), Buffer: max(s.p.maxWindow(), s.credit),
		Exclusive: s.p.push.Ordered && !s.p.sub.Topic.IsZero(), Wake: s.p.notify,
	})
	return err
}

// recall finds out which messages were put off before, by whoever pushed then: those behind
// them of the same key have to wait.
func (s *source) recall() error {
	failed, err := s.p.e.router.Failed(s.queue, s.group)
	if err != nil {
		return err
	}
	for _, f := range failed {
		_, err := s.p.e.router.Browse(us, s.queue, f.Offset, f.Offset+1, recallBytes, func(b router.Browsed) bool {
			a := &absence{key: s.keyOf(&b.Record), due: time.UnixMilli(f.Due)}
			s.away[f.Offset] = a
			s.p.line.absent(a.key, f.Offset)
			return false
		})
		if err != nil {
			return err
		}
	}
	return nil
}

const recallBytes = 64 << 20

// keyOf is the line that a message stands in: that of its key, or of its partition.
func (s *source) keyOf(r *core.Record) string {
	place := strconv.Itoa(s.origin.partition) + s.origin.queue
	if r.Key == nil {
		return place
	}
	return place + "/" + string(r.Key)
}

func (p *endpoint) closeSources() {
	for _, s := range p.sources {
		if s.consumer != nil {
			s.consumer.Close()
			s.consumer = nil
		}
	}
}

// take takes what is there.
func (p *endpoint) take(now time.Time) error {
	for _, s := range p.sources {
		if err := s.take(now); err != nil {
			return err
		}
	}
	return nil
}

// takeAtOnce bounds what is taken of a source before others have their turn.
const takeAtOnce = 256

func (s *source) take(now time.Time) error {
	ds, _ := s.p.e.taking.Get().(*[takeAtOnce]router.Delivery)
	defer s.p.e.taking.Put(ds)
	got, err := s.consumer.Take(ds[:0], takeAtOnce)
	defer clear(got)
	if err != nil {
		return err
	}
	for i := range got {
		s.took(&got[i], now)
	}
	if len(got) == takeAtOnce {
		s.p.notify()
	}
	s.flush()
	s.grant(now)
	return nil
}

// took takes one delivery: to be sent, or settled at once where it is not wanted.
func (s *source) took(d *router.Delivery, now time.Time) {
	s.credit = max(s.credit-1, 0)
	if old := s.held[d.Offset]; old != nil { // the leader's dispatcher began anew
		old.Receipt, old.Attempts = d.Receipt, d.Attempts
		return
	}
	it := &item{Delivery: *d, source: s}
	if a := s.away[d.Offset]; a != nil {
		delete(s.away, d.Offset)
		defer s.p.line.returned(a.key, d.Offset)
	}
	ms := now.UnixMilli()
	expires, due := message.ExpiresAt(&d.Record), message.DeliverAt(&d.Record)
	switch {
	case expires > 0 && expires <= ms, !s.p.filter.Wants(&d.Record):
		s.done = append(s.done, d.Receipt)
		return
	case due > ms:
		s.consumer.Settle(router.Release, time.Duration(due-ms)*time.Millisecond, []router.Receipt{d.Receipt}, nil)
		return
	}
	if it.id = s.origin.idOf(d.Offset); s.redriven {
		if v, ok := message.HeaderOf(&d.Record, IDHeader); ok {
			it.id = v.Str()
		}
	}
	if s.p.push.Ordered {
		it.key = s.keyOf(&d.Record)
	}
	s.held[d.Offset] = it
	s.p.line.add(it)
}

// grant allows as many deliveries as there is room for, and one for each that was put off and
// is due.
func (s *source) grant(now time.Time) {
	room := s.p.window - len(s.held) - len(s.away) - s.credit
	if s.credit > 0 && room < s.p.window/4 {
		room = 0 // not worth a message
	}
	n := max(room, 0)
	var over func(core.Offset) bool
	for o, a := range s.away {
		if a.due.After(now) {
			continue
		}
		a.due = now.Add(awaitedLook)
		if !a.awaited {
			a.awaited = true
			n++
			continue
		}
		if over == nil {
			over = s.over()
		}
		if over(o) {
			delete(s.away, o)
			s.p.line.returned(a.key, o)
		}
	}
	if n > 0 {
		s.credit += n
		s.consumer.Grant(int64(n))
	}
}

// over says which messages do not come back: they were trimmed, or are settled, having expired in their queue, been purged or
// taken by somebody else there, or being dead although nobody could say so in time.
func (s *source) over() func(core.Offset) bool {
	head, err := s.p.e.router.Head(s.queue)
	settled, err2 := s.p.e.router.Settled(us, s.queue, s.group)
	if err != nil || err2 != nil {
		return func(core.Offset) bool { return false } // the next look may find out
	}
	return func(o core.Offset) bool { return o < head.Start || settled(o) }
}

// awaitedLook is how often to look whether a message that is due is over.
const awaitedLook = time.Second

// dueIn is when the first message that was put off is due, or is to be looked for.
func (s *source) dueIn(now time.Time) time.Duration {
	d := idleWait
	for _, a := range s.away {
		d = min(d, max(a.due.Sub(now), 0)+time.Millisecond)
	}
	return d
}

// settled says that a message was delivered; flush tells.
func (s *source) settled(it *item) {
	s.gone(it)
	s.done = append(s.done, it.Receipt)
}

// gone forgets a message that is settled.
func (s *source) gone(it *item) { delete(s.held, it.Offset) }

// flush settles what was delivered.
func (s *source) flush() {
	if len(s.done) > 0 && s.consumer != nil {
		s.consumer.Settle(router.Done, 0, s.done, nil)
	}
	s.done = nil
}

// putOff gives a message back. In ordered mode its place is kept.
func (s *source) putOff(it *item, o router.Outcome, d time.Duration, now time.Time) {
	delete(s.held, it.Offset)
	var told func([]core.Kind, error)
	if s.p.push.Ordered {
		s.away[it.Offset] = &absence{key: it.key, due: now.Add(d)}
		s.p.telling.Add(1)
		told = func([]core.Kind, error) {
			s.p.telling.Add(-1)
			s.p.notify()
		}
	}
	s.consumer.Settle(o, d, []router.Receipt{it.Receipt}, told)
}
