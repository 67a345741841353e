package core

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

func TestCombineCRC(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	check := func(begin, cut, end int, seed uint32) {
		t.Helper()
		first := crc32.Update(seed, table, b[begin:cut])
		got := CombineCRC(first, crc32.Checksum(b[cut:end], table), end-cut)
		if want := crc32.Update(seed, table, b[begin:end]); got != want {
			t.Fatalf("%d, %d, %d from %08x: %08x, want %08x", begin, cut, end, seed, got, want)
		}
	}
	for n := range 300 {
		check(0, 0, n, 0)
		check(0, n, 300, 7)
	}
	for range 300 {
		cut := rng.IntN(len(b))
		check(rng.IntN(cut+1), cut, cut+rng.IntN(len(b)-cut), rng.Uint32())
	}
	// Lengths that no test can hold in memory: appending in two steps is the same as in one.
	zeros := func(n int) uint32 { return CombineCRC(0xdeadbeef, 0, n) }
	for _, n := range []int{1 << 28, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		if a, b := zeros(n), CombineCRC(zeros(n/2), 0, n-n/2); a != b {
			t.Fatalf("%d zeros: %08x, in two steps %08x", n, a, b)
		}
	}
}

func BenchmarkCombineCRC(b *testing.B) {
	for b.Loop() {
		CombineCRC(0xdeadbeef, 0x12345678, 1<<19+12345)
	}
}
