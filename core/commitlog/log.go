package commitlog

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"polylog/core"
	"polylog/core/vfs"
)

// Options of a log. Dir is required; zero values of the rest mean the defaults.
type Options struct {
	FS            vfs.FS        // the operating system's
	Dir           string        // made when missing
	SegmentBytes  int64         // 1 GiB; segments are cut before they exceed it
	Flush         FlushPolicy   // FlushSync
	FlushInterval time.Duration // 100 ms; for FlushInterval
	CacheBytes    int64         // 64 MiB of newest entries in memory; negative: none
	// Durable is an index up to which the caller knows that entries were durable:
	// when one of them is missing or damaged, Open fails.
	Durable core.LogIndex
	Logger  *slog.Logger // discards

	boot bootID // of this run of the operating system; tests set it
	fill int64  // tests: zeros ahead on any file system, in steps of that many bytes
}

// Bounds of Options.SegmentBytes.
const (
	minSegmentBytes = headerLen + 64
	maxSegmentBytes = 2 << 30
)

func (o *Options) ensureDefaults() {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 1 << 30
	}
	if o.FlushInterval <= 0 {
		o.FlushInterval = 100 * time.Millisecond
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

func (o *Options) validate() error {
	switch {
	case o.Dir == "":
		return core.E(core.Invalid, "no directory given for the log")
	case o.SegmentBytes < minSegmentBytes || o.SegmentBytes > maxSegmentBytes:
		return core.E(core.Invalid, "segments of %d bytes, want %d to %d", o.SegmentBytes, minSegmentBytes, maxSegmentBytes)
	case int(o.Flush) >= len(policyTexts):
		return core.E(core.Invalid, "flush policy %d", o.Flush)
	}
	return nil
}

// Log is an open log.
//
// Lock order: trimMu, appendMu, syncMu, fillMu, segment.use, filler.syncing, markMu, mu. A reader takes mu and
// then, before it lets go of mu, use of the segment it found: nobody waits for mu
// while holding use for writing.
type Log struct {
	o   Options
	fs  vfs.FS
	dir string

	trimMu   sync.Mutex // held while files are removed
	appendMu sync.Mutex // held by every change at the log's end; guards w and closed
	w        writer
	closed   bool

	syncMu sync.Mutex // held while the active segment is synced or replaced
	markMu sync.Mutex // held while a mark is written

	fillMu sync.Mutex // guards filler's fields
	filler filler

	mu     sync.RWMutex // guards what follows, and what segment says; never held during I/O
	segs   []*segment   // at least one; never changed in place
	active *segment     // the last of them; changed with appendMu held too, so that either lock suffices to read it
	terms  termList
	cache  tailCache
	spares []string      // paths of files to be used again
	synced core.LogIndex // every entry up to it is on the disk
	// meanGroup is the mean size of the groups appended lately, in bytes.
	meanGroup int64
	lendEnd   core.LogIndex // entries from it on are about to be truncated; 0: none are
	sealing   chan struct{} // closed when the segment before the active one is sealed; nil at first

	// lent is an index after which no entry was lent, see lend.go. It is raised with mu
	// held for reading: who holds it for writing sees it stand still.
	lent atomic.Uint64

	failed atomic.Pointer[error] // the first failed write or sync
	bg     sync.WaitGroup
	stop   chan struct{} // closed by Close
}

func (l *Log) path(name string) string { return l.fs.PathJoin(l.dir, name) }

func (l *Log) setSegsLocked(segs []*segment) { l.segs, l.active = segs, segs[len(segs)-1] }

// lastLocked is the index of the last entry, or of the one before the first.
func (l *Log) lastLocked() core.LogIndex { return l.active.next() - 1 }

// First is the index of the oldest entry, 0 when there is none.
func (l *Log) First() core.LogIndex {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if first := l.segs[0].base; first <= l.lastLocked() {
		return first
	}
	return 0
}

// Last is the index of the newest entry, 0 when there is none.
func (l *Log) Last() core.LogIndex {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if last := l.lastLocked(); l.segs[0].base <= last {
		return last
	}
	return 0
}

// Next is the index that the next appended entry must have.
func (l *Log) Next() core.LogIndex {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.lastLocked() + 1
}

// Synced is the index of the newest entry that is known to be on the disk.
func (l *Log) Synced() core.LogIndex {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.synced
}

// FirstAfterTerm is the first index whose term is greater than t, or the index
// after the last one when there is none.
func (l *Log) FirstAfterTerm(t core.Term) core.LogIndex {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.terms.after(t, l.lastLocked()+1)
}

// SegmentInfo describes one file of the log.
type SegmentInfo struct {
	Path   string
	Base   core.LogIndex // index of the first entry
	Next   core.LogIndex // index after the last entry
	Bytes  int64         // header and frames
	Sum    uint32        // checksum of header and frames; the same on every replica
	Sealed bool
}

// Segments describes the files of the log, oldest first.
func (l *Log) Segments() []SegmentInfo {
	l.mu.RLock()
	defer l.mu.RUnlock()
	infos := make([]SegmentInfo, len(l.segs))
	for i, s := range l.segs {
		infos[i] = SegmentInfo{Path: s.path, Base: s.base, Next: s.next(), Bytes: s.end, Sum: s.sum, Sealed: s.sealed}
	}
	return infos
}

// Err is the failure after which the log refuses to change, or nil.
func (l *Log) Err() error {
	if p := l.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// usable is nil when the log may be changed.
func (l *Log) usable() error {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	return l.usableLocked()
}

// fail poisons the log: nobody knows what the disk holds after a failed write or
// sync, and a second sync may report success for data that the first one lost.
func (l *Log) fail(err error) error {
	if err == nil {
		return nil
	}
	if failed := l.failed.Load(); failed != nil && errors.Is(err, *failed) {
		return err // it has been said
	}
	err = fmt.Errorf("commit log: %w", err)
	if l.failed.CompareAndSwap(nil, &err) {
		l.o.Logger.Error("commit log failed; it refuses every further change", "err", err)
	}
	return err
}

// syncFailed poisons the log after a failed sync of s. The system may have lost any of the blocks that it
// was to write, as when the machine goes down, so the mark is no longer of this run of it: recovery would
// take whole frames behind a lost one for damage. Where the mark cannot be written that is what happens.
// The filler's sync is waited for, since it may lose the mark too, and the process may end when this returns.
func (l *Log) syncFailed(s *segment, err error) error {
	err = l.fail(fmt.Errorf("sync %s: %w", s.path, err))
	l.filler.syncing.Lock()
	defer l.filler.syncing.Unlock()
	l.disownMark(s)
	return err
}

// disownMark writes the mark of s as that of no run of the system.
func (l *Log) disownMark(s *segment) {
	l.markMu.Lock()
	defer l.markMu.Unlock()
	l.mu.RLock()
	durable := min(s.syncedEnd, s.end) // a truncation may be under way
	l.mu.RUnlock()
	if e := s.putMark(mark{durable: uint32(durable)}); e != nil {
		l.o.Logger.Warn("cannot note in the commit log that a sync has failed", "err", e)
	}
}

// usableLocked is nil when the log may be changed. appendMu is held.
func (l *Log) usableLocked() error {
	if l.closed {
		return core.E(core.Closed, "the commit log is closed")
	}
	if err := l.Err(); err != nil {
		return fmt.Errorf("an earlier failure: %w", err)
	}
	return nil
}

// Close syncs the log and closes its files. It waits for the background work and may
// be called twice. No read may be under way or follow.
func (l *Log) Close() error {
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	close(l.stop)
	l.bg.Wait()
	var err error
	if l.Err() == nil {
		if err = l.Sync(); err == nil {
			err = l.fail(l.remark())
		}
	}
	for _, s := range l.segs {
		err = errors.Join(err, s.close())
	}
	return err
}
