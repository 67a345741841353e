package commitlog

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/vfs"
)

// TestConcurrent reads from several goroutines while one appends, truncates and
// trims, and another syncs. What is read is right or not found.
func TestConcurrent(t *testing.T) {
	for _, policy := range []FlushPolicy{FlushSync, FlushInterval, FlushOS} {
		t.Run(policy.String(), func(t *testing.T) {
			l := mustOpen(t, Options{
				FS: vfs.NewMem(), Dir: "log", SegmentBytes: 64 << 10, CacheBytes: 16 << 10,
				Flush: policy, FlushInterval: time.Millisecond, fill: 8 << 10,
			})
			var stable atomic.Uint64 // entries up to it are never truncated
			done := make(chan struct{})
			var wg sync.WaitGroup
			for g := range 4 {
				wg.Go(func() {
					buf := make([]byte, 0, 4096)
					for i := g; ; i++ {
						select {
						case <-done:
							return
						default:
						}
						readOne(t, l, i, core.LogIndex(stable.Load()), buf)
					}
				})
			}
			wg.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					if err := l.Sync(); err != nil {
						t.Error(err)
						return
					}
				}
			})
			next := core.LogIndex(1)
			for round := range 150 {
				for range 5 {
					es := makeEntries(next, 4, 200+round, 1)
					if err := l.Append(es); err != nil {
						t.Fatal(err)
					}
					next += 4
				}
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
		})
	}
}

func readOne(t *testing.T, l *Log, i int, stable core.LogIndex, buf []byte) {
	first := l.First()
	if first == 0 || stable <= first {
		return
	}
	index := first + core.LogIndex(uint64(i)*2654435761%uint64(stable-first+1))
	e, err := l.Entry(index)
	if err != nil {
		if !errors.Is(err, core.NotFound) || index >= l.First() {
			t.Errorf("entry %d: %v", index, err)
		}
		return
	}
	if !bytes.Equal(e.Data, fillData(index, len(e.Data))) {
		t.Errorf("entry %d is wrong", index)
	}
	data, _, err := l.ReadAt(index, 100, 50, buf)
	if err == nil && !bytes.Equal(data, e.Data[100:150]) {
		t.Errorf("part of entry %d is wrong", index)
	}
}

// TestReadDuringSync reads while a sync hangs: earlier entries are there, the one
// that waits for the disk is not.
func TestReadDuringSync(t *testing.T) {
	for _, cache := range []int64{-1, 1 << 20} {
		hanging, release := make(chan struct{}), make(chan struct{})
		var hang atomic.Bool
		l := mustOpen(t, Options{Dir: "log", CacheBytes: cache, FS: vfs.WithHook(vfs.NewMem(), func(op vfs.Op, _ string) error {
			if op == vfs.OpSync && hang.CompareAndSwap(true, false) {
				close(hanging)
				<-release
			}
			return nil
		})})
		es := makeEntries(1, 4, 100, 1)
		if err := l.Append(es[:3]); err != nil {
			t.Fatal(err)
		}
		hang.Store(true)
		appended := make(chan error)
		go func() { appended <- l.Append(es[3:]) }()
		<-hanging
		checkEntries(t, l, es[:3])
		if _, _, err := l.ReadAt(4, 0, 1, nil); !errors.Is(err, core.NotFound) || l.Last() != 3 {
			t.Errorf("an entry that is not on the disk is visible: %v", err)
		}
		close(release)
		if err := <-appended; err != nil {
			t.Fatal(err)
		}
		checkEntries(t, l, es)
	}
}

// TestIdenticalFiles checks that sealed segments are the same bytes whatever the
// history: how entries were grouped, the policy, a truncation, a recycled file.
func TestIdenticalFiles(t *testing.T) {
	const segment, n = 64 << 10, 400
	history := func(policy FlushPolicy, group int, detour bool) string {
		dir := t.TempDir()
		l := mustOpen(t, Options{Dir: dir, SegmentBytes: segment, Flush: policy})
		for i := core.LogIndex(1); i <= n; i += core.LogIndex(group) {
			count := min(group, int(n-i+1))
			if detour && i%3 == 1 {
				if err := l.Append(withTerms(makeEntries(i, 9, 20<<10, 0))); err != nil {
					t.Fatal(err)
				}
				if err := l.TruncateTail(i); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Append(withTerms(makeEntries(i, count, 3000, 0))); err != nil {
				t.Fatal(err)
			}
			if detour && i == 201 {
				if err := l.TrimHead(150); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	want, got := history(FlushOS, 50, false), history(FlushSync, 1, true)
	compared := 0
	err := filepath.WalkDir(got, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) != tableExt {
			return err
		}
		for _, p := range []string{path, path[:len(path)-4] + segmentExt} {
			a, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			b, err := os.ReadFile(filepath.Join(want, filepath.Base(p)))
			if err != nil {
				return err
			}
			if !bytes.Equal(a, b) {
				t.Errorf("%s differs", filepath.Base(p))
			}
			compared++
		}
		return nil
	})
	if err != nil || compared < 10 {
		t.Fatalf("%d files compared, %v", compared, err)
	}
}

// withTerms gives each entry a term that depends on its index.
func withTerms(es []Entry) []Entry {
	for i := range es {
		es[i].Term = core.Term(1 + es[i].Index/100)
	}
	return es
}

// TestRecycle checks that a trimmed segment's file is used again and that what it
// held before never comes back.
func TestRecycle(t *testing.T) {
	for _, fs := range []vfs.FS{vfs.Default, vfs.NewMem()} {
		o := Options{FS: fs, Dir: t.TempDir(), SegmentBytes: 32 << 10, CacheBytes: -1}
		if fs != vfs.Default {
			o.Dir = "log"
		}
		l := mustOpen(t, o)
		next := core.LogIndex(1)
		add := func(n int) {
			if err := l.Append(makeEntries(next, n, 500, 1)); err != nil {
				t.Fatal(err)
			}
			next += core.LogIndex(n)
		}
		add(200)
		if err := l.waitSealed(); err != nil {
			t.Fatal(err)
		}
		if err := l.TrimHead(next); err != nil {
			t.Fatal(err)
		}
		if len(l.spares) != 1 {
			t.Fatalf("spares %q, want one", l.spares)
		}
		for used := l.spares[0]; len(l.spares) > 0 && l.spares[0] == used; {
			add(1)
		}
		if size, err := fileSize(l.active.file); err != nil || size < 20<<10 {
			t.Fatalf("the active file has %d bytes (%v): not a recycled one", size, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if l = mustOpen(t, o); l.Next() != next {
			t.Fatalf("next is %d, want %d", l.Next(), next)
		}
	}
}
