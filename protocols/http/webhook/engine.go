package webhook

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"polylog/core"
	"polylog/protocols/http/subscription"
	"polylog/router"
)

// us is who consumes and writes in the engine's name.
var us = router.Itself("webhooks")

// Options is what an Engine needs.
type Options struct {
	Router     *router.Router
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Guard      *Guard
	Version    string           // in the User-Agent
	Origin     string           // who we are in handshakes; polylog when empty
	Clock      func() time.Time // time.Now when nil
}

// Engine pushes the messages of all push subscriptions while its node leads. Its methods may
// be called on any node.
type Engine struct {
	opts    Options
	router  *router.Router
	logger  *slog.Logger
	send    sender
	journal journal
	met     *metrics

	// How many requests may be under way in all. Endpoints whose last request failed have a
	// part of their own, so that those that are dead, and only time out, cannot take all; and so have
	// those that did not succeed yet. The dead never did, or were left alone since: they, and newcomers, may
	// begin so many requests a second only, since ten thousand that fail at once would take all cores.
	well, fresh, suspect, dead lane

	taking sync.Pool // of *[takeAtOnce]router.Delivery: too large for each endpoint's stack

	stop  context.CancelFunc
	loops sync.WaitGroup

	endpoints map[core.Name]*endpoint // the loop's own
}

const (
	maxWell    = 2048
	maxFresh   = 512
	maxSuspect = 256
	maxDead    = 256
	freshEvery = time.Millisecond
	deadEvery  = 4 * time.Millisecond
)

// New starts an engine.
func New(o Options) (*Engine, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Origin == "" {
		o.Origin = "polylog"
	}
	met, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		opts: o, router: o.Router, logger: o.Logger, met: met,
		send: sender{client: newClient(o.Guard), agent: "polylog/" + o.Version, origin: o.Origin, now: o.Clock},
		well: lane{most: maxWell}, suspect: lane{most: maxSuspect},
		fresh:     lane{most: maxFresh, every: freshEvery, newest: true},
		dead:      lane{most: maxDead, every: deadEvery},
		taking:    sync.Pool{New: func() any { return new([takeAtOnce]router.Delivery) }},
		endpoints: map[core.Name]*endpoint{},
	}
	e.journal = journal{router: o.Router, logger: o.Logger, dropped: met.dropped, wake: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	e.stop = cancel
	journal, last := context.WithCancel(context.Background())
	e.loops.Go(func() {
		defer last() // the endpoints' last attempts are written, too
		e.run(ctx)
	})
	e.loops.Go(func() { e.journal.run(journal) })
	return e, nil
}

