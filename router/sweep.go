package router

import (
	"context"
	"time"

	"polylog/router/state"
)

const (
	// workPerSweep makes one command about a millisecond of the applier's time.
	workPerSweep = 2000
	// sweepInterval is how soon a new leader goes on with what the one before left.
	sweepInterval = time.Second
)

// sweepLoop removes what deleted topics left behind, as long as this node leads.
func (r *Router) sweepLoop(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.sweepable:
		case <-ticker.C:
		}
		if r.state.ToSweep() == 0 || !r.log.IsLeader() {
			continue
		}
		if err := r.Sweep(ctx); err != nil && ctx.Err() == nil {
			r.logger.Warn("the removal of deleted topics was interrupted", "error", err)
		}
	}
}

// Sweep removes what deleted topics left behind, in commands so small that nobody who
// publishes meanwhile has to wait for long.
func (r *Router) Sweep(ctx context.Context) error {
	if r.state.ToSweep() == 0 {
		return nil
	}
	for r.state.ToSweep() > 0 {
		cmd := state.Sweep{Work: workPerSweep}
		if _, err := r.propose(ctx, cmd.Command()); err != nil {
			return err
		}
	}
	r.trimLog()
	return nil
}

// wakeSweep has the loop look at once. It does not block.
func (r *Router) wakeSweep() {
	if r.state.ToSweep() == 0 {
		return
	}
	select {
	case r.sweepable <- struct{}{}:
	default:
	}
}
