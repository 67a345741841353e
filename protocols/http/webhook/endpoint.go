package webhook

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"polylog/core"
	"polylog/protocols/http/filter"
	"polylog/protocols/http/subscription"
	"polylog/router"
)

// endpoint pushes one subscription. One goroutine, run, owns everything; requests are made by
// goroutines of their own, which tell it what came of them.
type endpoint struct {
	e       *Engine
	sub     *router.Subscription
	owner   router.Owner
	enabled time.Time // when somebody had it sent to again, last; zero: nobody did
	options subscription.Options
	push    *subscription.Push
	secrets subscription.Secrets
	filter  *filter.Filter
	limit   int // deliveries of a message; 0: any number

	after  <-chan struct{} // the one before it has ended; nil: there was none
	ended  chan struct{}
	cancel context.CancelFunc

	// The engine's own: how many partitions the topic had, which queue of redriven messages there was, and whether
	// nobody wants the endpoint any more.
	partitions int
	redrive    core.QueueID
	stopped    bool

	left atomic.Bool // alone, by the breaker

	wake    chan struct{}
	back    chan sent
	turn    turn   // for the next request
	checked uint64 // router.SubscriptionChanges before current found it so, last; 0: it did not

	sources  []*source
	line     line // what can be sent
	flying   int
	telling  atomic.Int64 // in ordered mode: messages that were put off, which the log may not say yet
	window   int          // of a source: messages that are held; it grows with success
	proven   bool
	breaker  breaker
	paused   time.Time // nothing is sent before that
	next     time.Time // nor before that, because of the rate
	note     Note
	noted    <-chan struct{} // closed when note is kept, or is not going to be
	failing  time.Time       // since when every request failed
	disabled bool
}

// sent is what became of an item.
type sent struct {
	*item
	Result
	buried    bool // it was in the dead letter queue's transaction, which err is about
	err       error
	abandoned bool
}

// Windows.
const (
	firstWindow   = 4
	orderedWindow = 1000 // of all sources: how far one stuck key lets others go on
)

// stopGrace is how long requests that are under way have to end when the endpoint stops.
const stopGrace = 2 * time.Second

// tellTime is how long an endpoint that stops waits for the log to say what was put off. What is not said then is nothing to wait
// for: there is no leader, and the next one delivers it again.
const tellTime = 10 * time.Second

func newEndpoint(e *Engine, s *router.Subscription, owner router.Owner, note Note) (*endpoint, error) {
	p := &endpoint{
		e: e, sub: s, owner: owner, note: note, ended: make(chan struct{}),
		wake: make(chan struct{}, 1), window: firstWindow,
	}
	var err error
	if p.options, err = subscription.OptionsOf(s); err != nil {
		return nil, err
	}
	if p.push = p.options.Push; p.push == nil {
		return nil, core.E(core.Invalid, "there are secrets, and no endpoint")
	}
	if p.secrets, err = subscription.SecretsOf(s); err != nil {
		return nil, err
	}
	if p.filter, err = filter.Compile(p.options.Filter); err != nil {
		return nil, err
	}
	if s.DeliveryLimit > 0 {
		p.limit = s.DeliveryLimit + 1
	}
	p.turn.wake = p.notify
	p.back = make(chan sent, p.push.InFlight())
	p.line.ordered = p.push.Ordered
	if note.EnabledAt != nil {
		p.enabled = *note.EnabledAt
	}
	if note.FailingSince != nil {
		// It failed with whoever pushed before: it is tried with one request, and not all of
		// them at once.
		p.failing = *note.FailingSince
		p.breaker = breaker{failures: breakerFailures, opens: 1, until: e.opts.Clock().Add(rand.N(breakerRest))} //nolint:gosec // no secret
		p.left.Store(true)
	}
	return p, nil
}

func (p *endpoint) notify() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// reopenWait is between tries to consume.
const reopenWait = 500 * time.Millisecond

// run pushes until ctx ends.
func (p *endpoint) run(ctx context.Context) {
	defer close(p.ended)
	if p.after != nil {
		<-p.after
	}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for ctx.Err() == nil {
		err := p.open(ctx)
		if err == nil {
			err = p.work(ctx)
		}
		p.closeSources()
		if ctx.Err() != nil {
			return
		}
		p.e.logger.Debug("a subscription's messages are not pushed for now", "subscription", p.sub.Name, "err", err)
		pause.Reset(reopenWait)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
	}
}

// work takes messages and sends them, until ctx ends or they can be taken no more.
func (p *endpoint) work(ctx context.Context) error {
	requests, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	defer p.finish(abandon)
	defer p.turn.giveUp()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := p.e.opts.Clock()
		if err := p.take(now); err != nil {
			return err
		}
		timer.Reset(p.start(requests, now))
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-timer.C:
		case s := <-p.back:
			p.returned(&s)
			for more := true; more; {
				select {
				case s := <-p.back:
					p.returned(&s)
				default:
					more = false
				}
			}
		}
	}
}

