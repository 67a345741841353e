package index

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/vfs"
)

// benchStore is a store on a memory file system; benchmarks of the base that want a
// real disk say so.
func benchStore(b *testing.B, fs vfs.FS, dir string) *Store {
	b.Helper()
	s, err := Open(Options{FS: fs, Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

func (s *Store) mustUpdate(tb testing.TB, fn func(tx *Tx)) {
	tb.Helper()
	err := s.Update(func(tx *Tx) error {
		fn(tx)
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
}

func mustCheckpoint(tb testing.TB, s *Store) {
	tb.Helper()
	c, err := s.Freeze()
	if err != nil {
		tb.Fatal(err)
	}
	if err := c.Write(); err != nil {
		tb.Fatal(err)
	}
}

func createQueues(tb testing.TB, s *Store, n int) {
	tb.Helper()
	s.mustUpdate(tb, func(tx *Tx) {
		for q := range n {
			if err := tx.CreateQueue(core.QueueID(q + 1)); err != nil {
				tb.Fatal(err)
			}
		}
	})
}

func mustAppend(tb testing.TB, tx *Tx, q core.QueueID, r core.Run) {
	if _, err := tx.Append(q, r); err != nil {
		tb.Fatal(err)
	}
}

func benchRun(i int) core.Run {
	return core.Run{MaxTime: int64(i), Ref: core.Ref{Index: core.LogIndex(1 + i/100), Pos: uint32(i % 100 * 1000), Len: 1000, Count: 1}}
}

// BenchmarkAppend appends runs to queues in random order, a hundred in an Update,
// and checkpoints outside the measured time when the overlay is large.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 1000, 1_000_000} {
		b.Run(fmt.Sprintf("queues=%d", n), func(b *testing.B) {
			s := benchStore(b, vfs.NewMem(), "index")
			createQueues(b, s, n)
			rnd := rand.New(rand.NewPCG(1, 2))
			cpuPerOp(b)
			for i := 0; i < b.N; {
				s.mustUpdate(b, func(tx *Tx) {
					for end := i + 100; i < end; i++ {
						mustAppend(b, tx, core.QueueID(rnd.IntN(n)+1), benchRun(i))
					}
				})
				if s.OverlayBytes() > 1<<30 {
					b.StopTimer()
					mustCheckpoint(b, s)
					b.StartTimer()
				}
			}
		})
	}
}

// BenchmarkAppendTrim is a queue whose messages are settled at once.
func BenchmarkAppendTrim(b *testing.B) {
	s := benchStore(b, vfs.NewMem(), "index")
	createQueues(b, s, 1)
	cpuPerOp(b)
	for i := 0; b.Loop(); i++ {
		s.mustUpdate(b, func(tx *Tx) {
			mustAppend(b, tx, 1, benchRun(i))
			if err := tx.Trim(1, core.Offset(max(i-100, 0))); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func benchKey(i int) []byte {
	return binary.BigEndian.AppendUint64([]byte("producer/"), uint64(i)*0x9e3779b97f4a7c15)
}

func BenchmarkSet(b *testing.B) {
	for _, per := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("per-update=%d", per), func(b *testing.B) {
			s := benchStore(b, vfs.NewMem(), "index")
			value := make([]byte, 40)
			cpuPerOp(b)
			for i := 0; i < b.N; {
				s.mustUpdate(b, func(tx *Tx) {
					for end := i + per; i < end; i++ {
						tx.Set(benchKey(i%100_000), value)
					}
				})
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	for _, where := range []string{"overlay", "base"} {
		b.Run(where, func(b *testing.B) {
			s := benchStore(b, vfs.NewMem(), "index")
			s.mustUpdate(b, func(tx *Tx) {
				for i := range 100_000 {
					tx.Set(benchKey(i), make([]byte, 40))
				}
			})
			if where == "base" {
				mustCheckpoint(b, s)
			}
			cpuPerOp(b)
			i := 0
			for b.Loop() {
				i = (i + 7919) % 100_000
				if _, ok, err := s.Get(benchKey(i)); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}

// BenchmarkRuns reads 16 runs from a random place of a queue of 100,000.
func BenchmarkRuns(b *testing.B) {
	const n = 100_000
	for _, where := range []string{"overlay", "base"} {
		b.Run(where, func(b *testing.B) {
			s := benchStore(b, vfs.NewMem(), "index")
			createQueues(b, s, 1)
			s.mustUpdate(b, func(tx *Tx) {
				for i := range n {
					mustAppend(b, tx, 1, benchRun(i))
				}
			})
			if where == "base" {
				mustCheckpoint(b, s)
			}
			var dst []core.Run
			from := 0
			cpuPerOp(b)
			for b.Loop() {
				from = (from + 7919) % (n - 16)
				var err error
				if dst, err = s.Runs(1, core.Offset(from), 16, dst[:0]); err != nil || len(dst) != 16 {
					b.Fatal(len(dst), err)
				}
			}
		})
	}
}

func BenchmarkRunByTime(b *testing.B) {
	const n = 100_000
	for _, where := range []string{"overlay", "base"} {
		b.Run(where, func(b *testing.B) {
			s := benchStore(b, vfs.NewMem(), "index")
			createQueues(b, s, 1)
			s.mustUpdate(b, func(tx *Tx) {
				for i := range n {
					mustAppend(b, tx, 1, benchRun(i))
				}
			})
			if where == "base" {
				mustCheckpoint(b, s)
			}
			cpuPerOp(b)
			ms := 0
			for b.Loop() {
				ms = (ms + 7919) % n
				if r, ok, err := s.RunByTime(1, int64(ms)); !ok || err != nil || r.MaxTime != int64(ms) {
					b.Fatal(r, ok, err)
				}
			}
		})
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // empties the pools, too
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkMillion checkpoints a million queues with a run each to a real disk,
// opens the result and touches one queue.
func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	for b.Loop() {
		dir := b.TempDir()
		s, err := Open(Options{FS: vfs.Default, Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		createQueues(b, s, n)
		s.mustUpdate(b, func(tx *Tx) {
			for q := range n {
				mustAppend(b, tx, core.QueueID(q+1), benchRun(q))
			}
		})
		overlay := heap()
		estimate := s.OverlayBytes()
		start := nanotime()
		mustCheckpoint(b, s)
		written := nanotime()
		idle := heap()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		closed := nanotime()
		if s, err = Open(Options{FS: vfs.Default, Dir: dir}); err != nil {
			b.Fatal(err)
		}
		opened := nanotime()
		s.mustUpdate(b, func(tx *Tx) { mustAppend(b, tx, n/2, benchRun(n)) })
		touched := nanotime()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(overlay)/n, "overlay-B/queue")
		b.ReportMetric(float64(estimate)/n, "estimate-B/queue")
		b.ReportMetric(float64(idle)/n, "idle-B/queue")
		b.ReportMetric(float64(written-start)/1e6, "checkpoint-ms")
		b.ReportMetric(float64(opened-closed)/1e6, "open-ms")
		b.ReportMetric(float64(touched-opened)/1e3, "first-touch-us")
	}
}

// cpuPerOp reports the processor time of the whole process for one operation, which
// a busy machine does not change, beside the elapsed time, which it does. It starts
// the benchmark's clock.
func cpuPerOp(b *testing.B) {
	b.Helper()
	b.ReportAllocs()
	start := cpuTime()
	b.Cleanup(func() { b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op") })
	b.ResetTimer()
}

func cpuTime() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

var benchStart = time.Now()

func nanotime() int64 { return int64(time.Since(benchStart)) }
