package commitlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"polylog/core"
	"polylog/core/vfs"
)

// model is what a log should hold.
type model struct {
	origin core.LogIndex // of all[0]
	all    []Entry       // everything since the last reset, trimmed or not
	trim   core.LogIndex // entries up to it may be gone
	term   core.Term
}

func (m *model) next() core.LogIndex { return m.origin + core.LogIndex(len(m.all)) }

// diff is what is wrong with l.
func (m *model) diff(l *Log) error {
	if got := l.Next(); got != m.next() {
		return fmt.Errorf("next is %d, want %d", got, m.next())
	}
	first, last := l.First(), l.Last()
	if first == 0 {
		if last != 0 || m.next()-1 > m.trim && len(m.all) > 0 {
			return fmt.Errorf("empty (last %d), want entries up to %d", last, m.next()-1)
		}
		return nil
	}
	if first < m.origin || first > max(m.trim+1, m.origin) {
		return fmt.Errorf("first is %d, want %d to %d", first, m.origin, m.trim+1)
	}
	for i := first; i <= last; i++ {
		want := m.all[i-m.origin]
		got, err := l.Entry(i)
		if err != nil {
			return err
		}
		if !equalEntries(got, want) {
			return fmt.Errorf("entry %d differs: term %d, want %d", i, got.Term, want.Term)
		}
		if n := uint32(len(want.Data)); n > 0 {
			data, term, err := l.ReadAt(i, n/2, n-n/2, nil)
			if err != nil || term != want.Term || string(data) != string(want.Data[n/2:]) {
				return fmt.Errorf("second half of entry %d: term %d, %w", i, term, err)
			}
		}
		if prev := i - 1; prev >= first && want.Term > m.all[prev-m.origin].Term {
			if at := l.FirstAfterTerm(m.all[prev-m.origin].Term); at != i {
				return fmt.Errorf("first after term %d is %d, want %d", m.all[prev-m.origin].Term, at, i)
			}
		}
	}
	if _, err := l.Entry(last + 1); !errors.Is(err, core.NotFound) {
		return fmt.Errorf("entry %d after the last: %w", last+1, err)
	}
	return nil
}

// picker chooses a number from 0 to n-1.
type picker func(n int) int

// world is a log, its model, and the machine that they are on.
type world struct {
	pick picker
	mem  *vfs.MemFS
	hook atomic.Pointer[vfs.Hook] // nil: none
	o    Options
	l    *Log
	m    model
	trim bool // whether something was trimmed or reset
}

func newWorld(pick picker) *world {
	w := &world{pick: pick, mem: vfs.NewMem(), m: model{origin: 1, term: 1}}
	w.o = Options{
		Dir:          "log",
		SegmentBytes: []int64{headerLen + 300, 9 << 10, 24 << 10}[pick(3)],
		Flush:        FlushPolicy(pick(3)),
		CacheBytes:   []int64{-1, 4000, 1 << 20}[pick(3)],
		fill:         []int64{0, 1000, 4096}[pick(3)],
	}
	w.o.boot[0] = 1
	return w
}

func (w *world) setHook(h vfs.Hook) { w.hook.Store(&h) }

// open opens the log; when that fails, l stays the closed one.
func (w *world) open() error {
	w.o.FS = vfs.WithHook(w.mem, func(op vfs.Op, path string) error {
		if h := w.hook.Load(); h != nil {
			return (*h)(op, path)
		}
		return nil
	})
	l, err := Open(w.o)
	if err == nil {
		w.l = l
	}
	return err
}

// someEntries makes the next entries: most small, some larger than what is gathered.
func (w *world) someEntries() []Entry {
	if w.pick(8) == 0 {
		w.m.term++
	}
	es := make([]Entry, 1+w.pick(6))
	for i := range es {
		size := w.pick(200)
		if w.pick(6) == 0 {
			size = w.pick(12 << 10)
		}
		es[i] = makeEntries(w.m.next()+core.LogIndex(i), 1, size, w.m.term)[0]
		es[i].Data = append(es[i].Data, byte(w.pick(256))) // differs from what was truncated
		es[i].sum()
	}
	return es
}

