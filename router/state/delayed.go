package state

import (
	"encoding/binary"
	"math"

	"polylog/core"
	"polylog/core/message"
	"polylog/core/wire"
)

// An exchange of type TypeDelayed holds messages back that are not due yet, and routes them
// when they are, by the bindings of that time. What is held back is a timer that refers to the
// record, which stays in the log for it. Apply does not read messages later, so the timer has
// what exchanges and queues look at.

// headerDelay is the header of a message that says for how long it is held back, in ms. Who
// knows the time of delivery when it is published says that instead (message.DeliverAt).
const headerDelay = "x-delay"

// dueOf is until when an exchange that delays holds p back, in ms; 0 for what it lets pass. A
// message is held back once, and a dead letter not at all.
func dueOf(c *cursor, p *passage) int64 {
	r := p.record()
	if r == nil || p.ripe || p.dead != nil {
		return 0
	}
	if at := message.DeliverAt(r); at > 0 {
		return at
	}
	v, _ := message.HeaderOf(r, headerDelay)
	if ms, ok := v.Int(); ok && ms > 0 && ms <= math.MaxUint32 { // RabbitMQ's range
		return c.time + ms
	}
	return 0
}

// delayed is a message that an exchange holds back, as its timer has it.
type delayed struct {
	keys   []string // routing keys, at least one
	ref    core.Ref
	record core.Record // key, headers and time of it
	size   int64       // of the message's body, bytes
}

// A delayed message's value: version byte; count uvarint, that many keys; the reference's
// position, length and first record, uvarints; the record's time varint; null byte and key; its
// headers; size uvarint.
func (d *delayed) encode() []byte {
	b := wire.AppendUvarint([]byte{valueVersion}, uint64(len(d.keys)))
	for _, k := range d.keys {
		b = wire.AppendString(b, k)
	}
	for _, n := range [...]uint32{d.ref.Pos, d.ref.Len, d.ref.First} {
		b = wire.AppendUvarint(b, uint64(n))
	}
	b = wire.AppendVarint(b, d.record.Time)
	b = wire.AppendBytes(wire.AppendBool(b, d.record.Key == nil), d.record.Key)
	b = appendRecordHeaders(b, d.record.Headers)
	return wire.AppendUvarint(b, uint64(d.size))
}

// A delayed message's id: exchange u64, log index u64, position u32, record u32. So what is due
// at the same time leaves an exchange in the order of the log.
func delayedID(exchange uint64, ref core.Ref) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, delayedIDLen), exchange)
	b = binary.BigEndian.AppendUint64(b, uint64(ref.Index))
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, ref.Pos), ref.First)
}

const delayedIDLen = 24

func decodeDelayed(id, value []byte) (exchange uint64, d delayed, err error) {
	if len(id) != delayedIDLen {
		return 0, d, core.E(core.Corrupt, "delayed message with the id %x", id)
	}
	r := wire.NewReader(value)
	if err := checkVersion(&r, "delayed message"); err != nil {
		return 0, d, err
	}
	d.keys = make([]string, r.Count(1))
	for i := range d.keys {
		d.keys[i] = r.String()
	}
	d.ref = core.Ref{Index: core.LogIndex(binary.BigEndian.Uint64(id[8:])), Count: 1}
	for _, n := range [...]*uint32{&d.ref.Pos, &d.ref.Len, &d.ref.First} {
		*n = uint32(r.Uvarint())
	}
	d.record.Time = r.Varint()
	null, key := r.Bool(), r.Bytes()
	if !null {
		d.record.Key = append([]byte{}, key...)
	}
	d.record.Headers = readRecordHeaders(&r)
	d.size = int64(r.Uvarint())
	if err := r.Close(); err != nil || len(d.keys) == 0 {
		return 0, d, core.E(core.Corrupt, "delayed message %x of %d keys: %v", id, len(d.keys), err)
	}
	return binary.BigEndian.Uint64(id), d, nil
}

// holdBack keeps a message until it is due. An exchange that is predeclared is never of that
// type, so x has an id.
func (s *State) holdBack(tx txn, c *cursor, x *exchange, p *passage) error {
	r := p.record()
	d := delayed{
		ref: p.run.Ref, size: int64(len(r.Value)),
		record: core.Record{Time: r.Time, Key: r.Key, Headers: r.Headers},
	}
	for _, k := range p.keys {
		d.keys = append(d.keys, string(k))
	}
	tx.Hold(d.ref.Index)
	return s.setTimer(tx, timerDelayed, delayedID(x.ID, d.ref), dueOf(c, p), d.encode())
}

// letGo routes a message that was held back, and says to how many places. It goes nowhere where
// its exchange is gone.
func (s *State) letGo(tx txn, c *cursor, id, value []byte) (places int, err error) {
	exchange, d, err := decodeDelayed(id, value)
	if err != nil {
		return 0, err
	}
	tx.Unhold(d.ref.Index)
	x := s.routing.exchanges[exchange]
	if x == nil {
		return 0, nil
	}
	v := s.routing.vhosts[x.Name.Namespace]
	if v == nil {
		return 0, nil
	}
	p := new(passage)
	p.setRecord(core.Run{MaxTime: c.time, Ref: d.ref}, &d.record)
	p.ripe, p.size = true, d.size
	for _, k := range d.keys {
		p.keys = append(p.keys, []byte(k))
	}
	m := &s.routing.match
	m.begin(c)
	m.work = append(m.work, x)
	m.exchanges(v, p)
	to := m.ended()
	defer m.drop(to)
	to.topicsEnd = to.topics // a partition is searched by log index: it takes nothing older
	r, err := s.deliver(tx, c, p, to)
	return r.queues, err
}
