package state

import (
	"bytes"
	"encoding/binary"

	"polylog/core"
	"polylog/core/topicfilter"
	"polylog/core/wire"
	"polylog/index"
)

// A will, and a publish to $delayed, waits for its time as a copy. Apply cannot publish it alone:
// a partition takes records of the entry at hand only. So the leader proposes what is due, as
// it is then, and Apply looks whether that is still so: PublishDue.

// MQTTWill is what is published when a connection ends without a word (section 3.1.2.5).
type MQTTWill struct {
	Delay  uint32 // s after the connection's end, at most
	Expiry uint32 // s that it may be delivered after it was published; 0: without end
	MQTTMessage
	// User is who has to have the right to publish it when its time comes; empty: nobody is asked. The
	// state sets it: it is the lease's.
	User string
}

// MQTTMessage is a message that waits for its time.
type MQTTMessage struct {
	Queue  core.QueueID // partition of a topic
	Name   string       // MQTT topic name
	Retain bool
	Batch  []byte // one record, whole, without compression and producer
}

// check is nil for what can be published.
func (m *MQTTMessage) check() *core.Error {
	if err := topicfilter.CheckName(m.Name); err != nil {
		return core.E(core.Invalid, "mqtt message: %v", err)
	}
	return checkOneRecord(m.Batch)
}

// checkOneRecord is nil for a batch of one record, as everything here takes them.
func checkOneRecord(batch []byte) *core.Error {
	h, ok := core.ParseBatchHeader(batch)
	if !ok || h.Magic != core.BatchMagic || h.TotalLen() != len(batch) || h.Count != 1 || h.LastOffsetDelta != 0 ||
		h.HasProducer() || h.Control() || h.Codec() != core.CodecNone {
		return core.E(core.Invalid, "mqtt message: %d bytes, want a batch of one record of no producer, not compressed", len(batch))
	}
	var rec core.Record
	if err := core.FirstRecord(batch, &rec); err != nil {
		return core.E(core.Invalid, "mqtt message: %v", err)
	}
	return nil
}

// appendTo encodes: queue uvarint, name, retain byte, batch with its length in front.
func (m *MQTTMessage) appendTo(b []byte) []byte {
	b = wire.AppendString(wire.AppendUvarint(b, uint64(m.Queue)), m.Name)
	return wire.AppendBytes(wire.AppendBool(b, m.Retain), m.Batch)
}

func readMQTTMessage(r *wire.Reader) MQTTMessage {
	return MQTTMessage{Queue: core.QueueID(r.Uvarint()), Name: r.String(), Retain: r.Bool(), Batch: append([]byte(nil), r.Bytes()...)}
}

// appendTo encodes: delay uvarint, expiry uvarint, message.
func (w *MQTTWill) appendTo(b []byte) []byte {
	b = wire.AppendUvarint(wire.AppendUvarint(b, uint64(w.Delay)), uint64(w.Expiry))
	return w.MQTTMessage.appendTo(b)
}

func readMQTTWill(r *wire.Reader) *MQTTWill {
	return &MQTTWill{Delay: readUint32(r), Expiry: readUint32(r), MQTTMessage: readMQTTMessage(r)}
}

// A will's value, and that of a delayed publish: version byte, will, and the user where there is one.
func (w *MQTTWill) encode() []byte { return appendUser(w.appendTo([]byte{valueVersion}), w.User) }

func decodeMQTTWill(v []byte) (*MQTTWill, error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "mqtt will"); err != nil {
		return nil, err
	}
	w := readMQTTWill(&r)
	w.User = readUser(&r)
	if err := r.Close(); err != nil {
		return nil, core.E(core.Corrupt, "mqtt will: %v", err)
	}
	return w, nil
}

// dueID is the id of the timer for the leader to publish what a key has: the key, without its
// prefix.
func dueID(key []byte) []byte { return key[1:] }

// dueKey is the key of what a timer is for; nil when it is no such timer's id.
func dueKey(id []byte) []byte {
	if len(id) < 2 || id[0] != mqttWill && id[0] != mqttDelayed {
		return nil
	}
	return append(mqttKey(id[0]), id[1:]...)
}

