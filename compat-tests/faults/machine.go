package main

import (
	"context"
	"sync/atomic"
	"time"

	"polylog/compat/harness"
)

// machine watches for how long the machine itself keeps this process from running: what a busy
// machine does to a cluster looks like a fault that nobody injected.
type machine struct{ longest atomic.Int64 }

func (m *machine) watch(ctx context.Context) {
	const every = 50 * time.Millisecond
	for last := time.Now(); harness.Pause(ctx, every); {
		now := time.Now()
		if late := int64(now.Sub(last) - every); late > m.longest.Load() {
			m.longest.Store(late)
		}
		last = now
	}
}

// stalled is the longest time since the last call.
func (m *machine) stalled() time.Duration { return time.Duration(m.longest.Swap(0)) }
