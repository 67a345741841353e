package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/vfs"
)

// newFilesNetwork is a network whose nodes keep nothing that they need not, so that a
// node that was away soon lacks what raft could give it.
func newFilesNetwork(t *testing.T) *network {
	t.Helper()
	return networkOf(t, 3, func(h *harness) {
		h.homed = true
		h.options.CommitLog.SegmentBytes = 8 << 10
		h.options.CommitLog.CacheBytes = -1
		h.options.TrimPause = 1
	})
}

// stop closes the node; others reach it no more.
func (nd *netNode) stop(tb testing.TB) {
	tb.Helper()
	nd.cut()
	old := nd.n
	nd.n = nil
	must(tb, old.Close())
}

// churn has the leader store and forget messages until its log begins behind entry
// `behind` of the others.
func (nw *network) churn(behind uint64) {
	nw.tb.Helper()
	for round := 0; uint64(nw.leader().n.log.First()) <= behind+1; round++ {
		if round > 50 {
			nw.tb.Fatal("the leader's log does not get shorter")
		}
		for i := range 30 {
			nw.propose(fmt.Sprint("keep", round, ".", i, strings.Repeat(".", 1000)))
		}
		for range 3 {
			nw.propose("forget9")
		}
		l := nw.leader()
		waitFor(nw.tb, func() bool { return l.n.log.Segments()[0].Sealed })
		l.h.trim(l.n)
	}
}

// settle restarts nodes that ask for it until all agree, and counts the restarts.
// between is called while one is down.
func (nw *network) settle(between func()) (restarts int) {
	nw.tb.Helper()
	nw.propose("settle")
	waitFor(nw.tb, func() bool {
		all := true
		l := nw.leader()
		for _, nd := range nw.nodes {
			select {
			case why := <-nd.h.anew:
				nw.tb.Logf("node %s: %v", nd.n.ID(), why)
				restarts++
				nd.stop(nw.tb)
				if between != nil {
					between()
				}
				nd.start(nw.tb)
			default:
			}
			all = all && nd.h.machine.Applied() == l.h.machine.Applied()
		}
		return all
	})
	return restarts
}

// A node that was away for longer than the log reaches back fetches the leader's files
// and then goes on by the log; so does one that is new.
func TestCatchUpByFiles(t *testing.T) {
	nw := newFilesNetwork(t)
	nw.form()
	away := nw.nodes[2]
	if nw.leader() == away {
		t.Fatal("the last node leads")
	}
	last := away.n.log.Last()
	away.stop(t)
	nw.churn(uint64(last))
	away.start(t)
	if n := nw.settle(nil); n != 1 {
		t.Fatalf("%d restarts, want 1", n)
	}
	nw.same(t)
	if away.n.log.First() <= last {
		t.Fatal("the node kept its old log")
	}
	for _, nd := range nw.nodes {
		names, err := nd.h.fs.List("data")
		must(t, err)
		for _, name := range names {
			if name == incomingName || name == arrivedName {
				t.Errorf("node %s is left with %s", nd.n.ID(), name)
			}
		}
	}
	// It can lead, and its state survives its own restart.
	for range 20 {
		nw.propose("more" + strings.Repeat(".", 900))
	}
	away.stop(t)
	away.start(t)
	nw.settle(nil)
	nw.same(t)

	// One with nothing at all is the extreme of it. That the leader makes a checkpoint
	// meanwhile, so that raft's snapshot is past the files, costs no second fetch.
	away.stop(t)
	away.h.fs = vfs.NewMem()
	away.start(t)
	n := nw.settle(func() {
		for range 20 {
			nw.propose("meanwhile" + strings.Repeat(".", 900))
		}
		nw.leader().n.checkpoint()
	})
	if n != 1 {
		t.Fatalf("%d restarts of an empty node, want 1", n)
	}
	if nw.leader().n.snapshots.resume.Load() == nil {
		t.Fatal("raft was never told from where to go on")
	}
	nw.same(t)
}

