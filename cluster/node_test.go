package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/vfs"
)

func TestLoneNode(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	h.options.ElectionTimeout = time.Hour // it leads without waiting for that
	changed := make(chan struct{}, 100)
	h.options.LeaderChanged = func() { changed <- struct{}{} }
	n := h.lead()
	<-changed
	for i := range 10 {
		if r := propose(t, n, fmt.Sprint(i)); r.Offset != core.Offset(i) {
			t.Fatalf("proposal %d got offset %d", i, r.Offset)
		}
	}
	if m, ok := n.Leader(); !ok || m.ID != "1" || !n.IsLeader() || n.Term() != 2 {
		t.Fatalf("leader %v %v, term %d", m, ok, n.Term())
	}
	if ms := n.Members(); len(ms) != 1 || !ms[0].Voter || n.ID() != "1" || len(n.ClusterID()) != 22 {
		t.Fatalf("members %v of %q", ms, n.ClusterID())
	}
	if err := n.ReadIndex(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := n.ClusterID()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Propose(t.Context(), command("late")); core.KindOf(err) != core.Closed {
		t.Fatalf("after Close: %v", err)
	}

	n = h.lead()
	if n.ClusterID() != id {
		t.Fatalf("cluster id %q, was %q", n.ClusterID(), id)
	}
	if h.machine.calls != 0 {
		t.Fatalf("%d calls of Apply after a clean shutdown", h.machine.calls)
	}
	if got := h.machine.bodies(); len(got) != 10 {
		t.Fatalf("bodies %q", got)
	}
	propose(t, n, "more")
}

func TestReplayAfterCrash(t *testing.T) {
	fs := vfs.NewMem()
	h := newHarness(t, fs)
	n := h.lead()
	for i := range 100 {
		propose(t, n, fmt.Sprint(i))
		if i == 50 {
			n.checkpoint()
		}
	}
	want := h.machine.bodies()
	h2 := newHarness(t, fs.CrashClone(vfs.CrashCloneCfg{}))
	h2.lead()
	if got := h2.machine.bodies(); !slices.Equal(got, want) {
		t.Fatalf("after the crash %d bodies, want %d", len(got), len(want))
	}
}

func TestCheckpointIsDue(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	h.options.CheckpointBytes = 10 // entries, for the test machine
	n := h.lead()
	for n.Stats().Checkpoints < 3 {
		propose(t, n, "x")
	}
	if s := n.Stats(); s.Snapshot == 0 || s.Durable == 0 {
		t.Fatalf("%+v", s)
	}
	h.options.CheckpointBytes = 0
	h.options.CheckpointLogBytes = 1000
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = h.lead()
	for n.Stats().Checkpoints < 3 {
		propose(t, n, "y")
	}
	// A part of that is enough when the last one was a while ago.
	h.options.CheckpointLogBytes = 1000 * unhurried
	h.options.CheckpointPause = time.Nanosecond
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = h.lead()
	for n.Stats().Checkpoints < 3 {
		if n.Stats().StoredBytes > h.options.CheckpointLogBytes {
			t.Fatal("checkpoints wait for all of CheckpointLogBytes")
		}
		propose(t, n, "z")
	}
	// So is few bytes that were much work.
	h.options.CheckpointLogBytes, h.options.CheckpointPause = 0, 0
	h.options.CheckpointWork = time.Nanosecond
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = h.lead()
	for n.Stats().Checkpoints < 3 {
		if n.Stats().StoredBytes > 1<<20 {
			t.Fatal("checkpoints wait for bytes")
		}
		propose(t, n, "w")
	}
}

func TestEntryTimeNeverGoesBack(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	now := int64(5000)
	h.options.Clock = func() time.Time { return time.UnixMilli(now) }
	n := h.lead()
	propose(t, n, "a")
	now = 4000
	propose(t, n, "b")
	if !slices.Equal(h.machine.times, []int64{5000, 5000}) {
		t.Fatalf("times %v", h.machine.times)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	now = 3000
	n = h.lead() // nothing is replayed: the time comes from the log
	propose(t, n, "c")
	if !slices.Equal(h.machine.times, []int64{5000}) {
		t.Fatalf("times %v", h.machine.times)
	}
}

func TestOpenRefusesLostEntries(t *testing.T) {
	fs := vfs.NewMem()
	h := newHarness(t, fs)
	n := h.lead()
	for range 10 {
		propose(t, n, "x")
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := fs.RemoveAll("data/log"); err != nil {
		t.Fatal(err)
	}
	_, err := h.tryOpen()
	wantKind(t, err, core.Corrupt)
	if err := fs.RemoveAll("data/raft"); err != nil {
		t.Fatal(err)
	}
	_, err = h.tryOpen()
	wantKind(t, err, core.Corrupt)
}
