package index

import (
	"math"

	"polylog/core"
)

// CreateQueue makes an empty queue that starts at offset 0.
func (tx *Tx) CreateQueue(q core.QueueID) error {
	st, err := tx.stage(q)
	if err != nil {
		return err
	}
	if st.kind == live {
		return core.E(core.Exists, "queue %d exists", q)
	}
	h := newHeadRecord()
	*st = queueState{
		headRecord: h, kind: live,
		lower: st.lower, wipe: st.lower,
		lowerFirst: st.lowerFirst, lowerPeak: h.peak,
	}
	return nil
}

// DropQueue removes the queue and its runs. It reads those that are in the base, to
// account for the log entries that they referred to.
func (tx *Tx) DropQueue(q core.QueueID) error {
	st, err := tx.stageLive(q)
	if err != nil {
		return err
	}
	err = tx.eachRun(q, st.Start, func(r core.Run) bool {
		tx.live.add(r.Index, -1)
		return true
	})
	if err != nil {
		return err
	}
	kind := dropped
	if !st.lower {
		kind = absent // nothing below to hide
	}
	*st = queueState{kind: kind, lower: st.lower, wipe: st.lower, lowerFirst: st.lowerFirst}
	return nil
}

// Append adds r at the end of q and returns it with the offset that it got. r.Count
// must be at least 1 and r.Index not less than that of the run before, unless nobody asks
// the queue for runs by log index.
func (tx *Tx) Append(q core.QueueID, r core.Run) (core.Run, error) {
	st, err := tx.stageLive(q)
	if err != nil {
		return r, err
	}
	if r.Count == 0 || int64(r.Count) > math.MaxInt64-int64(st.End) {
		return r, core.E(core.Invalid, "append %d offsets to queue %d, which ends at %d", r.Count, q, st.End)
	}
	r.Offset = st.End
	st.runs = append(st.runs, r)
	st.add(r)
	tx.live.add(r.Index, 1)
	return r, nil
}

// Trim removes the offsets below before. A run that before falls into stays whole,
// and counts, but offsets below before are no longer live. It does nothing when
// before is not above Start; the error is of kind OutOfRange when it is above End.
func (tx *Tx) Trim(q core.QueueID, before core.Offset) error {
	st, err := tx.stageLive(q)
	if err != nil {
		return err
	}
	if before > st.End {
		return core.E(core.OutOfRange, "trim queue %d before %d: it ends at %d", q, before, st.End)
	}
	if before <= st.Start {
		return nil
	}
	h, err := tx.cut(q, st, func(r core.Run) bool { return r.End() <= before })
	if err != nil {
		return err
	}
	h.Start = before
	if h.MaxTimeOffset < h.first {
		if err := tx.findMaxTime(q, &h); err != nil {
			return err
		}
	}
	st.setHead(h)
	return nil
}

// DropRuns removes the limit oldest runs, to drop a long queue in steps: no records
// of it are to be read any more. It does not look for the largest time of what is
// left, which can take as long as the rest is; MaxTime is then that of any live run.
func (tx *Tx) DropRuns(q core.QueueID, limit int64) error {
	st, err := tx.stageLive(q)
	if err != nil {
		return err
	}
	var next core.Run // the first that stays
	h, err := tx.cut(q, st, func(r core.Run) bool {
		next = r
		limit--
		return limit >= 0
	})
	if err != nil {
		return err
	}
	h.Start = max(h.Start, h.first)
	switch {
	case h.Runs == 0:
		h.MaxTime, h.MaxTimeOffset = -1, -1
	case h.MaxTimeOffset < h.first:
		h.MaxTime, h.MaxTimeOffset = next.MaxTime, next.Offset
	}
	st.setHead(h)
	return nil
}

// cut takes the oldest runs out of the accounts, as long as gone says so. The head
// that it gives lacks a new Start and MaxTime.
func (tx *Tx) cut(q core.QueueID, st *queueState, gone func(core.Run) bool) (headRecord, error) {
	h := st.headRecord
	err := tx.eachRun(q, st.Start, func(r core.Run) bool {
		if !gone(r) {
			h.first = r.Offset
			return false
		}
		h.first = r.End()
		h.Bytes -= int64(r.Len)
		h.Runs--
		tx.live.add(r.Index, -1)
		return true
	})
	return h, err
}

// setHead makes h the head and lets go of the runs before its start.
func (s *queueState) setHead(h headRecord) {
	s.headRecord = h
	s.runs = after(s.runs, h.Start)
	if len(s.runs) == 0 {
		s.runs = nil // let go of the array
	}
}

// findMaxTime sets MaxTime and MaxTimeOffset of h by looking at the live runs. The
// old MaxTime is an upper bound, so a run that has it ends the search: without that,
// trimming a long queue of equal times run by run would be quadratic.
func (tx *Tx) findMaxTime(q core.QueueID, h *headRecord) error {
	bound := h.MaxTime
	h.MaxTime, h.MaxTimeOffset = -1, -1
	return tx.eachRun(q, h.Start, func(r core.Run) bool {
		if h.MaxTimeOffset < 0 || r.MaxTime > h.MaxTime {
			h.MaxTime, h.MaxTimeOffset = r.MaxTime, r.Offset
		}
		return h.MaxTime < bound
	})
}

// eachRun calls fn for the live runs of q from the one that contains from on.
func (tx *Tx) eachRun(q core.QueueID, from core.Offset, fn func(core.Run) bool) error {
	v, err := tx.runsView(q)
	if err != nil {
		return tx.fail(err)
	}
	defer v.release()
	return tx.fail(v.each(q, from, fn))
}
