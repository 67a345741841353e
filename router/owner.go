package router

import (
	"context"

	"polylog/router/state"
)

// ownedAtOnce makes one command a few milliseconds of the applier's time.
const ownedAtOnce = 200

// EndOwner deletes the queues whose owner a lease is, step by step, and releases the lease. A
// node that does not get to it has them deleted when its session ends. After an error the lease
// is released in the background, and the queues go with it.
func (r *Router) EndOwner(ctx context.Context, l *Lease) error {
	for {
		cmd := state.DeleteOwned{Owner: l.Name(), Limit: ownedAtOnce}
		res, err := r.propose(ctx, cmd.Command())
		if err != nil {
			if l.all.forget(l) {
				l.all.abandon(l)
			}
			return err
		}
		n, err := state.DecodeCount(res.Body)
		if err != nil {
			return err
		}
		if n < ownedAtOnce {
			return l.Release(ctx)
		}
	}
}
