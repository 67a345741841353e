package state

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"polylog/core"
)

// TestReplicasAgree gives the same random entries to replicas that write
// checkpoints at different times, take entries in batches of different sizes, lose
// power and forget producers: their results and states must be equal.
func TestReplicasAgree(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			replicasAgree(t, seed, func(rnd *rand.Rand, s *State) core.Command { return randomCommand(t, rnd, s) })
		})
		t.Run(fmt.Sprint("mqtt, seed=", seed), func(t *testing.T) {
			replicasAgree(t, seed, func(rnd *rand.Rand, s *State) core.Command {
				if rnd.IntN(4) == 0 {
					return randomCommand(t, rnd, s)
				}
				return randomMQTTCommand(rnd, s)
			})
		})
	}
}

func replicasAgree(t *testing.T, seed uint64, random func(*rand.Rand, *State) core.Command) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	log := newEntries()
	steady, other := newMachine(t), newMachine(t)
	var pending []core.Entry // not yet applied by other
	want := [][]core.Result{}
	check := func() {
		t.Helper()
		got := other.state.Apply(pending)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("results differ\n one by one: %v\n as a batch: %v", want, got)
		}
		pending, want = nil, [][]core.Result{}
		if !maps.Equal(steady.digests, other.digests) {
			t.Fatalf("digests %x of a replica that took single entries, %x of one that took batches", steady.digests, other.digests)
		}
		steady.checkRouting()
		steady.checkAway()
		other.checkAway()
		if steady.hash() != other.hash() || !bytes.Equal(steady.kvBytes(), other.kvBytes()) {
			t.Fatalf("after entry %d the states differ:\n%s\n%s", len(log.all), steady.dump(), other.dump())
		}
	}
	for range 300 {
		log.time += int64(rnd.IntN(60))
		commands := make([]core.Command, rnd.IntN(5))
		for i := range commands {
			commands[i] = random(rnd, steady.state)
		}
		if rnd.IntN(8) == 0 {
			d := Digest{}
			commands = slices.Insert(commands, rnd.IntN(len(commands)+1), d.Command())
		}
		e := log.take(commands...)
		want = append(want, steady.state.Apply(e)...)
		pending = append(pending, e...)
		switch rnd.IntN(30) {
		case 0:
			check()
			other.checkpoint()
		case 1:
			check()
			other.crash(log.all)
			check()
		case 2:
			check()
			other.state.round += 2 // as if checkpoints had passed
			other.state.forgetIdleProducers()
		case 3:
			check()
		}
	}
	check()
	if len(steady.digests) == 0 {
		t.Fatal("no digest was made")
	}
}
