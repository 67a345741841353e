package commitlog

import (
	"fmt"
	"io"

	"polylog/core"
	"polylog/core/vfs"
)

// DumpOptions says what Dump prints; the zero value prints every frame's header.
type DumpOptions struct {
	From, To core.LogIndex // entries; 0 means no bound
	// Decode prints an entry's meaning, in whole lines, below its frame's line. Without
	// it the data is not read.
	Decode func(w io.Writer, e Entry) error
}

// Dump prints the log in dir, which should not be open, for people to read: a line a
// segment and a line a frame. It stops with an error of kind Corrupt where the log is
// damaged; a torn tail is printed as the end of the log.
func Dump(fs vfs.FS, dir string, w io.Writer, o DumpOptions) error {
	l, d, err := view(fs, dir)
	if err != nil {
		return err
	}
	for i, base := range d.segments {
		if o.To != 0 && base > o.To {
			break
		}
		last := i == len(d.segments)-1
		if !last && d.segments[i+1] <= o.From {
			continue
		}
		if err := l.dump(w, o, base, last); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) dump(w io.Writer, o DumpOptions, base core.LogIndex, last bool) error {
	s, page, err := l.viewSegment(base)
	if err != nil {
		return err
	}
	defer s.file.Close() //nolint:errcheck // only read
	sc, err := newScanner(s.file, s.segmentHeader)
	if err != nil {
		return err
	}
	m, marked := parseMark(page, sc.seed)
	p := printer{w: w}
	p.f("segment %s base=%d prev_term=%d bytes=%d", s.path, s.base, s.prevTerm, sc.size)
	if marked {
		p.f(" durable=%d boot=%x", m.durable, m.boot)
	}
	p.f("\n")
	for p.err == nil && (o.To == 0 || sc.next <= o.To) {
		at := sc.off
		h, flaw, err := sc.frame()
		if err != nil {
			return fmt.Errorf("read %s: %w", s.path, err)
		}
		if flaw != "" {
			p.f("  end offset=%d next=%d found=%q sum=%08x\n", at, sc.next, flaw, sc.sum)
			if p.err != nil || !last {
				return p.err
			}
			return l.judge(s, sc, flaw, page)
		}
		if h.index < o.From {
			continue
		}
		p.f("  entry %d term=%d type=%d offset=%d data=%d ext=%d crc=%08x\n",
			h.index, h.term, h.typ, at, h.dataLen, h.extLen, h.bodyCRC)
		if o.Decode != nil && p.err == nil {
			e, err := s.entry(at, &h)
			if err != nil {
				return err
			}
			if err := o.Decode(w, e); err != nil {
				return err
			}
		}
	}
	return p.err
}

// printer remembers its first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) f(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
