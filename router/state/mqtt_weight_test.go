package state

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"polylog/core"
)

// TestWeight puts messages of any size into a queue that is bounded in bytes, and settles some: what
// is dropped is the oldest, only what is too much, and soon enough; and a few numbers say it all.
func TestWeight(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		limit := uint64(1 + rnd.IntN(3000))
		var all []weighed
		var sizes []uint64 // by offset
		start := core.Offset(0)
		for range 2000 {
			size := uint64(rnd.IntN(100))
			if rnd.IntN(50) == 0 {
				size = uint64(rnd.IntN(int(2 * limit)))
			}
			newest := core.Offset(len(sizes))
			sizes = append(sizes, size)
			if rnd.IntN(4) == 0 {
				start += core.Offset(rnd.IntN(int(newest - start + 1)))
			}
			all = addWeight(all, start, newest, size, limit)
			var before core.Offset
			if all, before = lighten(all, limit); before > start {
				if start = before; start > newest {
					t.Fatalf("seed %d: the newest message is dropped", seed)
				}
				if left := total(sizes[start:]); left < limit {
					t.Fatalf("seed %d: %d bytes are left, want %d at least", seed, left, limit)
				}
			}
			largest := uint64(0)
			for _, s := range sizes[start:] {
				largest = max(largest, s)
			}
			if left := total(sizes[start:]); left > limit+max(limit/8, limit/portions+1+largest) {
				t.Fatalf("seed %d: %d bytes are kept, the limit is %d and the largest message %d", seed, left, limit, largest)
			}
			if len(all) > portions+5 {
				t.Fatalf("seed %d: %d portions", seed, len(all))
			}
			got, err := decodeWeight(encodeWeight(all))
			if err != nil || !reflect.DeepEqual(got, all) {
				t.Fatalf("%v, %v; want %v", got, err, all)
			}
		}
	}
}

func total(sizes []uint64) (n uint64) {
	for _, s := range sizes {
		n += s
	}
	return n
}

func FuzzWeight(f *testing.F) {
	f.Add(encodeWeight([]weighed{{1, 2}, {300, 1 << 40}}))
	f.Add([]byte{valueVersion, 0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := decodeWeight(b)
		if err != nil {
			return
		}
		if again, err := decodeWeight(encodeWeight(all)); err != nil || !reflect.DeepEqual(all, again) {
			t.Fatalf("%v, %v; want %v", again, err, all)
		}
	})
}