// finish waits for what is under way, and gives it up after a while. What was put off is in the log then: whoever comes after
// this endpoint looks there for what its line has to wait for.
func (p *endpoint) finish(abandon func()) {
	grace, log := time.NewTimer(stopGrace), time.NewTimer(tellTime)
	defer grace.Stop()
	defer log.Stop()
	for late := false; p.flying > 0 || p.telling.Load() > 0 && !late; {
		select {
		case s := <-p.back:
			p.returned(&s)
		case <-p.wake:
		case <-grace.C:
			abandon()
		case <-log.C:
			late = true
		}
	}
	for _, s := range p.sources {
		s.flush()
	}
}

// start makes what requests can be made. It says after what time there may be more to make.
func (p *endpoint) start(ctx context.Context, now time.Time) time.Duration {
	for {
		ok, wait := p.mayStart(now)
		if !ok {
			p.turn.giveUp()
			return min(wait, p.dueIn(now))
		}
		l := p.lane()
		if !p.turn.take(l) {
			p.breaker.abandoned()
			return p.dueIn(now) // or when it is woken
		}
		if every := p.push.Interval(); every > 0 {
			p.next = now.Add(every)
		}
		it := p.line.take()
		p.flying++
		p.e.loops.Go(func() {
			r := p.e.send.send(ctx, p.push, &p.secrets, it.id, it.source.origin.source(), &it.Record)
			l.leave()
			p.back <- sent{item: it, Result: r, abandoned: ctx.Err() != nil && r.Class != ""}
		})
	}
}

// mayStart reports whether the endpoint wants to make a request and may, by itself; else when that may be
// otherwise.
func (p *endpoint) mayStart(now time.Time) (ok bool, wait time.Duration) {
	inFlight := p.push.InFlight()
	if !p.proven {
		inFlight = 1
	}
	switch {
	case p.disabled || p.flying >= inFlight || p.line.empty():
		return false, idleWait
	case now.Before(p.paused):
		return false, p.paused.Sub(now)
	case now.Before(p.next):
		return false, p.next.Sub(now)
	case !p.current():
		return false, lookEvery
	}
	ok, again := p.breaker.allow(now)
	if ok || again.IsZero() {
		return ok, idleWait
	}
	return false, again.Sub(now)
}

// isOf reports whether the endpoint is of a subscription as it is.
func (p *endpoint) isOf(s *router.Subscription) bool { return reflect.DeepEqual(p.sub, s) }

// current reports whether the subscription is still what is pushed here, and its owner may have it. Where not the engine is about
// to notice, and nothing is sent until then: whoever changed it and had the answer counts on that for what is published next. A
// message is taken after all that was applied before it, so that what is looked at here is no older than the message.
func (p *endpoint) current() bool {
	changes := p.e.router.SubscriptionChanges() + 1
	if changes == p.checked {
		return true
	}
	p.checked = 0
	s, err := p.e.router.KnownSubscription(p.sub.Name)
	if err != nil {
		p.e.logger.Warn("a push subscription cannot be read", "subscription", p.sub.Name, "err", err)
	}
	if err != nil || !p.isOf(s) || MayReceive(p.e.router, p.owner, s) != nil {
		return false
	}
	p.checked = changes
	return true
}

// idleWait is how long an endpoint sleeps that waits for nothing but messages and answers.
const idleWait = time.Hour

// lane is the share of requests that the endpoint takes.
func (p *endpoint) lane() *lane {
	switch {
	case p.proven && !p.breaker.suspect():
		return &p.e.well
	case p.proven:
		return &p.e.suspect
	case p.breaker.suspect():
		return &p.e.dead
	}
	return &p.e.fresh
}

// returned sees to what became of an item.
func (p *endpoint) returned(s *sent) {
	p.flying--
	now := p.e.opts.Clock()
	switch {
	case s.buried && s.err != nil:
		p.e.logger.Warn("a message cannot be put into the dead letter queue", "subscription", p.sub.Name, "id", s.id, "err", s.err)
		p.putOff(s.item, router.Release, buryAgain, now)
	case s.buried:
		s.source.gone(s.item)
		p.line.finished(s.item)
	case s.abandoned:
		p.breaker.abandoned()
		p.putOff(s.item, router.Release, 0, now)
	default:
		p.answered(s, now)
	}
}

// buryAgain is when a message is sent again that could not be put into the dead letter queue.
const buryAgain = 5 * time.Second

