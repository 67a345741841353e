package state

import (
	"cmp"
	"strings"

	"polylog/core"
	"polylog/core/ackset"
	"polylog/core/wire"
)

// QoS 2 in both directions (section 4.3.3): which packet ids are how far is state, so that it
// outlives connections and nodes.

// MQTTAssigned is a message that was sent to a client with a packet id.
type MQTTAssigned struct {
	PacketID uint16
	QoS      byte // 1 or 2
	Queue    core.QueueID
	Group    string
	Offset   core.Offset
	// Taken says that the group, a shared one, has settled it already, so that nobody else
	// gets it (section 4.8.2); Ref is the message, and Name its topic name where it does not say
	// that itself.
	Taken bool
	Ref   core.Ref
	Name  string
}

// mqttAssignment is an MQTTAssigned as the KV space has it.
type mqttAssignment struct {
	MQTTAssigned
	entry, place uint64 // when it was assigned: the entry of the log, and the place in its command
}

// An assignment's value: version byte, QoS byte, queue uvarint, group, offset uvarint, entry
// uvarint, place uvarint, taken byte; where it is taken the reference's index, position, length
// and first record, uvarints, and name.
func (a *mqttAssignment) encode() []byte {
	b := wire.AppendUvarint([]byte{valueVersion, a.QoS}, uint64(a.Queue))
	b = wire.AppendUvarint(wire.AppendString(b, a.Group), uint64(a.Offset))
	b = wire.AppendUvarint(wire.AppendUvarint(b, a.entry), a.place)
	b = wire.AppendBool(b, a.Taken)
	if a.Taken {
		for _, n := range [...]uint64{uint64(a.Ref.Index), uint64(a.Ref.Pos), uint64(a.Ref.Len), uint64(a.Ref.First)} {
			b = wire.AppendUvarint(b, n)
		}
		b = wire.AppendString(b, a.Name)
	}
	return b
}

func decodeMQTTAssignment(k, v []byte) (a mqttAssignment, err error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "mqtt assignment"); err != nil {
		return a, err
	}
	a.PacketID, a.QoS = packetOf(k), r.Byte()
	a.Queue, a.Group, a.Offset = core.QueueID(r.Uvarint()), r.String(), readOffset(&r)
	a.entry, a.place, a.Taken = r.Uvarint(), r.Uvarint(), r.Bool()
	if a.Taken {
		a.Ref = core.Ref{Index: core.LogIndex(r.Uvarint()), Pos: readUint32(&r), Len: readUint32(&r), First: readUint32(&r), Count: 1}
		a.Name = r.String()
	}
	if err := r.Close(); err != nil {
		return a, core.E(core.Corrupt, "mqtt assignment: %v", err)
	}
	return a, nil
}

// unassign lets go of what a key has that is about to be removed.
func unassign(tx txn, k, v []byte) error {
	a, err := decodeMQTTAssignment(k, v)
	if err == nil && a.Taken {
		tx.Unhold(a.Ref.Index)
	}
	return err
}

// readAssignment finds what was sent with a packet id; nil when there is nothing.
func readAssignment(tx txn, key []byte) (*mqttAssignment, error) {
	v, ok, err := tx.Get(key)
	if err != nil || !ok {
		return nil, err
	}
	a, err := decodeMQTTAssignment(key, v)
	return &a, err
}

// replaceSent notes what was sent with QoS 1 and not acknowledged when a connection ended,
// instead of what the connection before has left.
func replaceSent(tx txn, c *cursor, m *MQTTSession, sent []MQTTAssigned) error {
	prefix := mqttNumberKey(mqttAssigned, m.Number)
	var gone [][]byte
	var bad error
	err := tx.Scan(prefix, after(prefix), func(k, v []byte) bool {
		var a mqttAssignment
		if a, bad = decodeMQTTAssignment(k, v); bad == nil && a.QoS == 1 {
			gone = append(gone, append([]byte(nil), k...))
		}
		return bad == nil
	})
	if err = cmp.Or(err, bad); err != nil {
		return err
	}
	for _, k := range gone {
		tx.Delete(k)
	}
	for i := range sent {
		a := mqttAssignment{MQTTAssigned: sent[i], entry: uint64(c.index), place: uint64(i)}
		a.QoS, a.Taken = 1, false
		key := mqttPacketKey(mqttAssigned, m.Number, a.PacketID)
		if was, err := readAssignment(tx, key); err != nil {
			return err
		} else if was == nil { // a packet id of QoS 2 stays what it is
			tx.Set(key, a.encode())
		}
	}
	return nil
}

