package commitlog

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"polylog/core"
	"polylog/core/vfs"
)

// lend lends all of entry i's data, or gives nil when that is not done.
func lend(t testing.TB, l *Log, i core.LogIndex, size int) core.Extent {
	t.Helper()
	front := make([]byte, 10)
	e, term, err := l.Lend(i, 0, uint32(size), front)
	if err != nil {
		t.Fatalf("entry %d: %v", i, err)
	}
	if e != nil && (term != 1 || !bytes.Equal(front, fillData(i, size)[:10])) {
		t.Fatalf("entry %d: term %d, front %x", i, term, front)
	}
	return e
}

// checkExtent checks what an extent sends, by one path after the other.
func checkExtent(t testing.TB, e core.Extent, want []byte) {
	t.Helper()
	var b bytes.Buffer
	n := int64(len(want))
	if k, err := e.SendTo(&b, 0, n/2); err != nil || k != n/2 {
		t.Fatalf("sent %d of %d: %v", k, n/2, err)
	}
	if k, err := e.SendTo(&b, n/2, n-n/2); err != nil || k != n-n/2 {
		t.Fatalf("sent %d of %d: %v", k, n-n/2, err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Fatal("an extent sends other bytes")
	}
}

// connect makes both ends of a TCP connection.
func connect(t testing.TB) (client, server *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // a test's
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Close(), s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

const lentSize = 3000

// lentLog is a log of several small segments with nothing in memory, and its last index.
func lentLog(t testing.TB) (*Log, core.LogIndex) {
	t.Helper()
	l := mustOpen(t, Options{Dir: t.TempDir(), SegmentBytes: 32 << 10, CacheBytes: 1, Flush: FlushOS})
	if err := l.Append(makeEntries(1, 50, lentSize, 1)); err != nil {
		t.Fatal(err)
	}
	if err := l.waitSealed(); err != nil {
		t.Fatal(err)
	}
	return l, 50
}

// TestLentOutlivesTrim checks that what was lent keeps its bytes, those that were handed
// to a socket too, when its segment is trimmed and the log is written on.
func TestLentOutlivesTrim(t *testing.T) {
	l, last := lentLog(t)
	client, server := connect(t)
	held, sent := lend(t, l, 1, lentSize), lend(t, l, 2, lentSize)
	if _, err := sent.SendTo(server, 0, lentSize); err != nil {
		t.Fatal(err)
	}
	sent.Release()
	file := l.segs[0].file
	if err := l.TrimHead(last); err != nil {
		t.Fatal(err)
	}
	if len(l.spares) > 0 && filepath.Base(l.spares[0]) == sparePrefix+fileName(1, "") {
		t.Fatal("a file that was lent from is to be overwritten")
	}
	if _, err := os.Stat(l.path(fileName(1, segmentExt))); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the trimmed file is still there: %v", err)
	}
	for range 10 {
		if err := l.Append(makeEntries(l.Next(), 20, lentSize, 1)); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, lentSize)
	if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, fillData(2, lentSize)) {
		t.Fatalf("the socket gives other bytes (%v)", err)
	}
	checkExtent(t, held, fillData(1, lentSize))
	if n := file.users.Load(); n != 1 {
		t.Fatalf("%d users of the trimmed file, want the extent alone", n)
	}
	held.Release()
	if _, err := file.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Fatalf("nobody uses the trimmed file, but it is open: %v", err)
	}
}

// TestRecycleUnlent checks the other half: a file that was never lent from is used again,
// one of an earlier process is not.
func TestRecycleUnlent(t *testing.T) {
	l, last := lentLog(t)
	if err := l.TrimHead(last); err != nil {
		t.Fatal(err)
	}
	if len(l.spares) != 1 {
		t.Fatalf("spares %q, want one", l.spares)
	}
	o := l.o
	l, last = lentLog(t)
	o.Dir = l.dir
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, o)
	if err := l.TrimHead(last); err != nil {
		t.Fatal(err)
	}
	if len(l.spares) != 0 {
		t.Fatalf("spares %q, but earlier sockets may still send from them", l.spares)
	}
}

// TestLentIsNotTruncated checks that a truncation stops behind what was lent, and that
// lending goes on after it.
func TestLentIsNotTruncated(t *testing.T) {
	l, last := lentLog(t)
	e := lend(t, l, last-3, lentSize)
	defer e.Release()
	if err := l.TruncateTail(last - 3); !errors.Is(err, core.Invalid) {
		t.Fatalf("a lent entry was truncated: %v", err)
	}
	if err := l.TruncateTail(last - 2); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(makeEntries(last-2, 5, 2*lentSize, 1)); err != nil {
		t.Fatal(err)
	}
	checkExtent(t, e, fillData(last-3, lentSize))
	after := lend(t, l, last-2, 2*lentSize)
	checkExtent(t, after, fillData(last-2, 2*lentSize))
	after.Release()
	if err := l.Reset(5); err != nil {
		t.Fatal(err)
	}
	checkExtent(t, e, fillData(last-3, lentSize))
	if err := l.Append(makeEntries(5, 5, lentSize, 1)); err != nil {
		t.Fatal(err)
	}
	checkExtent(t, e, fillData(last-3, lentSize))
	if err := l.TruncateTail(7); err != nil {
		t.Fatalf("what was lent before a reset counts: %v", err)
	}
}

