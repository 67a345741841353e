package main

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"polylog/cmd/polylog/config"
)

// tuneMemory sets the collector's two dials, until ctx ends. The Go runtime's own variables, GOGC and
// GOMEMLIMIT, go before the configuration: whoever sets them means this process.
func tuneMemory(ctx context.Context, c *config.Config) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(c.GCPercent)
	}
	switch limit := int64(c.MemoryLimit); {
	case os.Getenv("GOMEMLIMIT") != "":
	case limit == 0:
		debug.SetMemoryLimit(math.MaxInt64)
	default:
		debug.SetMemoryLimit(limit)
		go giveWay(ctx, limit)
	}
}

// giveWayEvery is how often it is looked how much is live.
const giveWayEvery = 250 * time.Millisecond

// giveWay lets the soft limit rise where more is live than it has room for, and sink again. Near its limit the runtime
// spends half of all CPU time on collecting what it cannot collect.
func giveWay(ctx context.Context, limit int64) {
	tick := time.NewTicker(giveWayEvery)
	defer tick.Stop()
	var now memoryUse
	for set := limit; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now.read()
		if want := now.limit(limit); want != set {
			debug.SetMemoryLimit(want)
			set = want
		}
	}
}

// memoryUse is what the process has of memory, in bytes.
type memoryUse struct {
	samples [5]metrics.Sample
	live    int64 // objects that the last collection found in use
	other   int64 // all that the limit counts beside the heap's objects and what is free for them
}

func (m *memoryUse) read() {
	const total, released, objects, free, unused = 0, 1, 2, 3, 4
	for i, name := range []string{
		total: "/memory/classes/total:bytes", released: "/memory/classes/heap/released:bytes", objects: "/memory/classes/heap/objects:bytes",
		free: "/memory/classes/heap/free:bytes", unused: "/memory/classes/heap/unused:bytes",
	} {
		m.samples[i].Name = name
	}
	metrics.Read(m.samples[:])
	of := func(i int) int64 { return int64(m.samples[i].Value.Uint64()) } //nolint:gosec // no process has that much
	m.other = of(total) - of(released) - of(objects) - of(free) - of(unused)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	m.live = int64(live[0].Value.Uint64()) //nolint:gosec // the same
}

// limit is the configured limit, or more where there would be less room than for half of what is live.
func (m *memoryUse) limit(configured int64) int64 {
	const step = 4 << 20 // it is not set anew for less
	return max(configured, (m.other+m.live+m.live/2)/step*step)
}
