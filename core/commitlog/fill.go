package commitlog

import (
	"fmt"
	"sync"
	"sync/atomic"

	"polylog/core/vfs"
)

// A sync into a file that grows has to write the file system's journal too, so under
// FlushSync zeros are written ahead of the entries, in the background and in steps:
// an empty log stays small and opens at once. Figures are in
// docs/format-commitlog.md. Other policies wait for no sync and need none of it.
//
// Where groups are large the journal is a small part of what a sync writes, and zeros
// would double the rest: none are written then.
const (
	fillStep  = 1 << 20
	fillLeast = 4 << 20
	fillMost  = 32 << 20
	fillSpare = 64 << 20 // the last of the disk is left to entries and checkpoints
	fillGroup = startBytes
)

var zeroBlock = make([]byte, fillStep)

// filler writes zeros ahead of the entries of the active segment.
type filler struct {
	// Guarded by Log.fillMu.
	seg    *segment // nil: nothing to do
	filled int64    // zeros or entries reach up to here; nobody else writes behind it

	syncing sync.Mutex // held during its sync

	wakeAt atomic.Int64 // when the entries reach this offset, more is wanted
	wake   chan struct{}
}

// fillActive makes the filler work for s, which has just become active.
func (l *Log) fillActive(s *segment) {
	l.fillMu.Lock()
	defer l.fillMu.Unlock()
	l.filler.seg = nil
	if l.o.Flush != FlushSync || l.o.fill == 0 && !vfs.IsOS(s.file) {
		return
	}
	size, err := fileSize(s.file)
	if err != nil {
		return // growing is slower, and right
	}
	l.filler.seg, l.filler.filled = s, max(size, s.end)
	l.filler.wakeAt.Store(0)
	l.wakeFillerLocked(s.end)
}

// stopFilling makes the filler let go of its segment.
func (l *Log) stopFilling() {
	l.fillMu.Lock()
	defer l.fillMu.Unlock()
	l.filler.seg = nil
}

// wakeFillerLocked tells the filler that the entries reach up to end.
func (l *Log) wakeFillerLocked(end int64) {
	if end >= l.filler.wakeAt.Load() {
		select {
		case l.filler.wake <- struct{}{}:
		default:
		}
	}
}

// overtakeFiller keeps the filler away from what is about to be written, up to end.
func (l *Log) overtakeFiller(end int64) {
	l.fillMu.Lock()
	defer l.fillMu.Unlock()
	l.filler.filled = max(l.filler.filled, end)
}

func (l *Log) fillLoop() {
	defer l.bg.Done()
	for {
		select {
		case <-l.stop:
			return
		case <-l.filler.wake:
		}
		for l.fillOnce() {
			select {
			case <-l.stop:
				return
			default:
			}
		}
	}
}

// fillOnce writes one step of zeros and reports whether more are wanted.
func (l *Log) fillOnce() bool {
	l.fillMu.Lock()
	s := l.filler.seg
	if s == nil {
		l.fillMu.Unlock()
		return false
	}
	s.use.RLock() // or it might be closed while we sync
	defer s.use.RUnlock()
	l.mu.RLock()
	end, large := s.end, l.meanGroup >= fillGroup
	l.mu.RUnlock()
	if large {
		l.fillMu.Unlock()
		return false
	}
	ahead, step := min(max(end/2, fillLeast), fillMost), int64(fillStep)
	if l.o.fill > 0 {
		ahead, step = 4*l.o.fill, l.o.fill
	}
	n := min(step, end+ahead-l.filler.filled, l.o.SegmentBytes-l.filler.filled)
	if n <= 0 {
		l.filler.wakeAt.Store(l.filler.filled - ahead/2)
		l.fillMu.Unlock()
		return false
	}
	if u, err := l.fs.GetDiskUsage(l.dir); err == nil && u.AvailBytes < fillSpare {
		l.filler.seg = nil
		l.fillMu.Unlock()
		return false
	}
	_, err := s.file.WriteAt(zeroBlock[:n], l.filler.filled)
	if err != nil {
		l.filler.seg = nil
		l.fillMu.Unlock()
		l.o.Logger.Warn("cannot reserve space for the commit log", "err", err)
		return false
	}
	l.filler.filled += n
	l.fillMu.Unlock()
	return l.syncZeros(s)
}

// syncZeros makes a step of zeros durable and reports whether it did.
func (l *Log) syncZeros(s *segment) bool {
	l.filler.syncing.Lock()
	defer l.filler.syncing.Unlock()
	if l.Err() != nil {
		return false // a sync would lose what syncFailed has written
	}
	if err := s.file.SyncData(); err != nil {
		// The system reports a lost write once: this may have been an entry's. The next Append says so.
		_ = l.fail(fmt.Errorf("sync %s: reserve space: %w", s.path, err))
		l.disownMark(s)
		return false
	}
	return true
}
