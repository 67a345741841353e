package main

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"polylog/cmd/polylog/config"
)

// tuneMemory sets the collector's two dials, until what it returns is called. The Go runtime's own variables, GOGC and
// GOMEMLIMIT, go before the configuration: whoever sets them means this process.
func tuneMemory(c *config.Config) (stop func()) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(c.GCPercent)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var giving sync.WaitGroup
	switch limit := int64(c.MemoryLimit); {
	case os.Getenv("GOMEMLIMIT") != "":
	case limit == 0:
		debug.SetMemoryLimit(math.MaxInt64)
	default:
		debug.SetMemoryLimit(limit)
		giving.Go(func() { giveWay(ctx, limit) })
	}
	return func() {
		cancel()
		giving.Wait()
	}
}

// giveWayEvery is how often it is looked how much is live.
const giveWayEvery = 250 * time.Millisecond

// giveWay lets the soft limit rise where more is live than it has room for, and sink again. Near its limit the runtime
// spends half of all CPU time on collecting what it cannot collect.
func giveWay(ctx context.Context, limit int64) {
	tick := time.NewTicker(giveWayEvery)
	defer tick.Stop()
	now := newMemoryUse()
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
	samples []metrics.Sample // live, total, and what total has of the heap's objects and of what is free for them
	live    int64            // objects that the last collection found in use
	other   int64            // all that the limit counts beside the heap's objects and what is free for them
}

func newMemoryUse() *memoryUse {
	m := &memoryUse{}
	for _, name := range []string{
		"/gc/heap/live:bytes", "/memory/classes/total:bytes", "/memory/classes/heap/released:bytes",
		"/memory/classes/heap/objects:bytes", "/memory/classes/heap/free:bytes", "/memory/classes/heap/unused:bytes",
	} {
		m.samples = append(m.samples, metrics.Sample{Name: name})
	}
	return m
}

func (m *memoryUse) read() {
	metrics.Read(m.samples)
	of := func(i int) int64 { return int64(m.samples[i].Value.Uint64()) } //nolint:gosec // no process has that much
	m.live, m.other = of(0), of(1)
	for i := 2; i < len(m.samples); i++ {
		m.other -= of(i)
	}
}

// limit is the configured limit, or more where there would be less room than for half of what is live.
func (m *memoryUse) limit(configured int64) int64 {
	const step = 4 << 20 // it is not set anew for less
	return max(configured, (m.other+m.live+m.live/2)/step*step)
}
