package commitlog

import (
	"fmt"
	"testing"

	"polylog/core"
)

// BenchmarkAppend appends one entry at a time to a log on the disk.
func BenchmarkAppend(b *testing.B) {
	for _, policy := range []FlushPolicy{FlushSync, FlushInterval, FlushOS} {
		for _, size := range []int{100, 1 << 10, 64 << 10, 512 << 10} {
			b.Run(fmt.Sprintf("%s/%d", policy, size), func(b *testing.B) {
				l := mustOpen(b, Options{Dir: b.TempDir(), Flush: policy})
				data := fillData(1, size)
				e := make([]Entry, 1)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				next := core.LogIndex(0)
				for b.Loop() {
					next++
					e[0] = Entry{Index: next, Term: 1, Data: data}
					if err := l.Append(e); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkAppendWarm is BenchmarkAppend into recycled segments: the log is trimmed
// behind its end.
func BenchmarkAppendWarm(b *testing.B) {
	for _, policy := range []FlushPolicy{FlushSync, FlushOS} {
		for _, size := range []int{1 << 10, 64 << 10, 512 << 10} {
			b.Run(fmt.Sprintf("%s/%d", policy, size), func(b *testing.B) {
				const segment = 64 << 20
				o := Options{Dir: b.TempDir(), Flush: FlushOS, SegmentBytes: segment}
				l := mustOpen(b, o)
				e := make([]Entry, 1)
				data := fillData(1, size)
				next := core.LogIndex(0)
				add := func() {
					next++
					e[0] = Entry{Index: next, Term: 1, Data: data}
					if err := l.Append(e); err != nil {
						b.Fatal(err)
					}
					if next%256 == 0 {
						if err := l.TrimHead(next); err != nil {
							b.Fatal(err)
						}
					}
				}
				for int(next)*size < 4*segment {
					add()
				}
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
				o.Flush = policy
				l = mustOpen(b, o)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					add()
				}
			})
		}
	}
}

// BenchmarkReadAt reads 16 KiB parts of 64 KiB entries, from the cache and from the
// system's page cache.
func BenchmarkReadAt(b *testing.B) {
	const count, size, part = 4096, 64 << 10, 16 << 10
	for name, cache := range map[string]int64{"cached": 1 << 30, "file": -1} {
		b.Run(name, func(b *testing.B) {
			l := mustOpen(b, Options{Dir: b.TempDir(), Flush: FlushOS, CacheBytes: cache, SegmentBytes: 64 << 20})
			if err := l.Append(makeEntries(1, count, size, 1)); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(part)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				i, buf := uint32(0), make([]byte, part)
				for pb.Next() {
					i += 7919
					_, _, err := l.ReadAt(core.LogIndex(1+i%count), i%4*part, part, buf)
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkOpen opens a log of 64 MiB segments whose last one is half full.
func BenchmarkOpen(b *testing.B) {
	o := Options{Dir: b.TempDir(), Flush: FlushOS, SegmentBytes: 64 << 20}
	l := mustOpen(b, o)
	for i := range 10 {
		if err := l.Append(makeEntries(core.LogIndex(1+1024*i), 1024, 64<<10, 1)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
		l = mustOpen(b, o)
	}
}
