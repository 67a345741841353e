package cluster

import (
	"strconv"

	"github.com/hashicorp/raft"
)

// Raft's main goroutine reads every entry that a call says is committed and hands it to
// the apply goroutine, and waits where that has enough to do. After a restart this is
// everything since the last checkpoint: for seconds the node would answer nothing, no
// heartbeat and no vote, and the leader that it helped to elect would step down. So a call
// says of many entries only that a part is committed, which is true as well. The leader's
// next call, after twice its CommitTimeout at most, says more.

const (
	// commitStep is how many entries raft may take for committed by one call.
	commitStep = 2048
	// maxPending is how many batches, of up to maxAppendEntries, may wait for the apply
	// goroutine before raft is told of more. Raft has room for 128.
	maxPending = 64
)

// stepwise lowers what a call says is committed, where that is much.
func (n *Node) stepwise(command any) {
	if c, ok := command.(*raft.AppendEntriesRequest); ok {
		c.LeaderCommitIndex = step(n.raft.CommitIndex(), c.LeaderCommitIndex, func() int { return pending(n.raft) })
	}
}

// step is the commit index that a node may be told which knows of commit, when the
// leader says told and pending batches wait.
func step(commit, told uint64, pending func() int) uint64 {
	switch {
	case told <= commit+maxAppendEntries: // the usual case: a batch or two
		return told
	case pending() > maxPending:
		return commit
	}
	return min(told, commit+commitStep)
}

// pending is how many batches wait for the apply goroutine.
func pending(r *raft.Raft) int {
	n, _ := strconv.Atoi(r.Stats()["fsm_pending"])
	return n
}
