package front

import (
	"context"
	"sync"
	"time"
)

// CallTimeout bounds a call that waits for the log, a second more or less. What is under way then may or may not be
// done.
const CallTimeout = 30 * time.Second

// Gate lets calls in until it is closed, which ends what they wait for and then waits for them: what
// they use can be closed after that.
type Gate struct {
	ctx  context.Context //nolint:containedctx // ends when the gate is closed
	stop context.CancelFunc

	mu     sync.Mutex // guards what follows
	calls  sync.WaitGroup
	closed bool
	shared context.Context //nolint:containedctx // that calls have which begin before until
	until  time.Time
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

// Call is for a call that begins now. It ends CallTimeout later, or when the gate is closed, and not with the call: those
// of the same second share one, since a timer of its own costs as much as half of what a small message does in the log.
func (g *Gate) Call() context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); !now.Before(g.until) {
		g.until = now.Add(time.Second)
		ctx, cancel := context.WithDeadline(g.ctx, g.until.Add(CallTimeout))
		context.AfterFunc(ctx, cancel)
		g.shared = ctx
	}
	return g.shared
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
