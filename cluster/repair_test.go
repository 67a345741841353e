package cluster

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/commitlog"
	"polylog/core/vfs"
)

// newDamageNetwork is a cluster of three with sealed segments below their checkpoints.
func newDamageNetwork(t *testing.T) *network {
	t.Helper()
	nw := networkOf(t, 3, func(h *harness) {
		h.homed = true
		h.options.CommitLog.SegmentBytes = 8 << 10
		h.options.CommitLog.CacheBytes = -1
		h.options.RepairTimeout = 20 * time.Second
	})
	nw.form()
	for range 40 {
		nw.propose("keep" + strings.Repeat(".", 1000))
	}
	nw.converge()
	for _, nd := range nw.nodes {
		nd.n.checkpoint()
	}
	return nw
}

// damage changes a file of the node's log.
func (nd *netNode) damage(t *testing.T, base core.LogIndex, change func(b []byte) []byte) {
	t.Helper()
	name, _ := commitlog.SegmentName(base)
	path := "data/log/" + name
	b, err := vfs.ReadFile(nd.h.fs, path)
	must(t, err)
	f, err := nd.h.fs.OpenReadWrite(path, vfs.Category) // the same file, if the node has it open
	must(t, err)
	changed := change(bytes.Clone(b))
	if len(changed) < len(b) {
		must(t, errors.Join(f.Close(), vfs.WriteFile(nd.h.fs, path, changed)))
		return
	}
	_, err = f.WriteAt(changed, 0)
	must(t, errors.Join(err, f.Sync(), f.Close()))
}

func flipped(b []byte) []byte { b[4096+100] ^= 4; return b }
func cutOff(b []byte) []byte  { return b[:5000] }

func (nw *network) follower() *netNode {
	l := nw.leader()
	for _, nd := range nw.nodes {
		if nd != l {
			return nd
		}
	}
	return nil
}

// A flipped bit is found by whoever reads it, or by the scrub, and repaired from another
// node while the node runs; meanwhile it does not stand for election.
func TestDamageIsRepairedWhileRunning(t *testing.T) {
	nw := newDamageNetwork(t)
	nd := nw.follower()
	second := nd.n.log.Segments()[1]
	e, err := nd.n.log.Entry(second.Base)
	must(t, err)
	for name, find := range map[string]func(){
		"read": func() {
			if _, _, err := nd.n.ReadAt(second.Base, 0, uint32(len(e.Data)), nil); core.KindOf(err) != core.Corrupt {
				t.Fatalf("a damaged entry was read: %v", err)
			}
		},
		"scrub": func() { nd.n.scrubRound(t.Context()) },
	} {
		before := nd.n.repaired.Load()
		nd.damage(t, second.Base, flipped)
		find()
		waitFor(t, func() bool { return nd.n.repaired.Load() == before+1 })
		if _, err := nd.n.log.Entry(second.Base); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	nw.converge()
}

// While nobody can give the segment, the node cannot be elected, whoever else is gone.
func TestUnrepairedNodeIsNotElected(t *testing.T) {
	nw := newDamageNetwork(t)
	nd := nw.follower()
	second := nd.n.log.Segments()[1]
	for _, other := range nw.nodes {
		if other != nd {
			other.damage(t, second.Base, flipped) // they have it no better
		}
	}
	nd.damage(t, second.Base, flipped)
	nd.n.catchUp.first, nd.n.catchUp.limit = time.Millisecond, time.Millisecond
	if nd.n.scrubSegment(t.Context(), second.Base) {
		t.Fatal("repaired with damaged copies")
	}
	err := nd.n.electable()
	wantKind(t, err, core.Corrupt)
	for _, other := range nw.nodes {
		if other == nd {
			continue
		}
		err := nd.n.transport.RequestVote("x", "127.0.0.1:1", nil, nil)
		wantKind(t, err, core.Corrupt)
		wantKind(t, nd.n.transport.RequestPreVote("x", "127.0.0.1:1", nil, nil), core.Corrupt)
		other.damage(t, second.Base, flipped) // flips it back
	}
	if !nd.n.scrubSegment(t.Context(), second.Base) {
		t.Fatal("not repaired")
	}
	must(t, nd.n.electable())
	nw.converge()
}

// Scenario 7: a sealed segment of a stopped node is cut, lost or has another header. The
// node gets it from the others before it takes part, and nothing is lost.
func TestDamageIsRepairedAtTheStart(t *testing.T) {
	nw := newDamageNetwork(t)
	nd := nw.follower()
	segments := nd.n.log.Segments()
	for name, do := range map[string]func(){
		"cut":    func() { nd.damage(t, segments[1].Base, cutOff) },
		"header": func() { nd.damage(t, segments[1].Base, func(b []byte) []byte { b[3]++; return b }) },
		"two":    func() { nd.damage(t, segments[1].Base, cutOff); nd.damage(t, segments[2].Base, cutOff) },
		"missing, with its table": func() {
			seg, _ := commitlog.SegmentName(segments[1].Base)
			must(t, nd.h.fs.Remove("data/log/"+seg))
			must(t, nd.h.fs.Remove("data/log/"+strings.Replace(seg, ".log", ".tab", 1)))
		},
	} {
		nd.stop(t)
		do()
		nd.start(t)
		if nd.n.repaired.Load() == 0 {
			t.Fatalf("%s: nothing was repaired", name)
		}
		nw.converge()
	}
}

// A node that cannot repair its log does not start, and says why in one line; nothing of
// its log is touched.
func TestUnrepairedNodeDoesNotStart(t *testing.T) {
	nw := newDamageNetwork(t)
	nd := nw.follower()
	base := nd.n.log.Segments()[1].Base
	nd.stop(t)
	for _, other := range nw.nodes {
		if other != nd {
			other.damage(t, base, flipped)
		}
	}
	nd.damage(t, base, cutOff)
	nd.h.options.RepairTimeout = time.Second
	nd.h.options.Listener = listen(t)
	before := nd.h.list()
	_, err := nd.h.tryOpen()
	wantKind(t, err, core.Corrupt)
	if !strings.Contains(err.Error(), "must not vote") || strings.Contains(err.Error(), "\n") {
		t.Fatal(err)
	}
	if after := nd.h.list(); strings.Join(before, " ") != strings.Join(after, " ") {
		t.Fatalf("%q became %q", before, after)
	}
	for _, other := range nw.nodes {
		if other != nd {
			other.damage(t, base, flipped) // back
		}
	}
	nd.start(t)
	nw.converge()
}

// A lone node has nobody to ask: it says what is damaged, as it always did.
func TestDamageOfALoneNode(t *testing.T) {
	h := newTrimHarness(t, vfs.NewMem())
	n := h.lead()
	for range 40 {
		keep(t, n)
	}
	n.checkpoint()
	second := n.log.Segments()[1]
	nd := &netNode{h: h, n: n}
	nd.damage(t, second.Base, flipped)
	if n.scrubSegment(t.Context(), second.Base) {
		t.Fatal("repaired from nobody")
	}
	must(t, n.Close())
	nd.damage(t, second.Base, cutOff)
	_, err := h.tryOpen()
	wantKind(t, err, core.Corrupt)
	if !strings.Contains(err.Error(), "this is damage") || strings.Contains(err.Error(), "another node") || strings.Contains(err.Error(), "\n") {
		t.Fatal(err)
	}
}
