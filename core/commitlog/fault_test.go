package commitlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"polylog/core"
	"polylog/core/vfs"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 2)) }

// TestFailedChange lets every single change to a file fail in turn, as a full or a
// broken disk does: no success is reported for what failed, the log refuses further
// changes, goes on to be readable, and opens again with everything acknowledged.
func TestFailedChange(t *testing.T) {
	for _, policy := range []FlushPolicy{FlushSync, FlushOS} {
		for _, fault := range []error{syscall.ENOSPC, syscall.EIO} {
			for n := int64(1); ; n++ {
				happened, err := failChange(policy, fault, n)
				if err != nil {
					t.Fatalf("%s, %v at change %d: %v", policy, fault, n, err)
				}
				if !happened {
					break
				}
			}
		}
	}
}

func failChange(policy FlushPolicy, fault error, n int64) (happened bool, err error) {
	mem := vfs.NewMem()
	var count atomic.Int64
	count.Store(-1 << 40)
	o := Options{
		FS: vfs.WithHook(mem, func(vfs.Op, string) error {
			if count.Add(1) == n {
				return fault
			}
			return nil
		}),
		Dir: "log", SegmentBytes: headerLen + 700, Flush: policy, CacheBytes: -1,
	}
	l, err := Open(o)
	if err != nil {
		return false, err
	}
	defer func() { _ = l.Close() }()
	count.Store(0)
	var acked []Entry
	for i := range core.LogIndex(12) {
		e := makeEntries(i+1, 1, 150, 1)
		if err = l.Append(e); err != nil {
			break
		}
		acked = append(acked, e...)
	}
	if err == nil {
		err = l.Sync()
	}
	_ = l.waitSealed() // in the background; what it met is in l.Err
	happened = count.Load() >= n
	switch {
	case !happened && err != nil:
		return happened, err
	case !happened:
		return happened, nil
	case err == nil && l.Err() == nil:
		return happened, errors.New("nobody noticed")
	case err != nil && !errors.Is(err, fault):
		return happened, fmt.Errorf("got %w", err)
	}
	if l.Append(makeEntries(l.Next(), 1, 1, 1)) == nil || l.TruncateTail(2) == nil || l.TrimHead(3) == nil || l.Reset(5) == nil || l.Sync() == nil {
		return happened, errors.New("a change after the failure was accepted")
	}
	for _, e := range acked {
		if got, err := l.Entry(e.Index); err != nil || !equalEntries(got, e) {
			return happened, fmt.Errorf("read after the failure: %w", err)
		}
	}
	_ = l.Close() // says what failed
	if l, err = Open(Options{FS: mem, Dir: o.Dir, SegmentBytes: o.SegmentBytes}); err != nil {
		return happened, err
	}
	defer func() { _ = l.Close() }()
	if l.Last() < core.LogIndex(len(acked)) {
		return happened, fmt.Errorf("last is %d, %d was acknowledged", l.Last(), len(acked))
	}
	for _, e := range acked {
		if got, err := l.Entry(e.Index); err != nil || !equalEntries(got, e) {
			return happened, fmt.Errorf("read after reopening: %w", err)
		}
	}
	return happened, l.Append(makeEntries(l.Next(), 3, 100, 2))
}

