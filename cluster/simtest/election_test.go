package simtest

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// After a leader's death the others elect when the first of them misses it, not the last: the
// election is over within 1.75 times ElectionTimeout, on the bubble's clock, also when both
// stand at once and their disks are slow with votes (one of five was split so).
func TestElectionAfterKill(t *testing.T) {
	const worlds, kills, timeout = 12, 5, time.Second // as node.boot has it
	var gaps []time.Duration
	for seed := range uint64(worlds) {
		runtime.GC()
		runtime.GC()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(Sim{Seed: seed})
			for _, nd := range w.nodes {
				nd.slowVotes.Store(int64(5 * time.Millisecond))
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
	if n := len(gaps); n != worlds*kills || gaps[n-2] > timeout*7/4+timeout/10 {
		t.Errorf("elections took %v", gaps)
	}
}

// A node that leaves elections to others is not elected where one of them can be, by time-outs or by
// a leader that stops, and is elected where none can.
func TestReluctantNode(t *testing.T) {
	runtime.GC()
	runtime.GC()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(Sim{Seed: 1})
		shy := w.nodes[2]
		shy.shy.Store(true)
		for _, nd := range w.nodes {
			w.loops.Go(nd.supervise)
		}
		defer func() { close(w.done); w.loops.Wait() }()
		if !w.form() || !w.prepare() {
			t.Fatal("the cluster does not form")
		}
		for i := range 8 {
			if !w.await(healTime, w.calm) {
				t.Fatal("not all nodes follow one leader")
			}
			old := w.leader()
			if old.node == shy {
				t.Fatalf("it leads after %d elections", i)
			}
			if i%2 == 0 {
				old.node.power(false, 100, true)
				pause(3 * time.Second)
				old.node.power(true, 0, false)
			} else {
				w.loops.Go(old.stop)
				pause(time.Second)
			}
		}
		// With data that the others lack nobody else can lead.
		if !w.await(healTime, w.calm) {
			t.Fatal("not all nodes follow one leader")
		}
		leader := w.leader()
		rest := w.nodes[1-leader.node.host]
		w.isolate(func(from, to int) bool { return from == rest.host || to == rest.host })
		<-w.send(leader, rand.New(rand.NewPCG(1, 1)))
		leader.node.power(false, 100, true)
		w.net.heal()
		if !w.await(time.Minute, func() bool { l := w.leader(); return l != nil && l.node == shy }) {
			t.Error("nobody leads")
		}
		if w.hopeless() {
			t.Error(w.failures)
		}
	})
}
