package cluster

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"polylog/core"
	"polylog/core/commitlog"
	"polylog/core/vfs"
)

// The power fails under load, at a moment of its own choosing and with any part of
// what was not synced. Every command that was acknowledged before is there after the
// restart, and those of one proposer are there once, in its order, without a gap.
// With the os policy the end of the log may be lost, but nothing else.
func TestPowerFailure(t *testing.T) {
	seeds := 30
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(uint64(seed), 0))
		fs := vfs.NewMem()
		h := newHarness(t, fs)
		h.options.CheckpointBytes = 20 // entries: many checkpoints under way
		if seed%3 == 2 {
			h.options.CommitLog.Flush = commitlog.FlushOS
		}
		n := h.lead()

		var mu sync.Mutex
		var acked []string
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					body := fmt.Sprintf("%d.%06d", g, i)
					if _, err := n.Propose(t.Context(), command(body)); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					acked = append(acked, body)
					mu.Unlock()
				}
			})
		}
		at := 50 + rnd.IntN(500)
		waitFor(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(acked) >= at })
		mu.Lock()
		before := append([]string(nil), acked...)
		clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rnd.IntN(101), RNG: rnd})
		mu.Unlock()
		close(stop)
		wg.Wait()
		must(t, n.Close())

		flush := h.options.CommitLog.Flush
		h = newHarness(t, clone)
		h.options.CommitLog.Flush = flush
		n = h.lead()
		seen := map[string]bool{}
		next := map[byte]int{}
		for _, b := range h.machine.bodies() {
			if want := fmt.Sprintf("%c.%06d", b[0], next[b[0]]); b != want {
				t.Fatalf("seed %d: %s where %s should be", seed, b, want)
			}
			seen[b] = true
			next[b[0]]++
		}
		for _, b := range before {
			if !seen[b] && n.o.CommitLog.Flush == commitlog.FlushSync {
				t.Fatalf("seed %d: acknowledged %s is lost", seed, b)
			}
		}
		if r := propose(t, n, "after"); r.Offset != core.Offset(len(seen)) {
			t.Fatalf("seed %d: offset %d after %d commands", seed, r.Offset, len(seen))
		}
		must(t, n.Close())
	}
}
