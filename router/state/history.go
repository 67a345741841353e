package state

import (
	"encoding/binary"
	"math"
	"slices"

	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
)

// A dead letter is one more reference to the record: the queue that takes it refers to the
// same bytes of the log. What happened to it is kept beside the reference, as a History.

// DeathReason says why a message was given up. The numbers are on disk.
type DeathReason uint8

// The reasons.
const (
	DeathRejected DeathReason = 1 // a consumer would not have it
	DeathLimit    DeathReason = 2 // it failed more often than the delivery limit allows
	DeathExpired  DeathReason = 3 // its time was over
	DeathMaxLen   DeathReason = 4 // the queue was too long
)

// Death is that a message was given up by a queue, for a reason; once or more often.
type Death struct {
	Queue  core.Name
	Offset core.Offset // in that queue, the last time
	Reason DeathReason
	Time   int64 // of the first time, ms
	Count  int
	// Exchange and Keys are how the message had come to the queue, the first time; empty
	// where nobody knows.
	Exchange string
	Keys     []string
	// First marks the message's very first death.
	First bool
}

// History is what happened to a dead letter before it came to the queue that it is in.
type History struct {
	// Exchange and Keys are how it came here. Without keys it came without an exchange.
	Exchange string
	Keys     []string
	Deaths   []Death // by the last time of each, the newest last
	// Copies is how many there may be of the message like this one since a consumer last gave it
	// up: the product of how many queues each of its deaths led to. 0 is 1.
	Copies int64
}

// maxCopies bounds Copies where more than one death makes copies. What an exchange does with
// dead letters is bounded by the bindings that somebody made, but queues that are each other's
// dead letter exchange make k! of one message.
const maxCopies = 10_000

// spread notes that the message, which died last for a reason, goes on to n places; false when it
// goes no further, as there would be too many of it.
func (h *History) spread(n int, why DeathReason) bool {
	copies, n64 := max(h.Copies, 1), int64(max(n, 1))
	if why == DeathRejected || why == DeathLimit {
		copies = 1 // consumers do not do that for ever
	}
	if copies > 1 && n64 > 1 && copies*n64 > maxCopies {
		return false
	}
	h.Copies = copies * n64
	return true
}

// maxDeaths bounds what is kept of a message that goes round in circles: its first death
// and the last ones.
const maxDeaths = 16

// add adds a death: as one more time of an earlier one, where there is one of that queue and
// reason. From then on that is the newest.
func (h *History) add(d Death) {
	d.Count = 1
	i := slices.IndexFunc(h.Deaths, func(o Death) bool { return o.Queue == d.Queue && o.Reason == d.Reason })
	switch {
	case i >= 0:
		was := h.Deaths[i]
		was.Count, was.Offset = was.Count+1, d.Offset
		h.Deaths, d = slices.Delete(h.Deaths, i, i+1), was
	case len(h.Deaths) == 0:
		d.First = true
	case len(h.Deaths) >= maxDeaths:
		i := slices.IndexFunc(h.Deaths, func(o Death) bool { return !o.First })
		h.Deaths = slices.Delete(h.Deaths, i, i+1)
	}
	h.Deaths = append(h.Deaths, d)
}

// cycles reports whether the message has been in a queue and came from there by deaths alone
// that nobody wanted: nothing would ever end it.
func (h *History) cycles(q core.Name) bool {
	for _, d := range slices.Backward(h.Deaths) {
		if d.Reason == DeathRejected {
			return false
		}
		if d.Queue == q {
			return true
		}
	}
	return false
}

// Versions of values that level 2 does not know.
const (
	historyVersion       = 2
	historyCopiesVersion = 3
)

// plain reports whether there is nothing but what level 2 knows.
func (h *History) plain() bool {
	for i := range h.Deaths {
		d := &h.Deaths[i]
		if d.Count != 1 || d.Exchange != "" || len(d.Keys) > 0 || d.First != (i == 0) {
			return false
		}
	}
	return h.Exchange == "" && len(h.Keys) == 0 && h.Copies <= 1
}

