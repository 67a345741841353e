package commitlog

import (
	"errors"
	"fmt"
	"slices"

	"polylog/core"
	"polylog/core/vfs"
)

// Open opens the log in o.Dir and makes it when there is none.
func Open(o Options) (*Log, error) {
	o.ensureDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := &Log{o: o, fs: o.FS, dir: o.Dir, stop: make(chan struct{})}
	l.cache.max = o.CacheBytes
	l.filler.wake = make(chan struct{}, 1)
	if err := l.open(); err != nil {
		for _, s := range l.segs {
			err = errors.Join(err, s.close())
		}
		return nil, fmt.Errorf("open commit log: %w", err)
	}
	l.bg.Add(1)
	go l.fillLoop()
	if o.Flush == FlushInterval {
		l.bg.Add(1)
		go l.flushLoop()
	}
	return l, nil
}

func (l *Log) open() error {
	if err := l.fs.MkdirAll(l.dir, 0o755); err != nil {
		return err
	}
	if err := vfs.SyncDir(l.fs, l.fs.PathDir(l.dir)); err != nil {
		return err
	}
	if l.o.boot == (bootID{}) {
		l.o.boot = currentBoot(l.fs, l.dir)
	}
	if err := l.resumeIntent(); err != nil {
		return err
	}
	// What is seen from here on must stay so: an intent whose removal was not synced
	// would come back at a later crash and drop entries that were appended since.
	if err := vfs.SyncDir(l.fs, l.dir); err != nil {
		return err
	}
	torn, err := l.load()
	if err == nil && torn != 0 {
		// The crash tore the segment before the last one, or left the last one
		// empty. What is behind goes the way of a truncation, so that a second
		// crash does no harm.
		if err := l.closeAll(); err != nil {
			return err
		}
		if err := l.writeIntent(intent{kind: intentTruncate, index: torn}); err != nil {
			return err
		}
		if err := l.resumeIntent(); err != nil {
			return err
		}
		if torn, err = l.load(); err == nil && torn != 0 {
			err = core.E(core.Internal, "the log is torn at entry %d after it was cut", torn)
		}
	}
	if err != nil {
		return err
	}
	if last := l.lastLocked(); last < l.o.Durable {
		return core.E(core.Corrupt, "%s: the log ends with entry %d, but entry %d was durable", l.active.path, last, l.o.Durable)
	}
	s := l.active
	l.synced = l.lastLocked()
	l.w.begin(s)
	if err := l.remark(); err != nil {
		return err
	}
	l.fillActive(s)
	return nil
}

func (l *Log) closeAll() (err error) {
	for _, s := range l.segs {
		err = errors.Join(err, s.close())
	}
	l.segs, l.active, l.terms = nil, nil, nil
	return err
}

// resumeIntent completes a truncation or reset that a crash interrupted.
func (l *Log) resumeIntent() error {
	in, ok, err := l.readIntent()
	if err != nil || !ok {
		return err
	}
	l.o.Logger.Info("completing an interrupted change of the commit log", "kind", in.kind, "index", in.index)
	var s *segment
	if in.kind == intentReset {
		s, err = l.resumeReset(in.index)
	} else {
		s, err = l.resumeTruncate(in.index)
	}
	if s != nil {
		err = errors.Join(err, s.file.Close())
	}
	return err
}

