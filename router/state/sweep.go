package state

import (
	"encoding/binary"

	"github.com/tidwall/btree"

	"polylog/core"
	"polylog/core/wire"
)

// A deleted topic or queue is gone at once: no command finds it any more. What it leaves
// behind, which may take seconds to remove, is doomed. Its ranges of queues
// are written down, and the leader proposes Sweep commands, each a bounded piece of
// work, until nothing is left; whoever publishes meanwhile waits for one piece at most.

// Sweep removes a piece of what deleted topics and queues left behind: runs, producers,
// offsets and acknowledgements of groups; then of what queues have that is settled, of bindings
// that lost an end, of MQTT's sessions that ended, and of what was in deleted namespaces. The proposer says how much, so that
// all replicas remove the same.
type Sweep struct {
	Work int // things to look at or remove, about
}

// maxSweep bounds the work of one command.
const maxSweep = 1 << 20

// Command encodes: work uvarint.
func (c *Sweep) Command() core.Command {
	return core.Command{Code: CodeSweep, Head: wire.AppendUvarint(nil, uint64(c.Work))}
}

func decodeSweep(body []byte) (c Sweep, err error) {
	r := wire.NewReader(body)
	c.Work = int(min(r.Uvarint(), maxSweep+1))
	return c, r.Close()
}

// DecodeSwept reads the body of Sweep's result: how many queues are left to sweep.
func DecodeSwept(body []byte) (left int, err error) {
	r := wire.NewReader(body)
	left = int(r.Uvarint())
	return left, r.Close()
}

// doomed are deleted queues, with a topic or alone. The KV space has the same; see keys.go.
type doomed struct {
	ranges btree.Map[core.QueueID, queueRange] // by their end, which stays while first moves
	count  int                                 // of queues
}

func (d *doomed) set(r queueRange) {
	old, _ := d.ranges.Set(r.end, r)
	d.count += r.len() - old.len()
	if r.len() == 0 {
		d.ranges.Delete(r.end)
	}
}

// doom leaves a deleted topic's queues to be swept.
func (s *State) doom(tx txn, qs []core.QueueID) {
	rangesOf(qs, func(r queueRange, _ int) { s.setDoomed(tx, r) })
}

// setDoomed stores what is left of a range.
func (s *State) setDoomed(tx txn, r queueRange) {
	s.doomed.set(r)
	if r.len() == 0 {
		tx.Delete(doomedKey(r.end))
		return
	}
	tx.Set(doomedKey(r.end), wire.AppendUvarint([]byte{valueVersion}, uint64(r.first)))
}

func decodeDoomed(k, v []byte) (r queueRange, err error) {
	vr := wire.NewReader(v)
	if err := checkVersion(&vr, "doomed queues"); err != nil {
		return r, err
	}
	r.first = core.QueueID(vr.Uvarint())
	if err := vr.Close(); err != nil || len(k) != 9 {
		return r, core.E(core.Corrupt, "doomed queues %x: %v", k, err)
	}
	r.end = core.QueueID(binary.BigEndian.Uint64(k[1:]))
	if r.first >= r.end {
		return r, core.E(core.Corrupt, "doomed queues from %d to %d", r.first, r.end)
	}
	return r, nil
}

func (s *State) loadDoomed() error {
	prefix := []byte{prefixDoomed}
	var bad error
	err := s.store.Scan(prefix, after(prefix), func(k, v []byte) bool {
		var r queueRange
		if r, bad = decodeDoomed(k, v); bad == nil {
			s.doomed.set(r)
		}
		return bad == nil
	})
	if err != nil {
		return err
	}
	return bad
}

// ToSweep is the number of queues and other things that Sweep has work with.
func (s *State) ToSweep() int { return int(s.toSweep.Load()) }

func (s *State) publishSweep() { s.toSweep.Store(int64(s.leftToSweep())) }

func (s *State) leftToSweep() int {
	return s.doomed.count + s.settled.ids.Len() + s.routing.doomed.ends.Len() + len(s.routing.deleting) + s.mqtt.ended.Len()
}

