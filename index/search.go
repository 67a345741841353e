package index

import (
	"slices"
	"sort"

	"github.com/cockroachdb/pebble/v2"

	"polylog/core"
)

// Runs implements Reader.
func (r *reader) Runs(q core.QueueID, from core.Offset, limit int, dst []core.Run) ([]core.Run, error) {
	v, err := r.runsView(q)
	if err != nil {
		return dst, err
	}
	defer v.release()
	if limit <= 0 {
		return dst, nil
	}
	want := len(dst) + limit
	err = v.each(q, from, func(run core.Run) bool {
		dst = append(dst, run)
		return len(dst) < want
	})
	return dst, err
}

// each calls fn for the live runs of v from the one that contains from on.
func (v *queueView) each(q core.QueueID, from core.Offset, fn func(core.Run) bool) error {
	from = max(from, v.Start)
	if v.base != nil && from < v.baseEnd {
		more, err := v.base.runs(q, from, v.baseEnd, fn)
		if err != nil || !more {
			return err
		}
	}
	for _, runs := range [...][]core.Run{v.mid, v.top} {
		for _, run := range after(runs, from) {
			if !fn(run) {
				return nil
			}
		}
	}
	return nil
}

// after is the part of runs that ends after off.
func after(runs []core.Run, off core.Offset) []core.Run {
	i := sort.Search(len(runs), func(i int) bool { return runs[i].End() > off })
	return runs[i:]
}

// RunByTime implements Reader.
func (r *reader) RunByTime(q core.QueueID, ms int64) (run core.Run, ok bool, err error) {
	v, err := r.runsView(q)
	if err != nil {
		return run, false, err
	}
	defer v.release()
	if v.Runs == 0 || v.MaxTime < ms {
		return run, false, nil
	}
	match := func(run core.Run) bool { return run.MaxTime >= ms }
	if v.base != nil {
		// Peaks never fall, so the first chunk with such a peak is not after the
		// first live run with such a time. It may be before: the peak may be that of
		// runs that are trimmed. So from there on the segments are asked one by one.
		run, ok, err = v.searchBase(q,
			func(last segment) bool { return last.peak >= ms },
			func(s segment) bool { return s.own >= ms }, match)
		if ok || err != nil {
			return run, ok, err
		}
	}
	for _, runs := range [...][]core.Run{after(v.mid, v.Start), after(v.top, v.Start)} {
		if i := slices.IndexFunc(runs, match); i >= 0 {
			return runs[i], true, nil
		}
	}
	return run, false, nil
}

// RunByIndex implements Reader. Log indexes never fall along a queue.
func (r *reader) RunByIndex(q core.QueueID, i core.LogIndex) (run core.Run, ok bool, err error) {
	v, err := r.runsView(q)
	if err != nil {
		return run, false, err
	}
	defer v.release()
	if v.base != nil {
		reaches := func(s segment) bool { return s.lastIndex >= i }
		run, ok, err = v.searchBase(q, reaches, reaches, func(run core.Run) bool { return run.Index >= i })
		if ok || err != nil {
			return run, ok, err
		}
	}
	for _, runs := range [...][]core.Run{after(v.mid, v.Start), after(v.top, v.Start)} {
		if n := sort.Search(len(runs), func(n int) bool { return runs[n].Index >= i }); n < len(runs) {
			return runs[n], true, nil
		}
	}
	return run, false, nil
}

// searchBase is the first live run in the base that match accepts. chunk is false
// and then true along the chunks (given their last segment), and true from at the
// latest the chunk with the run on; segment says whether a segment can have it.
func (v *queueView) searchBase(q core.QueueID, chunk, inSegment func(segment) bool, match func(core.Run) bool) (found core.Run, ok bool, err error) {
	it, err := v.base.chunks(q)
	if err != nil {
		return found, false, err
	}
	defer closeIter(it, &err)
	lo, err := bisect(it, q, spanOf(v.first), spanOf(v.baseEnd-1), chunk)
	if err != nil {
		return found, false, err
	}
	err = eachSegment(it, it.SeekGE(chunkKey(q, lo)), func(s segment) (bool, error) {
		if s.end <= v.Start || !inSegment(s) {
			return s.end < v.baseEnd, nil
		}
		err := s.each(func(run core.Run) bool {
			if run.End() > v.Start && match(run) {
				found, ok = run, true
			}
			return !ok
		})
		return !ok && s.end < v.baseEnd, err
	})
	return found, ok, err
}

// bisect is the least span in [lo, hi] at or before the first chunk that pred
// accepts; hi when it accepts none.
func bisect(it *pebble.Iterator, q core.QueueID, lo, hi uint64, pred func(last segment) bool) (uint64, error) {
	for lo < hi {
		mid := lo + (hi-lo)/2
		if !it.SeekLT(chunkKey(q, mid+1)) {
			if err := it.Error(); err != nil {
				return 0, baseError("search a queue", err)
			}
			lo = mid + 1
			continue
		}
		span, err := spanOfKey(it.Key())
		if err != nil {
			return 0, err
		}
		if span < lo {
			lo = mid + 1 // nothing in [lo, mid]
			continue
		}
		last, err := lastSegment(it.Value())
		if err != nil {
			return 0, err
		}
		if pred(last) {
			hi = span
		} else {
			lo = mid + 1
		}
	}
	return lo, nil
}
