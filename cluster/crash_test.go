package cluster

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"polylog/core"
	"polylog/core/vfs"
)

// The power fails under load, at a moment of its own choosing and with any part of
// what was not synced. Every command that was acknowledged before is there after the
// restart, none is there twice, and those of one proposer are in its order.
func TestPowerFailure(t *testing.T) {
	seeds := 20
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(uint64(seed), 0))
		fs := vfs.NewMem()
		h := newHarness(t, fs)
		h.options.CheckpointBytes = 20 // entries: many checkpoints under way
		h.options.CommitLog.SegmentBytes = 1 << 20
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

		h = newHarness(t, clone)
		n = h.lead()
		seen := map[string]bool{}
		last := map[byte]string{}
		for _, b := range h.machine.bodies() {
			if seen[b] {
				t.Fatalf("seed %d: %s is there twice", seed, b)
			}
			if b <= last[b[0]] {
				t.Fatalf("seed %d: %s after %s", seed, b, last[b[0]])
			}
			seen[b], last[b[0]] = true, b
		}
		for _, b := range before {
			if !seen[b] {
				t.Fatalf("seed %d: acknowledged %s is lost", seed, b)
			}
		}
		if r := propose(t, n, "after"); r.Offset != core.Offset(len(seen)) {
			t.Fatalf("seed %d: offset %d after %d commands", seed, r.Offset, len(seen))
		}
		must(t, n.Close())
	}
}
