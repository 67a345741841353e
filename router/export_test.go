package router

import "polylog/core"

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
