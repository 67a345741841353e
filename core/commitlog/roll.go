package commitlog

import (
	"errors"
	"fmt"
	"slices"

	"polylog/core"
	"polylog/core/vfs"
)

// roll begins the next segment. The one before is sealed in the background; at most
// one is unsealed at a time, which bounds what recovery has to scan. appendMu is held.
func (l *Log) roll() error {
	old := l.active
	if err := l.waitSealed(); err != nil {
		return err
	}
	l.mu.RLock()
	h := segmentHeader{base: old.next(), prevTerm: l.terms.of(old.next() - 1)}
	l.mu.RUnlock()
	s, err := l.createSegment(h)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	l.syncMu.Lock()
	l.mu.Lock()
	l.setSegsLocked(append(slices.Clone(l.segs), s))
	l.sealing = done
	l.mu.Unlock()
	l.syncMu.Unlock()
	l.w.begin(s)
	l.fillActive(s)
	l.bg.Go(func() {
		defer close(done)
		if err := l.seal(old); err != nil {
			_ = l.fail(fmt.Errorf("seal %s: %w", old.path, err)) // the next Append says so
		}
	})
	return nil
}

// waitSealed waits until no segment but the active one is unsealed.
func (l *Log) waitSealed() error {
	l.mu.RLock()
	sealing := l.sealing
	l.mu.RUnlock()
	if sealing != nil {
		<-sealing
	}
	return l.Err()
}

// createSegment makes an empty segment whose name is durable. Its header is synced
// before it gets its name, so that no named segment is ever without one.
func (l *Log) createSegment(h segmentHeader) (*segment, error) {
	s := &segment{
		segmentHeader: h, path: l.path(fileName(h.base, segmentExt)),
		end: headerLen, sum: h.initialSum(), syncedEnd: headerLen,
	}
	tmp, f, err := l.takeSpare()
	if f == nil && err == nil {
		tmp = s.path + tmpExt
		f, err = l.fs.Create(tmp, vfs.Category)
	}
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	_, err = f.WriteAt(h.page(&mark{durable: headerLen, boot: l.o.boot}), 0)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = l.fs.Rename(tmp, s.path)
	}
	if err == nil {
		err = vfs.SyncDir(l.fs, l.dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create segment %s: %w", s.path, err), f.Close())
	}
	s.file = share(f)
	return s, nil
}

// seal makes s durable and writes its position table. It takes the mark out and
// cuts what the file holds behind the last frame, so that the file becomes equal on
// every replica. Repeating it after a crash is harmless.
func (l *Log) seal(s *segment) error {
	if err := s.file.SyncData(); err != nil {
		return l.syncFailed(s, err)
	}
	if _, err := s.file.WriteAt(make([]byte, markLen), markAt); err != nil {
		return err
	}
	if err := vfs.Truncate(s.file, s.end); err != nil && !errors.Is(err, vfs.ErrUnsupported) {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return l.syncFailed(s, err)
	}
	l.mu.RLock()
	t := &table{segmentHeader: s.segmentHeader, end: uint32(s.end), sum: s.sum, pos: s.pos, terms: l.terms.between(s.base, s.next())}
	l.mu.RUnlock()
	path := l.path(fileName(s.base, tableExt))
	if err := vfs.WriteFile(l.fs, path, t.encode()); err != nil {
		return err
	}
	f, err := l.openTable(path, t)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.sealed = true
	s.syncedEnd = s.end
	l.synced = max(l.synced, s.next()-1)
	if f != nil {
		s.pos, s.table, s.tabled = nil, f, t.positionsAt()
	}
	return nil
}

// openTable opens a table file when the table is too large to be held in memory.
func (l *Log) openTable(path string, t *table) (vfs.File, error) {
	if len(t.pos) <= maxHeldPositions {
		return nil, nil
	}
	return l.fs.Open(path)
}

// removeFile removes a file that may be gone already.
func (l *Log) removeFile(base core.LogIndex, ext string) error {
	return ignoreMissing(l.fs.Remove(l.path(fileName(base, ext))))
}
