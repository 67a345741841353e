package commitlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"polylog/core"
	"polylog/core/vfs"
)

// seeds is how many random histories the crash tests run; POLYLOG_SEEDS sets it.
func seeds(t *testing.T, normal int) int {
	if s := os.Getenv("POLYLOG_SEEDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return normal
}

// TestCrash runs random histories and crashes them at random places: the process or
// the machine, between two operations or before any single change to a file.
func TestCrash(t *testing.T) {
	for seed := range seeds(t, 1000) {
		if err := crashOnce(uint64(seed)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func crashOnce(seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(rng.IntN)
	if err := w.open(); err != nil {
		return err
	}
	defer func() { _ = w.l.Close() }()
	for range 4 {
		if err := w.lifeAndDeath(rng); err != nil {
			return fmt.Errorf("%+v: %w", w.o, err)
		}
	}
	return w.finish()
}

// lifeAndDeath does some operations, crashes, opens the log again and compares.
func (w *world) lifeAndDeath(rng *rand.Rand) error {
	var left atomic.Int64
	left.Store(int64(rng.IntN(120)))
	if rng.IntN(4) == 0 {
		left.Store(1 << 40) // dies between two operations
	}
	w.setHook(func(vfs.Op, string) error {
		if left.Add(-1) < 0 {
			return errDead
		}
		return nil
	})
	after, failed := w.m, false
	for range 1 + rng.IntN(25) {
		var err error
		if after, err = w.step(); err != nil {
			if !errors.Is(err, errDead) {
				return fmt.Errorf("step: %w", err)
			}
			failed = true
			break
		}
	}
	left.Store(-1)
	synced := w.l.Synced()
	percent := []int{-1, 0, 10, 50, 90, 100}[rng.IntN(6)]
	if err := w.crash(percent, rng); err != nil {
		return fmt.Errorf("open after a crash (%d %%, failed %t): %w", percent, failed, err)
	}
	return w.settle(after, synced, percent >= 0)
}

// settle compares the log after a crash with what may have survived, and makes that
// the model. after is the model if the last operation had been done.
func (w *world) settle(after model, synced core.LogIndex, machine bool) error {
	before := w.m
	next := w.l.Next()
	least := before.next()
	if machine {
		least = min(synced+1, before.next())
	}
	reset := after.origin != before.origin
	truncated := !reset && after.next() < before.next()
	switch {
	case reset && next == after.origin && w.l.First() == 0:
		w.m = after
	case !reset && next > before.next() && next <= after.next():
		w.m = after // some of an append's entries at least
		w.m.all = w.m.all[:next-w.m.origin]
	case next >= least && next <= before.next(),
		truncated && next == after.next(),
		truncated && machine && next > synced && next < after.next():
		w.m.all = w.m.all[:next-w.m.origin]
		if !reset {
			w.m.trim = after.trim
		}
	default:
		return fmt.Errorf("next is %d: was %d, synced up to %d, would be %d", next, before.next(), synced, after.next())
	}
	w.m.term = max(before.term, after.term) + 1
	return w.m.diff(w.l)
}

// TestIntentStaysGone lets the process die when it has removed an intent but not yet
// synced the directory, and much later the machine: the intent must not come back.
func TestIntentStaysGone(t *testing.T) {
	mem := vfs.NewMem()
	gone := false
	o := Options{Dir: "log", FS: vfs.WithHook(mem, func(op vfs.Op, path string) error {
		gone = gone || op == vfs.OpRemove && path == "log/"+intentName
		if gone && op != vfs.OpRemove {
			return errDead
		}
		return nil
	})}
	l := mustOpen(t, o)
	if err := l.Append(makeEntries(1, 9, 10, 1)); err != nil {
		t.Fatal(err)
	}
	if err := l.TruncateTail(5); !errors.Is(err, errDead) {
		t.Fatal(err)
	}
	o.FS = mem
	l = mustOpen(t, o)
	es := makeEntries(5, 9, 10, 2)
	if err := l.Append(es); err != nil {
		t.Fatal(err)
	}
	o.FS = mem.CrashClone(vfs.CrashCloneCfg{})
	checkEntries(t, mustOpen(t, o), es)
}
