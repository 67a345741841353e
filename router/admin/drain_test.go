package admin

import (
	"context"
	"sync"
	"testing"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
	"polylog/router/state"
)

// joined is the network of routers over one log.
type joined struct {
	Network
	*routertest.Log
}

// OpenStream implements Network.
func (j joined) OpenStream(ctx context.Context, id, service string) (core.Stream, error) {
	return j.Log.OpenStream(ctx, id, service)
}

// HandleAny implements Network.
func (j joined) HandleAny(service string, fn func(string, core.Stream) error) { j.Handle(service, fn) }

// three are the servers of a cluster of three, the first at its leader.
func three(t *testing.T) (all []*Server) {
	t.Helper()
	leader, log := routertest.Start(t, nil)
	serve := func(r *router.Router, l *routertest.Log) {
		id := r.Cluster().NodeID
		s := Serve(Options{
			Router: r, Network: joined{Log: l},
			Status: func() Status { return Status{ID: id} },
			Self:   func() router.Candidate { return router.Candidate{Member: state.Member{ID: id}} },
			Stop:   func(string) {}, // what has been told to stop goes on for a while
		})
		t.Cleanup(s.Close)
		all = append(all, s)
	}
	serve(leader, log)
	for _, id := range []string{"n2", "n3"} {
		serve(routertest.Join(t, log, id, nil))
	}
	return all
}

// Of two drains at once one is refused: after it no majority would run. So is a drain of the
// node that leads while another stops, and a removal.
func TestDrainsAtOnce(t *testing.T) {
	all := three(t)
	leader := all[0]
	errs := make([]error, 2)
	var both sync.WaitGroup
	for i, id := range []string{"n2", "n3"} {
		both.Go(func() { errs[i] = leader.drain(t.Context(), id, false) })
	}
	both.Wait()
	stopped := 0
	for i, err := range errs {
		switch {
		case err == nil && all[i+1].stopping.Load():
			stopped++
		case core.KindOf(err) != core.Conflict || all[i+1].stopping.Load():
			t.Errorf("drain of n%d: %v, it stops: %v", i+2, err, all[i+1].stopping.Load())
		}
	}
	if stopped != 1 {
		t.Fatalf("%d of 3 nodes stop", stopped)
	}
	self := leader.o.Router.Cluster().NodeID
	if err := leader.drain(t.Context(), self, false); core.KindOf(err) != core.Conflict {
		t.Errorf("drain of the leader: %v", err)
	}
	if err := leader.drain(t.Context(), self, true); err != nil || !leader.stopping.Load() {
		t.Errorf("forced: %v", err)
	}
}
