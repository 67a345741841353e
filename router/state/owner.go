package state

import (
	"encoding/binary"

	"polylog/core"
	"polylog/core/wire"
)

// A queue may belong to an owner, which is the name of a lease, and goes when that does: when
// it is released, when somebody else takes it over, and when its node's session ends and
// SweepLeases comes to it. A declaration that meets a queue whose owner is gone already, but
// not yet swept, replaces it.

func ownedPrefix(owner string) []byte { return wire.AppendString([]byte{prefixOwned}, owner) }

func ownedKey(owner string, q core.QueueID) []byte {
	return binary.BigEndian.AppendUint64(ownedPrefix(owner), uint64(q))
}

// owns reports whether an owner's lease is valid.
func (s *State) owns(tx txn, owner string) (bool, error) {
	l, err := readLease(tx, owner)
	if err != nil || l == nil {
		return false, err
	}
	return s.sessions[l.Node].Number == l.Session, nil
}

// deleteOwned deletes up to limit queues of an owner, and says how many.
func (s *State) deleteOwnedQueues(tx txn, owner string, limit int) (n int, err error) {
	if s.owned == 0 {
		return 0, nil
	}
	prefix := ownedPrefix(owner)
	keys, err := scanKeys(tx, prefix, after(prefix), limit)
	if err != nil {
		return 0, err
	}
	for _, k := range keys {
		a, err := s.ackGroups(tx, core.QueueID(binary.BigEndian.Uint64(k[len(prefix):])))
		if err != nil {
			return n, err
		}
		if a == nil {
			return n, core.E(core.Corrupt, "owner %q has queue %x, which is not there", owner, k[len(prefix):])
		}
		if err := s.removeQueue(tx, a); err != nil {
			return n, err
		}
	}
	return len(keys), nil
}

// loadOwned counts the queues that have owners.
func (s *State) loadOwned() error {
	prefix := []byte{prefixOwned}
	return s.store.Scan(prefix, after(prefix), func(_, _ []byte) bool {
		s.owned++
		return true
	})
}

// DeleteOwned deletes queues of an owner that gives them up, a bounded number at a time. The
// result's body says how many it deleted: as long as that is Limit, there may be more.
type DeleteOwned struct {
	Owner string
	Limit int
}

// maxOwnedAtOnce bounds the queues that one command deletes.
const maxOwnedAtOnce = 1000

// Command encodes: owner, limit uvarint.
func (c *DeleteOwned) Command() core.Command {
	return core.Command{Code: CodeDeleteOwned, Head: wire.AppendUvarint(wire.AppendString(nil, c.Owner), uint64(c.Limit))}
}

func decodeDeleteOwned(body []byte) (c DeleteOwned, err error) {
	r := wire.NewReader(body)
	c = DeleteOwned{r.String(), int(min(r.Uvarint(), maxOwnedAtOnce+1))}
	return c, r.Close()
}

func (s *State) deleteOwned(tx txn, body []byte) core.Result {
	cmd, err := decodeDeleteOwned(body)
	switch {
	case err != nil:
		return invalid("delete owned queues", err)
	case cmd.Owner == "" || cmd.Limit < 1 || cmd.Limit > maxOwnedAtOnce:
		return refused(core.Invalid, "delete owned queues: of %.80q, %d, want 1 to %d", cmd.Owner, cmd.Limit, maxOwnedAtOnce)
	}
	n, err := s.deleteOwnedQueues(tx, cmd.Owner, cmd.Limit)
	if err != nil {
		return s.storeResult(err)
	}
	return core.Result{Body: wire.AppendUvarint(nil, uint64(n))}
}

// leaseGone ends what hung on a lease that is released or taken over, and deletes its queues. Whoever
// owns very many deletes them first, by DeleteOwned; where there are more than one command may
// delete, the rest is an error of kind Limit, and the lease stays.
func (s *State) leaseGone(tx txn, c *cursor, name string, token uint64) *core.Error {
	n, err := s.deleteOwnedQueues(tx, name, maxOwnedAtOnce)
	switch {
	case err != nil:
		return s.storeResult(err).Err
	case n == maxOwnedAtOnce:
		return core.E(core.Limit, "%.80q owns too many queues to end at once: delete them first", name)
	}
	if err := s.mqttLeaseGone(tx, c, name, token); err != nil {
		return s.storeResult(err).Err
	}
	return nil
}
