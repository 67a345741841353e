package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"polylog/core"
)

// forwarder has the leader do the commands of a node that does not lead. They go over
// one stream, batched, and the results come back in order.
//
// Nothing is sent twice unless it is known not to have been done. The leader answers
// what it has taken; at its first refusal it takes nothing more, and ends the stream
// well when all that it took is answered. So after a stream that ended well, what has
// no answer was never taken, and goes to the next leader, in order. After a stream that
// broke, what was sent and has no answer is uncertain. A command that was refused while
// a later one was, or may have been, done is not tried again: that would change their
// order. Nothing of a core.Sequence goes on behind what failed of it.
//
// A command's way: waiting (in frames, encoded) → sent → answered, and told by the
// proposer's completer. While this node leads itself, what still waits is handed to the
// proposer in order, and only when nothing is left does the short way open again (busy).
type forwarder struct {
	n        *Node
	patience time.Duration // of commands of ProposeAsync: forwardPatience
	busy     atomic.Bool   // something waits or is sent: new commands go behind it
	done     atomic.Int64  // commands that a leader has ever done
	wake     chan struct{} // for loop: something waits
	closing  chan struct{}
	ended    chan struct{} // closed: loop has ended

	mu      sync.Mutex
	cond    *sync.Cond // on mu: space in the queue
	waiting []*frame   // guarded by mu, as is all below
	sent    []*frame   // in the order of their answers
	at      int        // the next answer is for a command of sent[at]
	bytes   int        // of both
	closed  bool
}

const (
	// forwardPatience is how long a command of ProposeAsync waits for a leader.
	forwardPatience = 10 * time.Second
	// Between attempts to reach a leader that refuses or cannot be reached.
	minForwardPause = 20 * time.Millisecond
	maxForwardPause = 500 * time.Millisecond

	proposeService = "propose"
)

func (f *forwarder) init(n *Node) {
	f.n, f.patience = n, forwardPatience
	f.cond = sync.NewCond(&f.mu)
	f.wake = make(chan struct{}, 1)
	f.closing = make(chan struct{})
	f.ended = make(chan struct{})
}

// isRefusal reports whether err says that nothing was done and another node, or a later
// time, may do it.
func isRefusal(err error) bool {
	switch core.KindOf(err) {
	case core.NotLeader, core.Unavailable, core.Closed:
		return true
	default:
		return false
	}
}

// submit puts a command into the queue, when there is room. The command's bytes are
// free when it returns.
func (f *forwarder) submit(ctx context.Context, pr proposal) {
	size := pr.command.EncodedLen()
	var until time.Time
	if pr.waiter == nil {
		until = time.Now().Add(f.patience)
	}
	f.mu.Lock()
	if f.fullLocked(size) {
		stop := context.AfterFunc(ctx, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.cond.Broadcast()
		})
		for f.fullLocked(size) && !f.closed && ctx.Err() == nil {
			f.cond.Wait()
		}
		stop()
	}
	var refusal error
	switch {
	case f.closed:
		refusal = core.E(core.Closed, "this node is shutting down")
	case ctx.Err() != nil:
		refusal = core.E(core.Unavailable, "proposal withdrawn: %v", context.Cause(ctx))
	default:
		last := len(f.waiting) - 1
		if last < 0 || !f.waiting[last].room(size) {
			f.waiting = append(f.waiting, &frame{data: make([]byte, 0, max(size, chunkBytes))})
			last++
		}
		f.waiting[last].add(pr, until)
		f.bytes += size
		f.busy.Store(true)
		signal(f.wake)
	}
	f.mu.Unlock()
	if refusal != nil {
		f.n.proposer.answer(answered{pr, outcome{err: refusal}})
	}
}

func (f *forwarder) fullLocked(size int) bool {
	return f.bytes > 0 && f.bytes+size > f.n.o.MaxQueuedBytes
}

// withdraw takes a command out that was not sent. Where it reports false the command
// is not here, or may have reached the leader; it will not be sent again.
func (f *forwarder) withdraw(w *waiter) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := find(f.waiting, w); c != nil {
		c.gone = true
		return true
	}
	if c := find(f.sent, w); c != nil {
		c.gone = true
	}
	return false
}

