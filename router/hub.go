package router

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"polylog/core"
	"polylog/router/dispatch"
)

// serialBits is how many low bits of a delivery's serial count, under its term.
const serialBits = 40

// term is that of the leader who made the delivery.
func (r Receipt) term() core.Term { return core.Term(r.Serial >> serialBits) }

// hub is the leader's side of queues with acknowledgements: it has a dispatch.Group for
// each group that is in use, whatever node its consumers are at. It lives as long as one
// term of leadership: when that ends, or a proposal fails, everything here is dropped, the
// nodes attach their consumers to whoever leads next, and what was not settled is delivered
// again. What nobody uses costs nothing here.
//
// Lock order: hub.mu or hubGroup.mu, then feed.mu, settler.mu, the locks of sessions and of
// the store. The methods of Router.log are called with none of them held.
type hub struct {
	r       *Router
	serial  atomic.Uint64 // of deliveries; begins at the term, so that none is used twice
	feed    feed
	settler settler
	timers  dueTimers
	deposed chan struct{} // it may be: look

	mu       sync.Mutex // guards what follows
	term     core.Term  // of which this is the leader; 0: it does not lead
	dropping bool       // groups of the last term may still deliver
	groups   map[groupKey]*hubGroup
	sessions map[*hubSession]struct{}
	ids      uint64 // of consumers
}

type groupKey struct {
	queue core.QueueID
	group string
}

// hubSession is the consumers of one node.
type hubSession struct {
	// out takes messages for the node, and must not block. lost says that there will be
	// no more.
	out  func(fromHub)
	lost func(error)

	mu        sync.Mutex
	consumers map[uint64]attached // by the node's ids; nil when the session has ended
}

// attached is where a consumer of a session is.
type attached struct {
	group *hubGroup
	id    dispatch.ConsumerID
}

func (h *hub) init(r *Router) {
	h.r = r
	h.groups = map[groupKey]*hubGroup{}
	h.deposed = make(chan struct{}, 1)
	h.sessions = map[*hubSession]struct{}{}
	h.feed.init()
	h.settler.init(h)
	h.timers.init()
}

// open begins a session. The error is of kind NotLeader where this node does not lead.
func (h *hub) open(ctx context.Context, s *hubSession) error {
	term, err := h.lead(ctx)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.term != term {
		return core.E(core.NotLeader, "the leader changed")
	}
	s.consumers = map[uint64]attached{}
	h.sessions[s] = struct{}{}
	return nil
}

// lead makes this the hub of the current term, with all that was committed before it.
func (h *hub) lead(ctx context.Context) (core.Term, error) {
	term := h.r.log.Term()
	if err := h.r.log.ReadIndex(ctx); err != nil {
		return 0, err
	}
	if !h.r.log.IsLeader() || h.r.log.Term() != term {
		return 0, core.E(core.NotLeader, "this node does not lead")
	}
	h.mu.Lock()
	if h.dropping {
		h.mu.Unlock()
		return 0, core.E(core.NotLeader, "the leader changed")
	}
	was := h.term
	if was == 0 {
		h.term = term
		h.serial.Store(max(h.serial.Load(), uint64(term)<<serialBits)) // where it was this term's before, it goes on
		h.settler.begin(term)
	}
	h.mu.Unlock()
	if was != 0 && was != term {
		h.reset(was, core.E(core.NotLeader, "the leader changed"))
		return 0, core.E(core.NotLeader, "the leader changed")
	}
	return term, nil
}

// reset drops everything of a term.
func (h *hub) reset(term core.Term, err error) {
	h.mu.Lock()
	if h.term != term || term == 0 {
		h.mu.Unlock()
		return
	}
	groups, sessions := h.groups, h.sessions
	h.groups, h.sessions, h.term = map[groupKey]*hubGroup{}, map[*hubSession]struct{}{}, 0
	h.dropping = true // until then, whoever began anew would deliver beside them what comes now
	h.settler.begin(0)
	h.mu.Unlock()
	for _, g := range groups {
		g.kill()
	}
	h.mu.Lock()
	h.dropping = false
	h.mu.Unlock()
	for s := range sessions {
		s.end()
		s.lost(err)
	}
}

// end makes a session one without consumers, for ever, and returns those that it had.
func (s *hubSession) end() map[uint64]attached {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.consumers
	s.consumers = nil
	return all
}

// leave ends a session: its consumers are lost.
func (h *hub) leave(s *hubSession) {
	h.mu.Lock()
	delete(h.sessions, s)
	h.mu.Unlock()
	for _, a := range s.end() {
		a.group.detach(a.id)
	}
}

// watchLeadership drops everything when this node no longer leads, until ctx ends, and then.
func (h *hub) watchLeadership(ctx context.Context) {
	ticker := time.NewTicker(leadershipInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			h.reset(h.current(), core.E(core.Closed, "this node is shutting down"))
			return
		case <-ticker.C:
		case <-h.deposed:
		}
		term := h.current()
		if term == 0 {
			continue
		}
		if now := h.r.log.Term(); now != term || !h.r.log.IsLeader() {
			h.reset(term, core.E(core.NotLeader, "the leader changed"))
		}
	}
}

