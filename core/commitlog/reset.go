package commitlog

import (
	"errors"

	"polylog/core"
	"polylog/core/vfs"
)

// Reset empties the log; the next entry will be next. It is durable when it returns;
// a crash in the middle is completed by Open.
func (l *Log) Reset(next core.LogIndex) error {
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	if next == 0 {
		return core.E(core.Invalid, "reset to entry 0, indexes begin at 1")
	}
	return l.fail(l.change(intent{intentReset, next}, func() error { return l.reset(next) }))
}

func (l *Log) reset(next core.LogIndex) error {
	l.mu.Lock()
	old := l.segs
	// Holds nothing, so it needs no file.
	l.setSegsLocked([]*segment{{segmentHeader: segmentHeader{base: next}}})
	l.cache.reset()
	l.terms, l.spares, l.sealing, l.synced = nil, nil, nil, next-1
	l.lent.Store(0) // the files are removed, none is overwritten
	l.mu.Unlock()
	for _, s := range old {
		if err := s.close(); err != nil {
			return err
		}
	}
	s, err := l.resumeReset(next)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.setSegsLocked([]*segment{s})
	l.mu.Unlock()
	l.w.begin(s)
	l.fillActive(s)
	return nil
}

// resumeReset does what the durable intent says and clears it.
func (l *Log) resumeReset(next core.LogIndex) (*segment, error) {
	d, err := l.list()
	if err != nil {
		return nil, err
	}
	for _, name := range d.names {
		if err := ignoreMissing(l.fs.Remove(l.path(name))); err != nil {
			return nil, err
		}
	}
	if err := vfs.SyncDir(l.fs, l.dir); err != nil {
		return nil, err
	}
	s, err := l.createSegment(segmentHeader{base: next})
	if err != nil {
		return nil, err
	}
	if err := l.clearIntent(); err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	return s, nil
}