// Close ends pushing: what is under way has a moment to end well. It may be called again.
func (e *Engine) Close() {
	e.stop()
	e.loops.Wait()
	if t, ok := e.send.client.Transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// CheckURL is Guard.CheckURL.
func (e *Engine) CheckURL(ctx context.Context, raw string) error {
	return e.opts.Guard.CheckURL(ctx, raw)
}

// Handshake asks an endpoint for its consent, and how many requests a minute it allows; 0: any
// number. The error is of kind core.Denied, or core.Unavailable where it may consent another time.
func (e *Engine) Handshake(ctx context.Context, p *subscription.Push, x *subscription.Secrets) (int, error) {
	return e.send.handshake(ctx, p, x)
}

// Test sends one message to an endpoint, as deliveries are sent, from this node.
func (e *Engine) Test(ctx context.Context, p *subscription.Push, x *subscription.Secrets, id string, r *core.Record) Result {
	return e.send.send(ctx, p, x, id, "/v1/tests", r)
}

const (
	// lookEvery is how often the engine looks whether it leads, and which subscriptions changed.
	lookEvery = 100 * time.Millisecond
	// scanEvery is how often it reads all subscriptions, whether or not one changed, since
	// topics get partitions; less often where reading them takes more than a part of scanShare of that.
	scanEvery = 10 * time.Second
	scanShare = 20
	// countEvery is how often the endpoints are counted for the metrics.
	countEvery = time.Second
)

// run has an endpoint for each push subscription while this node leads.
func (e *Engine) run(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	defer e.stopAll()
	var seen router.SubscriptionsSeen
	var scan, count time.Time // when to do it again
	for {
		now := time.Now()
		if !e.router.IsLeader() {
			e.stopAll()
			scan = time.Time{}
		} else if changed, all := e.router.SubscriptionsChanged(&seen); all || !now.Before(scan) {
			if err := e.scan(ctx); err != nil {
				e.logger.Warn("push subscriptions cannot be read", "err", err)
				scan = time.Time{}
			} else {
				scan = time.Now().Add(max(scanEvery, scanShare*time.Since(now)))
			}
		} else {
			for _, n := range changed {
				e.look(ctx, n)
			}
		}
		if !now.Before(count) {
			e.count()
			count = now.Add(countEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// count sets the metrics of endpoints.
func (e *Engine) count() {
	open, closed := 0, 0
	for _, p := range e.endpoints {
		switch {
		case p.stopped:
		case p.left.Load():
			open++
		default:
			closed++
		}
	}
	e.met.endpoints.WithLabelValues("closed").Set(float64(closed))
	e.met.endpoints.WithLabelValues("open").Set(float64(open))
}

// scan starts, restarts and stops endpoints as the subscriptions say.
func (e *Engine) scan(ctx context.Context) error {
	namespaces, err := e.router.Namespaces()
	if err != nil {
		return err
	}
	wanted := map[core.Name]bool{}
	for _, n := range namespaces {
		if n.Deleted {
			continue
		}
		for after := ""; ; {
			page, err := e.router.Subscriptions(n.Name, after, scanPage)
			if err != nil {
				return err
			}
			for _, s := range page {
				wanted[s.Name] = e.considered(ctx, s)
			}
			if len(page) < scanPage {
				break
			}
			after = page[len(page)-1].Name.Name
		}
	}
	for name := range e.endpoints {
		if !wanted[name] {
			e.drop(name)
		}
	}
	return nil
}

const scanPage = 500

// look sees to the endpoint of one subscription, which has changed.
func (e *Engine) look(ctx context.Context, n core.Name) {
	s, err := e.router.KnownSubscription(n)
	if err != nil {
		e.logger.Warn("a push subscription cannot be read", "subscription", n, "err", err)
		return
	}
	if s == nil || !e.considered(ctx, s) {
		e.drop(n)
	}
}

// drop stops the endpoint that a subscription has, if any.
func (e *Engine) drop(n core.Name) {
	p := e.endpoints[n]
	if p == nil {
		return
	}
	p.cancel()
	p.stopped = true
	select {
	case <-p.ended:
		delete(e.endpoints, n)
	default: // whoever comes after it waits for it
	}
}

// considered is consider, with a word about why it did not work.
func (e *Engine) considered(ctx context.Context, s *router.Subscription) (wanted bool) {
	wanted, err := e.consider(ctx, s)
	if err != nil {
		e.logger.Warn("a push subscription is left out", "subscription", s.Name, "err", err)
	}
	return wanted
}

// consider sees to the endpoint of one subscription, and says whether there should be one.
func (e *Engine) consider(ctx context.Context, s *router.Subscription) (wanted bool, err error) {
	if s.Attributes[router.SecretAttribute] == "" {
		return false, nil // clients pull it
	}
	note, err := NoteOf(e.router, s.Name)
	if err != nil || note.DisabledAt != nil {
		return false, err
	}
	if o, err := subscription.OptionsOf(s); err != nil || o.Push != nil && o.Push.Paused {
		return false, err
	}
	owner, err := subscription.OwnerOf(s)
	if err != nil {
		return false, err
	}
	old := e.endpoints[s.Name]
	if err := MayReceive(e.router, owner, s); err != nil {
		if old != nil && !old.stopped {
			e.logger.Warn("a subscription is not pushed any more, until its owner may read it or somebody else sets it", "subscription", s.Name, "err", err)
		}
		return false, nil
	}
	partitions := 0
	if t, ok := e.router.TopicByID(s.Topic); ok {
		partitions = len(t.Partitions)
	} else if !s.Topic.IsZero() {
		return false, nil // it was deleted
	}
	redrive := core.QueueID(0)
	if q, err := e.router.Queue(RedriveQueue(s.Name)); err == nil {
		redrive = q.ID
	}
	enabled := note.EnabledAt != nil && (old == nil || !note.EnabledAt.Equal(old.enabled))
	if old != nil && !old.stopped && old.isOf(s) && old.partitions == partitions && old.redrive == redrive && !enabled {
		return true, nil
	}
	p, err := newEndpoint(e, s, owner, note)
	if err != nil {
		return true, err // the one that is there goes on
	}
	p.partitions, p.redrive = partitions, redrive
	if old != nil {
		old.cancel()
		p.after = old.ended
	}
	e.endpoints[s.Name] = p
	run, cancel := context.WithCancel(ctx)
	p.cancel = cancel
	e.loops.Go(func() {
		defer cancel()
		p.run(run)
	})
	return true, nil
}

// MayReceive is why the owner of a subscription may not have its messages; nil: it may.
func MayReceive(r *router.Router, owner router.Owner, s *router.Subscription) error {
	err := r.AuthorizeReceive(router.Behalf(owner, "webhooks", ""), s)
	if core.KindOf(err) == core.Denied {
		return err
	}
	return nil // that there is nothing to receive is for others to say
}

// stopAll ends all endpoints, and waits until they have.
func (e *Engine) stopAll() {
	for _, p := range e.endpoints {
		p.cancel()
	}
	for _, p := range e.endpoints {
		<-p.ended
	}
	maps.DeleteFunc(e.endpoints, func(core.Name, *endpoint) bool { return true })
}
