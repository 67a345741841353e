package webhook

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

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
	// part of their own, so that those that are dead, and only time out, cannot take all.
	// Those that did not succeed yet have one, too.
	well, fresh, suspect *semaphore.Weighted

	stop  context.CancelFunc
	loops sync.WaitGroup

	endpoints map[core.Name]*endpoint // the loop's own
}

const (
	maxWell    = 2048
	maxFresh   = 512
	maxSuspect = 256
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
		well: semaphore.NewWeighted(maxWell), fresh: semaphore.NewWeighted(maxFresh), suspect: semaphore.NewWeighted(maxSuspect),
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
	// lookEvery is how often the engine looks whether it leads, and whether a subscription
	// changed.
	lookEvery = 100 * time.Millisecond
	// scanEvery is how often it reads all subscriptions whether or not one changed, since
	// topics get partitions.
	scanEvery = 10 * time.Second
)

// run has an endpoint for each push subscription while this node leads.
func (e *Engine) run(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	defer e.stopAll()
	var seen uint64
	var scanned time.Time
	for {
		switch changes := e.router.SubscriptionChanges(); {
		case !e.router.IsLeader():
			e.stopAll()
			scanned = time.Time{}
		case changes != seen || time.Since(scanned) > scanEvery:
			seen = changes
			if err := e.scan(ctx); err != nil {
				e.logger.Warn("push subscriptions cannot be read", "err", err)
				scanned = time.Time{}
				break
			}
			scanned = time.Now()
		}
		e.count()
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
				if err := e.consider(ctx, s, wanted); err != nil {
					e.logger.Warn("a push subscription is left out", "subscription", s.Name, "err", err)
				}
			}
			if len(page) < scanPage {
				break
			}
			after = page[len(page)-1].Name.Name
		}
	}
	for name, p := range e.endpoints {
		if wanted[name] {
			continue
		}
		p.cancel()
		p.stopped = true
		select {
		case <-p.ended:
			delete(e.endpoints, name)
		default: // whoever comes after it waits for it
		}
	}
	return nil
}

const scanPage = 500

// consider sees to the endpoint of one subscription.
func (e *Engine) consider(ctx context.Context, s *router.Subscription, wanted map[core.Name]bool) error {
	if s.Attributes[router.SecretAttribute] == "" {
		return nil // clients pull it
	}
	note, err := NoteOf(e.router, s.Name)
	if err != nil || note.DisabledAt != nil {
		return err
	}
	if o, err := subscription.OptionsOf(s); err != nil || o.Push != nil && o.Push.Paused {
		return err
	}
	owner, err := subscription.OwnerOf(s)
	if err != nil {
		return err
	}
	old := e.endpoints[s.Name]
	if err := MayReceive(e.router, owner, s); err != nil {
		if old != nil && !old.stopped {
			e.logger.Warn("a subscription is not pushed any more, until its owner may read it or somebody else sets it", "subscription", s.Name, "err", err)
		}
		return nil
	}
	partitions := 0
	if t, ok := e.router.TopicByID(s.Topic); ok {
		partitions = len(t.Partitions)
	} else if !s.Topic.IsZero() {
		return nil // it was deleted
	}
	redrive := core.QueueID(0)
	if q, err := e.router.Queue(RedriveQueue(s.Name)); err == nil {
		redrive = q.ID
	}
	wanted[s.Name] = true
	enabled := note.EnabledAt != nil && (old == nil || !note.EnabledAt.Equal(old.enabled))
	if old != nil && !old.stopped && old.isOf(s) && old.partitions == partitions && old.redrive == redrive && !enabled {
		return nil
	}
	p, err := newEndpoint(e, s, owner, note)
	if err != nil {
		return err
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
	return nil
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
