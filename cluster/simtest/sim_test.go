package simtest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"polylog/core/commitlog"
)

var (
	firstSeed = flag.Uint64("seed", 1, "the first seed")
	seeds     = flag.Int("seeds", 8, "how many seeds")
	journals  = flag.String("journals", "../../.cache/sim", "where journals of failures go")
)

// simulate runs one world in a bubble. What earlier worlds have left in pools may hold
// channels of their bubbles: two collections empty them.
func simulate(t *testing.T, sim Sim) (stats Stats, err error) {
	t.Helper()
	runtime.GC()
	runtime.GC()
	synctest.Test(t, func(*testing.T) { stats, err = Run(sim) })
	return stats, err
}

func TestSeeds(t *testing.T) {
	n := *seeds
	if testing.Short() {
		n = min(n, 3)
	}
	var sum Stats
	for i := range n {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			stats, err := simulate(t, Sim{Seed: seed})
			t.Logf("%+v", stats)
			report(t, err)
			sum.add(stats)
			if err == nil && (stats.Acked == 0 || stats.Reads == 0) {
				t.Error("nothing has happened")
			}
		})
	}
	t.Logf("all: %+v", sum)
	if n >= 8 && (sum.Terms <= 2*n || sum.Starts <= 4*n || sum.Uncertain == 0 || sum.Trimmed == 0) || n >= 50 && sum.Restarts == 0 {
		t.Errorf("the faults have not done much: %+v", sum)
	}
}

// Scenario 1 of the ten (docs/raft-scenarios.md).
func TestOldLeaderHearsOfNewTerm(t *testing.T) { testScript(t, "old-leader") }

// Scenario 2.
func TestPowerCutBetweenHalvesOfVote(t *testing.T) { testScript(t, "half-vote") }

// Scenario 3.
func TestLeaderWithOldTailReturns(t *testing.T) {
	if stats := testScript(t, "old-tail"); stats.Restarts < stats.Performed {
		t.Errorf("%d states were taken over in %d rounds", stats.Restarts, stats.Performed)
	}
}

// Scenario 5.
func TestKillsWhileApplying(t *testing.T) {
	if stats := testScript(t, "kills"); stats.Starts < 5*stats.Performed {
		t.Errorf("%d starts in %d rounds", stats.Starts, stats.Performed)
	}
}

// Scenario 6.
func TestAllNodesLosePower(t *testing.T) { testScript(t, "all-down") }

// Scenario 8, the part that chance does not find.
func TestCopyOfOldDataDoesNotVote(t *testing.T) { testScript(t, "old-copy") }

// Scenario 9.
func TestLateCommandAfterLeaderChange(t *testing.T) { testScript(t, "late-command") }

// testScript plays a script in some worlds, in which it must get to its end now and then.
func testScript(t *testing.T, name string) (sum Stats) {
	t.Helper()
	n := max(1, *seeds/16)
	for i := range n {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			stats, err := simulate(t, Sim{Seed: seed, Script: name})
			t.Logf("%+v", stats)
			report(t, err)
			sum.add(stats)
		})
	}
	if sum.Performed < n && !t.Failed() {
		t.Errorf("the script came to its end %d times in %d worlds", sum.Performed, n)
	}
	return sum
}

// A log that acknowledges before it has synced breaks its promise, and the simulation
// has to find that.
func TestFindsWritesThatAreNotSynced(t *testing.T) {
	const limit = 20
	for seed := range uint64(limit) {
		if _, err := simulate(t, Sim{Seed: seed, Flush: commitlog.FlushOS}); err != nil {
			t.Logf("found with seed %d", seed)
			return
		}
	}
	t.Errorf("nothing was wrong with %d seeds", limit)
}

// report says what was wrong and how to see it again.
func report(t *testing.T, err error) {
	t.Helper()
	f, ok := errors.AsType[*Failure](err)
	if !ok {
		return
	}
	name := filepath.Join(*journals, strings.ReplaceAll(t.Name(), "/", "-")+".log")
	if err := os.MkdirAll(*journals, 0o755); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(name, []byte(f.Error()+"\n"+f.Journal), 0o644); err != nil {
		t.Error(err)
	}
	t.Errorf("%v\nThe journal is in %s. Again, maybe more than once: make sim SEEDS=1 SEED=%d", f, name, f.Seed)
}

func (s *Stats) add(o Stats) {
	s.Acked += o.Acked
	s.Uncertain += o.Uncertain
	s.Reads += o.Reads
	s.Starts += o.Starts
	s.Restarts += o.Restarts
	s.Terms += o.Terms
	s.Entries += o.Entries
	s.Trimmed += o.Trimmed
	s.Performed += o.Performed
}
