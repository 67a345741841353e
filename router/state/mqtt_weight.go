package state

import (
	"polylog/core"
	"polylog/core/wire"
)

// A filter's queue whose bytes are bounded has beside it what its messages weigh: not each one, but
// portions of them, of a sixteenth of the bound, so that one key of the KV space, of at most a few
// hundred bytes, says it all.

// weighed is a portion of a queue's messages: those from an offset on, up to the next portion.
type weighed struct {
	from  core.Offset
	bytes uint64
}

// portions is in how many a bound is cut.
const portions = 16

func mqttWeightKey(q core.QueueID) []byte { return mqttNumberKey(mqttWeight, uint64(q)) }

// encodeWeight encodes: version byte; of each portion, from and bytes uvarint.
func encodeWeight(all []weighed) []byte {
	b := []byte{valueVersion}
	for _, w := range all {
		b = wire.AppendUvarint(wire.AppendUvarint(b, uint64(w.from)), w.bytes)
	}
	return b
}

func decodeWeight(v []byte) (all []weighed, err error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "mqtt weight"); err != nil {
		return nil, err
	}
	for r.Len() > 0 {
		all = append(all, weighed{core.Offset(r.Uvarint()), r.Uvarint()})
	}
	if err := r.Close(); err != nil {
		return nil, core.E(core.Corrupt, "mqtt weight: %v", err)
	}
	return all, nil
}

// weigh adds the newest message, at an offset, to what the queue weighs, and says before which
// offset messages have to go so that the bound is kept: start where none have to. What came before
// the queue's bytes were bounded weighs nothing.
func (m *mqtt) weigh(tx txn, q filterQueue, start, newest core.Offset, size int) (core.Offset, error) {
	key := mqttWeightKey(q.id)
	v, _, err := tx.Get(key)
	if err != nil {
		return start, err
	}
	var all []weighed
	if len(v) > 0 {
		if all, err = decodeWeight(v); err != nil {
			return start, err
		}
	}
	all = addWeight(all, start, newest, uint64(size), q.bytes)
	all, before := lighten(all, q.bytes)
	tx.Set(key, encodeWeight(all))
	return max(start, before), nil
}

// addWeight adds a message to the portions of a queue that begins at start by now.
func addWeight(all []weighed, start, newest core.Offset, size, limit uint64) []weighed {
	if start == newest {
		all = nil // it was empty
	}
	for len(all) > 1 && all[1].from <= start {
		all = all[1:]
	}
	if n := len(all); n > 0 && all[n-1].bytes*portions < limit {
		all[n-1].bytes += size
		return all
	}
	return append(all, weighed{newest, size})
}

// lighten drops the oldest portions of what weighs an eighth more than the limit, as long as what
// is left reaches it; before is where the rest begins, 0 where nothing was dropped. So the newest
// message is always left, however large it is.
func lighten(all []weighed, limit uint64) (rest []weighed, before core.Offset) {
	total := uint64(0)
	for _, w := range all {
		total += w.bytes
	}
	if total <= limit+limit/8 {
		return all, 0
	}
	for len(all) > 1 && total-all[0].bytes >= limit {
		total -= all[0].bytes
		all = all[1:]
		before = all[0].from
	}
	return all, before
}
