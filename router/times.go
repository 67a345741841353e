package router

import (
	"context"

	"polylog/core"
)

// OffsetByTime finds the first record of a queue, in order of offsets, with a
// timestamp of at least ms: its offset and its timestamp. ok is false when there is
// none. A batch may have to be inflated for it, as a stream.
func (r *Router) OffsetByTime(ctx context.Context, q core.QueueID, ms int64) (off core.Offset, ts int64, ok bool, err error) {
	head, err := r.Head(q)
	if err != nil || head.Start == head.End {
		return -1, -1, false, err
	}
	run, ok, err := r.state.Store().RunByTime(q, ms)
	var dst Batches
	defer dst.Release()
	for ok && err == nil && run.Offset < head.End {
		if ctx.Err() != nil { // batches whose headers promise what no record keeps are many
			return -1, -1, false, core.E(core.Uncertain, "look for time %d: %v", ms, ctx.Err())
		}
		dst.Release()
		off, ts, ok, err = r.firstInRun(run, &dst, func(rec core.RecordTime) bool {
			return rec.Time >= ms && rec.Offset >= head.Start
		})
		if err != nil || ok {
			return off, ts, ok, err
		}
		// The run's largest time belonged to a trimmed record, or its batch has
		// no times of its own: the next one that could do.
		run, ok, err = r.runAfter(q, run.End(), ms)
	}
	return -1, -1, false, err
}

// runAfter is the first run from an offset on with a time of at least ms.
func (r *Router) runAfter(q core.QueueID, from core.Offset, ms int64) (core.Run, bool, error) {
	var buf [runsPerLook]core.Run
	for {
		runs, err := r.state.Store().Runs(q, from, len(buf), buf[:0])
		if err != nil || len(runs) == 0 {
			return core.Run{}, false, err
		}
		for _, run := range runs {
			if run.Offset >= from && run.MaxTime >= ms {
				return run, true, nil
			}
		}
		end := runs[len(runs)-1].End()
		if end <= from {
			return core.Run{}, false, nil
		}
		from = end
	}
}

// firstInRun is the first record of a run that matches; rec.Offset is the queue's.
func (r *Router) firstInRun(run core.Run, dst *Batches, match func(rec core.RecordTime) bool) (core.Offset, int64, bool, error) {
	if err := r.readStretch([]core.Run{run}, dst); err != nil {
		return -1, -1, false, err
	}
	b := dst.Items[len(dst.Items)-1]
	h, _ := core.ParseBatchHeader(b.Data)
	for rec, err := range core.RecordTimes(b.Data, core.MaxInflated) {
		if err != nil {
			return -1, -1, false, err
		}
		// The batch still has the base offset that its producer wrote.
		rec.Offset = b.Offset + rec.Offset - h.BaseOffset
		if rec.Offset >= run.Offset && rec.Offset < run.End() && match(rec) {
			return rec.Offset, rec.Time, true, nil
		}
	}
	return -1, -1, false, nil
}

// OffsetOfMaxTime finds the first record with the largest timestamp of a queue. ok
// is false when the queue is empty.
func (r *Router) OffsetOfMaxTime(ctx context.Context, q core.QueueID) (off core.Offset, ts int64, ok bool, err error) {
	head, err := r.Head(q)
	if err != nil || head.Start == head.End {
		return -1, -1, false, err
	}
	return r.OffsetByTime(ctx, q, head.MaxTime)
}

// EpochEnd answers where the records of an epoch end: the largest epoch up to the
// asked one that the queue knows of, and the offset after its last record. For the
// current term that is the queue's end. The error is of kind OutOfRange for an
// epoch that is yet to come.
//
// A queue knows of the epochs of its live records. Where those begin after the asked
// one, the answer is that epoch itself and the start of the first record.
func (r *Router) EpochEnd(q core.QueueID, epoch core.Term) (core.Term, core.Offset, error) {
	head, err := r.Head(q)
	if err != nil {
		return 0, -1, err
	}
	switch now := r.log.Term(); {
	case epoch == now:
		return epoch, head.End, nil
	case epoch > now:
		return 0, -1, core.E(core.OutOfRange, "epoch %d is ahead of the current one, %d", epoch, now)
	}
	if head.Start == head.End {
		return epoch, head.Start, nil
	}
	end := head.End
	next, ok, err := r.state.Store().RunByIndex(q, r.log.FirstAfterTerm(epoch))
	if err != nil {
		return 0, -1, err
	}
	if ok {
		end = min(end, next.Offset)
	}
	if end <= head.Start {
		return epoch, head.Start, nil
	}
	runs, err := r.state.Store().Runs(q, end-1, 1, nil)
	if err != nil {
		return 0, -1, err
	}
	if len(runs) == 0 {
		return epoch, end, nil
	}
	_, term, err := r.log.ReadAt(runs[0].Index, 0, 1, nil)
	if err != nil {
		return 0, -1, err
	}
	return term, end, nil
}
