package router

import (
	"context"

	"polylog/core"
	"polylog/router/state"
)

// ClusterInfo is who is who right now, as far as this node knows.
type ClusterInfo struct {
	ClusterID string
	NodeID    string
	Leader    core.Member
	HasLeader bool
	Members   []core.Member
	Term      core.Term
}

// Cluster is who is who right now.
func (r *Router) Cluster() ClusterInfo {
	leader, ok := r.log.Leader()
	return ClusterInfo{
		ClusterID: r.log.ClusterID(),
		NodeID:    r.log.ID(),
		Leader:    leader,
		HasLeader: ok,
		Members:   r.members(),
		Term:      r.log.Term(),
	}
}

// members are raft's, with what they announced of themselves and what leaders have seen of them.
func (r *Router) members() []core.Member {
	all, registry, sightings := r.log.Members(), r.state.Members(), r.state.Sightings()
	leader, known := r.log.Leader()
	for i := range all {
		if m, ok := registry[all[i].ID]; ok && all[i].Endpoints == nil {
			all[i].Endpoints = m.Endpoints
		}
		// Who says that it leads is not away, whatever an earlier leader has noted.
		all[i].Away = sightings[all[i].ID].Away && (!known || leader.ID != all[i].ID) && all[i].ID != r.log.ID()
	}
	return all
}

// IsLeader reports whether this node believes that it leads.
func (r *Router) IsLeader() bool { return r.log.IsLeader() }

// IsNamedLeader reports whether raft has this node for the leader. Where IsLeader is false
// meanwhile, it is in doubt: a majority has not answered it within its lease, for a moment or for good.
func (r *Router) IsNamedLeader() bool {
	leader, known := r.log.Leader()
	return known && leader.ID == r.log.ID()
}

// LeaderChanged is closed when this node comes to lead or ceases to, and when it learns of
// another leader. Look at who leads after the call and before waiting.
func (r *Router) LeaderChanged() <-chan struct{} { return r.log.LeaderChanged() }

// Term is the current term, which Kafka calls the leader epoch.
func (r *Router) Term() core.Term { return r.log.Term() }

// Registry is what the members announced of themselves, by id, not to be changed.
func (r *Router) Registry() map[string]state.Member { return r.state.Members() }

// FeatureLevel is what every member of the cluster understands.
func (r *Router) FeatureLevel() int { return r.state.Level() }

// Sync returns once this node has applied everything that was committed when it
// was called: what is read afterwards is at least that new.
func (r *Router) Sync(ctx context.Context) error { return r.log.ReadIndex(ctx) }
