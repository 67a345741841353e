package main

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// The limit is what was configured as long as that has room for half as much again as is live.
func TestMemoryLimitGivesWay(t *testing.T) {
	for _, c := range []struct{ live, other, want int64 }{
		{0, 0, 256}, {100, 50, 256}, {136, 52, 256}, {200, 100, 400}, {201, 100, 400}, {1000, 0, 1500},
	} {
		m := memoryUse{live: c.live << 20, other: c.other << 20}
		if got := m.limit(256<<20) >> 20; got != c.want {
			t.Errorf("%d MiB live and %d MiB beside: %d MiB, want %d", c.live, c.other, got, c.want)
		}
	}
}

// It rises while much is live, and is back when that is gone.
func TestMemoryLimitRisesAndSinks(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	const configured = 1 << 20 // less than a process has
	much := make([]byte, 64<<20)
	runtime.GC()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go giveWay(ctx, configured)
		set := func() int64 {
			<-time.After(2 * giveWayEvery)
			synctest.Wait()
			return debug.SetMemoryLimit(-1)
		}
		high := set()
		if high < int64(len(much))*3/2 {
			t.Errorf("%d bytes with %d live", high, len(much))
		}
		runtime.KeepAlive(much)
		much = nil
		runtime.GC()
		if low := set(); low > high-64<<20 {
			t.Errorf("%d bytes, after %d", low, high)
		}
		cancel()
		synctest.Wait()
	})
}
