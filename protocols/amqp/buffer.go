package amqp

import (
	"math/bits"
	"sync"
)

// buffer is a pooled byte slice. It has one owner, who releases it once.
type buffer struct{ b []byte }

// Capacities of the buffers that are kept: from minPooled to maxPooled.
const (
	minPooled = 512
	maxPooled = minPooled << (pools - 1)
	pools     = 10
)

// buffers are kept by capacity, the one at i from minPooled<<i on. In one pool for all, small messages
// would soon hold the buffers that grew for large ones, each of them in flight.
var buffers [pools]sync.Pool

// pool is where buffers are that have minPooled<<i bytes at least, and less than twice as many.
func pool(size int) int { return bits.Len(uint(size/minPooled)) - 1 }

// getBuffer is an empty buffer with room for about n bytes. It grows as slices do.
func getBuffer(n int) *buffer {
	i := 0
	if n > minPooled {
		i = pool(min(n, maxPooled)-1) + 1
	}
	if v, ok := buffers[i].Get().(*buffer); ok {
		v.b = v.b[:0]
		return v
	}
	return &buffer{b: make([]byte, 0, minPooled<<i)}
}

// release gives the buffer back. Nothing may alias it any more. A nil buffer is fine.
func (v *buffer) release() {
	if v != nil && minPooled <= cap(v.b) && cap(v.b) <= maxPooled {
		buffers[pool(cap(v.b))].Put(v)
	}
}
