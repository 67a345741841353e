package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"polylog/core"
)

// leadership follows who leads. A node that was elected is ready only when
// everything that was committed before its election has been applied here, which a
// barrier proves once per leadership: before that its state may lack what an
// earlier leader has acknowledged.
type leadership struct {
	notify   chan bool             // from raft: this node leads, or no longer
	events   chan raft.Observation // from raft: another leader is known
	observer *raft.Observer
	current  atomic.Uint64 // readyTerm; written with mu held

	mu      sync.Mutex
	ready   bool          // guarded by mu, as is all below
	term    core.Term     // of the leadership that is ready
	since   time.Time     // when it was
	lost    time.Time     // when no leader was known any more, or the node was opened; zero: one is
	changed chan struct{} // closed, and replaced, at every change
	changes int64
}

func (l *leadership) init() {
	// Raft's main goroutine writes to notify and would wait for us; one leadership
	// makes two messages, and the barrier that we wait for ends with it.
	l.notify = make(chan bool, 64)
	l.events = make(chan raft.Observation, 16) // dropped when full: we look at the state
	l.observer = raft.NewObserver(l.events, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	l.changed = make(chan struct{})
	l.lost = time.Now()
}

func (l *leadership) set(ready bool, term core.Term) {
	l.mu.Lock()
	if ready && (!l.ready || l.term != term) {
		l.since = time.Now()
	}
	l.ready, l.term = ready, term
	if !ready {
		term = 0
	}
	l.current.Store(uint64(term))
	l.changes++
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
}

func (l *leadership) state() (ready bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready, l.changed
}

// readyTerm is the term that this node leads in and is ready; 0 when it does not.
func (l *leadership) readyTerm() core.Term { return core.Term(l.current.Load()) }

// readySince is readyTerm, and when it began.
func (l *leadership) readySince() (core.Term, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ready {
		return 0, time.Time{}
	}
	return l.term, l.since
}

// reluctance is for how many election time-outs a reluctant node leaves elections to others.
const reluctance = 4

// leaderless is how long no leader was known.
func (l *leadership) leaderless(n *Node) time.Duration {
	_, known := n.Leader()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case known:
		l.lost = time.Time{}
		return 0
	case l.lost.IsZero():
		l.lost = time.Now()
	}
	return time.Since(l.lost)
}

// refusal is why this node cannot take a command for the leader, or nil.
func (l *leadership) refusal(n *Node) error {
	if n.raft.State() != raft.Leader {
		return core.E(core.NotLeader, "this node is not the leader")
	}
	if ready, _ := l.state(); !ready {
		return core.E(core.Unavailable, "this node was just elected and is not ready yet")
	}
	return nil
}

// watchLeadership is the goroutine that keeps leadership current.
func (n *Node) watchLeadership() {
	l := &n.leadership
	defer n.raft.DeregisterObserver(l.observer)
	if n.isLoneVoter() {
		n.electSelf()
	}
	for {
		select {
		case <-n.stop:
			return
		case leads := <-l.notify:
			n.leads(leads)
		case <-l.events:
			ready, _ := l.state()
			l.set(ready, l.term)
			_ = l.leaderless(n) // takes note of when there is none
		}
		n.o.LeaderChanged()
	}
}

// electSelf has a lone voter elected without waiting for the heartbeat of a leader
// that cannot exist. So time-outs need not be short while it is alone, and need no
// change (the lease could not be changed while raft runs) when others join. It is
// the message that ends a leadership transfer, sent to ourselves.
func (n *Node) electSelf() {
	err := n.transport.TimeoutNow(raft.ServerID(n.o.NodeID), n.transport.LocalAddr(), &raft.TimeoutNowRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(n.o.NodeID), Addr: []byte(n.transport.LocalAddr())},
	}, &raft.TimeoutNowResponse{})
	if err != nil {
		n.o.Logger.Debug("no early election", "err", err)
	}
	n.transport.CloseStreams() // nobody calls itself again
}

// leads is told by raft that this node leads or has ceased to.
func (n *Node) leads(leads bool) {
	l := &n.leadership
	term := n.Term()
	if !leads {
		n.o.Logger.Info("no longer the leader", "term", term)
		l.set(false, 0)
		return
	}
	if err := n.raft.Barrier(0).Error(); err != nil {
		n.o.Logger.Debug("leadership lost before it was ready", "term", term, "err", err)
		return
	}
	n.proposer.awaitIdle() // what an earlier leadership of this node left has failed by now, and is told so
	if n.Term() != term || n.raft.State() != raft.Leader {
		return // a newer message is on its way
	}
	n.o.Logger.Info("leader", "term", term, "applied", uint64(n.machine.Applied()))
	l.set(true, term)
	n.updateOwnAddress()
}

// Ready waits until a leader exists and, where that is this node, everything that
// was committed before its election has been applied.
func (n *Node) Ready(ctx context.Context) error {
	for {
		ready, changed := n.leadership.state()
		if err := n.failure.failed(); err != nil {
			return err
		}
		if n.raft.State() == raft.Leader {
			if ready {
				return nil
			}
		} else if _, ok := n.Leader(); ok {
			return nil
		}
		select {
		case <-changed:
		case <-n.stop:
			return core.E(core.Closed, "this node is shutting down")
		case <-ctx.Done():
			return core.E(core.Unavailable, "no leader yet: %v", context.Cause(ctx))
		}
	}
}

// Term is the current raft term.
func (n *Node) Term() core.Term { return core.Term(n.raft.CurrentTerm()) }

// IsLeader reports whether this node leads and is ready, and no other node does: a majority has
// answered it within the lease.
func (n *Node) IsLeader() bool { return n.leadership.refusal(n) == nil && n.isFresh() }

// LeaderChanged is closed at the next change of Leader or IsLeader, and sometimes without
// one. Look at them after the call and before waiting.
func (n *Node) LeaderChanged() <-chan struct{} {
	_, changed := n.leadership.state()
	return changed
}

// Leader is the leader that this node knows, if any.
func (n *Node) Leader() (core.Member, bool) {
	addr, id := n.raft.LeaderWithID()
	if id == "" {
		return core.Member{}, false
	}
	return core.Member{ID: string(id), Addr: string(addr), Voter: true}, true
}
