package commitlog

import (
	"bytes"
	"errors"
	"fmt"
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
	}
	return es
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
