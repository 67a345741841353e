package kafka

import (
	"math/bits"
	"sync"
)

// Buffers are pooled by size, in powers of two from 1<<minClass to 1<<maxClass bytes;
// larger ones are left to the garbage collector.
const (
	minClass = 12
	maxClass = 23
)

// buffer is a pooled byte slice. It has one owner, who releases it once.
type buffer struct {
	b []byte
}

var bufferPools [maxClass - minClass + 1]sync.Pool

func sizeClass(n int) int { return max(bits.Len(uint(max(n, 1)-1)), minClass) }

// getBuffer returns a buffer of length 0 and a capacity of at least n bytes.
func getBuffer(n int) *buffer {
	class := sizeClass(n)
	if class > maxClass {
		return &buffer{b: make([]byte, 0, n)}
	}
	if v, ok := bufferPools[class-minClass].Get().(*buffer); ok {
		v.b = v.b[:0]
		return v
	}
	return &buffer{b: make([]byte, 0, 1<<class)}
}

// release gives the buffer back. Nothing may alias it any more. A nil buffer is fine.
func (v *buffer) release() {
	if v == nil {
		return
	}
	class := bits.Len(uint(cap(v.b))) - 1 // the largest class that it can serve
	if class < minClass || class > maxClass {
		return
	}
	bufferPools[class-minClass].Put(v)
}