// load opens every segment. torn is not 0 when the log has to be truncated from
// there and loaded again.
func (l *Log) load() (torn core.LogIndex, err error) {
	d, err := l.list()
	if err != nil {
		return 0, err
	}
	if err := l.tidy(&d); err != nil {
		return 0, err
	}
	if len(d.segments) == 0 {
		if len(d.tables) > 0 {
			return 0, core.E(core.Corrupt, "%s: position tables but no segments: the log's files are missing", l.dir)
		}
		if l.o.Durable > 0 {
			return 0, core.E(core.Corrupt, "%s: no segments, but entry %d was durable: the log's files are missing", l.dir, l.o.Durable)
		}
		s, err := l.createSegment(segmentHeader{base: 1})
		if err != nil {
			return 0, err
		}
		l.setSegsLocked(append(l.segs, s))
		return 0, nil
	}
	for i, base := range d.segments {
		hasTable := slices.Contains(d.tables, base)
		s, m, err := l.openSegment(base)
		if err != nil && i < len(d.segments)-1 {
			return 0, l.damage(base, d.segments[i+1], err)
		}
		if err != nil {
			return 0, err
		}
		l.setSegsLocked(append(l.segs, s))
		if i == len(d.segments)-1 {
			if hasTable {
				return 0, core.E(core.Corrupt, "%s is sealed, but the segment after it is missing", s.path)
			}
			if err := l.loadActive(s, m); err != nil {
				return 0, err
			}
			if s.count == 0 && i > 0 {
				// The entry that did not fit into the segment before was lost: the
				// next one may fit, and replicas must cut alike.
				return base, nil
			}
			return 0, nil
		}
		torn, err = l.loadSealed(s, m, hasTable, d.segments[i+1])
		if err != nil && hasTable {
			return 0, l.damage(base, d.segments[i+1], err)
		}
		if err != nil || torn != 0 {
			return torn, err
		}
		if err := l.checkJoint(s, d.segments[i+1]); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// tidy removes what a crash left and takes note of spare files.
func (l *Log) tidy(d *listing) error {
	for _, name := range d.tmp {
		if err := l.fs.Remove(l.path(name)); err != nil {
			return err
		}
	}
	l.spares = nil
	for _, name := range d.spares {
		if len(l.spares) < maxSpares {
			l.spares = append(l.spares, l.path(name))
		} else if err := l.fs.Remove(l.path(name)); err != nil {
			return err
		}
	}
	if len(d.segments) == 0 {
		return nil
	}
	// A table without its segment: a trim was interrupted.
	for len(d.tables) > 0 && d.tables[0] < d.segments[0] {
		if err := l.removeFile(d.tables[0], tableExt); err != nil {
			return err
		}
		d.tables = d.tables[1:]
	}
	return nil
}

// openSegment opens a segment's file and reads its first page.
func (l *Log) openSegment(base core.LogIndex) (*segment, []byte, error) {
	path := l.path(fileName(base, segmentExt))
	f, err := l.fs.OpenReadWrite(path, vfs.Category)
	if err != nil {
		return nil, nil, fmt.Errorf("open segment: %w", err)
	}
	h, page, err := readPage(f, path, base)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	s := &segment{segmentHeader: h, path: path, file: share(f), end: headerLen, sum: h.initialSum(), syncedEnd: headerLen}
	if m, ok := parseMark(page, seedOf(base)); ok {
		s.syncedEnd = int64(m.durable)
	}
	s.lent.Store(true) // maybe, by an earlier process
	return s, page, nil
}

// take adopts what a walk over the segment found.
func (s *segment) take(sc *scanner, r scanned) {
	s.pos, s.count = r.pos, len(r.pos)
	s.end, s.sum = sc.off, sc.sum
}

// loadActive scans the last segment and cuts off a torn tail.
func (l *Log) loadActive(s *segment, page []byte) error {
	sc, err := newScanner(s.file, s.segmentHeader)
	if err != nil {
		return err
	}
	r, err := scanAll(sc, 0)
	if err == nil {
		err = l.judge(s, sc, r.flaw, page)
	}
	if err != nil {
		return err
	}
	s.take(sc, r)
	l.addTerms(r.terms)
	if err := l.cutTail(s, sc); err != nil {
		return fmt.Errorf("cut the tail of %s: %w", s.path, err)
	}
	return nil
}

// loadSealed trusts a segment by its table, or scans and seals it when it has no good
// one. torn is where it ends when a crash tore it.
func (l *Log) loadSealed(s *segment, page []byte, hasTable bool, nextBase core.LogIndex) (torn core.LogIndex, err error) {
	if hasTable {
		err := l.loadTable(s)
		if err == nil || !errors.Is(err, core.Corrupt) {
			return 0, err
		}
		l.o.Logger.Warn("rebuilding a position table", "err", err)
	}
	sc, err := newScanner(s.file, s.segmentHeader)
	if err != nil {
		return 0, err
	}
	r, err := scanAll(sc, nextBase)
	if err != nil {
		return 0, err
	}
	if sc.next < nextBase {
		if hasTable { // it was sealed, so all of it was on the disk
			return 0, l.damaged(s, sc, r.flaw, "the segment was sealed")
		}
		if err := l.judge(s, sc, r.flaw, page); err != nil {
			return 0, err
		}
		if err := l.laterNotSynced(s, nextBase); err != nil {
			return 0, err
		}
		return sc.next, nil
	}
	s.take(sc, r)
	l.addTerms(r.terms)
	return 0, l.seal(s)
}

// loadTable takes a sealed segment's positions and terms from its table.
func (l *Log) loadTable(s *segment) error {
	t, err := l.readTable(s.base)
	if err != nil {
		return err
	}
	if err := l.adopt(s, t); err != nil {
		return err
	}
	l.addTerms(t.terms)
	return nil
}

// readTable reads the table of the segment that begins at base.
func (l *Log) readTable(base core.LogIndex) (*table, error) {
	path := l.path(fileName(base, tableExt))
	b, err := vfs.ReadFile(l.fs, path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return parseTable(b, path)
}

// adopt makes s the sealed segment that t describes.
func (l *Log) adopt(s *segment, t *table) error {
	size, err := fileSize(s.file)
	if err != nil {
		return err
	}
	path := l.path(fileName(s.base, tableExt))
	if t.segmentHeader != s.segmentHeader {
		return core.E(core.Corrupt, "%s: the table is another segment's", path)
	}
	if size < int64(t.end) {
		return core.E(core.Corrupt, "%s: %d bytes, its table says %d", s.path, size, t.end)
	}
	s.pos, s.count, s.end, s.sum = t.pos, len(t.pos), int64(t.end), t.sum
	s.sealed, s.syncedEnd, s.unscanned = true, s.end, s.count
	f, err := l.openTable(path, t)
	if f != nil {
		s.pos, s.table, s.tabled = nil, f, t.positionsAt()
	}
	return err
}

func (l *Log) addTerms(terms termList) {
	for _, t := range terms {
		l.terms.add(t.index, t.term)
	}
}

// checkJoint checks that the segment which begins at nextBase continues s.
func (l *Log) checkJoint(s *segment, nextBase core.LogIndex) error {
	next := l.path(fileName(nextBase, segmentExt))
	switch {
	case s.next() < nextBase:
		return l.damage(s.next(), nextBase, core.E(core.Corrupt, "%s: a segment is missing: %s ends with entry %d", next, s.path, s.next()-1))
	case s.next() > nextBase:
		return core.E(core.Corrupt, "%s: overlaps %s, which ends with entry %d", next, s.path, s.next()-1)
	}
	return nil
}
