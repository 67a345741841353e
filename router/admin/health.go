package admin

import (
	"context"
	"fmt"
	"sync"
	"time"

	"polylog/router"
)

const (
	// farBehind is how many entries a member may lag before that is a problem.
	farBehind = 1000
	// clockOff is how far members' clocks may differ before that is a problem: well
	// below what keeps a node from taking part.
	clockOff = router.MaxClockOffset / 6
)

// ask asks every member for its status, all at once; the answers are in their order.
func (s *Server) ask(ctx context.Context, members []Member) []NodeHealth {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	all := make([]NodeHealth, len(members))
	self := s.o.Router.Cluster().NodeID
	var wg sync.WaitGroup
	for i, m := range members {
		all[i].ID = m.ID
		wg.Go(func() {
			var st Status
			if m.ID == self {
				st = s.status()
			} else if err := s.askMember(ctx, m.ID, &request{Op: opStatus}, &st); err != nil {
				all[i].Error = err.Error()
				return
			}
			all[i].Status = &st
		})
	}
	wg.Wait()
	return all
}

// Health is how the cluster is, as far as this node can tell.
func (s *Server) Health(ctx context.Context) (Health, error) { return s.health(ctx, false) }

// health is Health, with compare after all members have read what they hold.
func (s *Server) health(ctx context.Context, compare bool) (Health, error) {
	h := Health{Info: s.info(), Problems: []string{}}
	h.Nodes = s.ask(ctx, h.Members)
	var committed uint64
	for _, n := range h.Nodes {
		if n.Status != nil {
			committed = max(committed, n.Status.Committed)
		}
	}
	for i := range h.Nodes {
		if st := h.Nodes[i].Status; st != nil {
			h.Nodes[i].Behind = committed - min(committed, st.Applied)
		}
	}
	h.Problems = append(h.Problems, h.quorum()...)
	h.Problems = append(h.Problems, h.kafka()...)
	h.Problems = append(h.Problems, h.segments()...)
	for i, n := range h.Nodes {
		h.Problems = append(h.Problems, n.problems(&h.Members[i], time.Now())...)
	}
	if compare {
		c, err := s.compare(ctx)
		if err != nil {
			return h, err
		}
		h.Compared = c
		h.Problems = append(h.Problems, c.problems()...)
	}
	h.Healthy = len(h.Problems) == 0
	return h, nil
}

// quorum is what is wrong with the cluster as a whole.
func (h *Health) quorum() (problems []string) {
	voters, running := 0, 0
	for i, m := range h.Members {
		if m.Voter {
			voters++
			if h.Nodes[i].Status != nil {
				running++
			}
		}
	}
	if h.Leader == "" {
		problems = append(problems, fmt.Sprintf("there is no leader: %d of %d voters can be reached from node %s", running, voters, h.Node))
	}
	switch spare := running - (voters/2 + 1); {
	case spare < 0 && h.Leader != "":
		problems = append(problems, fmt.Sprintf("only %d of %d voters can be reached from node %s, no majority", running, voters, h.Node))
	case spare == 0 && voters > 1:
		problems = append(problems, fmt.Sprintf("%d of %d voters run: if one more fails the cluster stops", running, voters))
	}
	return problems
}

// kafka is what is wrong with a leader that Kafka clients cannot use.
func (h *Health) kafka() []string {
	can, without := false, ""
	for _, m := range h.Members {
		if m.Endpoints["kafka"] != "" {
			can = true
		} else if m.Leader && m.Version != "" {
			without = m.ID
		}
	}
	if !can || without == "" {
		return nil
	}
	return []string{fmt.Sprintf("the leader, node %s, has no Kafka listener: Kafka clients are not served until another node leads", without)}
}

// segments is what is wrong where nodes cut the log differently.
func (h *Health) segments() []string {
	var first *Status
	for _, n := range h.Nodes {
		switch st := n.Status; {
		case st == nil || st.SegmentBytes == 0:
		case first == nil:
			first = st
		case st.SegmentBytes != first.SegmentBytes:
			return []string{fmt.Sprintf("segment-size is %d bytes on node %s and %d on node %s: neither can mend its log with the other's",
				first.SegmentBytes, first.ID, st.SegmentBytes, st.ID)}
		}
	}
	return nil
}

// problems are what is wrong with one member.
func (n *NodeHealth) problems(m *Member, now time.Time) (problems []string) {
	say := func(format string, args ...any) {
		problems = append(problems, "node "+n.ID+" "+fmt.Sprintf(format, args...))
	}
	st := n.Status
	if st == nil {
		say("cannot be reached: %s", n.Error)
		return problems
	}
	if !m.Voter {
		say("has no vote yet: it is catching up, %d entries behind", n.Behind)
	} else if n.Behind > farBehind {
		say("is %d entries behind", n.Behind)
	}
	for _, why := range st.NotReady {
		say("is not ready: %s", why)
	}
	if m.Instance != "" && m.Instance != st.Instance {
		say("runs with other data than the cluster knows it by")
	}
	if st.Mistaken != "" {
		say("is taken by %s for one of its own: if its data was lost it has begun a cluster anew; stop it, remove it there and have it join with an empty directory", st.Mistaken)
	}
	if off := st.Clock.Sub(now); off.Abs() > clockOff {
		say("has a clock that is %v off", off.Abs().Round(time.Second))
	}
	return problems
}