// answered sees to what came of a request.
func (p *endpoint) answered(s *sent, now time.Time) {
	p.e.met.latency.Observe(s.Latency.Seconds())
	a := Attempt{
		Subscription: p.sub.Name.Name, Time: now.UTC(), ID: s.id, Partition: s.source.origin.partition, Offset: s.Offset, Attempt: s.Attempts + 1,
		Status: s.Status, LatencyMs: s.Latency.Milliseconds(), Class: s.Class, Detail: s.Detail, Response: s.Response,
	}
	again := func(d time.Duration) { a.Next = new(p.notBefore(now.Add(d)).UTC()) }
	switch {
	case s.Class == "":
		a.Outcome = Delivered
		p.succeeded()
		s.source.settled(s.item)
		p.line.finished(s.item)
	case s.Status == 410: // Standard Webhooks 1.0: the endpoint wants no more
		a.Outcome = Disabled
		p.putOff(s.item, router.Release, 0, now)
		p.disable(now, "it answered 410")
	case s.Status == 429 || s.Status == 503 && s.RetryAfter > 0:
		a.Outcome = Throttled
		d := s.RetryAfter
		if d == 0 {
			d = throttled
		}
		again(d)
		p.paused = now.Add(d)
		p.breaker.abandoned()
		p.putOff(s.item, router.Release, d, now)
	case slices.Contains(p.push.PermanentStatuses, s.Status):
		a.Outcome = Dead
		p.breaker.abandoned() // it lives
		p.bury(s.item, &s.Result, now)
	default:
		p.failed(s, now)
		if p.limit > 0 && s.Attempts+1 >= p.limit {
			a.Outcome = Dead
			p.bury(s.item, &s.Result, now)
			break
		}
		a.Outcome = Retry
		d := rest(p.options.Retry, s.Attempts)
		again(d)
		p.putOff(s.item, router.Fail, d, now)
	}
	p.e.met.attempts.WithLabelValues(string(a.Outcome)).Inc()
	p.e.journal.add(p.sub.Name.Namespace, a)
}

// notBefore is a time, or when the endpoint is tried again, if that is later.
func (p *endpoint) notBefore(at time.Time) time.Time {
	if p.breaker.open() && p.breaker.until.After(at) {
		at = p.breaker.until
	}
	if p.paused.After(at) {
		at = p.paused
	}
	return at
}

// succeeded forgets that the endpoint failed.
func (p *endpoint) succeeded() {
	p.proven = true
	p.breaker.succeeded()
	p.left.Store(false)
	p.failing = time.Time{}
	if most := p.maxWindow(); p.window < most {
		p.window = min(2*p.window, most)
	}
	if p.note != (Note{}) {
		p.remember(Note{})
	}
}

// failed counts a failure of the endpoint.
func (p *endpoint) failed(s *sent, now time.Time) {
	if p.failing.IsZero() {
		p.failing = now
	}
	opened := p.breaker.failed(now)
	if opened {
		p.proven = false
	}
	p.left.Store(p.breaker.open())
	switch {
	case p.breaker.open() && now.Sub(p.failing) > disableAfter:
		p.disable(now, "every request failed for five days; last: "+s.Detail)
	case opened:
		p.e.logger.Info("an endpoint fails and is left alone for a while", "subscription", p.sub.Name, "url", p.push.URL, "last", s.Detail)
		p.remember(Note{FailingSince: new(p.failing.UTC()), LastError: s.Detail})
	}
}

// disable switches the endpoint off: for whoever enables it again.
func (p *endpoint) disable(now time.Time, why string) {
	if p.disabled {
		return
	}
	p.disabled = true
	p.e.logger.Warn("an endpoint is switched off", "subscription", p.sub.Name, "url", p.push.URL, "why", why)
	n := Note{LastError: why, DisabledAt: new(now.UTC())}
	if !p.failing.IsZero() {
		n.FailingSince = new(p.failing.UTC())
	}
	p.remember(n)
}

// remember keeps a note, in the background and behind those before it: what is in the log is what counts, and an attempt
// more than it would have allowed does no harm. It is nothing where the subscription was changed meanwhile: what an endpoint
// answered that was sent elsewhere says nothing about the one that is there now.
func (p *endpoint) remember(n Note) {
	p.note = n
	before, kept := p.noted, make(chan struct{})
	p.noted = kept
	p.e.loops.Go(func() {
		defer close(kept)
		if before != nil {
			<-before
		}
		if s, err := p.e.router.KnownSubscription(p.sub.Name); err == nil && !p.isOf(s) {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), noteTime)
		defer cancel()
		if err := n.Remember(ctx, p.e.router, p.sub); err != nil {
			p.e.logger.Debug("a note about an endpoint is not kept", "subscription", p.sub.Name, "err", err)
		}
	})
}

const noteTime = 10 * time.Second

// putOff gives a message back, to be delivered again later.
func (p *endpoint) putOff(it *item, o router.Outcome, d time.Duration, now time.Time) {
	it.source.putOff(it, o, d, now)
	p.line.putOff(it)
}

// maxWindow is how many messages of a source are held.
func (p *endpoint) maxWindow() int {
	if p.push.Ordered {
		return max(orderedWindow/max(len(p.sources), 1), p.push.InFlight())
	}
	return max(2*p.push.InFlight()/max(len(p.sources), 1), 2)
}

// dueIn is when a message comes back for which room has to be made.
func (p *endpoint) dueIn(now time.Time) time.Duration {
	d := idleWait
	for _, s := range p.sources {
		d = min(d, s.dueIn(now))
	}
	return d
}
