package state

import (
	"encoding/binary"
	"runtime"
	"slices"

	"polylog/core"
)

// ProducerState is what is known of a producer on a queue.
type ProducerState struct {
	ID           int64
	Epoch        int16
	LastSequence int32
	LastOffset   core.Offset // of the first record of its last batch
	Time         int64       // of its last append, ms
}

func (p *producer) state(id int64) ProducerState {
	last := p.seqs[p.n-1]
	return ProducerState{id, p.epoch, last.last, last.offset, p.time}
}

// producersPerLook is how many producers in memory are looked at while the applier waits.
const producersPerLook = 1 << 10

// Producers are the producers of each of the queues, by id. More than limit of them are
// an error of kind TooLarge. The applier goes on meanwhile, so that what is told of two
// producers may not have been true at one time.
func (s *State) Producers(qs []core.QueueID, limit int) (map[core.QueueID][]ProducerState, error) {
	found := make(map[producerKey]ProducerState)
	wanted := make(map[core.QueueID]struct{}, len(qs))
	for _, q := range qs {
		wanted[q] = struct{}{}
	}
	// Memory first: who leaves it after this was written to the KV space before.
	s.addFromMemory(wanted, limit, found)
	for q := range wanted {
		if err := s.addFromStore(q, limit, found); err != nil {
			return nil, err
		}
	}
	if len(found) > limit {
		return nil, core.E(core.TooLarge, "more than %d producers", limit)
	}
	ps := make(map[core.QueueID][]ProducerState, len(wanted))
	for key, p := range found {
		ps[key.queue] = append(ps[key.queue], p)
	}
	for _, of := range ps {
		slices.SortFunc(of, func(a, b ProducerState) int { return int(min(max(a.ID-b.ID, -1), 1)) })
	}
	return ps, nil
}

// addFromMemory adds to found those of the wanted queues that the applier has in
// memory, until there are more than limit. The applier gets its turn in between: the map
// may change then, which iteration allows as long as it does not do so at one time with it.
func (s *State) addFromMemory(wanted map[core.QueueID]struct{}, limit int, found map[producerKey]ProducerState) {
	s.applying.Lock()
	defer s.applying.Unlock()
	seen := 0
	for key, p := range s.producers {
		if _, ok := wanted[key.queue]; ok {
			found[key] = p.state(key.id)
			if len(found) > limit {
				return
			}
		}
		if seen++; seen%producersPerLook == 0 {
			s.applying.Unlock()
			runtime.Gosched()
			s.applying.Lock()
		}
	}
}

// addFromStore adds to found those of a queue that are in the KV space only, until
// there are more than limit.
func (s *State) addFromStore(q core.QueueID, limit int, found map[producerKey]ProducerState) (err error) {
	var bad error
	prefix := producerPrefix(q)
	err = s.store.Scan(prefix, after(prefix), func(k, v []byte) bool {
		key := producerKey{q, int64(binary.BigEndian.Uint64(k[len(prefix):]))}
		if _, ok := found[key]; ok {
			return true // which is newer
		}
		var p *producer
		if p, bad = decodeProducer(v); bad != nil {
			return false
		}
		found[key] = p.state(key.id)
		return len(found) <= limit
	})
	if err == nil {
		err = bad
	}
	return err
}
