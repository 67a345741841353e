package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// fault is one entry of the schedule: all that chance decides is decided here, so that a seed
// gives the same schedule again. Which node leads is found out when its time has come.
type fault struct {
	Kind   string        `json:"kind"`
	Leader bool          `json:"leader"` // hits the leader, otherwise a follower
	Hold   time.Duration `json:"hold"`   // how long it lasts
	Rest   time.Duration `json:"rest"`   // how long all is well before it
	Seed   uint64        `json:"seed"`   // of its own choices
}

func (f fault) String() string {
	at := "follower"
	if f.Leader {
		at = "leader"
	}
	return fmt.Sprintf("%s of %s for %v", f.Kind, at, f.Hold.Round(time.Millisecond))
}

// kind is a kind of fault.
type kind struct {
	name   string
	weight int  // among the others
	nodes  int  // how many nodes it takes
	all    bool // hits all nodes, or enough of them that nothing can be written meanwhile
	// excused says that the node may end by itself, and stay down as long as the fault lasts.
	excused bool
	// limit is the longest time without an acknowledged write; 0 is none.
	limit time.Duration
	fetch bool             // a node fetches the whole log afterwards, and may take longer than others until all is well
	hold  [2]time.Duration // the shortest and the longest
	do    func(r *run, n *node, rng *rand.Rand) (heal func() error, err error)
}

// plan draws a schedule of n faults: one of each kind at least, as far as n goes, and the others by
// their weights.
func plan(seed uint64, n int, kinds []kind) []fault {
	rng := rand.New(rand.NewPCG(seed, 0))
	draw := make([]kind, 0, n)
	for _, i := range rng.Perm(len(kinds)) {
		if len(draw) < n {
			draw = append(draw, kinds[i])
		}
	}
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	for len(draw) < n {
		at := rng.IntN(total)
		i := slices.IndexFunc(kinds, func(k kind) bool { at -= k.weight; return at < 0 })
		draw = append(draw, kinds[i])
	}
	rng.Shuffle(n, func(i, j int) { draw[i], draw[j] = draw[j], draw[i] })
	faults := make([]fault, n)
	for i, k := range draw {
		faults[i] = fault{
			Kind: k.name, Leader: rng.IntN(2) == 0, Hold: k.hold[0] + time.Duration(rng.Int64N(int64(k.hold[1]-k.hold[0])+1)),
			Rest: time.Duration(rng.IntN(1000)) * time.Millisecond, Seed: rng.Uint64(),
		}
	}
	return faults
}

// choose gives the kinds that a cluster of the size can have, or those of them that are named.
func choose(kinds []kind, nodes int, names string) ([]kind, error) {
	var of []kind
	for _, k := range kinds {
		if k.nodes <= nodes {
			of = append(of, k)
		}
	}
	if names == "" {
		return of, nil
	}
	var chosen []kind
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(of, func(k kind) bool { return k.name == name })
		if i < 0 {
			return nil, fmt.Errorf("%d nodes have no fault %q", nodes, name)
		}
		chosen = append(chosen, of[i])
	}
	return chosen, nil
}