// TestNotLent checks what is refused, and what is left to ReadAt.
func TestNotLent(t *testing.T) {
	l, last := lentLog(t)
	for name, c := range map[string]struct {
		i      core.LogIndex
		pos, n uint32
		want   core.Kind
	}{
		"entry 0":         {0, 0, 100, core.NotFound},
		"behind the end":  {last + 1, 0, 100, core.NotFound},
		"outside":         {3, 1, lentSize, core.OutOfRange},
		"far outside":     {3, 1<<32 - 1, 1<<32 - 1, core.OutOfRange},
		"less than front": {3, 0, 9, core.OutOfRange},
	} {
		if e, _, err := l.Lend(c.i, c.pos, c.n, make([]byte, 10)); core.KindOf(err) != c.want || e != nil {
			t.Errorf("%s: %v, want kind %v", name, err, c.want)
		}
	}
	e := lend(t, l, 1, lentSize)
	defer e.Release()
	for _, r := range [][2]int64{{-1, 1}, {0, -1}, {0, lentSize + 1}, {lentSize, 1}} {
		if _, err := e.SendTo(io.Discard, r[0], r[1]); !errors.Is(err, core.OutOfRange) {
			t.Errorf("%d bytes at %d: %v", r[1], r[0], err)
		}
	}
	for name, o := range map[string]Options{
		"cached": {Dir: t.TempDir()}, "memory": {FS: vfs.NewMem(), Dir: "log", CacheBytes: 1},
	} {
		l := mustOpen(t, o)
		if err := l.Append(makeEntries(1, 3, lentSize, 1)); err != nil {
			t.Fatal(err)
		}
		if e := lend(t, l, 2, lentSize); e != nil {
			t.Errorf("%s: lent", name)
		}
	}
}

// TestLentIsChecked flips a bit in a sealed segment: it is found when the entry is first
// lent after Open. A damaged frame header is found at any time.
func TestLentIsChecked(t *testing.T) {
	l, last := lentLog(t)
	o, path, at := l.o, l.segs[0].path, int64(l.segs[0].pos[3])
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	flip := func(off int64) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close() //nolint:errcheck // a test's
		var b [1]byte
		if _, err := f.ReadAt(b[:], off); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 4
		if _, err := f.WriteAt(b[:], off); err != nil {
			t.Fatal(err)
		}
	}
	flip(at + frameHeaderLen + lentSize - 1)
	l = mustOpen(t, o)
	for range 2 {
		if e, _, err := l.Lend(4, 0, 100, nil); !errors.Is(err, core.Corrupt) || e != nil {
			t.Fatalf("a flipped bit: %v", err)
		}
	}
	for i := core.LogIndex(1); i <= last; i++ {
		if i != 4 {
			lend(t, l, i, lentSize).Release()
		}
	}
	flip(at + frameHeaderLen + lentSize - 1)
	lend(t, l, 4, lentSize).Release()
	flip(at + 10) // the length in the header
	if e, _, err := l.Lend(4, 0, 100, nil); !errors.Is(err, core.Corrupt) || e != nil {
		t.Fatalf("a flipped bit in a length: %v", err)
	}
}

// TestLendConcurrently lends from several goroutines, to sockets, while one appends,
// truncates and trims. Whatever arrives is right.
func TestLendConcurrently(t *testing.T) {
	l := mustOpen(t, Options{Dir: t.TempDir(), SegmentBytes: 64 << 10, CacheBytes: 1, Flush: FlushOS})
	var stable, arrived atomic.Uint64 // entries up to stable are never truncated
	done := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 3 {
		client, server := connect(t)
		wg.Go(func() {
			buf := make([]byte, lentSize)
			for i := g; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				first, end := l.First(), core.LogIndex(stable.Load())
				if first == 0 || end <= first {
					continue
				}
				index := first + core.LogIndex(uint64(i)*2654435761%uint64(end-first+1))
				e, _, err := l.Lend(index, 0, lentSize, nil)
				if err != nil {
					if !errors.Is(err, core.NotFound) || index >= l.First() {
						t.Errorf("entry %d: %v", index, err)
					}
					continue
				}
				if e == nil {
					continue // a truncation is under way
				}
				_, err = e.SendTo(server, 0, lentSize)
				e.Release()
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := io.ReadFull(client, buf); err != nil || !bytes.Equal(buf, fillData(index, lentSize)) {
					t.Errorf("entry %d arrives wrong (%v)", index, err)
					return
				}
				arrived.Add(1)
			}
		})
	}
	next := core.LogIndex(1)
	for round := 0; round < 150 || arrived.Load() < 300; round++ {
		if err := l.Append(makeEntries(next, 20, lentSize, 1)); err != nil {
			t.Fatal(err)
		}
		next += 20
		if round%7 == 3 {
			next -= 9
			if err := l.TruncateTail(next); err != nil {
				t.Fatal(err)
			}
		}
		stable.Store(uint64(next) - 10)
		if round%11 == 5 {
			if err := l.TrimHead(next / 2); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(done)
	wg.Wait()
}
