package simtest

import (
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// After a leader's death the others elect when the first of them misses it, not the last: the
// election is over within 1.75 times ElectionTimeout, on the bubble's clock, but for those in
// which both stand at once.
func TestElectionAfterKill(t *testing.T) {
	const worlds, kills, timeout = 4, 5, time.Second // as node.boot has it
	var gaps []time.Duration
	for seed := range uint64(worlds) {
		runtime.GC()
		runtime.GC()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(Sim{Seed: seed})
			for _, nd := range w.nodes {
				w.loops.Go(nd.supervise)
			}
			defer func() { close(w.done); w.loops.Wait() }()
			if !w.form() {
				t.Error("the cluster does not form")
			}
			for range kills {
				if !w.await(healTime, w.calm) {
					t.Error("not all nodes follow one leader")
					return
				}
				pause(time.Duration(len(gaps)) * 37 * time.Millisecond) // wherever the time-outs are
				dead := w.leader()
				dead.node.power(false, 100, true)
				begin := time.Now()
				for w.leader() == nil {
					pause(time.Millisecond)
				}
				gaps = append(gaps, time.Since(begin))
				dead.node.power(true, 0, false)
			}
		})
	}
	slices.Sort(gaps)
	t.Log(gaps)
	if n := len(gaps); n != worlds*kills || gaps[n*8/10] > timeout*7/4+timeout/10 {
		t.Errorf("elections took %v", gaps)
	}
}
