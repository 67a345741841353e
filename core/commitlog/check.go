package commitlog

import (
	"errors"
	"fmt"
	"slices"

	"polylog/core"
	"polylog/core/vfs"
)

// Report is what Check found.
type Report struct {
	Segments []SegmentInfo // as far as they are whole
	Entries  int64
	Bytes    int64         // of headers and frames
	Head     core.LogIndex // what the oldest segment begins with, be it empty
	First    core.LogIndex
	Last     core.LogIndex
	LastTerm core.Term
	Damage   []error  // of kind Corrupt or Unsupported, in order; the first one matters most
	Notes    []string // what Open will put right by itself
}

// Check reads every byte of the log in dir, which must not be open, and changes
// nothing. The error is for failed reads; damage is in the report.
func Check(fs vfs.FS, dir string) (Report, error) {
	var r Report
	l, d, err := view(fs, dir)
	if err != nil {
		return r, err
	}
	_, hasIntent, err := l.readIntent()
	if err := r.keep(err); err != nil {
		return r, err
	}
	r.note(hasIntent, "a truncation or reset was interrupted; opening the log completes it")
	r.note(len(d.tmp) > 0, "%d temporary files, left by a crash", len(d.tmp))
	if len(d.segments) > 0 {
		r.Head = d.segments[0]
	}
	for i, base := range d.segments {
		last := i == len(d.segments)-1
		if n := len(r.Segments); n > 0 && r.Segments[n-1].Next != base {
			r.damage(core.E(core.Corrupt, "%s: begins at entry %d, want %d", l.path(fileName(base, segmentExt)), base, r.Segments[n-1].Next))
		}
		if err := l.check(&r, base, last, slices.Contains(d.tables, base)); err != nil {
			return r, err
		}
	}
	if len(d.segments) == 0 && len(d.tables) > 0 {
		r.damage(core.E(core.Corrupt, "%s: position tables but no segments", dir))
	}
	return r, nil
}

func (r *Report) damage(err error) { r.Damage = append(r.Damage, err) }

func (r *Report) note(is bool, format string, args ...any) {
	if is {
		r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
	}
}

// check reads one segment and its table.
func (l *Log) check(r *Report, base core.LogIndex, last, hasTable bool) error {
	s, page, err := l.viewSegment(base)
	if err != nil {
		return r.keep(err)
	}
	defer s.file.Close() //nolint:errcheck // only read
	sc, err := newScanner(s.file, s.segmentHeader)
	if err != nil {
		return err
	}
	found, err := scanAll(sc, 0)
	if err != nil {
		return fmt.Errorf("read %s: %w", s.path, err)
	}
	r.Entries += int64(len(found.pos))
	r.Bytes += sc.off
	if len(found.pos) > 0 {
		if r.First == 0 {
			r.First = base
		}
		r.Last, r.LastTerm = sc.next-1, found.terms[len(found.terms)-1].term
	}
	r.Segments = append(r.Segments, SegmentInfo{Path: s.path, Base: base, Next: sc.next, Bytes: sc.off, Sum: sc.sum, Sealed: hasTable})
	switch {
	case hasTable:
		return l.checkTable(r, s, sc, found, last)
	case last:
		if err := l.judge(s, sc, found.flaw, page); err != nil {
			return r.keep(err)
		}
		clean, err := sc.zerosFrom(sc.off)
		r.note(err == nil && !clean, "%s: offset %d: bytes of no entry after entry %d (%s): a torn write or an earlier use of the file", s.path, sc.off, sc.next-1, found.flaw)
		return err
	default:
		r.note(true, "%s: without a position table; opening the log makes it", s.path)
		return nil
	}
}

// checkTable compares a sealed segment with its table.
func (l *Log) checkTable(r *Report, s *segment, sc *scanner, found scanned, last bool) error {
	path := l.path(fileName(s.base, tableExt))
	b, err := vfs.ReadFile(l.fs, path)
	if err != nil {
		return err
	}
	t, err := parseTable(b, path)
	if err != nil {
		return r.keep(err)
	}
	switch {
	case last:
		r.damage(core.E(core.Corrupt, "%s is sealed, but the segment after it is missing", s.path))
	case sc.off < int64(t.end):
		r.damage(core.E(core.Corrupt, "%s: offset %d: entry %d expected, found: %s", s.path, sc.off, sc.next, found.flaw))
	case sc.off > int64(t.end) || !slices.Equal(t.pos, found.pos):
		r.damage(core.E(core.Corrupt, "%s: the table does not fit its segment", path))
	case t.sum != sc.sum:
		r.damage(core.E(core.Corrupt, "%s: checksum %08x, the table says %08x", s.path, sc.sum, t.sum))
	}
	return nil
}

// keep puts damage into the report and gives other errors back.
func (r *Report) keep(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, core.Corrupt) || errors.Is(err, core.Unsupported) {
		r.damage(err)
		return nil
	}
	return err
}
