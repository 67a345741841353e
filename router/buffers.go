package router

import (
	"math/bits"
	"sync"
)

// Read buffers come in powers of two, so that one large batch does not make every
// pooled buffer large.
const (
	minBufferBits = 12 // 4 KiB
	maxBufferBits = 24 // 16 MiB; larger ones are not kept
)

var bufferPools [maxBufferBits + 1]sync.Pool

// getBuffer is a buffer whose capacity is at least n, with no content.
func getBuffer(n int) *[]byte {
	class := max(bits.Len(uint(max(n-1, 0))), minBufferBits)
	if class > maxBufferBits {
		b := make([]byte, 0, n)
		return &b
	}
	if b, ok := bufferPools[class].Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, 1<<class)
	return &b
}

// putBuffer takes back what getBuffer gave, maybe grown meanwhile.
func putBuffer(b *[]byte) {
	class := bits.Len(uint(cap(*b))) - 1 // the largest that it is good for
	if class < minBufferBits || class > maxBufferBits {
		return
	}
	*b = (*b)[:0]
	bufferPools[class].Put(b)
}
