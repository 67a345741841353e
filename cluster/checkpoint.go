package cluster

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"polylog/core"
)

// A checkpoint of the state machine is a raft snapshot: raft asks the apply
// goroutine for one (freeze), we write the state, then the record that says how far
// it reaches (snapshot.go). It is due by the memory of the machine's overlay, or by
// the log's bytes since the last, which bound what a restart has to read again. Where
// entries come slowly, so that checkpoints cost little, fewer bytes are enough. And it is
// due by the time that applying took: few bytes may be much work, which a restart does again.

// unhurried is which part of Options.CheckpointLogBytes suffices after CheckpointPause.
const unhurried = 16

// applied is told by the apply goroutine how many bytes of entries it has applied, and how long
// that took.
func (n *Node) applied(bytes int, work time.Duration) {
	n.awaited.release(n.machine)
	signal(n.transport.nudger.due)
	since := n.sinceCheckpoint.Add(int64(bytes))
	n.workSince += work
	if since >= n.o.CheckpointLogBytes || n.machine.OverlayBytes() >= n.o.CheckpointBytes || n.workSince >= n.o.CheckpointWork ||
		since >= n.o.CheckpointLogBytes/unhurried && time.Since(n.frozen) >= n.o.CheckpointPause {
		signal(n.checkpointDue)
	}
}

func (n *Node) checkpointLoop() {
	for {
		select {
		case <-n.stop:
			return
		case <-n.checkpointDue:
			n.checkpoint()
			n.trimDead()
		}
	}
}

// checkpoint makes the state durable and lets raft know. Raft refuses while a change
// of members is under way; the next entries make it due again.
func (n *Node) checkpoint() {
	n.checkpointing.Lock()
	defer n.checkpointing.Unlock()
	err := n.raft.Snapshot().Error()
	if err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		n.o.Logger.Info("checkpoint put off", "err", err)
	}
}

// freeze takes the frozen state over. Called from the apply goroutine.
func (n *Node) freeze(c core.Checkpoint, dead core.LogIndex) raft.FSMSnapshot {
	n.sinceCheckpoint.Store(0)
	n.frozen, n.workSince = time.Now(), 0
	return &fsmSnapshot{n: n, checkpoint: c, dead: dead}
}

// fsmSnapshot is a frozen state on its way to the disk.
type fsmSnapshot struct {
	n          *Node
	checkpoint core.Checkpoint
	dead       core.LogIndex // no entry up to it is wanted by the frozen state
	written    atomic.Bool
}

// write makes the state durable, after the log up to it: with a lazy flush policy
// the state could otherwise outlive the entries that it came from.
func (f *fsmSnapshot) write() error {
	if f.written.Swap(true) {
		return nil
	}
	if err := f.n.log.Sync(); err != nil {
		return f.n.failure.fail(fmt.Errorf("sync the log before a checkpoint: %w", err))
	}
	if err := f.checkpoint.Write(); err != nil {
		return f.n.failure.fail(fmt.Errorf("write checkpoint: %w", err))
	}
	f.n.checkpoints.Add(1)
	return nil
}

// Persist implements raft.FSMSnapshot.
func (f *fsmSnapshot) Persist(s raft.SnapshotSink) error {
	if err := f.write(); err != nil {
		return err
	}
	k, ok := s.(*sink)
	if !ok {
		return core.E(core.Internal, "snapshot sink is a %T", s)
	}
	k.local, k.snap.durable = true, min(f.checkpoint.Applied(), k.snap.index)
	k.snap.dead = min(f.dead, k.snap.durable)
	if before := f.n.snapshots.latest.Load(); before != nil {
		k.snap.dead = max(k.snap.dead, before.dead) // FirstLive may be rounded down
	}
	return k.Close()
}

// Release implements raft.FSMSnapshot. A frozen state cannot be thawed: where raft
// has changed its mind it is written all the same, without a record.
func (f *fsmSnapshot) Release() {
	if err := f.write(); err != nil {
		f.n.o.Logger.Warn("checkpoint not written", "err", err)
	}
}

// snapshotSaved is told that a snapshot is the latest. After a leader's the log may
// have to begin anew behind it.
func (n *Node) snapshotSaved(s snapshot) error {
	if !s.installed || n.logHolds(s.index, s.term) {
		return nil
	}
	last := n.log.Last()
	if err := n.log.Reset(s.index + 1); err != nil {
		return n.failure.fail(fmt.Errorf("reset the log after a leader's snapshot at %d: %w", s.index, err))
	}
	if last > s.index {
		// Guard 7: raft has the old last index in memory, and with it would refuse
		// the leader's entries and misstate its log in elections.
		return n.failure.restart(core.E(core.Conflict, "restart: a leader's snapshot at %d has replaced a log up to %d", s.index, last))
	}
	return nil
}
