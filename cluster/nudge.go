package cluster

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"polylog/core"
)

// A follower learns that an entry is committed with the next call that raft makes, which
// is when more entries come, or up to twice its CommitTimeout (50 ms) later. Whoever waits
// on a follower for its own command, or for a read, would wait that long. So the leader
// tells followers itself, nudgeDelay after a commit that they have not been told of, by
// what raft would say: an AppendEntries call without entries. It is true for ever, of the
// term that this node led in: the entry is committed, and so is in the logs of that term's
// leader and all later ones. A follower that knows of a newer term refuses it.

// nudgeDelay leaves it to the next entries, where those come at once.
const nudgeDelay = time.Millisecond

// nudger knows what followers have been told.
type nudger struct {
	due chan struct{} // something was applied

	mu     sync.Mutex
	told   map[raft.ServerID]uint64 // guarded by mu, as is all below; commit indexes
	busy   map[raft.ServerID]bool   // a call of ours is under way
	newest uint64                   // commit index that followers were to be told
}

func newNudger() *nudger {
	return &nudger{due: make(chan struct{}, 1), told: map[raft.ServerID]uint64{}, busy: map[raft.ServerID]bool{}}
}

// tell notes that a follower has taken note of a commit index. Where it could not be
// told more before, for it lacked the entries, it can now.
func (g *nudger) tell(id raft.ServerID, commit uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told[id] = max(g.told[id], commit)
	if g.told[id] < g.newest {
		signal(g.due)
	}
}

// begin reports whether a follower is to be told of commit, by the caller.
func (g *nudger) begin(id raft.ServerID, commit uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.newest = max(g.newest, commit)
	if g.busy[id] || g.told[id] >= commit {
		return false
	}
	g.busy[id] = true
	return true
}

func (g *nudger) end(id raft.ServerID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.busy, id)
}

func (n *Node) nudgeLoop() {
	g := n.transport.nudger
	delay := time.NewTimer(0)
	defer delay.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-g.due:
		}
		if n.alone.Load() || !n.IsLeader() {
			continue
		}
		delay.Reset(nudgeDelay)
		select {
		case <-n.stop:
			return
		case <-delay.C:
		}
		n.nudge()
	}
}

// nudge tells those followers of the commit index that do not know it.
func (n *Node) nudge() {
	g := n.transport.nudger
	term := n.leadership.readyTerm() // not the current one, which may be another's
	commit := n.raft.CommitIndex()
	e, err := n.log.Entry(core.LogIndex(commit))
	if term == 0 || err != nil {
		return
	}
	self := n.transport.LocalAddr()
	for _, s := range n.servers() {
		if string(s.ID) == n.o.NodeID || !g.begin(s.ID, commit) {
			continue
		}
		n.calls.Go(func() {
			_ = n.transport.AppendEntries(s.ID, s.Address, &raft.AppendEntriesRequest{
				RPCHeader:    raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(n.o.NodeID), Addr: []byte(self)},
				Term:         uint64(term),
				PrevLogEntry: commit, PrevLogTerm: uint64(e.Term), LeaderCommitIndex: commit,
			}, &raft.AppendEntriesResponse{}) // one that fails is made up for by raft
			g.end(s.ID)
			if n.raft.CommitIndex() > commit {
				signal(g.due)
			}
		})
	}
}
