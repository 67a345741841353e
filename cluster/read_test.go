package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polylog/core"
)

// A read that is confirmed on any node sees every command that was acknowledged by any
// node before it, while leaders come and go; a node that is cut off confirms nothing.
func TestReadsAreCurrent(t *testing.T) {
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	nw := newNetwork(t, 3)
	nw.form()
	var acked atomic.Int64 // each command's number is higher than all acknowledged before
	var next atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, nd := range nw.nodes {
		n := nd.n
		wg.Go(func() { // writes one after the other
			for {
				select {
				case <-stop:
					return
				default:
				}
				i := next.Add(1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_, err := n.Propose(ctx, command(fmt.Sprint(i)))
				cancel()
				if err != nil {
					continue
				}
				for old := acked.Load(); old < i && !acked.CompareAndSwap(old, i); old = acked.Load() {
				}
			}
		})
	}
	var confirmed, refused atomic.Int64
	for _, nd := range nw.nodes {
		wg.Go(func() { // reads, and compares
			for {
				select {
				case <-stop:
					return
				default:
				}
				want := acked.Load()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				err := nd.n.ReadIndex(ctx)
				cancel()
				if err != nil {
					refused.Add(1)
					continue
				}
				confirmed.Add(1)
				if want > 0 && !slices.Contains(nd.h.machine.bodies(), fmt.Sprint(want)) {
					t.Errorf("node %s confirms a read without command %d, which was acknowledged before", nd.n.ID(), want)
					return
				}
			}
		})
	}
	progress := func(c *atomic.Int64, n int64) {
		from := c.Load()
		waitFor(t, func() bool { return c.Load() >= from+n || t.Failed() })
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	for range rounds {
		progress(&confirmed, 30)
		victim := nw.leader()
		if rnd.IntN(3) == 0 {
			victim = nw.nodes[rnd.IntN(3)]
		}
		victim.isolate()
		nw.otherLeader(victim)
		progress(&confirmed, 10)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		wantKind(t, victim.n.ReadIndex(ctx), core.Unavailable)
		cancel()
		victim.heal()
	}
	progress(&confirmed, 30)
	close(stop)
	wg.Wait()
	t.Logf("%d acknowledged, %d reads confirmed, %d not", acked.Load(), confirmed.Load(), refused.Load())
	nw.converge()
}
