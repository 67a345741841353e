package router

import (
	"context"
	"sync"

	"polylog/core"
	"polylog/router/state"
)

// pidsPerBlock is how many producer ids this node takes from the log at a time.
// Those that it did not give out are lost when it stops.
const pidsPerBlock = 1000

// pidBlock is what is left of this node's block of producer ids.
type pidBlock struct {
	sync.Mutex
	next, end int64 // guarded by the mutex
}

// NewProducerID is a producer id that nobody has.
func (r *Router) NewProducerID(ctx context.Context) (int64, error) {
	b := &r.pids
	b.Lock()
	defer b.Unlock() // held while waiting: others need the same block
	if b.next == b.end {
		cmd := state.AllocateProducerIDs{Count: pidsPerBlock}
		res, err := r.propose(ctx, cmd.Command())
		if err != nil {
			return -1, err
		}
		first, err := state.DecodeProducerIDs(res.Body)
		if err != nil {
			return -1, core.E(core.Internal, "producer ids: %v", err)
		}
		b.next, b.end = first, first+pidsPerBlock
	}
	b.next++
	return b.next - 1, nil
}

// ProducerState is what is known of an idempotent producer on a queue.
type ProducerState = state.ProducerState

// Producers are the idempotent producers of each of the queues, by id. More than limit of
// them are an error of kind TooLarge.
func (r *Router) Producers(qs []core.QueueID, limit int) (map[core.QueueID][]ProducerState, error) {
	return r.state.Producers(qs, limit)
}
