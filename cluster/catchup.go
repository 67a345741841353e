package cluster

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"polylog/core"
)

// A node that lacks entries which the leader has removed cannot be caught up by raft.
// Raft tells it so with InstallSnapshot: a record that says how far the leader's state
// reaches, nothing more. The node refuses it, fetches the leader's state as files
// beside its own, and starts anew with it (takeover.go). Then it has the leader's log
// up to some entry, but the leader does not know, and raft's way to say so is a
// snapshot: the node gives the leader the record that its state came with, the leader
// sends that instead of its newest (resume in files.go), the node has it already, and
// raft sends the rest.
type catchUp struct {
	asked    chan struct{} // raft wants a snapshot to be installed
	received atomic.Int64  // bytes
	taken    atomic.Int64  // states fetched
	active   atomic.Bool
	whole    map[string]terms // outlives an attempt; the loop's own

	first, limit time.Duration // the pause between attempts doubles from one to the other
}

func (c *catchUp) init() {
	c.asked = make(chan struct{}, 1)
	c.whole = map[string]terms{}
	c.first, c.limit = 100*time.Millisecond, 30*time.Second
}

// installSnapshot decides whether a leader's snapshot can be taken over: its entries
// must be in our log, or their effects in our state. Raft sends it when the leader
// has removed entries that we lack; where nothing helps but the leader's files, they are
// fetched.
func (n *Node) installSnapshot(s *snapshot) error {
	s.dead = s.index // the log will begin behind it
	if n.logHolds(s.index, s.term) {
		s.dead = n.deadIndex()
	}
	if n.machine.Applied() >= s.index || n.logHolds(s.index, s.term) && n.log.First() <= n.machine.Applied()+1 {
		return nil
	}
	signal(n.catchUp.asked)
	return core.E(core.Unavailable,
		"the leader has removed entries that this node needs (it has applied %d, the leader's snapshot is at %d): fetching the leader's files",
		n.machine.Applied(), s.index)
}

// catchUpLoop fetches the leader's state whenever raft finds no other way.
func (n *Node) catchUpLoop() {
	ctx, cancel := context.WithCancel(context.Background())
	n.loops.Go(func() { <-n.stop; cancel() })
	for {
		select {
		case <-n.stop:
			return
		case <-n.catchUp.asked:
		}
		pause := n.catchUp.first
		for n.behind() {
			done, err := n.fetchState(ctx)
			if err == nil && done {
				break
			}
			if ctx.Err() != nil || n.failure.failed() != nil {
				return
			}
			if err != nil {
				n.o.Logger.Warn("the leader's files are not fetched yet; trying again", "err", err, "in", pause)
			}
			select {
			case <-time.After(pause):
			case <-n.stop:
				return
			}
			pause = min(2*pause, n.catchUp.limit)
		}
	}
}

// behind reports whether the node still needs what it was asked to fetch: raft asks
// again if it does, so being wrong costs one attempt.
func (n *Node) behind() bool { return n.failure.failed() == nil && !n.IsLeader() }

// fetchState makes one attempt to fetch the leader's state, going on where the last one
// ended, and ends the process when all of it is there. done says that nothing more is to
// be fetched.
func (n *Node) fetchState(ctx context.Context) (done bool, err error) {
	leader, ok := n.Leader()
	if !ok || leader.ID == n.o.NodeID {
		return false, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// By its address: a node that is new does not know who its cluster's nodes are.
	s, err := n.network.Open(ctx, leader.ID, leader.Addr, filesService)
	if err != nil {
		return false, err
	}
	n.catchUp.active.Store(true)
	defer n.catchUp.active.Store(false)
	fs := n.o.FS
	f := fetcher{fs: fs, dir: fs.PathJoin(n.o.Dir, incomingName), stream: s, received: &n.catchUp.received, whole: n.catchUp.whole}
	m, err := f.manifest(n.home.clusterID, n.resumable())
	if err != nil || m == nil {
		return m == nil, err
	}
	if m.applied < n.machine.Applied() {
		return false, core.E(core.Unavailable, "the leader offers a state at entry %d, this node has applied %d", m.applied, n.machine.Applied())
	}
	n.o.Logger.Info("fetching the leader's files", "leader", leader.ID, "index", uint64(m.snap.index),
		"files", len(m.files)+len(m.segments), "bytes", m.bytes(), "applied", uint64(n.machine.Applied()))
	if err := f.all(m); err != nil {
		return false, err
	}
	n.catchUp.taken.Add(1)
	return true, n.replaceState(m)
}

// resumable is the record of this node's snapshot, where raft may go on from it: raft
// goes back to its configuration, so there must have been no other since. Else nil.
func (n *Node) resumable() []byte {
	s := n.snapshots.latest.Load()
	if s == nil || !n.logHolds(s.index, s.term) || !bytes.Equal(s.conf, raft.EncodeConfiguration(n.raft.GetConfiguration().Configuration())) {
		return nil
	}
	r := *s
	r.installed = false
	return r.encode()
}

// replaceState decides that the state which was fetched is the node's, and ends the
// process. From the check on nothing is written to the log: what it would acknowledge
// is lost.
func (n *Node) replaceState(m *manifest) error {
	n.logs.writing.Lock()
	defer n.logs.writing.Unlock()
	switch {
	case n.failure.failed() != nil:
		return n.failure.failed()
	case n.logHolds(m.snap.index, m.snap.term) || n.machine.Applied() > m.applied:
		// Meanwhile another leader had the entries after all. With them, or with later
		// ones, this node may have voted for what is committed.
		return n.o.FS.RemoveAll(n.o.FS.PathJoin(n.o.Dir, incomingName))
	case n.Term() < m.snap.term:
		return core.E(core.Unavailable, "the files are of term %d, this node has not heard of terms after %d", m.snap.term, n.Term())
	}
	if err := decide(n.o.FS, n.o.Dir); err != nil {
		return n.failure.fail(err)
	}
	return n.failure.restart(core.E(core.Conflict, "restart: the leader's state at entry %d replaces this node's at %d", m.snap.index, n.machine.Applied()))
}
