package router

import (
	"context"
	"sync"
	"time"

	"polylog/core"
	"polylog/router/state"
)

// The leader looks whether the nodes that have sessions still run: it asks each of them, over
// the service "lease-run", which run of the program it is. Clocks decide only when it
// proposes the end of a session; what that means is in the log.

const (
	leaseService       = "lease-run"
	leaseWatchInterval = 2 * time.Second
	leaseProbeTimeout  = 2 * time.Second
	// leaseTimeout is how long the leader fails to reach a node before its leases are
	// free.
	leaseTimeout = 10 * time.Second
	// leasesPerSweep makes one command about a millisecond of the applier's time.
	leasesPerSweep = 250
)

// serveLeaseRun tells the name of this run.
func (r *Router) serveLeaseRun(_ string, s core.Stream) error { return s.Send([]byte(r.leases.run)) }

// leaseWatch is the leader's memory of who does not answer.
type leaseWatch struct {
	mu     sync.Mutex
	term   core.Term            // guarded by mu, as is all below
	silent map[uint64]time.Time // session → the first look that found it so
}

func (r *Router) leaseWatchLoop(ctx context.Context) {
	tick := time.NewTicker(leaseWatchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := r.ExpireLeases(ctx); err != nil && ctx.Err() == nil {
			r.logger.Debug("the end of leases is tried again", "error", err)
		}
	}
}

// ExpireLeases is one look of the leader: it ends the sessions of nodes that were
// removed, run anew, or have not answered for leaseTimeout, and removes what ended
// sessions left. Other nodes do nothing.
func (r *Router) ExpireLeases(ctx context.Context) error {
	w := &r.leaseWatch
	w.mu.Lock()
	defer w.mu.Unlock()
	if !r.log.IsLeader() {
		return nil
	}
	if term := r.log.Term(); w.silent == nil || w.term != term {
		w.term, w.silent = term, map[uint64]time.Time{}
	}
	sessions := r.state.Sessions()
	reached := r.reach(ctx, sessions)
	silent := map[uint64]time.Time{}
	for node, s := range sessions {
		why := ""
		switch run, ok := reached[node]; {
		case !r.IsMember(node):
			why = "it is no member"
		case ok && run != s.Run:
			why = "it has started anew"
		case !ok:
			since, before := w.silent[s.Number]
			if !before {
				since = r.clock()
			}
			silent[s.Number] = since
			if r.clock().Sub(since) >= leaseTimeout {
				why = "it does not answer"
			}
		}
		if why == "" {
			continue
		}
		if err := r.endSession(ctx, node, s.Number); err != nil {
			return err
		}
		r.logger.Info("the leases of a node have ended", "node", node, "why", why)
	}
	w.silent = silent
	for r.state.LeasesToSweep() {
		cmd := state.SweepLeases{Work: leasesPerSweep}
		if _, err := r.propose(ctx, cmd.Command()); err != nil {
			return err
		}
	}
	return nil
}

// reach asks the nodes for their runs, all at the same time; one that does not answer has
// none. This node, which may listen for no others, need not ask itself.
func (r *Router) reach(ctx context.Context, sessions map[string]state.Session) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, leaseProbeTimeout)
	defer cancel()
	var mu sync.Mutex
	runs := map[string]string{r.leases.node: r.leases.run}
	var asked sync.WaitGroup
	for node := range sessions {
		if node == r.leases.node {
			continue
		}
		asked.Go(func() {
			s, err := r.log.OpenStream(ctx, node, leaseService)
			if err != nil {
				return
			}
			if run, err := s.Recv(); err == nil {
				mu.Lock()
				defer mu.Unlock()
				runs[node] = string(run)
			}
		})
	}
	asked.Wait()
	return runs
}
