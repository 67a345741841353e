package cluster

import (
	"fmt"

	"github.com/hashicorp/raft"

	"polylog/core"
)

// replayBytes bounds the data of one call of Apply during a replay.
const replayBytes = 8 << 20

// replay hands the entries from the state machine's applied index to the index `to`
// over to it, from the log. Raft does so only for entries after its snapshot, and
// takes for granted that the state machine holds everything before (guard 3); ours
// may be behind, when its files were put back from an older copy. The caller knows
// that the entries are committed and is the apply goroutine.
func (n *Node) replay(to core.LogIndex) error {
	var batch []core.Entry
	size := 0
	flush := func() {
		if len(batch) > 0 {
			n.machine.Apply(batch)
			n.fsm.time.Store(max(n.fsm.time.Load(), batch[len(batch)-1].Time()))
			batch, size = nil, 0
		}
	}
	for i := n.machine.Applied() + 1; i <= to; i++ {
		e, err := n.log.Entry(i)
		if err != nil {
			return fmt.Errorf("replay entry %d of %d: %w", i, to, err)
		}
		switch raft.LogType(e.Type) {
		case raft.LogCommand:
			batch = append(batch, core.Entry{Index: e.Index, Term: e.Term, Data: e.Data})
			if size += len(e.Data); size >= replayBytes {
				flush()
			}
		case raft.LogConfiguration:
			flush()
			n.machine.Configure(e.Index, e.Data)
		default: // raft's own
		}
	}
	flush()
	return nil
}

// checkLog compares what log, snapshot and state machine say of each other, and
// repairs what a crash while a leader's snapshot was taken over can leave. It
// refuses to open what has lost entries: such a node would vote for a leader that
// lacks them too.
func (n *Node) checkLog() error {
	snap := n.snapshots.latest.Load()
	p := parts{snap: snap, durable: n.machine.Durable(), first: n.log.First(), last: n.log.Last()}
	if snap != nil {
		p.holds = n.logHolds(snap.index, snap.term)
	}
	reset, err := p.agree()
	if err != nil || !reset {
		return err
	}
	if err := n.log.Reset(snap.index + 1); err != nil {
		return fmt.Errorf("reset log to entry %d: %w", snap.index+1, err)
	}
	return nil
}

// parts is what log, snapshot and state machine say.
type parts struct {
	snap        *snapshot
	durable     core.LogIndex // of the state machine
	first, last core.LogIndex // of the log
	holds       bool          // the log has the snapshot's last entry
}

// agree refuses what has lost entries. reset says that the log must begin anew behind
// the snapshot, a leader's.
func (p *parts) agree() (reset bool, err error) {
	snap := p.snap
	switch {
	case snap == nil: // checkHead has looked at first
	case snap.installed && p.first != snap.index+1 && !p.holds:
		if p.durable < snap.index {
			return false, core.E(core.Corrupt, "raft's snapshot is at entry %d, the index at %d, and the log does not hold what is between", snap.index, p.durable)
		}
		return true, nil
	case p.first > snap.index+1:
		return false, core.E(core.Corrupt, "the log starts at entry %d, after raft's snapshot at %d: entries are missing", p.first, snap.index)
	case p.last < snap.index:
		return false, core.E(core.Corrupt, "the log ends at entry %d, before raft's snapshot at %d: it has lost entries", p.last, snap.index)
	case p.first > p.durable+1 && p.durable < snap.index:
		return false, core.E(core.Corrupt, "the log starts at entry %d and the index ends at %d: entries between are missing", p.first, p.durable)
	}
	if p.last < p.durable {
		return false, core.E(core.Corrupt, "the log ends at entry %d but the index knows entry %d: the log has lost entries", p.last, p.durable)
	}
	return false, nil
}

// checkHead refuses a log whose oldest segment, beginning with entry head, begins behind
// what may have been removed: then a file is missing.
func checkHead(dir string, head core.LogIndex, snap *snapshot) error {
	switch {
	case snap == nil && head > 1:
		return core.E(core.Corrupt, "%s begins with entry %d and there is no %s/%s: that file is missing, or the segment with entry 1", dir, head, raftName, snapshotName)
	case snap != nil && head > snap.dead+1:
		return core.E(core.Corrupt, "%s begins with entry %d, but nothing after entry %d was ever removed: the segment with entry %d is missing", dir, head, snap.dead, head-1)
	}
	return nil
}

// checkTerm refuses a vote file that is older than the log: it has forgotten votes.
func (n *Node) checkTerm() error {
	last := n.log.Last()
	if last == 0 {
		return nil
	}
	e, err := n.log.Entry(last)
	if err != nil {
		return fmt.Errorf("read the log's last entry: %w", err)
	}
	return termsAgree(n.o.FS.PathJoin(n.o.Dir, raftName, stableName), n.stable.term, e.Term)
}

func termsAgree(name string, voted uint64, logged core.Term) error {
	if core.Term(voted) < logged {
		return lostVote(name, fmt.Sprintf("knows term %d, but the log has entries of term %d", voted, logged))
	}
	return nil
}

// logHolds reports whether the log has the entry (index, term), and so, by raft's
// log matching, the same entries before it as the node that has it too.
func (n *Node) logHolds(index core.LogIndex, term core.Term) bool {
	e, err := n.log.Entry(index)
	return err == nil && e.Term == term
}
