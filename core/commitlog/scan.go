package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"polylog/core"
	"polylog/core/vfs"
)

// scanWindow is how much of a file is read at a time, in bytes.
const scanWindow = 1 << 20

// Flaws with which a log ends that nothing is wrong with.
const (
	flawEnd   = "the file ends"
	flawZeros = "zeros"
)

// scanner walks over the frames of a segment and checks every byte.
type scanner struct {
	file io.ReaderAt
	size int64 // of the file
	seed uint32

	off  int64         // where the next frame is expected
	next core.LogIndex // its index
	term core.Term     // of the frame before
	sum  uint32        // see table.go

	win   []byte
	winAt int64
	buf   []byte
}

func newScanner(f vfs.File, h segmentHeader) (*scanner, error) {
	size, err := fileSize(f)
	return scanOf(f, size, h), err
}

func scanOf(f io.ReaderAt, size int64, h segmentHeader) *scanner {
	return &scanner{
		file: f, size: size, seed: seedOf(h.base),
		off: headerLen, next: h.base, term: h.prevTerm, sum: h.initialSum(),
	}
}

// peek is the n bytes at off, fewer where the file ends; n is at most scanWindow.
func (s *scanner) peek(off int64, n int) ([]byte, error) {
	if off >= s.winAt && off+int64(n) <= s.winAt+int64(len(s.win)) {
		return s.win[off-s.winAt:][:n], nil
	}
	if s.buf == nil {
		s.buf = make([]byte, min(scanWindow, s.size))
	}
	want := max(0, min(int64(len(s.buf)), s.size-off))
	got, err := s.file.ReadAt(s.buf[:want], off)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	s.win, s.winAt = s.buf[:got], off
	return s.win[:min(n, got)], nil
}

// held is how much can be peeked at off without reading what is in memory already
// again; a whole window when that would be less than least.
func (s *scanner) held(off, least int64) int64 {
	if n := s.winAt + int64(len(s.win)) - off; off >= s.winAt && n >= least {
		return n
	}
	return scanWindow
}

// frame reads the next frame. flaw is empty when it is whole and is the one
// expected; the scanner then stands behind it. Otherwise flaw says what is wrong
// and the scanner stays. err is for failed reads only.
func (s *scanner) frame() (h frameHeader, flaw string, err error) {
	b, err := s.peek(s.off, frameHeaderLen)
	if err != nil {
		return h, "", err
	}
	if len(b) < frameHeaderLen {
		return h, flawEnd, nil
	}
	h, ok := parseFrameHeader(b, s.seed)
	sum := crc32.Update(s.sum, castagnoli, b)
	switch {
	case !ok && isZero(b):
		return h, flawZeros, nil
	case !ok:
		return h, "the frame's header fails its checksum", nil
	case h.index != s.next:
		return h, fmt.Sprintf("a frame of entry %d", h.index), nil
	case h.term < s.term:
		return h, fmt.Sprintf("term %d after term %d", h.term, s.term), nil
	}
	if flaw, err = s.body(s.off, &h); flaw == "" && err == nil {
		s.off += h.len()
		s.next++
		s.term, s.sum = h.term, sum
	}
	return h, flaw, err
}

// body checks the body of the frame at off.
func (s *scanner) body(off int64, h *frameHeader) (flaw string, err error) {
	end := off + h.len()
	if end > s.size {
		return "the file ends inside the frame", nil
	}
	crc, at, left := s.seed, off+frameHeaderLen, int64(h.dataLen)+int64(h.extLen)
	for left > 0 {
		b, err := s.peek(at, int(min(left, s.held(at, 1))))
		if err != nil {
			return "", err
		}
		if len(b) == 0 {
			return "the file ends inside the frame", nil
		}
		crc = crc32.Update(crc, castagnoli, b)
		at += int64(len(b))
		left -= int64(len(b))
	}
	if crc != h.bodyCRC {
		return "the entry fails its checksum", nil
	}
	if b, err := s.peek(at, int(end-at)); err != nil || !isZero(b) {
		return "the frame's padding is not zero", err
	}
	return "", nil
}

// validAfter looks for a whole frame of this segment, of the expected index or a
// later one, behind the bad frame at s.off.
func (s *scanner) validAfter() (at int64, found bool, err error) {
	off := s.off + frameAlign
	if b, err := s.peek(s.off, frameHeaderLen); err == nil && len(b) == frameHeaderLen {
		if h, ok := parseFrameHeader(b, s.seed); ok {
			off = s.off + h.len() // its body may contain anything
		}
	}
	for off+frameHeaderLen <= s.size {
		b, err := s.peek(off, int(s.held(off, frameHeaderLen)))
		if err != nil || len(b) < frameHeaderLen {
			return 0, false, err
		}
		k := s.candidate(b, off)
		off += int64(k)
		if k > len(b)-frameHeaderLen {
			continue
		}
		if h, ok := parseFrameHeader(b[k:], s.seed); ok {
			if flaw, err := s.body(off, &h); err != nil || flaw == "" {
				return off, err == nil, err
			}
		}
		off += frameAlign
	}
	return 0, false, nil
}

// candidate is where in b, which begins at off, the first bytes are that might be a
// frame's header, by its index; after the last place to look at when there are none.
func (s *scanner) candidate(b []byte, off int64) int {
	k := 0
	for ; k <= len(b)-frameHeaderLen; k += frameAlign {
		index := core.LogIndex(binary.BigEndian.Uint64(b[k+16:]))
		if index >= s.next && index-s.next <= core.LogIndex((off+int64(k)-s.off)/frameHeaderLen) {
			break
		}
	}
	return k
}

// zerosFrom reports whether nothing but zeros follows off.
func (s *scanner) zerosFrom(off int64) (bool, error) {
	for off < s.size {
		b, err := s.peek(off, int(min(scanWindow, s.size-off)))
		if err != nil || !isZero(b) || len(b) == 0 {
			return false, err
		}
		off += int64(len(b))
	}
	return true, nil
}

// isZero is for at most scanWindow bytes.
func isZero(b []byte) bool { return bytes.Equal(b, zeroBlock[:len(b)]) }

// scanned is what a walk over a segment found.
type scanned struct {
	pos   []uint32
	terms termList
	flaw  string // why the walk ended at the scanner's place
}

// scanAll walks over the whole frames from the front, up to entry stop (0: all).
func scanAll(s *scanner, stop core.LogIndex) (r scanned, err error) {
	for stop == 0 || s.next < stop {
		at := s.off
		h, flaw, err := s.frame()
		if err != nil || flaw != "" {
			r.flaw = flaw
			return r, err
		}
		r.pos = append(r.pos, uint32(at))
		r.terms.add(h.index, h.term)
	}
	return r, nil
}
