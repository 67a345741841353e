package cluster

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"polylog/core"
)

// awaited are those who wait until the state machine has come to an index.
type awaited struct {
	any atomic.Bool // waits is not empty

	mu    sync.Mutex
	waits []*awaitedIndex // guarded by mu
}

type awaitedIndex struct {
	index core.LogIndex
	done  chan struct{}
}

// release lets those go on for whom m is far enough. It is called after each step of m.
func (a *awaited) release(m StateMachine) {
	if !a.any.Load() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	applied := m.Applied()
	a.waits = slices.DeleteFunc(a.waits, func(w *awaitedIndex) bool {
		if w.index > applied {
			return false
		}
		close(w.done)
		return true
	})
	a.any.Store(len(a.waits) > 0)
}

// awaitApplied waits until the state machine has applied index.
func (n *Node) awaitApplied(ctx context.Context, index core.LogIndex) error {
	if n.machine.Applied() >= index {
		return nil
	}
	a := &n.awaited
	w := &awaitedIndex{index: index, done: make(chan struct{})}
	a.mu.Lock()
	a.waits = append(a.waits, w)
	a.any.Store(true)
	a.mu.Unlock()
	a.release(n.machine) // it may have come there meanwhile
	var err error
	select {
	case <-w.done:
		return nil
	case <-n.stop:
		err = core.E(core.Closed, "this node is shutting down")
	case <-ctx.Done():
		err = core.E(core.Unavailable, "this node has not yet applied what the leader has: %v", context.Cause(ctx))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits = slices.DeleteFunc(a.waits, func(o *awaitedIndex) bool { return o == w })
	a.any.Store(len(a.waits) > 0)
	return err
}