// MQTTStep is what became of packet ids.
type MQTTStep uint8

// The steps. The numbers are in logs on disk.
const (
	MQTTRelease  MQTTStep = 1 // PUBREL came: the client has its PUBREC
	MQTTAssign   MQTTStep = 2 // messages are about to be sent with QoS 2
	MQTTReceive  MQTTStep = 3 // PUBREC came: they are settled, and PUBREL is owed
	MQTTRefuse   MQTTStep = 4 // PUBREC came with an error: they are settled, and that is all
	MQTTComplete MQTTStep = 5 // PUBCOMP came
)

// FlowMQTT moves packet ids of a connection's session on. The result's body has a kind for each:
// OK; NotFound where it was not that far, or the message is gone.
type FlowMQTT struct {
	MQTTLeased
	Step     MQTTStep
	Packets  []uint16       // of every step but MQTTAssign
	Assigned []MQTTAssigned // of MQTTAssign: without Taken and Ref
}

// Command encodes: lease, token uvarint, step byte; what is assigned, or count uvarint and packet
// ids u16.
func (c *FlowMQTT) Command() core.Command {
	b := append(c.appendTo(nil), byte(c.Step))
	if c.Step == MQTTAssign {
		return core.Command{Code: CodeFlowMQTT, Head: appendAssigned(b, c.Assigned)}
	}
	b = wire.AppendUvarint(b, uint64(len(c.Packets)))
	for _, id := range c.Packets {
		b = append(b, byte(id>>8), byte(id))
	}
	return core.Command{Code: CodeFlowMQTT, Head: b}
}

func decodeFlowMQTT(body []byte) (c FlowMQTT, err error) {
	r := wire.NewReader(body)
	c = FlowMQTT{MQTTLeased: readMQTTLeased(&r), Step: MQTTStep(r.Byte())}
	if c.Step == MQTTAssign {
		c.Assigned = readAssigned(&r)
	} else {
		c.Packets = make([]uint16, r.Count(2))
		for i := range c.Packets {
			c.Packets[i] = uint16(r.Byte())<<8 | uint16(r.Byte())
		}
	}
	return c, r.Close()
}

// appendAssigned encodes: count uvarint; of each packet id u16, queue uvarint, group, offset
// uvarint.
func appendAssigned(b []byte, as []MQTTAssigned) []byte {
	b = wire.AppendUvarint(b, uint64(len(as)))
	for i := range as {
		a := &as[i]
		b = wire.AppendUvarint(append(b, byte(a.PacketID>>8), byte(a.PacketID)), uint64(a.Queue))
		b = wire.AppendUvarint(wire.AppendString(b, a.Group), uint64(a.Offset))
	}
	return b
}

func readAssigned(r *wire.Reader) []MQTTAssigned {
	as := make([]MQTTAssigned, r.Count(5))
	for i := range as {
		id := uint16(r.Byte())<<8 | uint16(r.Byte())
		as[i] = MQTTAssigned{PacketID: id, QoS: 2, Queue: core.QueueID(r.Uvarint()), Group: r.String(), Offset: readOffset(r)}
	}
	return as
}

func (s *State) flowMQTT(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeFlowMQTT(body)
	switch {
	case err != nil:
		return invalid("mqtt flow", err)
	case cmd.Step < MQTTRelease || cmd.Step > MQTTComplete:
		return refused(core.Invalid, "mqtt flow: step %d", cmd.Step)
	case len(cmd.Packets)+len(cmd.Assigned) > maxMQTTSent:
		return refused(core.Limit, "mqtt flow: %d packets, at most %d in one command", len(cmd.Packets)+len(cmd.Assigned), maxMQTTSent)
	}
	m, refusal := s.connected(tx, &cmd.MQTTLeased)
	if refusal != nil {
		return core.Result{Err: refusal}
	}
	var kinds []byte
	step := func(done bool, err error) error {
		kind := core.OK
		if !done {
			kind = core.NotFound
		}
		kinds = append(kinds, byte(kind))
		return err
	}
	for i := range cmd.Assigned {
		if err := step(s.assign(tx, c, m, &cmd.Assigned[i], i)); err != nil {
			return s.storeResult(err)
		}
	}
	for _, id := range cmd.Packets {
		var err error
		switch cmd.Step {
		case MQTTRelease:
			err = step(drop(tx, mqttPacketKey(mqttReceived, m.Number, id)))
		case MQTTComplete:
			err = step(drop(tx, mqttPacketKey(mqttReleased, m.Number, id)))
		default:
			err = step(s.received(tx, c, m, id, cmd.Step == MQTTReceive))
		}
		if err != nil {
			return s.storeResult(err)
		}
	}
	return core.Result{Body: kinds}
}

