package core

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// TestEntryBuilder compares what is built with what is appended, and its checksum with
// one that is computed.
func TestEntryBuilder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	sizes := []int{0, 1, 100, gatherLen, gatherLen + 1, 10_000, leastChecked - 1, leastChecked, 200_000}
	var b EntryBuilder
	sums := 0
	for range 500 {
		want := AppendEntryHeader(nil, 7)
		b.Begin(7)
		wantSum := false
		for range rng.IntN(6) {
			c := Command{Code: Code(rng.Uint32()), Head: random(sizes[rng.IntN(6)]), Payload: random(sizes[rng.IntN(len(sizes))])}
			if n := len(c.Payload); n > 0 && rng.IntN(2) == 0 {
				c.CheckedLen = 1 + rng.IntN(n)
				c.CheckedCRC = crc32.Checksum(c.Payload[n-c.CheckedLen:], castagnoli)
			}
			wantSum = wantSum || c.CheckedLen >= leastChecked
			want = AppendCommand(want, &c)
			b.Add(&c)
		}
		data, sum, summed := b.Finish()
		if !bytes.Equal(data, want) {
			t.Fatalf("%d bytes, want %d others", len(data), len(want))
		}
		if summed != wantSum || summed && sum != crc32.Checksum(want, castagnoli) {
			t.Fatalf("checksum %08x %v, want %08x %v", sum, summed, crc32.Checksum(want, castagnoli), wantSum)
		}
		if summed {
			sums++
		}
	}
	if sums == 0 {
		t.Fatal("no checksum was combined")
	}
}
