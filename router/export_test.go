package router

import (
	"context"
	"runtime"

	"polylog/core"
)

// HubEnds is up to where this node, as a leader, would deliver the group of a queue, having looked
// for more just now; none where it does not lead.
func (r *Router) HubEnds(q core.QueueID) (ends []core.Offset) {
	r.hub.mu.Lock()
	g := r.hub.groups[groupKey{queue: q}]
	r.hub.mu.Unlock()
	if g == nil {
		return nil
	}
	g.grown()
	g.mu.Lock()
	defer g.mu.Unlock()
	return append(ends, g.end)
}

// HoldNews has the dispatcher hear of no queue that grows, or is too long, once this one is, which it has a group of and
// whose id is lower than theirs, until it is let go on.
func (r *Router) HoldNews(q core.QueueID) (goOn func()) {
	r.hub.mu.Lock()
	g := r.hub.groups[groupKey{queue: q}]
	r.hub.mu.Unlock()
	g.mu.Lock()
	return g.mu.Unlock
}

// LeadWhileDropping has the hub drop a term, and try to lead anew while the group of a queue is not
// dropped yet.
func (r *Router) LeadWhileDropping(ctx context.Context, q core.QueueID) error {
	h := &r.hub
	h.mu.Lock()
	g, term := h.groups[groupKey{queue: q}], h.term
	h.mu.Unlock()
	g.mu.Lock()
	dropped := make(chan struct{})
	go func() {
		h.reset(term, core.E(core.NotLeader, "a test"))
		close(dropped)
	}()
	for h.current() != 0 {
		runtime.Gosched()
	}
	_, err := h.lead(ctx)
	g.mu.Unlock()
	<-dropped
	return err
}