// encode is a version byte and the deaths: name, offset uvarint, reason byte, time varint. In
// version 2 each has more: count uvarint, first byte, and the way: exchange, count uvarint,
// keys; and the way of the letter itself comes before them all. Version 3 is that with the copies
// as uvarint in front, where there may be more than one.
func (h *History) encode() []byte {
	plain := h.plain()
	b := []byte{valueVersion}
	switch {
	case plain:
	case h.Copies > 1:
		b = appendWay(wire.AppendUvarint([]byte{historyCopiesVersion}, uint64(h.Copies)), h.Exchange, h.Keys)
	default:
		b = appendWay([]byte{historyVersion}, h.Exchange, h.Keys)
	}
	for i := range h.Deaths {
		d := &h.Deaths[i]
		b = wire.AppendUvarint(appendName(b, d.Queue), uint64(d.Offset))
		b = wire.AppendVarint(append(b, byte(d.Reason)), d.Time)
		if !plain {
			b = wire.AppendBool(wire.AppendUvarint(b, uint64(d.Count)), d.First)
			b = appendWay(b, d.Exchange, d.Keys)
		}
	}
	return b
}

func appendWay(b []byte, exchange string, keys []string) []byte {
	b = wire.AppendUvarint(wire.AppendString(b, exchange), uint64(len(keys)))
	for _, k := range keys {
		b = wire.AppendString(b, k)
	}
	return b
}

func readWay(r *wire.Reader) (exchange string, keys []string) {
	exchange = r.String()
	if n := r.Count(1); n > 0 {
		keys = make([]string, n)
		for i := range keys {
			keys[i] = r.String()
		}
	}
	return exchange, keys
}

func decodeHistory(v []byte) (h History, err error) {
	r := wire.NewReader(v)
	version := r.Byte()
	if version < valueVersion || version > historyCopiesVersion {
		return h, core.E(core.Corrupt, "deaths: value of version %d, this binary knows up to %d", version, historyCopiesVersion)
	}
	if version == historyCopiesVersion {
		h.Copies = int64(min(r.Uvarint(), math.MaxInt32))
	}
	if version >= historyVersion {
		h.Exchange, h.Keys = readWay(&r)
	}
	for r.Len() > 0 {
		d := Death{
			Queue: readName(&r), Offset: core.Offset(r.Uvarint()), Reason: DeathReason(r.Byte()), Time: r.Varint(),
			Count: 1, First: len(h.Deaths) == 0,
		}
		if version >= historyVersion {
			d.Count, d.First = int(min(r.Uvarint(), math.MaxInt32)), r.Bool()
			d.Exchange, d.Keys = readWay(&r)
		}
		h.Deaths = append(h.Deaths, d)
	}
	if err := r.Close(); err != nil {
		return h, core.E(core.Corrupt, "deaths: %v", err)
	}
	return h, nil
}

func historyPrefix(q core.QueueID) []byte { return wire.AppendUint64([]byte{prefixDeath}, uint64(q)) }

func historyKey(q core.QueueID, o core.Offset) []byte {
	return binary.BigEndian.AppendUint64(historyPrefix(q), uint64(o))
}

// ReadHistory is why the message at an offset of a named queue is there; empty when it was
// published there.
func ReadHistory(r index.Reader, q core.QueueID, o core.Offset) (h History, err error) {
	v, ok, err := r.Get(historyKey(q, o))
	if err != nil || !ok {
		return h, err
	}
	return decodeHistory(v)
}

// setDeaths notes that a queue has deaths, once.
func (s *State) setDeaths(tx txn, a *ackQueue) {
	if !a.queue.Deaths {
		s.changeQueue(tx, a, func(q *Queue) { q.Deaths = true })
	}
}

// setSpecial notes that a queue has messages with attributes, once.
func (s *State) setSpecial(tx txn, a *ackQueue) {
	if !a.queue.Special {
		s.changeQueue(tx, a, func(q *Queue) { q.Special = true })
	}
}

// changeQueue makes a change to a queue's definition. Readers keep the one that they have.
func (s *State) changeQueue(tx txn, a *ackQueue, change func(*Queue)) {
	changed := *a.queue
	change(&changed)
	a.queue = &changed
	tx.Set(queueKey(changed.ID), changed.encode())
	s.queuesChanged = true
}

// dropBeside forgets the histories and attributes of [from, to) of a queue, from which at
// most a command's worth of runs was removed.
func (s *State) dropBeside(tx txn, q *Queue, from, to core.Offset) error {
	if q.Deaths {
		if err := dropRange(tx, historyKey(q.ID, from), historyKey(q.ID, to)); err != nil {
			return err
		}
	}
	if q.Special {
		return dropRange(tx, attributesKey(q.ID, from), attributesKey(q.ID, to))
	}
	return nil
}

func dropRange(tx txn, from, to []byte) error {
	keys, err := scanKeys(tx, from, to, math.MaxInt)
	for _, k := range keys {
		tx.Delete(k)
	}
	return err
}
