package cluster

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"polylog/core"
	"polylog/core/commitlog"
)

// logStore lets raft use the CommitLog as its log: an entry is written once.
//
// It is not a raft.MonotonicLogStore: raft would answer an installed snapshot by
// deleting the whole log. Our log keeps its entries past a snapshot (they are the
// messages), and Node.snapshotSaved resets it in the one case that needs it.
type logStore struct {
	log      *commitlog.Log
	fail     func(error) error
	failed   func() error
	watch    *stallWatch
	applied  func() core.LogIndex                    // the last entry handed to the state machine
	snapshot func() core.LogIndex                    // the latest snapshot
	stored   func(core.LogIndex, raft.Configuration) // a configuration entry was stored
	sums     *entrySums                              // of entries that this node proposed
	suspect  func(core.LogIndex, error)              // an entry could not be read
	writing  sync.Mutex                              // held during every change
	entries  []commitlog.Entry                       // reused; raft's main goroutine only
	bytes    atomic.Int64                            // stored since the node was opened
	count    atomic.Int64
}

var _ raft.LogStore = (*logStore)(nil)

// FirstIndex implements raft.LogStore.
func (s *logStore) FirstIndex() (uint64, error) { return uint64(s.log.First()), nil }

// LastIndex implements raft.LogStore.
func (s *logStore) LastIndex() (uint64, error) { return uint64(s.log.Last()), nil }

// unread marks an entry, by its extensions, whose bytes are still to be read.
var unread = []byte("unread")

func isUnread(l *raft.Log) bool { return len(l.Extensions) > 0 && &l.Extensions[0] == &unread[0] }

// GetLog implements raft.LogStore. The data may alias the log's cache; nobody
// writes to it.
//
// The bytes of commands that are not in memory are read by those who want them, the
// transport and the state machine: for a follower that is behind raft gets far more
// entries than one call may have, each time, and of the one before them, as of those that
// it compares, it wants the term alone.
func (s *logStore) GetLog(index uint64, out *raft.Log) error {
	e, whole, err := s.log.Peek(core.LogIndex(index))
	if err == nil && !whole && raft.LogType(e.Type) != raft.LogCommand {
		e, err = s.log.Entry(core.LogIndex(index))
		whole = true
	}
	if errors.Is(err, core.NotFound) {
		return raft.ErrLogNotFound
	}
	if err != nil {
		s.suspect(core.LogIndex(index), err)
		return err
	}
	*out = raft.Log{Index: uint64(e.Index), Term: uint64(e.Term), Type: raft.LogType(e.Type), Data: e.Data, Extensions: e.Ext}
	if !whole {
		out.Extensions = unread
	}
	return nil
}

// read reads the bytes of an entry that GetLog has left out. Meanwhile it may have been
// trimmed, or overruled by another leader: then there is an error.
func (s *logStore) read(l *raft.Log) error {
	if !isUnread(l) {
		return nil
	}
	e, err := s.log.Entry(core.LogIndex(l.Index))
	switch {
	case errors.Is(err, core.NotFound):
		return err
	case err != nil:
		s.suspect(core.LogIndex(l.Index), err)
		return err
	case uint64(e.Term) != l.Term:
		return core.E(core.NotFound, "entry %d is of term %d now, not of %d", l.Index, e.Term, l.Term)
	}
	l.Data, l.Extensions = e.Data, e.Ext
	return nil
}

// StoreLog implements raft.LogStore.
func (s *logStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. An error ends the process (guard 4).
// AppendedAt is not kept: it is the leader's clock, and segments are the same bytes
// on every replica.
func (s *logStore) StoreLogs(logs []*raft.Log) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.failed(); err != nil {
		return err
	}
	s.entries = s.entries[:0]
	var bytes int64
	for _, l := range logs {
		if isUnread(l) {
			return s.fail(core.E(core.Internal, "entry %d comes without its bytes", l.Index))
		}
		if l.Type == raft.LogConfiguration {
			conf, err := decodeConfiguration(l.Data)
			if err != nil {
				return s.fail(err)
			}
			s.stored(core.LogIndex(l.Index), conf)
		}
		bytes += int64(len(l.Data))
		sum, summed := s.sums.take(l.Data)
		s.entries = append(s.entries, commitlog.Entry{
			Index: core.LogIndex(l.Index), Term: core.Term(l.Term), Type: uint8(l.Type), Data: l.Data, Ext: l.Extensions,
			Summed: summed, Sum: sum,
		})
	}
	s.watch.enter()
	err := s.log.Append(s.entries)
	s.watch.leave()
	clear(s.entries) // holds on to no data
	if err != nil {
		return s.fail(fmt.Errorf("append to the log: %w", err))
	}
	s.bytes.Add(bytes)
	s.count.Add(int64(len(logs)))
	return s.failed() // a stall that ended after it was given up
}

// DeleteRange implements raft.LogStore. Raft calls it for two reasons, and anything
// else would lose committed entries:
//
//	first > applied, last = end   a tail that another leader has overruled: cut off
//	first = start, last <= snap   entries that raft needs no more: kept, they are
//	                              the messages; retention removes them (Node.Trim)
func (s *logStore) DeleteRange(first, last uint64) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.failed(); err != nil {
		return err
	}
	from, to := core.LogIndex(first), core.LogIndex(last)
	switch {
	case from > s.applied() && from >= s.log.First() && from <= to && to == s.log.Last():
		s.watch.enter()
		err := s.log.TruncateTail(from)
		s.watch.leave()
		if err != nil {
			return s.fail(fmt.Errorf("cut the log's tail from %d: %w", from, err))
		}
		return s.failed()
	case from == s.log.First() && to <= s.snapshot():
		return nil
	}
	panic(fmt.Sprintf("raft deletes entries %d to %d of a log from %d to %d, with %d applied and a snapshot at %d",
		from, to, s.log.First(), s.log.Last(), s.applied(), s.snapshot()))
}
