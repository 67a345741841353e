package cluster

import (
	"github.com/hashicorp/raft"

	"polylog/core"
)

// Stats are a node's figures of the moment. Counters start at 0 when it is opened.
type Stats struct {
	Term          core.Term
	Leader        bool // this node leads and is ready
	LeaderChanges int64
	Members       int
	Voters        int
	Voter         bool // this node has a vote

	First, Last core.LogIndex // of the log; 0 when it is empty
	LogBytes    int64         // of all entries that the log's files hold
	LogFiles    int
	Committed   core.LogIndex
	Applied     core.LogIndex // the last command
	Passed      core.LogIndex // the last entry, of whatever kind, that was handed to be applied
	Durable     core.LogIndex // of the state machine
	Snapshot    core.LogIndex

	StoredEntries int64 // written to the log, raft's own included
	StoredBytes   int64
	Commands      int64 // proposed here
	Forwarded     int64 // done by a leader elsewhere for this node
	Groups        int64 // entries that they went into
	Waiting       int   // commands not yet given to raft
	WaitingBytes  int
	InFlight      int // entries in raft's hands
	Checkpoints   int64

	FilesServed  int64 // bytes that other nodes fetched from this one
	FilesFetched int64 // bytes that this one fetched
	CatchingUp   bool  // it is fetching the leader's state
	ScrubRounds  int64 // readings of all sealed segments
	Scrubbed     int64 // bytes of them
	Damages      int64 // segments found damaged while the node ran
	Repaired     int64 // segments replaced by another node's copy, at the start too
	Unrepaired   int   // segments that are damaged now
}

// Stats gives the node's figures.
func (n *Node) Stats() Stats {
	s := Stats{
		Term: n.Term(), Leader: n.IsLeader(), Members: len(n.servers()),
		First: n.log.First(), Last: n.log.Last(),
		Committed: core.LogIndex(n.raft.CommitIndex()), Passed: core.LogIndex(n.raft.AppliedIndex()),
		Applied: n.machine.Applied(), Durable: n.machine.Durable(), Snapshot: n.snapshotIndex(),
		StoredEntries: n.logs.count.Load(), StoredBytes: n.logs.bytes.Load(),
		Checkpoints: n.checkpoints.Load(),
		FilesServed: n.filesSent.Load(), FilesFetched: n.catchUp.received.Load(), CatchingUp: n.catchUp.active.Load(),
		ScrubRounds: n.scrubs.Load(), Scrubbed: n.scrubbed.Load(), Damages: n.damages.Load(), Repaired: n.repaired.Load(),
	}
	for _, m := range n.servers() {
		if m.Suffrage == raft.Voter {
			s.Voters++
			s.Voter = s.Voter || string(m.ID) == n.o.NodeID
		}
	}
	for _, f := range n.log.Segments() {
		s.LogBytes += f.Bytes
		s.LogFiles++
	}
	n.unsound.Range(func(any, any) bool { s.Unrepaired++; return true })
	s.Forwarded = n.forwarder.done.Load()
	p := &n.proposer
	p.mu.Lock()
	s.Commands, s.Groups, s.InFlight = p.commands, p.groups, p.inFlight
	s.Waiting, s.WaitingBytes = len(p.waiting), p.waitingBytes
	p.mu.Unlock()
	l := &n.leadership
	l.mu.Lock()
	s.LeaderChanges = l.changes
	l.mu.Unlock()
	return s
}
