package state

import (
	"bytes"
	"encoding/binary"

	"github.com/tidwall/btree"

	"polylog/core"
	"polylog/core/wire"
)

// A deleted queue, topic or exchange is no destination any more at once, and a deleted
// exchange no source. Its bindings are removed with it as far as there are few; of the rest it
// is written down which end of theirs is gone, and Sweep goes on.

// bindingsAtOnce bounds the bindings that one command removes beside what it is about.
const bindingsAtOnce = 256

// doomedBindings are the ends of bindings that are gone, by their keys in the KV space, each
// with the key of the first binding that may be left; the KV space has the same.
type doomedBindings struct{ ends btree.Map[string, []byte] }

// The key of an end: that of its bindings, with a 0 after the prefix. Its value: version byte,
// the key of the first binding that may be left.
func doomedEndKey(prefix []byte) []byte {
	return append([]byte{prefixBinding, 0}, prefix[1:]...)
}

func prefixOfEnd(key string) []byte { return append([]byte{prefixBinding}, key[2:]...) }

func (s *State) setDoomedEnd(tx txn, prefix, next []byte) {
	key := doomedEndKey(prefix)
	s.routing.doomed.ends.Set(string(key), next)
	tx.Set(key, append([]byte{valueVersion}, next...))
}

// unbindDestination leaves the bindings to what is gone to sweepBindings.
func (s *State) unbindDestination(tx txn, d destinationID) {
	if to := s.routing.destinations[d]; to != nil {
		to.gone = true
		s.setDoomedEnd(tx, destinationPrefix(d), destinationPrefix(d))
	}
}

// removeExchange removes an exchange, and leaves its bindings to sweepBindings.
func (s *State) removeExchange(tx txn, x *exchange) {
	r := &s.routing
	x.gone = true
	if v := r.vhosts[x.Name.Namespace]; v != nil && v.exchanges[x.Name.Name] == x {
		delete(v.exchanges, x.Name.Name)
	}
	tx.Delete(exchangeKey(x.Name))
	delete(r.exchanges, x.ID)
	r.weights -= x.weights
	if r.taps[x.Topic] == x {
		delete(r.taps, x.Topic)
	}
	if x.bindings > 0 {
		s.setDoomedEnd(tx, sourcePrefix(x.ID), sourcePrefix(x.ID))
	}
	s.unbindDestination(tx, destinationID{toExchange, x.ID})
}

// dropBinding removes a binding, and its source where that goes with its last one.
func (s *State) dropBinding(tx txn, id bindingID, b *Binding) {
	tx.Delete(id.sourceKey())
	tx.Delete(id.destinationKey())
	if x := s.routing.unbind(id, b); x != nil && x.bindings == 0 && x.AutoDelete {
		s.removeExchange(tx, x)
	}
}

// sweepBindings removes bindings that have lost an end. It returns the work that is left to
// do in this command.
func (s *State) sweepBindings(tx txn, work int) (int, error) {
	for work > 0 {
		key, next, ok := s.routing.doomed.ends.Min()
		if !ok {
			break
		}
		prefix := prefixOfEnd(key)
		keys, err := scanKeys(tx, next, after(prefix), work)
		if err != nil {
			return 0, err
		}
		for _, k := range keys {
			if err := s.dropBindingAt(tx, k); err != nil {
				return 0, err
			}
		}
		if len(keys) == work {
			s.setDoomedEnd(tx, prefix, append(keys[work-1], 0))
			return 0, nil
		}
		s.routing.doomed.ends.Delete(key)
		tx.Delete([]byte(key))
		work -= max(len(keys), 1)
	}
	return work, nil
}

// dropBindingAt removes the binding that has a key.
func (s *State) dropBindingAt(tx txn, key []byte) error {
	id, ok := parseBindingKey(key)
	if !ok {
		return core.E(core.Corrupt, "binding with the key %x", key)
	}
	v, ok, err := tx.Get(id.sourceKey())
	if err != nil {
		return err
	}
	if !ok {
		return core.E(core.Corrupt, "binding %x is below its destination only", key)
	}
	b, err := decodeBinding(v)
	if err != nil {
		return err
	}
	s.dropBinding(tx, id, b)
	return nil
}

func (s *State) loadDoomedBindings() error {
	start := []byte{prefixBinding, 0}
	var bad error
	err := s.store.Scan(start, after(start), func(k, v []byte) bool {
		r := wire.NewReader(v)
		if bad = checkVersion(&r, "doomed bindings"); bad != nil {
			return false
		}
		next := bytes.Clone(r.Rest())
		s.routing.doomed.ends.Set(string(k), next)
		if len(k) == 2+1+destinationLen && k[2] == byDestination {
			id := destinationID{destinationKind(k[3]), binary.BigEndian.Uint64(k[4:])}
			if to := s.routing.destinations[id]; to != nil {
				to.gone = true
			}
		}
		return true
	})
	if err == nil {
		err = bad
	}
	return err
}