// TestFailedSyncLosesBlocks has a sync fail and lose the first block of what it was to write, while later
// ones of the same entries got to the disk: with the next start, in the same run of the system, the log
// ends where the sync before had it.
func TestFailedSyncLosesBlocks(t *testing.T) {
	for _, policy := range []FlushPolicy{FlushSync, FlushOS} {
		mem := vfs.NewMem()
		var failing atomic.Bool
		o := Options{
			FS: vfs.WithHook(mem, func(op vfs.Op, _ string) error {
				if op == vfs.OpSync && failing.Load() {
					return syscall.EIO
				}
				return nil
			}),
			Dir: "log", SegmentBytes: 1 << 20, Flush: policy, CacheBytes: -1, boot: bootID{1},
		}
		l := mustOpen(t, o)
		es := makeEntries(1, 3, 100, 1)
		if err := errors.Join(l.Append(es), l.Sync()); err != nil {
			t.Fatal(err)
		}
		path, at := l.active.path, l.active.end
		failing.Store(true)
		if err := l.Append(makeEntries(4, 50, 3000, 1)); err == nil {
			err = l.Sync()
			if err == nil {
				t.Fatal("nobody noticed")
			}
		}
		_ = l.Close() // says what failed
		b := getFile(t, mem, path)
		clear(b[at : at+512])
		putFile(t, mem, path, b)
		o.FS = mem
		again := mustOpen(t, o)
		if again.Last() != 3 {
			t.Errorf("%s: last is %d, want 3", policy, again.Last())
		}
		if err := errors.Join(again.Append(makeEntries(4, 2, 100, 2)), again.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestLastWordOfFailedSync has the filler's sync lose the mark while the process ends because of an Append whose
// sync failed, and the next start's sync lose it again: no start takes what the first sync lost for damage.
func TestLastWordOfFailedSync(t *testing.T) {
	mem := vfs.NewMem()
	var sync atomic.Pointer[func() error] // in place of a file's sync
	o := Options{
		FS: vfs.WithHook(mem, func(op vfs.Op, _ string) error {
			if f := sync.Load(); f != nil && op == vfs.OpSync {
				return (*f)()
			}
			return nil
		}),
		Dir: "log", SegmentBytes: 1 << 20, Flush: FlushSync, CacheBytes: -1, boot: bootID{1}, fill: 4096,
	}
	l := mustOpen(t, o)
	for l.filler.wakeAt.Load() == 0 { // until zeros are ahead
		runtime.Gosched()
	}
	path := l.active.path
	old := getFile(t, mem, path)[markAt : markAt+markLen]
	lose := func() error {
		f, err := mem.OpenReadWrite(path, vfs.Category)
		if err == nil {
			_, err = f.WriteAt(old, markAt)
		}
		return errors.Join(err, f.Close(), syscall.EIO)
	}

	var syncs atomic.Int32
	var left []byte // of the segment, by the process
	inFiller, failed, returned, lost := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	sync.Store(new(func() error {
		switch syncs.Add(1) {
		case 1: // that of the Append which wakes the filler
			return nil
		case 2: // the filler's
			close(inFiller)
			<-failed
			for range 10_000 { // the Append may return, if it does not wait
				runtime.Gosched()
			}
			err := lose()
			select {
			case <-returned: // and so the process has ended
				left = getFile(t, mem, path)
			default:
			}
			close(lost)
			return err
		}
		close(failed)
		return syscall.EIO
	}))
	if err := l.Append(makeEntries(1, 4, 3000, 1)); err != nil {
		t.Fatal(err)
	}
	at := l.active.end
	<-inFiller
	go func() {
		defer close(returned)
		if err := l.Append(makeEntries(5, 50, 3000, 1)); !errors.Is(err, syscall.EIO) {
			t.Errorf("append: %v", err)
		}
	}()
	<-returned
	<-lost
	if left == nil {
		left = getFile(t, mem, path)
	}
	if m, ok := parseMark(left, l.w.seed); !ok || m.boot != (bootID{}) || syncs.Load() != 3 {
		t.Errorf("after %d syncs the mark is %v, %+v, want that of no run", syncs.Load(), ok, m)
	}
	_ = l.Close() // says what failed

	clear(left[at : at+512])
	putFile(t, mem, path, left)
	sync.Store(new(lose))
	if _, err := Open(o); !errors.Is(err, syscall.EIO) {
		t.Fatalf("open while syncs fail: %v", err)
	}
	copy(left, getFile(t, mem, path)[:headerLen]) // the cut is lost
	putFile(t, mem, path, left)
	sync.Store(nil)
	if again := mustOpen(t, o); again.Last() != 4 {
		t.Errorf("last is %d, want 4", again.Last())
	}
}

// TestFailedSyncOfOpen has the sync of an opening log lose what the process before had never synced: the next start
// ends where that is missing, and what was synced before is there.
func TestFailedSyncOfOpen(t *testing.T) {
	mem := vfs.NewMem()
	o := Options{FS: mem, Dir: "log", SegmentBytes: 1 << 20, Flush: FlushOS, CacheBytes: -1, boot: bootID{1}}
	l := mustOpen(t, o)
	if err := l.Append(makeEntries(1, 2, 100, 1)); err != nil {
		t.Fatal(err)
	}
	at, path := l.active.end, l.active.path
	if err := l.Append(makeEntries(3, 20, 3000, 1)); err != nil {
		t.Fatal(err)
	}
	killed := getFile(t, mem, path)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	putFile(t, mem, path, killed)
	o.FS = vfs.WithHook(mem, func(op vfs.Op, _ string) error {
		if op == vfs.OpSync {
			return syscall.EIO
		}
		return nil
	})
	if _, err := Open(o); !errors.Is(err, syscall.EIO) {
		t.Fatalf("open while syncs fail: %v", err)
	}
	b := getFile(t, mem, path)
	clear(b[at : at+512])
	putFile(t, mem, path, b)
	o.FS = mem
	if again := mustOpen(t, o); again.Last() != 2 {
		t.Errorf("last is %d, want 2", again.Last())
	}
}

// TestDieAtEveryChange runs one history of rolls, a truncation across segments, a
// trim, a recycled segment and a reset, and ends it before each change to a file in
// turn, with every kind of crash.
func TestDieAtEveryChange(t *testing.T) {
	for _, policy := range []FlushPolicy{FlushSync, FlushOS} {
		for _, percent := range []int{-1, 0, 40, 100} {
			for _, size := range []int{150, 3000} { // a segment within one block, or over several
				for n := int64(0); ; n++ {
					finished, err := dieAt(policy, percent, size, n)
					if err != nil {
						t.Fatalf("%s, %d %% of the unsynced kept, entries of %d bytes, dead after %d changes: %v", policy, percent, size, n, err)
					}
					if finished {
						break
					}
				}
			}
		}
	}
}

func dieAt(policy FlushPolicy, percent, size int, n int64) (finished bool, err error) {
	rng := newRand(uint64(n))
	w := newWorld(rng.IntN)
	w.o.Flush, w.o.SegmentBytes, w.o.fill = policy, headerLen+int64(size)*9/2, 512
	if err := w.open(); err != nil {
		return false, err
	}
	defer func() { _ = w.l.Close() }()
	add := func(count int) func() (model, error) {
		return func() (model, error) {
			es := makeEntries(w.m.next(), count, size, w.m.term)
			after := w.m
			after.all = append(slices.Clone(w.m.all), es...)
			return after, w.l.Append(es)
		}
	}
	truncate := func() (model, error) {
		after := w.m
		after.all, after.term = slices.Clone(w.m.all[:len(w.m.all)-6]), w.m.term+1
		return after, w.l.TruncateTail(after.next())
	}
	trim := func() (model, error) {
		w.trim = true
		after := w.m
		after.trim = w.m.next() - 1
		return after, w.l.TrimHead(after.trim)
	}
	reset := func() (model, error) {
		after := model{origin: 40, trim: 39, term: w.m.term + 1}
		return after, w.l.Reset(40)
	}
	var left atomic.Int64
	left.Store(n)
	w.setHook(func(vfs.Op, string) error {
		if left.Add(-1) < 0 {
			return errDead
		}
		return nil
	})
	after, finished := w.m, true
	for _, op := range []func() (model, error){add(3), add(9), truncate, add(4), trim, add(9), reset, add(2)} {
		if after, err = op(); err != nil {
			if !errors.Is(err, errDead) {
				return false, err
			}
			finished = false
			break
		}
		w.m = after
	}
	left.Store(-1)
	synced := w.l.Synced()
	if err := w.crash(percent, rng); err != nil {
		return finished, err
	}
	if err := w.settle(after, synced, percent >= 0); err != nil {
		return finished, err
	}
	if after, err = add(5)(); err != nil {
		return finished, err
	}
	w.m = after
	return finished, w.finish()
}
