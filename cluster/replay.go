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
	durable := n.machine.Durable()
	snap := n.snapshots.latest.Load()
	first, last := n.log.First(), n.log.Last()
	switch {
	case snap == nil:
		if first > 1 {
			return core.E(core.Corrupt, "the log starts at entry %d and there is no raft snapshot: %s is missing", first, snapshotName)
		}
	case snap.installed && first != snap.index+1 && !n.logHolds(snap.index, snap.term):
		if durable < snap.index {
			return core.E(core.Corrupt, "raft's snapshot is at entry %d, the index at %d, and the log does not hold what is between", snap.index, durable)
		}
		if err := n.log.Reset(snap.index + 1); err != nil {
			return fmt.Errorf("reset log to entry %d: %w", snap.index+1, err)
		}
		return nil
	case first > snap.index+1:
		return core.E(core.Corrupt, "the log starts at entry %d, after raft's snapshot at %d: entries are missing", first, snap.index)
	case last < snap.index:
		return core.E(core.Corrupt, "the log ends at entry %d, before raft's snapshot at %d: it has lost entries", last, snap.index)
	case first > durable+1 && durable < snap.index:
		return core.E(core.Corrupt, "the log starts at entry %d and the index ends at %d: entries between are missing", first, durable)
	}
	if last < durable {
		return core.E(core.Corrupt, "the log ends at entry %d but the index knows entry %d: the log has lost entries", last, durable)
	}
	return nil
}

// logHolds reports whether the log has the entry (index, term), and so, by raft's
// log matching, the same entries before it as the node that has it too.
func (n *Node) logHolds(index core.LogIndex, term core.Term) bool {
	e, err := n.log.Entry(index)
	return err == nil && e.Term == term
}
