package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"polylog/core"
	"polylog/core/vfs"
)

// Damage is the error, of kind Corrupt, of a sealed segment that cannot be used as it
// is. A replica's copy can take its place.
type Damage struct {
	Portion // what the segment has to be; Bytes and Sum are 0 when its table is lost too
	Err     error
}

// Error says what is wrong.
func (d *Damage) Error() string { return d.Err.Error() }

// Unwrap gives the error its kind.
func (d *Damage) Unwrap() error { return d.Err }

// damage is err as a Damage, where it is one, of the segment that begins at base. The
// segment after it, or after others that are missing too, begins at next.
func (l *Log) damage(base, next core.LogIndex, err error) error {
	if !errors.Is(err, core.Corrupt) {
		return err
	}
	d := &Damage{Portion: Portion{Base: base, Next: next}, Err: err}
	if t, err := l.readTable(base); err == nil && t.base == base && t.base+core.LogIndex(len(t.pos)) <= next {
		d.Portion = Portion{Base: base, Next: base + core.LogIndex(len(t.pos)), Bytes: int64(t.end), Sum: t.sum}
	}
	return d
}

// Scrub reads the sealed segment that begins at base and its table, and compares every
// byte with its checksums. pace is called before each read, with its size in bytes, and
// ends the scrub by an error. A table that is damaged is written anew; a segment that
// is, or that cannot be read, is a Damage. The error is of kind NotFound where no
// sealed segment begins at base.
func (l *Log) Scrub(base core.LogIndex, pace func(n int) error) error {
	l.mu.RLock()
	s := l.sealedLocked(base)
	var want Portion
	if s != nil {
		want = s.wholeLocked()
	}
	l.mu.RUnlock()
	if s == nil {
		return core.E(core.NotFound, "no sealed segment begins with entry %d", base)
	}
	sc := scanOf(segmentReader{s, pace}, want.Bytes, s.segmentHeader)
	r, err := scanAll(sc, want.Next)
	page := make([]byte, headerLen)
	if err == nil {
		_, err = sc.file.ReadAt(page, 0)
	}
	switch {
	case !l.holds(s, want):
		return core.E(core.NotFound, "%s is no longer in use", s.path)
	case err != nil && !errors.Is(err, core.Corrupt):
		return err
	case err != nil:
	case sc.next < want.Next:
		err = core.E(core.Corrupt, "%s: offset %d: entry %d expected, found: %s", s.path, sc.off, sc.next, r.flaw)
	case sc.sum != want.Sum || sc.off != want.Bytes:
		err = core.E(core.Corrupt, "%s: checksum %08x, its table says %08x", s.path, sc.sum, want.Sum)
	case !bytes.Equal(page, s.page(nil)):
		err = core.E(core.Corrupt, "%s: the header's page has other bytes than a header", s.path)
	default:
		return l.scrubTable(s, want, r)
	}
	return &Damage{Portion: want, Err: err}
}

// holds reports whether s is in the log, sealed, and is want.
func (l *Log) holds(s *segment, want Portion) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Contains(l.segs, s) && s.sealed && s.wholeLocked() == want
}

// scrubTable compares the table file of s, which is whole, with what a walk over the
// segment has found, and writes it anew where they differ.
func (l *Log) scrubTable(s *segment, want Portion, r scanned) error {
	good := &table{segmentHeader: s.segmentHeader, end: uint32(want.Bytes), sum: want.Sum, pos: r.pos, terms: r.terms}
	path := l.path(fileName(s.base, tableExt))
	b, err := vfs.ReadFile(l.fs, path)
	if err == nil && bytes.Equal(b, good.encode()) {
		return nil
	}
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	if !l.holds(s, want) {
		return nil
	}
	l.o.Logger.Warn("rebuilding a position table", "file", path)
	if err := vfs.WriteFile(l.fs, path, good.encode()); err != nil {
		return err
	}
	return l.swap(s)
}

// Replace puts the file at path, on the log's file system, in the place of the sealed
// segment want. CheckPortion must have found it good and it must be synced. Reads go on
// meanwhile. The error is of kind NotFound where the log has no such segment any more.
func (l *Log) Replace(want Portion, path string) error {
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	l.mu.RLock()
	s := l.sealedLocked(want.Base)
	ok := s != nil && s.wholeLocked() == want
	l.mu.RUnlock()
	if !ok {
		return core.E(core.NotFound, "the log has no sealed segment of entries %d to %d", want.Base, want.Next-1)
	}
	if err := l.fs.Rename(path, s.path); err != nil {
		return err
	}
	if err := vfs.SyncDir(l.fs, l.dir); err != nil {
		return l.fail(err)
	}
	return l.swap(s)
}

// swap opens the files of old, a sealed segment, anew. trimMu is held.
func (l *Log) swap(old *segment) error {
	s, _, err := l.openSegment(old.base)
	if err != nil {
		return err
	}
	t, err := l.readTable(old.base)
	if errors.Is(err, core.Corrupt) {
		t, err = l.remakeTable(s)
	}
	if err == nil {
		err = l.adopt(s, t)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("take over %s: %w", s.path, err), s.close())
	}
	l.mu.Lock()
	i := slices.Index(l.segs, old)
	segs := slices.Clone(l.segs)
	segs[i] = s
	l.setSegsLocked(segs)
	l.mu.Unlock()
	return old.close()
}

// remakeTable writes the table of s, which is whole, anew.
func (l *Log) remakeTable(s *segment) (*table, error) {
	sc, err := newScanner(s.file, s.segmentHeader)
	if err != nil {
		return nil, err
	}
	r, err := scanAll(sc, 0)
	if err != nil {
		return nil, err
	}
	t := &table{segmentHeader: s.segmentHeader, end: uint32(sc.off), sum: sc.sum, pos: r.pos, terms: r.terms}
	return t, vfs.WriteFile(l.fs, l.path(fileName(s.base, tableExt)), t.encode())
}
