package main

import (
	"math/bits"
	"sync"
	"time"
)

// histogram counts durations, to within 1.6 %: 64 steps for each doubling, in microseconds. It may be used by many
// goroutines.
type histogram struct {
	mu     sync.Mutex // guards what follows
	counts [64 * 64]int64
	n      int64
	most   time.Duration
}

const steps = 64

// bucketOf is where a number of microseconds is counted.
func bucketOf(us uint64) int {
	if us < steps {
		return int(us)
	}
	shift := bits.Len64(us) - 7 // so that us>>shift is from 64 to 127
	return min((shift+1)*steps+int(us>>shift)-steps, 64*64-1)
}

// floorOf is the least that is counted in a bucket, in microseconds.
func floorOf(bucket int) uint64 {
	if bucket < steps {
		return uint64(bucket)
	}
	return uint64(bucket%steps+steps) << (bucket/steps - 1)
}

func (h *histogram) add(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[bucketOf(uint64(max(d, 0).Microseconds()))]++
	h.n++
	h.most = max(h.most, d)
}

// times are percentiles, in ms.
type times struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Max  float64 `json:"max"`
}

// times are those that were counted; nil where none were.
func (h *histogram) times() *times {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n == 0 {
		return nil
	}
	at := func(part float64) float64 {
		rank, seen := int64(part*float64(h.n-1)), int64(0)
		for i, n := range h.counts {
			if seen += n; seen > rank {
				return float64(floorOf(i)) / 1000
			}
		}
		return 0
	}
	return &times{at(0.5), at(0.9), at(0.99), at(0.999), float64(h.most.Microseconds()) / 1000}
}
