package front

import (
	"context"
	"sync"
)

// Gate lets calls in until it is closed, which ends what they wait for and then waits for them: what
// they use can be closed after that.
type Gate struct {
	ctx  context.Context //nolint:containedctx // ends when the gate is closed
	stop context.CancelFunc

	mu     sync.Mutex // guards what follows
	calls  sync.WaitGroup
	closed bool
}

// NewGate makes one that is open.
func NewGate() *Gate {
	g := &Gate{}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

// Context ends when the gate is closed.
func (g *Gate) Context() context.Context { return g.ctx }

// Enter is false when the gate is closed. Otherwise Leave has to be called.
func (g *Gate) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.calls.Add(1)
	return true
}

// Leave is a call's end.
func (g *Gate) Leave() { g.calls.Done() }

// Close returns when no call is running. It may be called more than once.
func (g *Gate) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.stop()
	g.calls.Wait()
}