// same checks that all nodes have the same state, and that their logs are the same where
// they overlap, file by file.
func (nw *network) same(t *testing.T) {
	t.Helper()
	sums := map[string]uint32{}
	shared := 0
	for _, nd := range nw.nodes {
		if a, b := nd.h.machine.hash(), nw.nodes[0].h.machine.hash(); a != b {
			t.Fatalf("node %s has another state than node 1", nd.n.ID())
		}
		for _, s := range nd.n.log.Segments() {
			if !s.Sealed {
				continue
			}
			key := fmt.Sprint(s.Base, "-", s.Next)
			if sum, ok := sums[key]; ok && sum != s.Sum {
				t.Fatalf("node %s: segment %s has checksum %08x, another node's has %08x", nd.n.ID(), key, s.Sum, sum)
			} else if ok {
				shared++
			}
			sums[key] = s.Sum
		}
		for _, i := range nd.h.wanted() {
			if _, err := nd.n.log.Entry(i); err != nil {
				t.Fatalf("node %s lacks entry %d: %v", nd.n.ID(), i, err)
			}
		}
	}
	if shared == 0 {
		t.Fatal("no segment of two nodes was compared")
	}
}

// The leader waits a while before it trims what a node that has fetched its files goes
// on from, and no longer.
func TestExportsHoldTheLog(t *testing.T) {
	h := newTrimHarness(t, vfs.NewMem())
	n := h.lead()
	for range 30 {
		keep(t, n)
	}
	e, err := n.acquireExport(t.Context(), false)
	must(t, err)
	again, err := n.acquireExport(t.Context(), false)
	must(t, err)
	if again != e {
		t.Fatal("a second copy of the index was made")
	}
	for range 4 {
		propose(t, n, "forget9")
	}
	h.trim(n)
	if n.log.First() != 1 {
		t.Fatal("the log was trimmed while others fetch it")
	}
	n.releaseExport(e)
	n.releaseExport(e)
	h.trim(n)
	if n.log.First() != 1 {
		t.Fatal("the log was trimmed at once")
	}
	n.exports.grace = time.Nanosecond
	h.trim(n)
	if n.log.First() == 1 {
		t.Fatal("the log is held for ever")
	}
	if names, err := h.fs.List("data/" + exportsName); err != nil || len(names) != 0 {
		t.Fatalf("%q, %v", names, err)
	}
}

// Scenario 3 (hashicorp/raft#697): a leader that is cut off goes on to write entries that
// nobody else gets, more than the others write until they have forgotten where it left.
// Its log, longer than the snapshot that replaces it, costs one resync and no loop.
func TestLongerLogThanTheSnapshot(t *testing.T) {
	const tail = 62
	nw := networkOf(t, 3, func(h *harness) {
		h.homed = true
		h.options.CommitLog.SegmentBytes = 8 << 10
		h.options.CommitLog.CacheBytes = -1
		h.options.TrimPause = 1
		h.options.MaxInFlight = tail + 1
	})
	nw.form()
	nw.propose("keep")
	lone := nw.leader()
	for _, nd := range nw.nodes {
		if nd != lone {
			nd.cut()
		}
	}
	from := lone.n.log.Last()
	for i := range core.LogIndex(tail) {
		lone.n.ProposeAsync(command("nobody gets this"), func(core.Result, error) {})
		waitFor(t, func() bool { return lone.n.log.Last() >= from+i+1 || !lone.n.IsLeader() })
	}
	end := lone.n.log.Last()
	if end < from+tail/2 {
		t.Fatalf("only %d entries were written without a majority", end-from)
	}
	lone.stop(t)
	for _, nd := range nw.nodes {
		if nd != lone {
			nd.heal()
		}
	}
	for {
		nw.propose("keep" + strings.Repeat(".", 3000))
		nw.propose("forget1")
		l := nw.leader()
		l.h.trim(l.n)
		if l.n.log.First() > from+1 {
			break
		}
	}
	if s := nw.leader().n.snapshotIndex(); s >= end {
		t.Fatalf("the snapshot is at %d, the lone leader's log ended with %d: nothing is tested", s, end)
	}
	lone.start(t)
	if n := nw.settle(nil); n != 1 {
		t.Fatalf("%d restarts, want 1", n)
	}
	for range 30 {
		nw.propose("keep" + strings.Repeat(".", 3000))
	}
	nw.settle(nil)
	nw.same(t)
	for _, b := range lone.h.machine.bodies() {
		if b == "nobody gets this" {
			t.Fatal("what nobody acknowledged came back")
		}
	}
}
