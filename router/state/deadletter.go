package state

import (
	"encoding/binary"
	"math"

	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
)

// A dead letter is one more reference to the record: the queue that takes it refers to the
// same bytes of the log. What happened to it is kept beside the reference, as a Death.

// DeathReason says why a message was given up. The numbers are on disk; 3 and 4 are for
// messages that expired and for queues that were too long.
type DeathReason uint8

// The reasons.
const (
	DeathRejected DeathReason = 1 // a consumer would not have it
	DeathLimit    DeathReason = 2 // it failed more often than the delivery limit allows
)

// Death is one time that a message was given up.
type Death struct {
	Queue  core.Name
	Offset core.Offset // in that queue
	Reason DeathReason
	Time   int64 // ms
}

// maxDeaths bounds what is kept of a message that goes round in circles: its first death
// and the last ones.
const maxDeaths = 16

// encodeDeaths is a version byte and the deaths, the oldest first: name, offset uvarint,
// reason byte, time varint.
func encodeDeaths(ds []Death) []byte {
	b := []byte{valueVersion}
	for i := range ds {
		b = wire.AppendUvarint(appendName(b, ds[i].Queue), uint64(ds[i].Offset))
		b = wire.AppendVarint(append(b, byte(ds[i].Reason)), ds[i].Time)
	}
	return b
}

func decodeDeaths(v []byte) (ds []Death, err error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "deaths"); err != nil {
		return nil, err
	}
	for r.Len() > 0 {
		ds = append(ds, Death{readName(&r), core.Offset(r.Uvarint()), DeathReason(r.Byte()), r.Varint()})
	}
	if err := r.Close(); err != nil {
		return nil, core.E(core.Corrupt, "deaths: %v", err)
	}
	return ds, nil
}

func deathPrefix(q core.QueueID) []byte { return wire.AppendUint64([]byte{prefixDeath}, uint64(q)) }

func deathKey(q core.QueueID, o core.Offset) []byte {
	return binary.BigEndian.AppendUint64(deathPrefix(q), uint64(o))
}

// ReadDeaths is why the message at an offset of a named queue is there, the oldest death
// first; none when it was published there.
func ReadDeaths(r index.Reader, q core.QueueID, o core.Offset) ([]Death, error) {
	v, ok, err := r.Get(deathKey(q, o))
	if err != nil || !ok {
		return nil, err
	}
	return decodeDeaths(v)
}

// bury appends a record to the dead letter queue; false when there is none of that name,
// or nothing at the offset.
func (t *settling) bury(o core.Offset, why DeathReason) (bool, error) {
	s, tx := t.s, t.tx
	to, err := s.queueByName(tx, t.group.DeadLetter)
	if err != nil || to == nil {
		return false, err
	}
	runs, err := tx.Runs(t.queue, o, 1, nil)
	if err != nil || len(runs) == 0 || runs[0].Offset > o {
		return false, err
	}
	run := runs[0]
	run.First += uint32(o - run.Offset)
	run.Count, run.MaxTime = 1, t.c.time
	appended := s.appendRun(tx, to.queue.ID, run)
	if appended.Err != nil {
		return false, appended.Err
	}
	death := Death{Offset: o, Reason: why, Time: t.c.time}
	var deaths []Death
	if from := t.of.queue; from != nil {
		death.Queue = from.Name
		if from.Deaths {
			if deaths, err = ReadDeaths(tx, t.queue, o); err != nil {
				return false, err
			}
		}
	} else if p, ok := s.all.queues.find(t.queue); ok {
		death.Queue = p.topic.Name
	}
	if len(deaths) >= maxDeaths {
		deaths = append(deaths[:1], deaths[2:]...)
	}
	tx.Set(deathKey(to.queue.ID, appended.Offset), encodeDeaths(append(deaths, death)))
	s.setDeaths(tx, to)
	return true, nil
}

// queueByName finds a named queue in memory or in the KV space.
func (s *State) queueByName(tx txn, n core.Name) (*ackQueue, error) {
	v, ok, err := tx.Get(queueNameKey(n))
	if err != nil || !ok {
		return nil, err
	}
	id, err := decodeQueueID(v)
	if err != nil {
		return nil, err
	}
	return s.ackQueue(tx, id)
}

// setDeaths notes that a queue has deaths, once.
func (s *State) setDeaths(tx txn, a *ackQueue) {
	if a.queue.Deaths {
		return
	}
	changed := *a.queue
	changed.Deaths = true
	a.queue = &changed
	tx.Set(queueKey(changed.ID), changed.encode())
	s.queuesChanged = true
}

// dropDeaths forgets the deaths of [from, to) of a queue, from which at most a command's
// worth of runs was removed.
func (s *State) dropDeaths(tx txn, q *Queue, from, to core.Offset) error {
	if !q.Deaths {
		return nil
	}
	keys, err := scanKeys(tx, deathKey(q.ID, from), deathKey(q.ID, to), math.MaxInt)
	for _, k := range keys {
		tx.Delete(k)
	}
	return err
}
