package commitlog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sort"

	"polylog/core"
)

// findLocked is the segment that holds entry i. mu is held.
func (l *Log) findLocked(i core.LogIndex) (*segment, error) {
	if i < l.segs[0].base || i > l.lastLocked() {
		return nil, core.E(core.NotFound, "entry %d is not in the log, which holds %d to %d", i, l.segs[0].base, l.lastLocked())
	}
	n := sort.Search(len(l.segs), func(k int) bool { return l.segs[k].base > i })
	return l.segs[n-1], nil
}

// place is where an uncached entry is. Its segment's use is held for reading.
type place struct {
	seg *segment
	off int64 // of the frame
	h   frameHeader
}

// locate finds entry i on the disk and reads its frame's header, with scratch, which
// holds at least frameHeaderLen bytes. mu is held for reading and released.
func (l *Log) locate(i core.LogIndex, scratch []byte) (p place, err error) {
	s, err := l.findLocked(i)
	if err != nil {
		l.mu.RUnlock()
		return p, err
	}
	s.use.RLock()
	if s.file == nil {
		s.use.RUnlock()
		l.mu.RUnlock()
		return p, core.E(core.Closed, "the commit log is closed")
	}
	held := s.table == nil
	if held {
		p.off, err = s.position(i)
	}
	l.mu.RUnlock()
	if !held {
		p.off, err = s.position(i)
	}
	p.seg = s
	if err == nil {
		p.h, err = s.header(i, p.off, scratch[:frameHeaderLen])
	}
	if err != nil {
		s.use.RUnlock()
	}
	return p, err
}

// header reads the header of entry i's frame at off.
func (s *segment) header(i core.LogIndex, off int64, scratch []byte) (h frameHeader, err error) {
	if err := readFull(s, scratch, off); err != nil {
		return h, err
	}
	h, ok := parseFrameHeader(scratch, seedOf(s.base))
	if !ok || h.index != i {
		return h, core.E(core.Corrupt, "%s: offset %d: no frame of entry %d", s.path, off, i)
	}
	return h, nil
}

func readFull(s *segment, b []byte, off int64) error {
	n, err := s.file.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return core.E(core.Corrupt, "%s: offset %d: the file ends inside an entry", s.path, off+int64(n))
	}
	return fmt.Errorf("read %s: %w", s.path, err)
}

// Entry is the entry at i, checked. Its bytes may be shared and must not be changed.
func (l *Log) Entry(i core.LogIndex) (Entry, error) {
	l.mu.RLock()
	if e := l.cache.get(i); e != nil {
		defer l.mu.RUnlock()
		return *e, nil
	}
	p, err := l.locate(i, make([]byte, frameHeaderLen))
	if err != nil {
		return Entry{}, err
	}
	defer p.seg.use.RUnlock()
	return p.seg.entry(p.off, &p.h)
}

// Peek is the entry at i where it is in memory, and whole; else what is known of it
// without its bytes.
func (l *Log) Peek(i core.LogIndex) (e Entry, whole bool, err error) {
	l.mu.RLock()
	if e := l.cache.get(i); e != nil {
		defer l.mu.RUnlock()
		return *e, true, nil
	}
	p, err := l.locate(i, make([]byte, frameHeaderLen))
	if err != nil {
		return Entry{}, false, err
	}
	p.seg.use.RUnlock()
	return Entry{Index: p.h.index, Term: p.h.term, Type: p.h.typ}, false, nil
}

// entry reads and checks the entry whose frame at off has header h.
func (s *segment) entry(off int64, h *frameHeader) (Entry, error) {
	body := make([]byte, int(h.dataLen)+int(h.extLen))
	if err := readFull(s, body, off+frameHeaderLen); err != nil {
		return Entry{}, err
	}
	if crc32.Update(seedOf(s.base), castagnoli, body) != h.bodyCRC {
		return Entry{}, core.E(core.Corrupt, "%s: offset %d: entry %d fails its checksum", s.path, off, h.index)
	}
	e := Entry{Index: h.index, Term: h.term, Type: h.typ, Data: body[:h.dataLen:h.dataLen]}
	if h.extLen > 0 {
		e.Ext = body[h.dataLen:]
	}
	return e, nil
}

// ReadAt is the n bytes at pos of the data of entry i, and the entry's term. When the
// entry is cached, data is shared and must not be changed; else it is read into buf,
// which is grown when too small. The entry's checksum is only checked when all of
// its data is read: a part of it carries its own.
func (l *Log) ReadAt(i core.LogIndex, pos, n uint32, buf []byte) (data []byte, term core.Term, err error) {
	end := uint64(pos) + uint64(n)
	l.mu.RLock()
	if e := l.cache.get(i); e != nil {
		defer l.mu.RUnlock()
		if end > uint64(len(e.Data)) {
			return nil, 0, outside(i, pos, n, len(e.Data))
		}
		return e.Data[pos:end:end], e.Term, nil
	}
	buf = slices.Grow(buf[:0], max(int(n), frameHeaderLen)) // the header first, then the data
	p, err := l.locate(i, buf[:frameHeaderLen])
	if err != nil {
		return nil, 0, err
	}
	defer p.seg.use.RUnlock()
	if end > uint64(p.h.dataLen) {
		return nil, 0, outside(i, pos, n, int(p.h.dataLen))
	}
	data = buf[:n]
	if err := readFull(p.seg, data, p.off+frameHeaderLen+int64(pos)); err != nil {
		return nil, 0, err
	}
	if n == p.h.dataLen && p.h.extLen == 0 && crc32.Update(seedOf(p.seg.base), castagnoli, data) != p.h.bodyCRC {
		return nil, 0, core.E(core.Corrupt, "%s: offset %d: entry %d fails its checksum", p.seg.path, p.off, i)
	}
	return data, p.h.term, nil
}

func outside(i core.LogIndex, pos, n uint32, have int) error {
	return core.E(core.OutOfRange, "entry %d: %d bytes at %d, it has %d", i, n, pos, have)
}
