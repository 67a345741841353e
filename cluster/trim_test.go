package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/vfs"
)

func newTrimHarness(tb testing.TB, fs vfs.FS) *harness {
	h := newHarness(tb, fs)
	h.options.CommitLog.SegmentBytes = 8 << 10
	h.options.CommitLog.CacheBytes = -1
	h.options.TrimPause = 1
	return h
}

func keep(tb testing.TB, n *Node) { propose(tb, n, "keep"+strings.Repeat(".", 1000)) }

func (h *harness) wanted() []core.LogIndex {
	h.machine.mu.Lock()
	defer h.machine.mu.Unlock()
	return slices.Clone(h.machine.state.Wanted)
}

// trim does what the router's retention does.
func (h *harness) trim(n *Node) {
	to := n.machine.Applied()
	if live := n.machine.FirstLive(); live > 0 {
		to = live - 1
	}
	n.Trim(to)
}

// oldest is the name of the oldest segment's file.
func (h *harness) oldest() string {
	h.tb.Helper()
	names := h.list()
	i := slices.IndexFunc(names, func(s string) bool { return strings.HasSuffix(s, ".log") })
	return h.fs.PathJoin(h.dir, logName, names[i])
}

func (h *harness) list() []string {
	h.tb.Helper()
	names, err := h.fs.List(h.fs.PathJoin(h.dir, logName))
	if err != nil {
		h.tb.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// Space is free as soon as nobody wants it, without a checkpoint being due and without
// further entries.
func TestTrimFreesWhatIsDead(t *testing.T) {
	h := newTrimHarness(t, vfs.NewMem())
	n := h.lead()
	for range 50 {
		keep(t, n)
	}
	h.trim(n)
	if s := n.Stats(); s.First != 1 || s.Checkpoints != 0 {
		t.Fatalf("nothing is dead: %+v", s)
	}
	for range 6 {
		propose(t, n, "forget9")
	}
	waitFor(t, func() bool { return n.log.Segments()[0].Sealed })
	h.trim(n)
	if got := len(n.log.Segments()); got > 2 {
		t.Fatalf("%d segments left of a dead log", got)
	}
}

// Forced checkpoints are no more frequent than TrimPause.
func TestTrimPause(t *testing.T) {
	h := newTrimHarness(t, vfs.NewMem())
	h.options.TrimPause = time.Hour
	n := h.lead()
	for range 3 {
		for range 20 {
			keep(t, n)
		}
		for range 3 {
			propose(t, n, "forget9")
		}
		waitFor(t, func() bool { return n.log.Segments()[0].Sealed })
		h.trim(n)
	}
	if s := n.Stats(); s.Checkpoints != 1 {
		t.Fatalf("%d checkpoints", s.Checkpoints)
	}
}

// Whatever is trimmed, and whenever the power fails: what is wanted is there, and a
// log that was trimmed rightly is never refused; but where its oldest segment is
// missing it is, and is left as it was.
func TestTrimAndPowerFailure(t *testing.T) {
	seeds := 40
	if testing.Short() {
		seeds = 8
	}
	refused := 0
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		fs := vfs.NewMem()
		h := newTrimHarness(t, fs)
		n := h.lead()
		for range 60 {
			switch rnd.IntN(8) {
			case 0, 1, 2:
				for range rnd.IntN(12) {
					keep(t, n)
				}
			case 3, 4:
				propose(t, n, fmt.Sprint("forget", rnd.IntN(10)))
			case 5:
				h.trim(n)
			case 6:
				n.checkpoint()
			case 7:
				clone := fs
				if rnd.IntN(3) > 0 {
					clone = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rnd.IntN(101), RNG: rnd})
				}
				must(t, n.Close())
				fs = clone
				h = newTrimHarness(t, fs)
				n = h.lead()
			}
			for _, i := range h.wanted() {
				if _, err := n.log.Entry(i); err != nil {
					t.Fatalf("seed %d: wanted entry %d: %v", seed, i, err)
				}
			}
		}
		if len(n.log.Segments()) == 1 {
			must(t, n.Close())
			continue
		}
		n.trimDead()
		clone := fs.CrashClone(vfs.CrashCloneCfg{})
		must(t, n.Close())
		h = newTrimHarness(t, clone)
		must(t, clone.Remove(h.oldest()))
		before := h.list()
		_, err := h.tryOpen()
		wantKind(t, err, core.Corrupt)
		if after := h.list(); !strings.Contains(err.Error(), "is missing") || !slices.Equal(before, after) {
			t.Fatalf("seed %d: %v; %q became %q", seed, err, before, after)
		}
		refused++
	}
	if refused < seeds/4 {
		t.Fatalf("only %d of %d logs had a segment to lose", refused, seeds)
	}
}

// A node whose vote file is missing, or older than its log, does not start.
func TestLostVote(t *testing.T) {
	for _, c := range []struct {
		name, want string
		do         func(h *harness)
	}{
		{"missing", "is missing", func(h *harness) { must(t, h.fs.Remove("data/raft/vote")) }},
		{"all of raft missing", "is missing", func(h *harness) { must(t, h.fs.RemoveAll("data/raft")) }},
		{"of an earlier term", "knows term 0", func(h *harness) {
			must(t, h.fs.Remove("data/raft/vote"))
			must(t, openStableAt(t, h.fs, "data/raft").close())
		}},
	} {
		h := newHarness(t, vfs.NewMem())
		n := h.lead()
		propose(t, n, "x")
		must(t, n.Close())
		c.do(h)
		_, err := h.tryOpen()
		wantKind(t, err, core.Corrupt)
		if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "must not vote") {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := h.fs.Stat("data/raft/vote"); c.want == "is missing" && err == nil {
			t.Errorf("%s: the vote file was made anew", c.name)
		}
	}
}