func mqttTimerID(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

// willDue starts the delay of a session's will, if it has one: with the session's end it is
// over at the latest.
func (s *State) willDue(tx txn, c *cursor, m *MQTTSession) error {
	key := mqttWillKey(m.Client)
	v, ok, err := tx.Get(key)
	if err != nil || !ok {
		return err
	}
	w, err := decodeMQTTWill(v)
	if err != nil {
		return err
	}
	return s.mqttDue.Set(tx, dueID(key), c.time+1000*int64(min(w.Delay, m.Expiry)), nil)
}

// hurryWill has a will that waits published at once. That of a connection which is there is
// not asked for: it is forgotten.
func (s *State) hurryWill(tx txn, c *cursor, client core.Name) error {
	key := mqttWillKey(client)
	id := dueID(key)
	due, ok, err := s.mqttDue.Due(tx, id)
	switch {
	case err != nil:
		return err
	case !ok:
		tx.Delete(key)
		return nil
	case due <= c.time:
		return nil
	}
	return s.mqttDue.Set(tx, id, c.time, nil)
}

func (s *State) forgetWill(tx txn, client core.Name) error {
	key := mqttWillKey(client)
	tx.Delete(key)
	_, err := s.mqttDue.Cancel(tx, dueID(key))
	return err
}

// nextConnection is told that a client is back. A will of its connection before is not published
// while its delay runs (section 3.1.3.2.2); one that is due and not yet published becomes a delayed
// message, so that it is not taken for the new connection's. Its number is returned, else 0.
func (s *State) nextConnection(tx txn, c *cursor, client core.Name) (due uint64, err error) {
	key := mqttWillKey(client)
	at, ok, err := s.mqttDue.Due(tx, dueID(key))
	if err != nil {
		return 0, err
	}
	if ok && at <= c.time {
		v, _, err := tx.Get(key)
		if err != nil {
			return 0, err
		}
		if due, err = s.take(tx, counterMQTT, 1); err != nil {
			return 0, err
		}
		other := mqttNumberKey(mqttDelayed, due)
		tx.Set(other, bytes.Clone(v))
		if err := s.mqttDue.Set(tx, dueID(other), at, nil); err != nil {
			return 0, err
		}
	}
	return due, s.forgetWill(tx, client)
}

// MQTTDueTimer is the timer of MQTTDue for the delayed message of a number, as of the last applied
// batch; false when there is none any more.
func (s *State) MQTTDueTimer(number uint64) (t index.Timer, ok bool, err error) {
	t.ID = dueID(mqttNumberKey(mqttDelayed, number))
	t.Due, ok, err = s.mqttDue.Due(s.store, t.ID)
	return t, ok, err
}

// MQTTDue are the timers of what the leader is to publish; see ReadMQTTDue and PublishDue.
func (s *State) MQTTDue() *index.Timers { return s.mqttDue }

// ReadMQTTDue is what a timer of MQTTDue is for; nil when there is nothing any more.
func ReadMQTTDue(r index.Reader, id []byte) (*MQTTWill, error) {
	key := dueKey(id)
	if key == nil {
		return nil, core.E(core.Corrupt, "timer of an mqtt message with the id %x", id)
	}
	v, ok, err := r.Get(key)
	if err != nil || !ok {
		return nil, err
	}
	return decodeMQTTWill(v)
}

// PublishDue publishes what waited for its time, unless it was taken back or put off meanwhile
// (Conflict). It does not wait any more whatever comes of it: the result is that of the append. Without
// a batch it is given up (Invalid).
//
// Its body is the id of the timer with its length in front, due varint, and the batch, with the
// times that it has now.
type PublishDue struct {
	ID    []byte
	Due   int64 // of the timer, ms
	Batch []byte
}

// Command does not copy the batch.
func (c *PublishDue) Command() core.Command {
	return core.Command{Code: CodePublishDue, Head: wire.AppendVarint(wire.AppendBytes(nil, c.ID), c.Due), Payload: c.Batch}
}

func decodePublishDue(body []byte) (c PublishDue, err error) {
	r := wire.NewReader(body)
	c.ID, c.Due = r.Bytes(), r.Varint()
	c.Batch = r.Rest()
	return c, r.Close()
}

func (s *State) publishDue(tx txn, c *cursor, body []byte, pos uint32) core.Result {
	cmd, err := decodePublishDue(body)
	if err != nil {
		return invalid("publish due", err)
	}
	key := dueKey(cmd.ID)
	if key == nil {
		return refused(core.Invalid, "publish due: timer %x", cmd.ID)
	}
	due, ok, err := s.mqttDue.Due(tx, cmd.ID)
	switch {
	case err != nil:
		return s.storeResult(err)
	case !ok || due != cmd.Due || due > c.time:
		return refused(core.Conflict, "publish due: timer %x is not due", cmd.ID)
	}
	w, err := ReadMQTTDue(tx, cmd.ID)
	if err != nil {
		return s.storeResult(err)
	}
	tx.Delete(key)
	if _, err := s.mqttDue.Cancel(tx, cmd.ID); err != nil {
		return s.storeResult(err)
	}
	if w == nil {
		return refused(core.NotFound, "publish due: timer %x is for nothing", cmd.ID)
	}
	w.Batch = cmd.Batch
	return s.publishMessage(tx, c, &w.MQTTMessage, pos+uint32(len(body)-len(cmd.Batch)))
}

// publishMessage appends a message, whose batch lies at pos of the entry's data, to its
// partition, and retains it where it says so.
func (s *State) publishMessage(tx txn, c *cursor, m *MQTTMessage, pos uint32) core.Result {
	if err := m.check(); err != nil {
		return core.Result{Err: err}
	}
	p, topic := s.all.queues.find(m.Queue)
	if !topic {
		return refused(core.NotFound, "no partition %d", m.Queue)
	}
	if m.Retain {
		return s.appendRetained(tx, c, &Retain{m.Queue, core.Name{Namespace: p.topic.Name.Namespace, Name: m.Name}, m.Batch}, pos)
	}
	return s.appendBatch(tx, c, m.Queue, m.Batch, pos)
}
