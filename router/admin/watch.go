package admin

import (
	"context"
	"time"

	"polylog/core"
)

// A node that was removed is told, but it may be down just then, or cut off. So whoever
// knows no leader asks the other members whether it still takes part; they have one, if
// they are the majority. What they ask in return, its clock, its address, its version, is
// looked at on each start for the same reason: it may have changed while it was down.

const (
	watchPause = 2 * time.Second
	// checkTimeout leaves the leader the time to find out that nobody answers any more at
	// the address that this node has left.
	checkTimeout = 3 * probeTimeout
)

// watch is the goroutine that keeps asking.
func (s *Server) watch() {
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.recall:
		case <-tick.C:
			if s.o.Router.Cluster().HasLeader {
				continue
			}
		}
		if err := s.Check(s.ctx); err != nil {
			s.o.Expelled(err)
			return
		}
	}
}

// Check asks the other members whether this node may take part. It is nil where nobody
// can tell now.
func (s *Server) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	self := s.o.Self()
	answers := make(chan error)
	asked := 0
	for _, m := range s.o.Router.Cluster().Members {
		if m.ID == self.ID {
			continue
		}
		asked++
		go func() {
			var a Admission
			answers <- s.askMember(ctx, m.ID, &request{Op: opAdmit, Candidate: fromCandidate(&self)}, &a)
		}()
	}
	var refusal error
	for range asked {
		switch err := <-answers; {
		case err == nil, isRefusal(err):
			if refusal == nil {
				refusal = err
			}
			cancel() // one answer is enough; the leader's is the same by any way
		default:
		}
	}
	return refusal
}

// isRefusal says that the leader wants this node to take no part.
func isRefusal(err error) bool {
	switch core.KindOf(err) {
	case core.Conflict, core.Invalid, core.Unsupported:
		return true
	default:
		return false
	}
}
