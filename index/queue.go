package index

import (
	"math"
	"sort"

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
// must be at least 1 and r.Index not less than that of the run before.
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
	h := st.headRecord
	err = tx.eachRun(q, st.Start, func(r core.Run) bool {
		if r.End() > before {
			h.first = r.Offset
			return false
		}
		h.first = r.End()
		h.Bytes -= int64(r.Len)
		h.Runs--
		tx.live.add(r.Index, -1)
		return true
	})
	if err != nil {
		return err
	}
	h.Start = before
	if h.MaxTimeOffset < h.first {
		if err := tx.findMaxTime(q, &h); err != nil {
			return err
		}
	}
	st.headRecord = h
	st.runs = st.runs[sort.Search(len(st.runs), func(i int) bool { return st.runs[i].End() > before }):]
	if len(st.runs) == 0 {
		st.runs = nil // let go of the array
	}
	return nil
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
