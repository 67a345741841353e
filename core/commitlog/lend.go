package commitlog

import (
	"hash/crc32"
	"io"
	"sync"
	"sync/atomic"

	"polylog/core"
	"polylog/core/vfs"
)

// Lending: a part of an entry is sent to a socket from the segment file, without
// passing through our memory. The system may hold on to the file's pages even after
// the last byte was handed to it, until the other side has them: so what was lent must
// never be overwritten in place, not even after Release. Hence
//
//   - entries that were lent are never truncated: only those that can no longer be,
//     because they are committed, may be lent;
//   - the file of a segment that was lent from is removed when it is trimmed, not used
//     again. The same holds for files from before this process: sockets of an earlier
//     one may live on for a while.
//
// A file that is removed keeps its bytes as long as an Extent holds it open.

// sharedFile is a segment's file, open until the segment and all extents let go of it.
type sharedFile struct {
	vfs.File
	users atomic.Int32
}

func share(f vfs.File) *sharedFile {
	s := &sharedFile{File: f}
	s.users.Store(1)
	return s
}

// hold is f for one more user, who must Close it. The caller is a user.
func (f *sharedFile) hold() *sharedFile {
	f.users.Add(1)
	return f
}

// Close lets go of the file; the last one closes it.
func (f *sharedFile) Close() error {
	if f.users.Add(-1) > 0 {
		return nil
	}
	return f.File.Close()
}

// extent is a core.Extent of a segment file.
type extent struct {
	file *sharedFile
	off  int64
	n    int64
}

// SendTo implements core.Extent.
func (e *extent) SendTo(w io.Writer, from, n int64) (int64, error) {
	if from < 0 || n < 0 || from+n > e.n {
		return 0, core.E(core.OutOfRange, "%d bytes at %d of an extent of %d", n, from, e.n)
	}
	return vfs.Send(w, e.file, e.off+from, n)
}

// Release implements core.Extent.
func (e *extent) Release() { _ = e.file.Close() } // it was only read from

// Lend is the n bytes at pos of the data of entry i as an extent, whose first bytes it
// also reads into front, and the entry's term. The entry must be one that will never be
// truncated. The extent is nil when the entry is in memory or its file is not the
// operating system's: ReadAt is the way then.
//
// The entry's checksum is checked when it is lent for the first time since Open, unless
// it was written or scanned since then; the frame's header each time.
func (l *Log) Lend(i core.LogIndex, pos, n uint32, front []byte) (core.Extent, core.Term, error) {
	l.mu.RLock()
	_, err := l.findLocked(i)
	if err != nil || l.cache.get(i) != nil || l.lendEnd != 0 && i >= l.lendEnd {
		l.mu.RUnlock()
		return nil, 0, err
	}
	raise(&l.lent, uint64(i))
	p, err := l.locate(i, make([]byte, frameHeaderLen))
	if err != nil {
		return nil, 0, err
	}
	s := p.seg
	defer s.use.RUnlock()
	if end := uint64(pos) + uint64(n); end > uint64(p.h.dataLen) || int(n) < len(front) {
		return nil, 0, outside(i, pos, n, int(p.h.dataLen))
	}
	if !vfs.IsOS(s.file) {
		return nil, 0, nil
	}
	if err := s.checkOnce(p.off, &p.h); err != nil {
		return nil, 0, err
	}
	e := &extent{off: p.off + frameHeaderLen + int64(pos), n: int64(n)}
	if err := readFull(s, front, e.off); err != nil {
		return nil, 0, err
	}
	s.lent.Store(true)
	e.file = s.file.hold()
	return e, p.h.term, nil
}

// raise makes v at least n.
func raise(v *atomic.Uint64, n uint64) {
	for {
		old := v.Load()
		if old >= n || v.CompareAndSwap(old, n) {
			return
		}
	}
}

// stopLending has no entry lent from from on until a truncation is done, or returns an
// error when one was.
func (l *Log) stopLending(from core.LogIndex) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lent := core.LogIndex(l.lent.Load()); from <= lent {
		return core.E(core.Invalid, "truncate from entry %d, but entry %d was lent: nothing up to it may go", from, lent)
	}
	l.lendEnd = from
	return nil
}

// checkedSet notes which entries of a segment that was not scanned had their checksums checked.
type checkedSet struct {
	once sync.Once
	bits []atomic.Uint64
}

// checkOnce checks the checksum of the entry whose frame at off has header h, if that
// was not done before.
func (s *segment) checkOnce(off int64, h *frameHeader) error {
	n := int(h.index - s.base)
	if n >= s.unscanned {
		return nil
	}
	s.checked.once.Do(func() { s.checked.bits = make([]atomic.Uint64, (s.unscanned+63)/64) })
	word, bit := &s.checked.bits[n/64], uint64(1)<<(n%64)
	if word.Load()&bit != 0 {
		return nil
	}
	if err := s.checkBody(off, h); err != nil {
		return err
	}
	word.Or(bit)
	return nil
}

// checkBody checks an entry's checksum in pieces.
func (s *segment) checkBody(off int64, h *frameHeader) error {
	buf := checkBuffers.Get().(*[checkPiece]byte)
	defer checkBuffers.Put(buf)
	crc, at, left := seedOf(s.base), off+frameHeaderLen, int64(h.dataLen)+int64(h.extLen)
	for left > 0 {
		b := buf[:min(left, checkPiece)]
		if err := readFull(s, b, at); err != nil {
			return err
		}
		crc = crc32.Update(crc, castagnoli, b)
		at += int64(len(b))
		left -= int64(len(b))
	}
	if crc != h.bodyCRC {
		return core.E(core.Corrupt, "%s: offset %d: entry %d fails its checksum", s.path, off, h.index)
	}
	return nil
}

const checkPiece = 128 << 10

var checkBuffers = sync.Pool{New: func() any { return new([checkPiece]byte) }}
