package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"polylog/core"
	"polylog/core/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// makeEntries makes n entries from index first on; size is of their data.
func makeEntries(first core.LogIndex, n, size int, term core.Term) []Entry {
	es := make([]Entry, n)
	for i := range es {
		index := first + core.LogIndex(i)
		es[i] = Entry{Index: index, Term: term, Type: uint8(index % 4), Data: fillData(index, size)}
		if index%5 == 0 {
			es[i].Ext = fmt.Appendf(nil, "ext %d", index)
		}
		es[i].sum()
	}
	return es
}

// sum has every third entry come with its checksum.
func (e *Entry) sum() {
	if e.Index%3 == 0 {
		e.Summed, e.Sum = true, crc32.Checksum(e.Data, castagnoli)
	}
}

func fillData(index core.LogIndex, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(uint64(index)*31 + uint64(i)*7)
	}
	return b
}

func mustOpen(t testing.TB, o Options) *Log {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil && l.Err() == nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

func checkEntries(t testing.TB, l *Log, want []Entry) {
	t.Helper()
	for _, w := range want {
		got, err := l.Entry(w.Index)
		if err != nil {
			t.Fatalf("entry %d: %v", w.Index, err)
		}
		if !equalEntries(got, w) {
			t.Fatalf("entry %d: got %+v, want %+v", w.Index, got, w)
		}
	}
}

func equalEntries(a, b Entry) bool {
	return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type && bytes.Equal(a.Data, b.Data) && bytes.Equal(a.Ext, b.Ext)
}

func TestAppendReadReopen(t *testing.T) {
	for _, fs := range []string{"mem", "os"} {
		for _, p := range []FlushPolicy{FlushSync, FlushInterval, FlushOS} {
			for _, cache := range []int64{-1, 2000, 0} {
				t.Run(fmt.Sprint(fs, p, cache), func(t *testing.T) {
					o := Options{FS: vfs.NewMem(), Dir: "log", SegmentBytes: 16 << 10, Flush: p, CacheBytes: cache}
					if fs == "os" {
						o.FS, o.Dir = vfs.Default, t.TempDir()
					}
					var all []Entry
					for round := range 3 {
						l := mustOpen(t, o)
						checkEntries(t, l, all)
						for i := range 20 {
							es := makeEntries(core.LogIndex(len(all)+1), 1+i%7, 100*(i%11)+round*40, core.Term(round+1))
							if err := l.Append(es); err != nil {
								t.Fatal(err)
							}
							all = append(all, es...)
						}
						checkEntries(t, l, all)
						if l.First() != 1 || l.Last() != core.LogIndex(len(all)) {
							t.Fatalf("%d to %d, want 1 to %d", l.First(), l.Last(), len(all))
						}
						if err := l.Close(); err != nil {
							t.Fatal(err)
						}
						r, err := Check(o.FS, o.Dir)
						if err != nil || len(r.Damage) > 0 || r.Last != l.Last() {
							t.Fatalf("%+v %v", r, err)
						}
					}
				})
			}
		}
	}
}

func TestReadAt(t *testing.T) {
	for _, cache := range []int64{-1, 0} {
		l := mustOpen(t, Options{FS: vfs.NewMem(), Dir: "log", CacheBytes: cache})
		es := makeEntries(1, 3, 1000, 7)
		if err := l.Append(es); err != nil {
			t.Fatal(err)
		}
		got, term, err := l.ReadAt(2, 10, 100, make([]byte, 5))
		if err != nil || term != 7 || !bytes.Equal(got, es[1].Data[10:110]) {
			t.Fatalf("%x %d %v", got, term, err)
		}
		if _, _, err := l.ReadAt(2, 901, 100, nil); !errors.Is(err, core.OutOfRange) {
			t.Fatal(err)
		}
		if _, _, err := l.ReadAt(4, 0, 1, nil); !errors.Is(err, core.NotFound) {
			t.Fatal(err)
		}
	}
}

// TestSummed checks that a frame is the same with a checksum that came with the entry,
// and that a wrong one is found out.
func TestSummed(t *testing.T) {
	for size := range 70 {
		e := Entry{Index: 7, Term: 1, Data: fillData(3, size*size), Ext: fillData(4, size%9)}
		want := appendFrameHeader(nil, seedOf(5), &e)
		e.Summed, e.Sum = true, crc32.Checksum(e.Data, castagnoli)
		if got := appendFrameHeader(nil, seedOf(5), &e); !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: frame %x, want %x", len(e.Data), got, want)
		}
	}
	if checkSums {
		return // then it is a panic
	}
	o := Options{FS: vfs.NewMem(), Dir: "log", CacheBytes: -1}
	l := mustOpen(t, o)
	if err := l.Append([]Entry{{Index: 1, Term: 1, Data: []byte("data"), Summed: true, Sum: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Entry(1); !errors.Is(err, core.Corrupt) {
		t.Fatal(err)
	}
}

// TestSeed checks that a frame is only valid in its own segment.
func TestSeed(t *testing.T) {
	e := makeEntries(7, 1, 50, 1)[0]
	b := appendFrameHeader(nil, seedOf(5), &e)
	if _, ok := parseFrameHeader(b, seedOf(5)); !ok {
		t.Error("not valid in its segment")
	}
	if _, ok := parseFrameHeader(b, seedOf(6)); ok {
		t.Error("valid in another segment")
	}
}

// TestLongTable has more entries in a segment than positions are held in memory.
func TestLongTable(t *testing.T) {
	o := Options{FS: vfs.NewMem(), Dir: "log", SegmentBytes: 1 << 20, Flush: FlushOS, CacheBytes: -1}
	l := mustOpen(t, o)
	es := makeEntries(1, 50000, 5, 1)
	if err := l.Append(es); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.waitSealed(); err != nil {
			t.Fatal(err)
		}
		if l.segs[0].table == nil {
			t.Fatalf("%d positions are held", len(l.segs[0].pos))
		}
		for i := 0; i < len(es); i += 997 {
			checkEntries(t, l, es[i:i+1])
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = mustOpen(t, o)
	}
	const from = 9000 // inside the first, sealed segment
	if err := l.TruncateTail(from); err != nil {
		t.Fatal(err)
	}
	more := makeEntries(from, 30000, 6, 2)
	if err := l.Append(more); err != nil {
		t.Fatal(err)
	}
	checkEntries(t, l, es[from-100:from-1])
	checkEntries(t, l, more[20000:20100])
}

// TestLargeEntries has entries larger than a segment, than the window of a scan, and
// than what is gathered; they stand in segments of their own.
func TestLargeEntries(t *testing.T) {
	for _, fs := range []vfs.FS{vfs.Default, vfs.NewMem()} {
		o := Options{FS: fs, Dir: t.TempDir(), SegmentBytes: 200 << 10, CacheBytes: 1 << 20}
		if fs != vfs.Default {
			o.Dir = "log"
		}
		l := mustOpen(t, o)
		var all []Entry
		for i, size := range []int{10, 3 << 20, 0, 100 << 10, 90 << 10, 150 << 10, 1 << 20, 2<<20 + 1, 9000} {
			e := makeEntries(core.LogIndex(i+1), 1, size, 1)[0]
			e.Ext = fillData(e.Index, i*3000)
			all = append(all, e)
		}
		if err := l.Append(all); err != nil {
			t.Fatal(err)
		}
		checkEntries(t, l, all)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = mustOpen(t, o)
		checkEntries(t, l, all)
	}
}

// TestRefusedAppend has one row for each append that is refused without harm.
func TestRefusedAppend(t *testing.T) {
	l := mustOpen(t, Options{FS: vfs.NewMem(), Dir: "log"})
	if err := l.Append(makeEntries(1, 2, 10, 5)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		es   []Entry
		kind core.Kind
	}{
		{"a gap", makeEntries(4, 1, 1, 5), core.Invalid},
		{"an old index", makeEntries(2, 1, 1, 5), core.Invalid},
		{"a gap behind a good one", append(makeEntries(3, 1, 1, 5), makeEntries(5, 1, 1, 5)...), core.Invalid},
		{"an old term", makeEntries(3, 1, 1, 4), core.Invalid},
		{"a long extension", []Entry{{Index: 3, Term: 5, Ext: make([]byte, MaxExtLen+1)}}, core.TooLarge},
		{"too much data", []Entry{{Index: 3, Term: 5, Data: make([]byte, MaxDataLen+1)}}, core.TooLarge},
	} {
		if err := l.Append(c.es); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want kind %v", c.name, err, c.kind)
		}
	}
	if err := l.Append(nil); err != nil {
		t.Error(err)
	}
	if err := l.Append(makeEntries(3, 1, 10, 5)); err != nil || l.Last() != 3 {
		t.Errorf("last is %d, %v", l.Last(), err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"append": l.Append(makeEntries(4, 1, 1, 5)), "truncate": l.TruncateTail(2), "trim": l.TrimHead(2), "reset": l.Reset(9),
	} {
		if !errors.Is(err, core.Closed) {
			t.Errorf("%s after close: %v", name, err)
		}
	}
}

// TestOpenRefused has one row for each reason, outside of the log's files, for which
// a log cannot be opened.
func TestOpenRefused(t *testing.T) {
	failing := func(at vfs.Op, err error) vfs.FS {
		return vfs.WithHook(vfs.NewMem(), func(op vfs.Op, path string) error {
			if op == at {
				return fmt.Errorf("%s %s: %w", op, path, err)
			}
			return nil
		})
	}
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"no directory", Options{}, "no directory given"},
		{"tiny segments", Options{Dir: "log", SegmentBytes: 100}, "segments of 100 bytes, want"},
		{"huge segments", Options{Dir: "log", SegmentBytes: 5 << 30}, "segments of 5368709120 bytes, want"},
		{"read-only file system", Options{Dir: "log", FS: failing(vfs.OpMkdir, syscall.EROFS)}, "mkdir log: read-only file system"},
		{"full disk", Options{Dir: "log", FS: failing(vfs.OpWrite, syscall.ENOSPC)}, "no space left on device"},
		{"broken disk", Options{Dir: "log", FS: failing(vfs.OpSync, syscall.EIO)}, "input/output error"},
	} {
		l, err := Open(c.o)
		if err == nil {
			_ = l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
