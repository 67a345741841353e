package admin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"polylog/core"
	"polylog/router"
)

// admit is the leader's answer to a node that wants to take part, or to go on. Of a member
// that has moved it takes over the address, unless somebody still listens for it at the old
// one: that is a copy of its data directory, and both would speak for one node. So is who asks
// under the leader's own id from elsewhere.
func (s *Server) admit(ctx context.Context, c *router.Candidate) (Admission, error) {
	r := s.o.Router
	if err := r.Admit(ctx, c); err != nil {
		return Admission{}, err
	}
	info := r.Cluster()
	a := Admission{ClusterID: info.ClusterID, Leader: info.NodeID}
	i := slices.IndexFunc(info.Members, func(m core.Member) bool { return m.ID == c.ID })
	if a.Member = i >= 0; !a.Member {
		if !c.New {
			return a, errRemoved(c.ID)
		}
		return a, nil
	}
	was := info.Members[i].Addr
	switch {
	case c.ID == info.NodeID:
		if self := s.o.Self(); c.Addr != self.Addr { // it may have asked before it led
			return a, errRuns(c.ID, self.Addr)
		}
		return a, nil
	case was == c.Addr:
		return a, nil
	case s.silent(ctx, was):
		return a, core.E(core.Conflict, "node %s already runs at %s, it seems: who listens there does not answer; end that process first", c.ID, was)
	}
	if st, err := s.probe(ctx, c.ID, was); err == nil && st.ID == c.ID {
		return a, errRuns(c.ID, was)
	}
	return a, r.AddMember(ctx, c)
}

func errRuns(id, addr string) error {
	return core.E(core.Conflict, "node %s already runs at %s: two nodes have one id, or one data directory was copied", id, addr)
}

// silent reports whether somebody takes connections at addr and says nothing, as a process
// does that is suspended.
func (s *Server) silent(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout/2)
	defer cancel()
	return s.o.Network.Silent(ctx, addr)
}

// join has a node take part that listens already.
func (s *Server) join(ctx context.Context, c *router.Candidate) (Admission, error) {
	a, err := s.admit(ctx, c)
	if err != nil || a.Member {
		return a, err
	}
	st, err := s.reach(ctx, c.ID, c.Addr)
	if err != nil {
		return a, core.E(core.Invalid, "the leader cannot reach node %s at %s (set node-advertise to an address that it can): %v", c.ID, c.Addr, err)
	}
	if st.Instance != c.Instance {
		return a, core.E(core.Conflict, "another node %s runs at %s", c.ID, c.Addr)
	}
	return a, s.o.Router.AddMember(ctx, c)
}

// remove takes a node out and lets it know.
func (s *Server) remove(ctx context.Context, id string) error {
	s.fewer.Lock()
	defer s.fewer.Unlock()
	info := s.o.Router.Cluster()
	i := slices.IndexFunc(info.Members, func(m core.Member) bool { return m.ID == id })
	if i < 0 {
		return core.E(core.NotFound, "no node %s in this cluster", id)
	}
	if err := s.enoughWithout(ctx, id, true); err != nil {
		return err
	}
	if err := s.o.Router.RemoveMember(ctx, id); err != nil {
		return err
	}
	if id == info.NodeID {
		s.o.Expelled(errRemoved(id))
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if st, err := s.o.Network.OpenStreamTo(ctx, id, info.Members[i].Addr, Service); err == nil {
		_ = call(st, &request{Op: opRecall}, &struct{}{}) // it will notice anyway
	}
	return nil
}

func errRemoved(id string) error {
	return core.E(core.Conflict, "node %s was removed from the cluster: to take part again it needs an empty data directory", id)
}

// drain has a node stop.
func (s *Server) drain(ctx context.Context, id string, force bool) error {
	s.fewer.Lock()
	defer s.fewer.Unlock()
	if !s.o.Router.IsMember(id) {
		return core.E(core.NotFound, "no node %s in this cluster", id)
	}
	if !force {
		if err := s.enoughWithout(ctx, id, false); err != nil {
			return err
		}
	}
	if id == s.o.Router.Cluster().NodeID {
		s.halt()
		return nil
	}
	err := s.askMember(ctx, id, &request{Op: opStop}, &struct{}{})
	if core.KindOf(err) == core.Unavailable {
		return core.E(core.Conflict, "node %s does not run, or cannot be reached from the leader: %v", id, err)
	}
	return err
}

// enoughWithout is nil when the voters that run now, without one of them and those that are
// about to stop, are a majority: of all voters, or, where the one is taken out, of the others.
func (s *Server) enoughWithout(ctx context.Context, id string, takenOut bool) error {
	info := s.info()
	voters, running := 0, 0
	var gone []string
	isVoter := false
	health := s.ask(ctx, info.Members)
	for i, m := range info.Members {
		switch {
		case !m.Voter:
			continue
		case m.ID == id:
			isVoter = true
			if takenOut {
				continue
			}
		case health[i].Status == nil:
			gone = append(gone, "node "+m.ID+" cannot be reached")
		case health[i].Status.Stopping:
			gone = append(gone, "node "+m.ID+" is stopping")
		default:
			running++
		}
		voters++
	}
	if !isVoter || running > voters/2 {
		return nil
	}
	what := "stopped"
	if takenOut {
		what = "removed"
	}
	slices.Sort(gone)
	why := cmp.Or(strings.Join(gone, ", "), "add others first")
	return core.E(core.Conflict, "with node %s %s only %d of %d voters would run, no majority: %s", id, what, running, voters, why)
}

// info is who takes part, as this node knows it.
func (s *Server) info() Info {
	c := s.o.Router.Cluster()
	registry := s.o.Router.Registry()
	i := Info{ClusterID: c.ClusterID, Node: c.NodeID, Term: uint64(c.Term), Level: s.o.Router.FeatureLevel()}
	if c.HasLeader {
		i.Leader = c.Leader.ID
	}
	for _, m := range c.Members {
		r := registry[m.ID]
		i.Members = append(i.Members, Member{
			ID: m.ID, Addr: m.Addr, Voter: m.Voter, Leader: m.ID == i.Leader,
			Instance: r.Instance, Version: r.Version, MaxLevel: r.MaxLevel, Endpoints: maps.Clone(m.Endpoints),
		})
	}
	slices.SortFunc(i.Members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return i
}