func find(frames []*frame, w *waiter) *forwarded {
	for _, fr := range frames {
		for i := range fr.commands {
			if fr.commands[i].waiter == w && !fr.commands[i].gone {
				return &fr.commands[i]
			}
		}
	}
	return nil
}

// drain refuses what waits and waits for the answers to what was sent, for as long as a
// stream may take to end.
func (f *forwarder) drain() {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		close(f.closing)
	}
	f.cond.Broadcast()
	f.mu.Unlock()
	<-f.ended
}

// loop takes what waits to whoever leads.
func (f *forwarder) loop() {
	defer close(f.ended)
	failures := 0
	for {
		select {
		case <-f.wake:
		case <-f.closing:
			f.refuseWaiting(core.E(core.Closed, "this node is shutting down"))
			return
		}
		for f.anyWaiting() {
			_, changed := f.n.leadership.state()
			leader, known := f.n.Leader()
			if err := f.n.failure.failed(); err != nil {
				f.refuseWaiting(err)
				continue
			}
			switch {
			case f.isClosing():
				f.refuseWaiting(core.E(core.Closed, "this node is shutting down"))
				continue
			case f.n.IsLeader():
				f.handBack()
				continue
			case known && leader.ID != f.n.o.NodeID:
				f.n.proposer.awaitIdle() // what was proposed here came before
				if f.session(leader.ID) {
					failures = 0
					continue
				}
				failures++
			default:
				failures = 0
			}
			f.pause(failures, changed)
		}
	}
}

func (f *forwarder) isClosing() bool {
	select {
	case <-f.closing:
		return true
	default:
		return false
	}
}

func (f *forwarder) anyWaiting() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiting) > 0
}

// pause waits for another leader, for a while where one could not be used, and for the
// end of a command's patience.
func (f *forwarder) pause(failures int, changed <-chan struct{}) {
	wait := f.patience
	if failures > 0 {
		wait = min(minForwardPause<<min(failures-1, 10), maxForwardPause)
	}
	if until := f.firstUntil(); !until.IsZero() {
		wait = min(wait, max(time.Until(until), 0)+time.Millisecond)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-f.closing:
	}
	f.expire()
}

// firstUntil is the first time at which something that waits runs out of patience.
func (f *forwarder) firstUntil() (first time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fr := range f.waiting {
		for i := range fr.commands {
			if u := fr.commands[i].until; !u.IsZero() {
				return u // they were given in order
			}
		}
	}
	return first
}

// expire answers what has waited too long, and forgets what nobody waits for.
func (f *forwarder) expire() {
	now := time.Now()
	f.sift(func(c *forwarded) error {
		if !c.until.IsZero() && now.After(c.until) {
			return core.E(core.Unavailable, "no leader was found within %v", f.patience)
		}
		return nil
	})
}

// refuseWaiting answers everything that waits.
func (f *forwarder) refuseWaiting(err error) {
	f.sift(func(*forwarded) error { return err })
}

// sift answers those that wait and for which refuse has an error, and drops those that
// are gone.
func (f *forwarder) sift(refuse func(*forwarded) error) {
	var all []answered
	f.mu.Lock()
	kept := f.waiting[:0]
	for _, fr := range f.waiting {
		for i := range fr.commands {
			c := &fr.commands[i]
			if c.gone {
				continue
			}
			if err := refuse(c); err != nil {
				all = append(all, answered{c.proposal, outcome{err: err}})
				c.gone = true
			}
		}
		before := len(fr.data)
		fr = fr.rest()
		f.bytes -= before - len(fr.data)
		if len(fr.commands) > 0 {
			kept = append(kept, fr)
		}
	}
	clear(f.waiting[len(kept):])
	f.waiting = kept
	f.mu.Unlock()
	f.answer(all)
}

// answer has proposers told; then, when nothing is left, the short way is open again.
func (f *forwarder) answer(all []answered) {
	f.n.proposer.answer(all...)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy.Store(len(f.waiting) > 0 || len(f.sent) > 0)
	f.cond.Broadcast()
}
