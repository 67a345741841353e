package router

import (
	"polylog/core"
	"polylog/router/state"
)

// Browsed is a record that Browse found.
type Browsed struct {
	core.Record
	Deaths []Death // why a dead letter is here, the oldest first
}

// Browse calls fn for the records of a queue in [from, end), without consuming them, until
// it says that it wants no more, or scan bytes of batches were read. next is the offset to
// go on from; end or more when there is nothing left. Records that are gone are left out,
// control records too. Records may be kept.
//
// Other than Read it goes by records: in a named queue each of a batch may be elsewhere.
func (r *Router) Browse(p Principal, q core.QueueID, from, end core.Offset, scan int, fn func(Browsed) bool) (next core.Offset, err error) {
	if err := r.authorizeRead(p, q); err != nil {
		return from, err
	}
	head, err := r.Head(q)
	if err != nil {
		return from, err
	}
	rr := recordReader{}
	rr.init(r, q)
	end = min(end, head.Stable)
	for from = max(from, head.Start); from < end; {
		rr.runs, err = r.state.Store().Runs(q, from, runsPerLook, rr.runs[:0])
		if err != nil || len(rr.runs) == 0 {
			return end, err
		}
		for _, run := range rr.runs {
			if run.Offset >= end {
				return end, nil
			}
			if scan <= 0 {
				return from, nil
			}
			if ref := (core.Ref{Index: run.Index, Pos: run.Pos, Len: run.Len}); ref != rr.batch {
				scan -= int(run.Len)
				if err := rr.load(ref); err != nil {
					return from, r.gone(q, from, err)
				}
			}
			more, err := rr.browseRun(run, &from, end, fn)
			if err != nil || !more {
				return from, err
			}
			from = run.End()
		}
	}
	return from, nil
}

// browseRun calls fn for the records of a run whose batch is loaded, and moves from on.
func (rr *recordReader) browseRun(run core.Run, from *core.Offset, end core.Offset, fn func(Browsed) bool) (more bool, err error) {
	if rr.control {
		return true, nil
	}
	for _, rec := range rr.records {
		rec.Offset += run.Offset - core.Offset(run.First) - rr.base
		if rec.Offset < max(*from, run.Offset) {
			continue
		}
		if rec.Offset >= min(end, run.End()) {
			break
		}
		*from = rec.Offset
		one := Browsed{Record: rec}
		h, err := rr.history(rec.Offset)
		if err != nil {
			return false, err
		}
		one.Deaths = h.Deaths
		if !fn(one) {
			return false, nil
		}
		*from = rec.Offset + 1
	}
	return true, nil
}

// gone is what it means that what was in the index is no longer in the log: nothing, where
// the queue was trimmed meanwhile, and the reader tries again.
func (r *Router) gone(q core.QueueID, from core.Offset, err error) error {
	if core.KindOf(err) != core.NotFound {
		return err
	}
	if now, err2 := r.Head(q); err2 != nil || now.Start > from {
		return core.E(core.Unavailable, "offset %d of queue %d was removed just now", from, q)
	}
	return core.E(core.Corrupt, "queue %d: %v", q, err)
}

// Settled says which offsets of a queue a group has settled, as of now.
func (r *Router) Settled(p Principal, q core.QueueID, group string) (func(core.Offset) bool, error) {
	if err := r.authorizeRead(p, q); err != nil {
		return nil, err
	}
	acks, err := r.state.Acks(q, group)
	if err != nil {
		return nil, err
	}
	return acks.Settled.Contains, nil
}

// history is that of a dead letter; empty for other messages.
func (rr *recordReader) history(o core.Offset) (state.History, error) {
	def, err := rr.r.queueDef(rr.queue)
	if err != nil || def == nil || !def.Deaths {
		return state.History{}, err
	}
	return state.ReadHistory(rr.r.state.Store(), rr.queue, o)
}