// suspectDeposed has watchLeadership look now.
func (h *hub) suspectDeposed() {
	select {
	case h.deposed <- struct{}{}:
	default:
	}
}

func (h *hub) current() core.Term {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.term
}

// leadershipInterval is how soon a hub notices that it is no longer the leader's, where no
// proposal fails before.
const leadershipInterval = 100 * time.Millisecond

// handle does what a session's node asks.
func (h *hub) handle(s *hubSession, m *toHub) {
	switch m.kind {
	case hubAttach:
		if err := h.attach(s, m); err != nil {
			s.out(fromHub{kind: hubAttached, consumer: m.consumer, err: err})
		}
	case hubGrant, hubCancel, hubDetach:
		s.mu.Lock()
		a, ok := s.consumers[m.consumer]
		if ok && m.kind == hubDetach {
			delete(s.consumers, m.consumer)
		}
		s.mu.Unlock()
		if !ok {
			return
		}
		switch m.kind {
		case hubGrant:
			a.group.do(func(g *dispatch.Group) { g.Grant(a.id, m.n) })
		case hubCancel:
			a.group.do(func(g *dispatch.Group) { g.Cancel(a.id) })
		default:
			a.group.detach(a.id)
		}
	default:
		answer := func(out fromHub) {
			if out.kind, out.request = hubAnswer, m.request; m.kind == hubGet {
				out.kind = hubGot
			}
			if m.request != 0 {
				s.out(out)
			}
		}
		err := h.use(groupKey{m.queue, m.group}, func(g *hubGroup) bool {
			switch m.kind {
			case hubSettle:
				return g.settle(m, answer)
			case hubExtend:
				return g.extend(m, answer)
			case hubHold:
				return g.hold(m, answer)
			case hubPurge:
				return g.purge(answer)
			case hubGet:
				return g.get(s, m, answer)
			default:
				return g.count(answer)
			}
		})
		if err != nil {
			answer(fromHub{err: err})
		}
	}
}

// use finds a group, or takes it from the replicated state, and gives it to fn. fn is false
// where the group was dropped meanwhile: then there is another one.
func (h *hub) use(key groupKey, fn func(*hubGroup) bool) error {
	for {
		h.mu.Lock()
		if h.term == 0 {
			h.mu.Unlock()
			return core.E(core.NotLeader, "this node does not lead")
		}
		g := h.groups[key]
		if g == nil {
			g = &hubGroup{h: h, key: key, term: h.term}
			h.groups[key] = g
		}
		h.mu.Unlock()
		alive, err := g.load()
		if err != nil {
			return err
		}
		if alive && fn(g) {
			return nil
		}
	}
}

func (h *hub) attach(s *hubSession, m *toHub) error {
	fenced, err := h.attachTo(s, m)
	for _, c := range fenced {
		c.end(errFenced(m))
	}
	return err
}

func (h *hub) attachTo(s *hubSession, m *toHub) (fenced []*hubConsumer, err error) {
	h.mu.Lock()
	h.ids++
	id := dispatch.ConsumerID(h.ids)
	h.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch _, twice := s.consumers[m.consumer]; {
	case s.consumers == nil:
		return nil, core.E(core.Unavailable, "the session has ended")
	case twice:
		return nil, core.E(core.Internal, "consumer %d attached twice", m.consumer)
	}
	var refusal error
	err = h.use(groupKey{m.queue, m.group}, func(g *hubGroup) (alive bool) {
		if fenced, alive, refusal = g.attach(s, m, id); alive && refusal == nil {
			s.consumers[m.consumer] = attached{g, id}
		}
		return alive
	})
	if err != nil {
		return nil, err
	}
	return fenced, refusal
}

// look has the own group of a queue see to what is due, whether or not anybody uses it.
func (h *hub) look(q core.QueueID) error {
	if term := h.r.log.Term(); h.current() != term {
		ctx, cancel := context.WithTimeout(context.Background(), hubLookTimeout)
		defer cancel()
		if _, err := h.lead(ctx); err != nil {
			return err
		}
	}
	err := h.use(groupKey{q, ""}, (*hubGroup).look)
	if core.KindOf(err) == core.NotFound {
		return nil // deleted meanwhile
	}
	return err
}

// hubLookTimeout bounds how long a look waits to become the hub of its term.
const hubLookTimeout = 5 * time.Second

// consumed reports whether a queue's own group has consumers.
func (h *hub) consumed(q core.QueueID) (active bool) {
	h.mu.Lock()
	g := h.groups[groupKey{q, ""}]
	h.mu.Unlock()
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.g != nil && !g.dead && g.g.Active() > 0
}

// forget takes a group out, if it is still the one.
func (h *hub) forget(g *hubGroup) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.groups[g.key] == g {
		delete(h.groups, g.key)
	}
}

// consumerCount is for the metrics.
func (h *hub) consumerCount() (n int) {
	h.mu.Lock()
	sessions := slices.Collect(maps.Keys(h.sessions))
	h.mu.Unlock()
	for _, s := range sessions {
		s.mu.Lock()
		n += len(s.consumers)
		s.mu.Unlock()
	}
	return n
}