// drop removes a key, and reports whether it was there.
func drop(tx txn, key []byte) (bool, error) {
	_, ok, err := tx.Get(key)
	if ok {
		tx.Delete(key)
	}
	return ok, err
}

// assign notes that a message is about to be sent with a packet id. A shared group settles it
// then: whatever happens to this client, nobody else gets it.
func (s *State) assign(tx txn, c *cursor, m *MQTTSession, what *MQTTAssigned, place int) (done bool, err error) {
	key := mqttPacketKey(mqttAssigned, m.Number, what.PacketID)
	if was, err := readAssignment(tx, key); err != nil || was != nil && was.Taken {
		return false, err
	}
	a := mqttAssignment{MQTTAssigned: *what, entry: uint64(c.index), place: uint64(place)}
	a.QoS, a.Taken, a.Ref = 2, strings.HasPrefix(a.Group, sharePrefix), core.Ref{}
	if a.Taken {
		runs, err := tx.Runs(a.Queue, a.Offset, 1, nil)
		if err != nil && core.KindOf(err) != core.NotFound {
			return false, err
		}
		if len(runs) == 0 || runs[0].Offset > a.Offset {
			return false, nil
		}
		a.Ref = runs[0].Ref
		a.Ref.First, a.Ref.Count = a.Ref.First+uint32(a.Offset-runs[0].Offset), 1
		h, err := ReadHistory(tx, a.Queue, a.Offset)
		if err != nil {
			return false, err
		}
		if len(h.Keys) > 0 {
			a.Name = h.Keys[0]
		}
		if done, err := s.settleOne(tx, c, a.Queue, a.Group, a.Offset); err != nil || !done {
			return false, err
		}
		tx.Hold(a.Ref.Index)
	} else if settled, err := s.settledIn(tx, a.Queue, a.Group, a.Offset); err != nil || settled {
		return false, err // its PUBREC has come meanwhile: the delivery is one of before that
	}
	tx.Set(key, a.encode())
	return true, nil
}

// settledIn reports whether a group has settled a message.
func (s *State) settledIn(tx txn, q core.QueueID, group string, o core.Offset) (bool, error) {
	of, err := s.ackGroups(tx, q)
	if err != nil || of == nil || of.groups[group] == nil {
		return false, err
	}
	return of.groups[group].acks.Contains(o), nil
}

// received is a PUBREC: the message is the client's now.
func (s *State) received(tx txn, c *cursor, m *MQTTSession, id uint16, owe bool) (done bool, err error) {
	key := mqttPacketKey(mqttAssigned, m.Number, id)
	a, err := readAssignment(tx, key)
	if err != nil {
		return false, err
	}
	if a == nil || a.QoS != 2 {
		_, again, err := tx.Get(mqttPacketKey(mqttReleased, m.Number, id))
		return again && owe, err
	}
	if a.Taken {
		tx.Unhold(a.Ref.Index)
	} else if _, err := s.settleOne(tx, c, a.Queue, a.Group, a.Offset); err != nil {
		return false, err
	}
	tx.Delete(key)
	if owe {
		tx.Set(mqttPacketKey(mqttReleased, m.Number, id), nil)
	}
	return true, nil
}

// settleOne settles one message of a group, and has the dispatcher hear of it; false where it is
// settled already, or gone.
func (s *State) settleOne(tx txn, c *cursor, q core.QueueID, group string, o core.Offset) (bool, error) {
	g := GroupSettle{Queue: q, Group: group, Done: []ackset.Span{{First: o, End: o + 1}}}
	budget := trimmedAtOnce
	out, err := s.settleGroup(tx, c, 0, &g, &budget, nil)
	if err != nil {
		return false, err
	}
	outs, err := DecodeSettled(out)
	if err != nil || len(outs) != 1 {
		return false, core.E(core.Internal, "outcome of a settle: %v", err)
	}
	if s.onTransacted.Load() != nil {
		s.settledByTx = append(s.settledByTx, Transacted{g, outs[0]})
	}
	return outs[0].Settled > 0, nil
}
