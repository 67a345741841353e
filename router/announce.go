package router

import (
	"context"
	"sync"
	"time"

	"polylog/core"
	"polylog/router/state"
)

// announcement is what this node wants the registry of members to say of it.
type announcement struct {
	mu      sync.Mutex
	member  state.Member  // guarded by mu, as is all below; zero: nothing yet
	done    chan struct{} // closed: the registry says it, or err is set
	err     error         // why it never will
	changed chan struct{}
}

func (a *announcement) init() {
	a.done = make(chan struct{})
	a.changed = make(chan struct{}, 1)
}

// announcePause is between looks at what the registry says of this node.
const announcePause = time.Second

// Announce has the registry of members say m of this node, now and for as long as the
// router runs. It returns when it does; when ctx ends first, the router goes on trying.
// An error of kind Conflict or Unsupported is for ever: another node has this id, or this
// program is too old for the cluster.
func (r *Router) Announce(ctx context.Context, m state.Member) error {
	a := &r.self
	a.mu.Lock()
	a.member, a.done, a.err = m, make(chan struct{}), nil
	done := a.done
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
	select {
	case <-done:
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.err
	case <-ctx.Done():
		return core.E(core.Unavailable, "this node is not announced yet: %v", context.Cause(ctx))
	}
}

// announceLoop proposes what the registry does not say yet.
func (r *Router) announceLoop(ctx context.Context) {
	tick := time.NewTicker(announcePause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.self.changed:
		case <-tick.C:
		}
		r.announce(ctx)
	}
}

func (r *Router) announce(ctx context.Context) {
	a := &r.self
	a.mu.Lock()
	m, done, failed := a.member, a.done, a.err
	a.mu.Unlock()
	if m.ID == "" || failed != nil {
		return
	}
	var err error
	if is, ok := r.state.Members()[m.ID]; !ok || !is.Equal(&m) {
		cmd := state.Announce{Member: m}
		ctx, cancel := context.WithTimeout(ctx, 10*announcePause)
		_, err = r.propose(ctx, cmd.Command())
		cancel()
	}
	if err == nil && r.log.IsLeader() {
		err = r.raiseLevel(ctx)
	}
	switch core.KindOf(err) {
	case core.OK:
	case core.Conflict, core.Unsupported, core.Invalid, core.TooLarge:
		r.logger.Error("this node cannot be a member", "error", err)
	default:
		if ctx.Err() == nil {
			r.logger.Debug("announcing this node is tried again", "error", err)
		}
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done != done {
		return // another announcement has come
	}
	a.err = err
	select {
	case <-done:
	default:
		close(done)
	}
}
