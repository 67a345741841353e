package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"polylog/core"
	"polylog/core/vfs"
)

// Portion is a segment, or its front up to one of its entries. Its bytes are the same
// on every replica that holds those entries, but for the mark, which reads as zeros.
type Portion struct {
	Base  core.LogIndex // index of the segment's first entry
	Next  core.LogIndex // index after the last entry
	Bytes int64         // header and frames
	Sum   uint32        // covers every byte; see table.go
}

// SegmentName is the name of the file of the segment that begins at base, and of what
// may be staged beside it to take its place: Open removes the latter.
func SegmentName(base core.LogIndex) (name, staged string) {
	name = fileName(base, segmentExt)
	return name, name + ".replica" + tmpExt
}

// Portions are what the log holds up to entry to, oldest first. It reads the segment
// that to lies in, but no other.
func (l *Log) Portions(to core.LogIndex) ([]Portion, error) {
	l.mu.RLock()
	segs, last := l.segs, l.lastLocked()
	l.mu.RUnlock()
	if to > last {
		return nil, core.E(core.NotFound, "entry %d is not in the log, which ends with %d", to, last)
	}
	var all []Portion
	for _, s := range segs {
		if s.base > to {
			break
		}
		p, err := l.portion(s, to+1)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// Sealed is the sealed segment that begins at base; ok is false where none does.
func (l *Log) Sealed(base core.LogIndex) (p Portion, ok bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s := l.sealedLocked(base)
	if s == nil {
		return p, false
	}
	return s.wholeLocked(), true
}

func (l *Log) sealedLocked(base core.LogIndex) *segment {
	i, ok := slices.BinarySearchFunc(l.segs, base, func(s *segment, base core.LogIndex) int { return int(int64(s.base - base)) })
	if !ok || !l.segs[i].sealed {
		return nil
	}
	return l.segs[i]
}

// wholeLocked is all of s. Log.mu is held.
func (s *segment) wholeLocked() Portion {
	return Portion{Base: s.base, Next: s.next(), Bytes: s.end, Sum: s.sum}
}

// portion is s, cut before entry next.
func (l *Log) portion(s *segment, next core.LogIndex) (Portion, error) {
	l.mu.RLock()
	p := s.wholeLocked()
	l.mu.RUnlock()
	if p.Next <= next {
		return p, nil
	}
	sc := scanOf(segmentReader{s: s}, p.Bytes, s.segmentHeader)
	r, err := scanAll(sc, next)
	if err != nil {
		return p, fmt.Errorf("read %s: %w", s.path, err)
	}
	if sc.next < next {
		return p, core.E(core.Corrupt, "%s: offset %d: entry %d expected, found: %s", s.path, sc.off, sc.next, r.flaw)
	}
	return Portion{Base: s.base, Next: next, Bytes: sc.off, Sum: sc.sum}, nil
}

// segmentReader reads the file of a segment of an open log, piece by piece, so that who
// wants to close the file need not wait for long. pace, if any, is called before each
// read. A disk that cannot read has kind Corrupt: a replica's copy helps there, too.
type segmentReader struct {
	s    *segment
	pace func(n int) error
}

// ReadAt implements io.ReaderAt. The mark reads as zeros.
func (r segmentReader) ReadAt(b []byte, off int64) (int, error) {
	if r.pace != nil {
		if err := r.pace(len(b)); err != nil {
			return 0, err
		}
	}
	r.s.use.RLock()
	defer r.s.use.RUnlock()
	if r.s.file == nil {
		return 0, core.E(core.NotFound, "%s is no longer in use", r.s.path)
	}
	n, err := r.s.file.ReadAt(b, off)
	if err != nil && !errors.Is(err, io.EOF) {
		err = core.E(core.Corrupt, "%s: offset %d: %v", r.s.path, off, err)
	}
	if from := max(0, markAt-off); from < int64(n) {
		clear(b[from:min(int64(n), max(0, markAt+markLen-off))])
	}
	return n, err
}

// ReadSegment reads len(b) bytes at off of the segment that begins at base, as a
// replica may store them. The error is of kind NotFound where the log has none.
func (l *Log) ReadSegment(base core.LogIndex, off int64, b []byte) error {
	l.mu.RLock()
	s, err := l.findLocked(base)
	var end int64
	if err == nil {
		end = s.end
	}
	l.mu.RUnlock()
	switch {
	case err != nil:
		return err
	case s.base != base:
		return core.E(core.NotFound, "no segment begins with entry %d", base)
	case off < 0 || off+int64(len(b)) > end:
		return core.E(core.OutOfRange, "%s: %d bytes at %d, it has %d", s.path, len(b), off, end)
	}
	if _, err := io.ReadFull(io.NewSectionReader(segmentReader{s: s}, off, int64(len(b))), b); err != nil {
		return fmt.Errorf("read %s: %w", s.path, err)
	}
	return nil
}

// CheckPortion reads all of the file at path, which must be want and nothing else. It
// gives the terms of the entry before it and of its last entry. Where want has no
// Bytes, they and Sum are not known: then any segment from Base to at most Next
// passes, and is returned.
func CheckPortion(fs vfs.FS, path string, want Portion) (got Portion, before, last core.Term, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return got, 0, 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	h, page, err := readPage(f, path, want.Base)
	if err != nil {
		return got, 0, 0, err
	}
	sc, err := newScanner(f, h)
	if err != nil {
		return got, 0, 0, err
	}
	r, err := scanAll(sc, 0)
	if err != nil {
		return got, 0, 0, fmt.Errorf("read %s: %w", path, err)
	}
	got = Portion{Base: h.base, Next: sc.next, Bytes: sc.off, Sum: sc.sum}
	known := want.Bytes > 0
	switch {
	case !bytes.Equal(page, h.page(nil)):
		err = core.E(core.Corrupt, "%s: offset %d: the header's page has other bytes than a header", path, markAt)
	case sc.off != sc.size:
		err = core.E(core.Corrupt, "%s: offset %d: entry %d expected, found: %s", path, sc.off, sc.next, r.flaw)
	case known && got != want, !known && (got.Next > want.Next || got.Next == got.Base):
		err = core.E(core.Corrupt, "%s: entries %d to %d, %d bytes, checksum %08x; want %d to %d, %d bytes, %08x", path,
			got.Base, got.Next-1, got.Bytes, got.Sum, want.Base, want.Next-1, want.Bytes, want.Sum)
	}
	return got, h.prevTerm, sc.term, err
}
