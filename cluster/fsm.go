package cluster

import (
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"polylog/core"
)

// StateMachine is what committed entries are for. Apply, Configure and Freeze are
// called from one goroutine, the apply goroutine; the other methods from any.
type StateMachine interface {
	// Apply does the commands of entries, which are committed, in order, all after
	// Applied, and gives the results of each entry's commands.
	Apply(entries []core.Entry) [][]core.Result
	// Configure remembers the cluster's configuration from index on; conf is opaque.
	Configure(index core.LogIndex, conf []byte)
	// Applied is the index of the last entry that the state contains.
	Applied() core.LogIndex
	// Durable is the same for the state on disk.
	Durable() core.LogIndex
	// FirstLive is the lowest log index whose entry somebody may still want to read,
	// or a lower one; 0 when no applied entry is wanted. What is not wanted once
	// stays so.
	FirstLive() core.LogIndex
	// OverlayBytes is the memory that a checkpoint would give back.
	OverlayBytes() int64
	// Freeze begins a checkpoint. At most one is unfinished.
	Freeze() (core.Checkpoint, error)
	// SaveTo copies what is durable to a directory that does not exist yet, for another
	// node, and returns the index of the last entry that the copy contains.
	SaveTo(dir string) (core.LogIndex, error)
}

// fsm hands raft's committed entries to the state machine.
type fsm struct {
	machine StateMachine
	replay  func(to core.LogIndex) error        // from the log to the machine
	due     func(bytes int, work time.Duration) // entries were applied: is a checkpoint due?
	freeze  func(c core.Checkpoint, dead core.LogIndex) raft.FSMSnapshot
	conf    func(core.LogIndex, raft.Configuration)
	read    func(*raft.Log) error // the bytes of an entry that were left out

	seen    atomic.Uint64 // index of the last entry handed over, or about to be
	time    atomic.Int64  // ms; the latest time of an entry handed over
	entries []core.Entry  // reused
}

var _ raft.BatchingFSM = (*fsm)(nil)

// Apply implements raft.FSM.
func (f *fsm) Apply(l *raft.Log) any { return f.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch implements raft.BatchingFSM. The response to an entry of commands is
// their []core.Result.
func (f *fsm) ApplyBatch(logs []*raft.Log) []any {
	f.note(core.LogIndex(logs[len(logs)-1].Index))
	responses := make([]any, 0, len(logs))
	for portion := range slices.Chunk(logs, applyEntries) {
		responses = append(responses, f.applyPortion(portion)...)
	}
	return responses
}

// applyEntries is how many entries are applied at a time, and have their bytes in memory.
const applyEntries = 64

func (f *fsm) applyPortion(batch []*raft.Log) []any {
	responses := make([]any, len(batch))
	began := time.Now()
	logs := slices.Clone(batch)
	bytes, from := 0, 0
	for i, l := range logs {
		if isUnread(l) {
			l = &raft.Log{Index: l.Index, Term: l.Term, Type: l.Type, Extensions: unread}
			if err := f.read(l); err != nil {
				panic(err) // as raft does where it cannot read what is committed
			}
			logs[i] = l
		}
		bytes += len(l.Data)
		if l.Type == raft.LogConfiguration {
			f.applyCommands(logs[from:i], responses[from:i])
			f.configure(l)
			from = i + 1
		}
	}
	f.applyCommands(logs[from:], responses[from:])
	f.due(bytes, time.Since(began))
	return responses
}

// note keeps the log from being truncated at or below index.
func (f *fsm) note(index core.LogIndex) {
	if uint64(index) > f.seen.Load() {
		f.seen.Store(uint64(index))
	}
}

// applyCommands applies logs, all commands, without those that the state machine
// has already: after a restart raft hands over everything after its snapshot.
func (f *fsm) applyCommands(logs []*raft.Log, responses []any) {
	applied := f.machine.Applied()
	f.entries = f.entries[:0]
	first := len(logs)
	for i, l := range logs {
		if core.LogIndex(l.Index) <= applied {
			continue
		}
		first = min(first, i)
		f.entries = append(f.entries, core.Entry{Index: core.LogIndex(l.Index), Term: core.Term(l.Term), Data: l.Data})
	}
	if len(f.entries) == 0 {
		return
	}
	results := f.machine.Apply(f.entries)
	if len(results) != len(f.entries) {
		panic(fmt.Sprintf("state machine gave results for %d of %d entries", len(results), len(f.entries)))
	}
	for i, r := range results {
		responses[first+i] = r
	}
	f.time.Store(max(f.time.Load(), f.entries[len(f.entries)-1].Time()))
	clear(f.entries)
}

func (f *fsm) configure(l *raft.Log) {
	index := core.LogIndex(l.Index)
	if conf, err := decodeConfiguration(l.Data); err == nil { // StoreLogs has checked it
		f.conf(index, conf)
	}
	if index > f.machine.Applied() {
		f.machine.Configure(index, l.Data)
	}
}

// Snapshot implements raft.FSM.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	c, err := f.machine.Freeze()
	if err != nil {
		return nil, err
	}
	dead := c.Applied() // this is the apply goroutine: FirstLive is that of the frozen state
	if live := f.machine.FirstLive(); live > 0 {
		dead = min(dead, live-1)
	}
	return f.freeze(c, dead), nil
}

// Restore implements raft.FSM, after a leader's snapshot was taken over: the entries
// that it covers are in our log.
func (f *fsm) Restore(r io.ReadCloser) error {
	b, err := io.ReadAll(io.LimitReader(r, maxSnapshotRecord))
	if err != nil {
		return fmt.Errorf("read snapshot record: %w", err)
	}
	s, err := decodeSnapshot(b)
	if err != nil {
		return err
	}
	f.note(s.index)
	began := time.Now()
	if err := f.replay(s.index); err != nil {
		return err
	}
	f.due(0, time.Since(began))
	return nil
}
