package state

import (
	"encoding/binary"

	"github.com/tidwall/btree"

	"polylog/core"
)

// What every group of a named queue has settled goes, so that the log can be trimmed. One
// command removes a bounded number of runs; a queue of which more are settled, by a purge
// or because the last group that held them went, is written down and left to Sweep.

// trimmedAtOnce bounds the runs that one command removes.
const trimmedAtOnce = 8192

// settledQueues are the queues that have settled runs to remove. The KV space has the same.
type settledQueues struct{ ids btree.Set[core.QueueID] }

// settledKey cannot be a queue's name: namespaces are not empty.
func settledKey(q core.QueueID) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixQueueName, 0}, uint64(q))
}

func (d *settledQueues) add(tx txn, q core.QueueID) {
	if !d.ids.Contains(q) {
		d.ids.Insert(q)
		tx.Set(settledKey(q), nil)
	}
}

func (d *settledQueues) remove(tx txn, q core.QueueID) {
	if d.ids.Contains(q) {
		d.ids.Delete(q)
		tx.Delete(settledKey(q))
	}
}

func (s *State) loadSettled() error {
	prefix := []byte{prefixQueueName, 0}
	var bad error
	err := s.store.Scan(prefix, after(prefix), func(k, _ []byte) bool {
		if len(k) != 10 {
			bad = core.E(core.Corrupt, "settled queue %x", k)
			return false
		}
		s.settled.ids.Insert(core.QueueID(binary.BigEndian.Uint64(k[2:])))
		return true
	})
	s.publishSweep()
	if err != nil {
		return err
	}
	return bad
}

// trimSettled removes from a named queue the runs that all its groups have settled, budget
// at most, of which it takes what it used.
func (s *State) trimSettled(tx txn, q core.QueueID, a *ackQueue, budget *int) error {
	if a.queue == nil {
		return nil // a topic's retention decides
	}
	head, ok, err := tx.Queue(q)
	if err != nil || !ok {
		return err
	}
	floor := a.floor
	if len(a.groups) == 0 {
		floor = head.Start // kept for groups to come
	}
	if before := min(floor, head.End); before > head.Start {
		if *budget > 0 {
			if before, err = trimTarget(tx, q, head.Start, before, *budget); err != nil {
				return err
			}
			if err := tx.Trim(q, before); err != nil {
				return err
			}
			if err := s.dropBeside(tx, a.queue, head.Start, before); err != nil {
				return err
			}
			*budget -= int(min(before-head.Start, trimmedAtOnce))
		} else {
			before = head.Start
		}
		if before < min(floor, head.End) {
			s.settled.add(tx, q)
			s.touch(q) // for the router's sweep to begin
			return nil
		}
	}
	s.settled.remove(tx, q)
	return nil
}

// trimTarget is as far as a trim from start on may go with so many runs.
func trimTarget(tx txn, q core.QueueID, start, before core.Offset, budget int) (core.Offset, error) {
	if before-start <= core.Offset(budget) {
		return before, nil // a run has one offset at least
	}
	runs, err := tx.Runs(q, start, budget, nil)
	if err != nil || len(runs) == 0 {
		return start, err
	}
	return min(before, runs[len(runs)-1].End()), nil
}

// sweepSettled goes on with the first queue that has settled runs. It returns the work
// that is left to do in this command.
func (s *State) sweepSettled(tx txn, work int) (int, error) {
	q, ok := s.settled.ids.Min()
	if !ok {
		return work, nil
	}
	a, err := s.ackGroups(tx, q)
	if err != nil {
		return 0, err
	}
	if a == nil {
		s.settled.remove(tx, q)
		return work - 1, nil
	}
	left := min(work, trimmedAtOnce)
	begun := left
	err = s.trimSettled(tx, q, a, &left)
	return work - max(begun-left, 1), err
}
