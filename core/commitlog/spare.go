package commitlog

import "polylog/core/vfs"

// maxSpares is how many trimmed files are kept to be used again: overwriting a file
// is faster than growing one, twice over when its pages are still in memory. Frames
// of its earlier use never validate, because their checksums start from the base
// index, and a log's base indexes only grow; Reset, which may go back, and
// TruncateTail remove files instead. So does TrimHead with a file that was lent from.
const maxSpares = 1

// recycle takes a trimmed segment's file out of the log.
func (l *Log) recycle(s *segment) error {
	path, spare := s.path, l.path(sparePrefix+fileName(s.base, ""))
	l.mu.RLock()
	keep := len(l.spares) < maxSpares && !s.lent.Load() && s.end >= l.o.SegmentBytes/2 && s.end <= 2*l.o.SegmentBytes
	l.mu.RUnlock()
	if keep {
		if err := l.fs.Rename(path, spare); err != nil {
			return err
		}
	} else if err := l.fs.Remove(path); err != nil {
		return err
	}
	if err := l.removeFile(s.base, tableExt); err != nil {
		return err
	}
	if err := vfs.SyncDir(l.fs, l.dir); err != nil {
		return err
	}
	if keep { // only now: its old name must be gone before it is overwritten
		l.mu.Lock()
		l.spares = append(l.spares, spare)
		l.mu.Unlock()
	}
	return nil
}

// takeSpare opens a spare file for writing; the file is nil when there is none.
func (l *Log) takeSpare() (path string, f vfs.File, err error) {
	l.mu.Lock()
	if n := len(l.spares); n > 0 {
		path, l.spares = l.spares[n-1], l.spares[:n-1]
	}
	l.mu.Unlock()
	if path == "" {
		return "", nil, nil
	}
	f, err = l.fs.OpenReadWrite(path, vfs.Category)
	return path, f, err
}
