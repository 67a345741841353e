package commitlog

import (
	"errors"
	"slices"

	"polylog/core"
	"polylog/core/vfs"
)

// TruncateTail drops the entries at from and after it, none of which may have been lent. It
// is durable when it returns; a crash in the middle is completed by Open.
//
// The last segment that keeps an entry becomes active again, even when it was
// sealed: where segments end must depend on the entries only.
func (l *Log) TruncateTail(from core.LogIndex) error {
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	first, next := l.segs[0].base, l.active.next()
	switch {
	case from == next:
		return nil
	case from < first || from > next:
		return core.E(core.Invalid, "truncate from entry %d, the log holds %d to %d", from, first, next-1)
	}
	if err := l.stopLending(from); err != nil {
		return err
	}
	return l.fail(l.change(intent{intentTruncate, from}, func() error { return l.truncateTail(from) }))
}

func (l *Log) truncateTail(from core.LogIndex) error {
	old, dropped := l.forget(from)
	for _, s := range dropped {
		if err := s.close(); err != nil {
			return err
		}
	}
	old.use.Lock()   // readers of what is about to go end first
	old.use.Unlock() //nolint:staticcheck // an empty section: a barrier
	s, err := l.resumeTruncate(from)
	if err != nil {
		return err
	}
	if s.next() != from {
		return errors.Join(core.E(core.Corrupt, "%s: only entries before %d are whole", s.path, s.next()), s.file.Close())
	}
	l.mu.Lock()
	l.setSegsLocked(append(slices.Clone(l.segs[:len(l.segs)-1]), s))
	l.synced = min(l.synced, s.next()-1)
	l.sealing, l.lendEnd = nil, 0
	l.mu.Unlock()
	l.w.begin(s)
	l.fillActive(s)
	return old.close()
}

// forget makes the entries at from and after it invisible. kept is the segment that
// from-1 is in, or the first one, which is then empty.
func (l *Log) forget(from core.LogIndex) (kept *segment, dropped []*segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.segs)
	for n > 1 && l.segs[n-1].base >= from {
		n--
	}
	kept, dropped = l.segs[n-1], append(dropped, l.segs[n:]...)
	l.setSegsLocked(slices.Clone(l.segs[:n]))
	kept.count = int(from - kept.base)
	l.cache.truncate(from)
	l.terms.truncate(from)
	return kept, dropped
}

// resumeTruncate does what the durable intent says, from any point at which it was
// interrupted, and clears it. It returns the segment that is the last one now. That
// ends before from only when entries there are damaged: recovery judges these.
func (l *Log) resumeTruncate(from core.LogIndex) (*segment, error) {
	d, err := l.list()
	if err != nil {
		return nil, err
	}
	keep := len(d.segments) - 1
	for keep > 0 && d.segments[keep] >= from {
		keep--
	}
	if keep < 0 || d.segments[keep] > from {
		return nil, core.E(core.Corrupt, "%s: intent to truncate from entry %d, which no segment holds", l.path(intentName), from)
	}
	// A last segment with a table means to Open that the next one is missing.
	for _, base := range d.tables {
		if base >= d.segments[keep] {
			if err := l.removeFile(base, tableExt); err != nil {
				return nil, err
			}
		}
	}
	if err := vfs.SyncDir(l.fs, l.dir); err != nil {
		return nil, err
	}
	for i := len(d.segments) - 1; i > keep; i-- {
		if err := l.removeFile(d.segments[i], segmentExt); err != nil {
			return nil, err
		}
	}
	if err := vfs.SyncDir(l.fs, l.dir); err != nil {
		return nil, err
	}
	s, _, err := l.openSegment(d.segments[keep])
	if err != nil {
		return nil, err
	}
	if err := l.cutAt(s, from); err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	return s, l.clearIntent()
}

// cutAt makes s end before entry from.
func (l *Log) cutAt(s *segment, from core.LogIndex) error {
	sc, err := newScanner(s.file, s.segmentHeader)
	if err != nil {
		return err
	}
	r, err := scanAll(sc, from)
	if err != nil {
		return err
	}
	s.take(sc, r)
	if sc.next < from {
		return nil // recovery judges what is missing
	}
	if err := s.file.SyncData(); err != nil {
		return l.syncFailed(s, err)
	}
	if err := l.writeMark(s, s.end); err != nil {
		return err
	}
	return l.cutTail(s, sc)
}

// cutTail removes everything behind the last frame of s and makes that durable.
func (l *Log) cutTail(s *segment, sc *scanner) error {
	clean, err := sc.zerosFrom(s.end)
	if err != nil {
		return err
	}
	if !clean {
		if err := cutFile(s.file, s.end, sc.size); err != nil {
			return err
		}
	}
	if err := s.file.Sync(); err != nil {
		return l.syncFailed(s, err)
	}
	s.syncedEnd = s.end
	return nil
}

// cutFile drops what a file holds from end to size, by zeros where it cannot be cut.
func cutFile(f vfs.File, end, size int64) error {
	err := vfs.Truncate(f, end)
	if !errors.Is(err, vfs.ErrUnsupported) {
		return err
	}
	for end < size {
		n := min(size-end, int64(len(zeroBlock)))
		if _, err := f.WriteAt(zeroBlock[:n], end); err != nil {
			return err
		}
		end += n
	}
	return nil
}
