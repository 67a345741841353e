package state

import (
	"sync"
	"sync/atomic"
	"testing"

	"polylog/core"
)

// TestProducersWhileApplying lists producers while entries are applied, and while they
// move from memory to the KV space and back: none is missing, in any list.
func TestProducersWhileApplying(t *testing.T) {
	m, log := newMachine(t), newEntries()
	create := CreateTopic{Name: core.TopicName("t"), Partitions: 2}
	if r := m.state.Apply(log.take(create.Command()))[0][0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	qs := m.state.Topics()[0].Queues
	const producers = 3 * producersPerLook
	next := make([]int32, producers)
	send := func(from, to int) {
		var cs []core.Command
		for id := from; id < to; id++ {
			b := batch(t, 1, 1, core.Producer{ID: int64(id), Sequence: next[id]})
			cs = append(cs, AppendCommand(qs[id%2], b))
			next[id]++
		}
		for i, r := range m.state.Apply(log.take(cs...))[0] {
			if r.Err != nil {
				t.Errorf("producer %d: %v", from+i, r.Err)
			}
		}
	}
	send(0, producers)
	var applying sync.WaitGroup
	var stop atomic.Bool
	applying.Go(func() {
		for round := 0; !stop.Load(); round++ {
			at := round * 64 % producers
			send(at, at+64)
			if round%8 == 0 { // those that were not used for two rounds leave the memory
				cp, err := m.state.Freeze()
				if err == nil {
					err = cp.Write()
				}
				if err != nil {
					t.Error(err)
				}
			}
		}
	})
	defer applying.Wait()
	defer stop.Store(true)
	for range 10 {
		got, err := m.state.Producers(qs, producers)
		if err != nil {
			t.Fatal(err)
		}
		for i, q := range qs {
			if len(got[q]) != producers/2 {
				t.Fatalf("queue %d: %d producers, want %d", q, len(got[q]), producers/2)
			}
			for j, p := range got[q] {
				if p.ID != int64(2*j+i) {
					t.Fatalf("queue %d: producer %d at place %d", q, p.ID, j)
				}
			}
		}
		if _, err := m.state.Producers(qs, producers-1); core.KindOf(err) != core.TooLarge {
			t.Fatalf("beyond the limit: %v", err)
		}
	}
}