func (s *State) sweep(tx txn, body []byte) core.Result {
	cmd, err := decodeSweep(body)
	if err != nil {
		return invalid("sweep", err)
	}
	if cmd.Work < 1 || cmd.Work > maxSweep {
		return refused(core.Invalid, "sweep: work of %d, want 1 to %d", cmd.Work, maxSweep)
	}
	// What is in memory alone differs between replicas: they must count the same.
	if err := s.flush(tx); err != nil {
		return s.storeResult(err)
	}
	for work := cmd.Work; work > 0 && s.leftToSweep() > 0; {
		_, r, dead := s.doomed.ranges.Min()
		switch {
		case dead:
			work, err = s.sweepPiece(tx, r, work)
			work -= max(pieceWork-r.len(), 0)
		case s.settled.ids.Len() > 0:
			work, err = s.sweepSettled(tx, work)
		case s.routing.doomed.ends.Len() > 0:
			work, err = s.sweepBindings(tx, work)
		case s.mqtt.ended.Len() > 0:
			work, err = s.sweepMQTT(tx, work)
		default:
			work, err = s.sweepNamespace(tx, work)
		}
		if err != nil {
			return s.storeResult(err)
		}
	}
	return core.Result{Body: wire.AppendUvarint(nil, uint64(s.leftToSweep()))}
}

// sweptAtOnce is how many queues' keys are looked for at a time. Keys that are
// already removed stay in the way of a scan until the next checkpoint, so it
// must not begin at the same place again and again.
const sweptAtOnce = 256

// pieceWork is what a piece costs at least, in removed keys: looking for what belongs to
// one queue takes as long as looking for what belongs to many.
const pieceWork = 16

// sweepPiece removes the first queues of a range, and first what belongs to them. It
// returns the work that is left to do in this command.
func (s *State) sweepPiece(tx txn, r queueRange, work int) (int, error) {
	piece := queueRange{r.first, min(r.end, r.first+sweptAtOnce)}
	for _, drop := range [...]func(txn, queueRange, int) (int, error){
		s.dropProducers, dropOffsets, dropKeys(prefixAcks), dropKeys(prefixDeath), dropKeys(prefixAttributes),
	} {
		n, err := drop(tx, piece, work)
		if work -= n; err != nil || work <= 0 {
			return work, err
		}
	}
	for ; r.first < piece.end && work > 0; r.first++ {
		n, done, err := dropQueue(tx, r.first, work)
		if work -= n; err != nil {
			return work, err
		}
		if !done {
			break
		}
	}
	s.setDoomed(tx, r)
	return work, nil
}

// dropQueue removes a queue, or its oldest runs when it has more than limit.
func dropQueue(tx txn, q core.QueueID, limit int) (work int, done bool, err error) {
	head, ok, err := tx.Queue(q)
	switch {
	case err != nil || !ok: // nothing was ever appended
		return 1, true, err
	case head.Runs > int64(limit):
		return limit, false, tx.DropRuns(q, int64(limit))
	}
	return 1 + int(head.Runs), true, tx.DropQueue(q)
}

// dropProducers forgets up to limit producers of the queues. All of them must have been
// flushed.
func (s *State) dropProducers(tx txn, qs queueRange, limit int) (int, error) {
	keys, err := scanKeys(tx, producerPrefix(qs.first), producerPrefix(qs.end), limit)
	for _, k := range keys {
		tx.Delete(k)
		q, id := binary.BigEndian.Uint64(k[1:]), binary.BigEndian.Uint64(k[9:])
		delete(s.producers, producerKey{core.QueueID(q), int64(id)})
	}
	return len(keys), err
}

// dropOffsets forgets up to limit positions of groups on the queues.
func dropOffsets(tx txn, qs queueRange, limit int) (int, error) {
	keys, err := scanKeys(tx, byQueuePrefix(qs.first), byQueuePrefix(qs.end), limit)
	for _, k := range keys {
		deleteOffset(tx, string(k[9:]), core.QueueID(binary.BigEndian.Uint64(k[1:])))
	}
	return len(keys), err
}

// dropKeys forgets up to limit keys of the queues, where a queue's id follows the prefix.
func dropKeys(prefix byte) func(txn, queueRange, int) (int, error) {
	return func(tx txn, qs queueRange, limit int) (int, error) {
		start := binary.BigEndian.AppendUint64([]byte{prefix}, uint64(qs.first))
		end := binary.BigEndian.AppendUint64([]byte{prefix}, uint64(qs.end))
		keys, err := scanKeys(tx, start, end, limit)
		for _, k := range keys {
			tx.Delete(k)
		}
		return len(keys), err
	}
}