// step does one random operation. after is the model if it happens; the model is
// that when it succeeded.
func (w *world) step() (after model, err error) {
	after = w.m
	switch w.pick(14) {
	default:
		es := w.someEntries()
		after = w.m
		after.all = append(slices.Clone(w.m.all), es...)
		err = w.l.Append(es)
	case 8, 9:
		first := w.l.First()
		if first == 0 {
			first = w.m.next()
		}
		from := w.m.next() - min(core.LogIndex(w.pick(12)), w.m.next()-first)
		after.all = slices.Clone(w.m.all[:from-w.m.origin])
		after.term++ // as after an election
		err = w.l.TruncateTail(from)
	case 10:
		if last := w.l.Last(); last > 0 {
			w.trim = true
			after.trim = max(w.m.trim, w.l.First()+core.LogIndex(w.pick(int(last-w.l.First()+1))))
			err = w.l.TrimHead(after.trim)
		}
	case 11:
		if w.pick(4) == 0 {
			w.trim = true
			next := w.m.next() + core.LogIndex(w.pick(20))
			if w.pick(3) == 0 {
				next = max(1, next/2)
			}
			after = model{origin: next, trim: next - 1, term: w.m.term + 1}
			err = w.l.Reset(next)
		}
	case 12:
		err = w.l.Sync()
	case 13:
		if err = w.l.Close(); err == nil {
			err = w.open()
		}
	}
	if err == nil {
		w.m = after
	}
	return after, err
}

// crash ends the machine, keeping percent of what was not synced, or only the
// process when percent is negative, and opens the log again.
func (w *world) crash(percent int, rng *rand.Rand) error {
	old := w.l
	if percent >= 0 {
		w.mem = w.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
		w.o.boot[0]++
	}
	w.setHook(func(vfs.Op, string) error { return errDead })
	_ = old.Close() // ends its goroutines; it is dead and says so
	w.hook.Store(nil)
	return w.open()
}

var errDead = errors.New("the machine is dead")

// sameAsStraight checks that a log with the same entries but another history has the
// same segments.
func (w *world) sameAsStraight() error {
	if w.trim {
		return nil
	}
	o := Options{FS: vfs.NewMem(), Dir: "other", SegmentBytes: w.o.SegmentBytes, Flush: FlushOS}
	other, err := Open(o)
	if err != nil {
		return err
	}
	defer func() { _ = other.Close() }()
	if err := other.Append(slices.Clone(w.m.all)); err != nil {
		return err
	}
	mine, straight := w.l.Segments(), other.Segments()
	if len(mine) != len(straight) {
		return fmt.Errorf("%d segments, a replica has %d", len(mine), len(straight))
	}
	for i, a := range mine {
		if b := straight[i]; a.Base != b.Base || a.Next != b.Next || a.Bytes != b.Bytes || a.Sum != b.Sum {
			return fmt.Errorf("segment %+v, a replica has %+v", a, b)
		}
	}
	return nil
}

// finish checks the whole log and its files.
func (w *world) finish() error {
	if err := w.m.diff(w.l); err != nil {
		return err
	}
	if err := w.sameAsStraight(); err != nil {
		return err
	}
	if err := w.l.Close(); err != nil {
		return err
	}
	r, err := Check(w.mem, w.o.Dir)
	if err != nil || len(r.Damage) > 0 || r.Last != w.l.Last() {
		return fmt.Errorf("check: %+v, %w", r, err)
	}
	return nil
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") })
		if err := w.open(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = w.l.Close() }()
		for range w.pick(40) {
			if _, err := w.step(); err != nil {
				t.Fatal(err)
			}
			if err := w.m.diff(w.l); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.finish(); err != nil {
			t.Fatal(err)
		}
	})
}
