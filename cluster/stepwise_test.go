package cluster

import (
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"polylog/core"
	"polylog/core/vfs"
)

// A node that has much to apply after a restart answers its leader meanwhile.
func TestAnswersWhileItReplays(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	b := newScripted(t, "b")
	const entries = 160 * maxAppendEntries // more than raft keeps for the apply goroutine
	h.seed(string(b.tr.LocalAddr()), repeat(entries, 1)...)
	b.to = raft.ServerAddress(h.options.Listener.Addr().String())
	n := h.open()
	block := make(chan struct{})
	release := sync.OnceFunc(func() { close(block) })
	t.Cleanup(release)
	h.machine.mu.Lock()
	h.machine.block = block
	h.machine.mu.Unlock()
	const last = entries + 1
	commit := func() {
		t.Helper()
		r := raft.AppendEntriesRequest{Term: 2, PrevLogEntry: last, PrevLogTerm: 1, LeaderCommitIndex: last}
		if resp := b.append(r); !resp.Success {
			t.Fatalf("%+v", resp)
		}
	}
	for range 4 * entries / commitStep {
		commit()
	}
	if at, pending := n.raft.CommitIndex(), pending(n.raft); at < commitStep || at >= last || pending < maxPending/2 {
		t.Fatalf("entries up to %d are taken for committed, %d batches wait", at, pending)
	}
	if got := len(h.machine.bodies()); got > 0 {
		t.Fatalf("%d entries were applied already: this test shows nothing", got)
	}
	release()
	waitFor(t, func() bool {
		commit()
		return h.machine.Applied() == core.LogIndex(last)
	})
}

func TestCommitStep(t *testing.T) {
	for _, c := range []struct {
		commit, told uint64
		pending      int
		want         uint64
	}{
		{100, 50, 0, 50},
		{100, 101, 128, 101},
		{100, 100 + maxAppendEntries, 128, 100 + maxAppendEntries},
		{100, 101 + maxAppendEntries, maxPending, 101 + maxAppendEntries},
		{100, 101 + maxAppendEntries, maxPending + 1, 100},
		{100, 1e9, maxPending, 100 + commitStep},
	} {
		if got := step(c.commit, c.told, func() int { return c.pending }); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
