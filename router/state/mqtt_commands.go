package state

import (
	"polylog/core"
	"polylog/core/wire"
)

// OpenMQTT begins a connection's session: the one that its client has, or a new one. With Clean
// an earlier one ends. It is refused (Conflict) where this connection has one already.
//
// The result's body is a byte, 1 when the session was there before, its number uvarint, and that
// of a delayed message uvarint, 0 for none: the will of the client's connection before, if it is
// yet to be published.
type OpenMQTT struct {
	MQTTLeased
	Clean  bool
	Expiry uint32
	Will   *MQTTWill // nil: none
}

// Command encodes: lease, token uvarint, clean byte, expiry uvarint, will byte; and the will.
func (c *OpenMQTT) Command() core.Command {
	b := wire.AppendBool(c.appendTo(nil), c.Clean)
	b = wire.AppendUvarint(b, uint64(c.Expiry))
	b = wire.AppendBool(b, c.Will != nil)
	if c.Will != nil {
		b = c.Will.appendTo(b)
	}
	return core.Command{Code: CodeOpenMQTT, Head: b}
}

func decodeOpenMQTT(body []byte) (c OpenMQTT, err error) {
	r := wire.NewReader(body)
	c = OpenMQTT{MQTTLeased: readMQTTLeased(&r), Clean: r.Bool(), Expiry: readUint32(&r)}
	if r.Bool() {
		c.Will = readMQTTWill(&r)
	}
	return c, r.Close()
}

// DecodeMQTTOpened reads the body of OpenMQTT's result.
func DecodeMQTTOpened(body []byte) (present bool, number, will uint64, err error) {
	r := wire.NewReader(body)
	present, number, will = r.Bool(), r.Uvarint(), r.Uvarint()
	return present, number, will, r.Close()
}

func (s *State) openMQTT(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeOpenMQTT(body)
	if err != nil {
		return invalid("open mqtt session", err)
	}
	client, user, refusal := s.leased(tx, &cmd.MQTTLeased)
	if refusal == nil && cmd.Will != nil {
		refusal = cmd.Will.check()
	}
	if refusal != nil {
		return core.Result{Err: refusal}
	}
	m, err := readMQTTSession(tx, client)
	if err != nil {
		return s.storeResult(err)
	}
	if m != nil && m.token == cmd.Token {
		return refused(core.Conflict, "mqtt client %.80q has opened its session already", client.Name)
	}
	if m != nil && (cmd.Clean || m.expired(c.time)) {
		if err := s.endMQTTSession(tx, c, m); err != nil {
			return s.storeResult(err)
		}
		m = nil
	}
	due, err := s.nextConnection(tx, c, client)
	if err != nil {
		return s.storeResult(err)
	}
	present := m != nil
	if present {
		if m.token == 0 {
			s.mqtt.away.Add(-1)
		}
		m.token, m.Expiry, m.Disconnected = cmd.Token, cmd.Expiry, 0
		if err := s.stopExpiry(tx, m); err != nil {
			return s.storeResult(err)
		}
	} else if m, refusal = s.newMQTTSession(tx, client, cmd.Token, cmd.Expiry); refusal != nil {
		return core.Result{Err: refusal}
	}
	if cmd.Will != nil {
		cmd.Will.User = user
		tx.Set(mqttWillKey(client), cmd.Will.encode())
	}
	m.User = user
	setMQTTSession(tx, m)
	return core.Result{Body: wire.AppendUvarint(wire.AppendUvarint(wire.AppendBool(nil, present), m.Number), due)}
}

// stopExpiry stops the clock of a session that is connected again, or ends.
func (s *State) stopExpiry(tx txn, m *MQTTSession) error {
	_, err := s.timers.Cancel(tx, append([]byte{byte(timerMQTTSession)}, mqttTimerID(m.Number)...))
	return err
}

// CloseMQTT ends a connection, whose session goes on for Expiry, or ends with it where that is
// 0. The will is published after its delay where Will is set, else it is forgotten (section
// 3.14.4). Sent is what was sent with QoS 1 and not acknowledged, in the order of sending.
type CloseMQTT struct {
	MQTTLeased
	Expiry uint32
	Will   bool
	Sent   []MQTTAssigned
}

// maxMQTTSent bounds Sent, and what else one command has of packets.
const maxMQTTSent = 1 << 12

// Command encodes: lease, token uvarint, expiry uvarint, will byte, count uvarint, what was sent.
func (c *CloseMQTT) Command() core.Command {
	b := wire.AppendUvarint(c.appendTo(nil), uint64(c.Expiry))
	return core.Command{Code: CodeCloseMQTT, Head: appendAssigned(wire.AppendBool(b, c.Will), c.Sent)}
}

func decodeCloseMQTT(body []byte) (c CloseMQTT, err error) {
	r := wire.NewReader(body)
	c = CloseMQTT{MQTTLeased: readMQTTLeased(&r), Expiry: readUint32(&r), Will: r.Bool()}
	c.Sent = readAssigned(&r)
	return c, r.Close()
}

// closeMQTT is NotFound where the connection has no stored session.
func (s *State) closeMQTT(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeCloseMQTT(body)
	if err != nil {
		return invalid("close mqtt session", err)
	}
	m, refusal := s.connected(tx, &cmd.MQTTLeased)
	switch {
	case refusal != nil:
		return core.Result{Err: refusal}
	case len(cmd.Sent) > maxMQTTSent:
		return refused(core.Limit, "close mqtt session: %d packets under way, at most %d are kept", len(cmd.Sent), maxMQTTSent)
	}
	m.Expiry = cmd.Expiry
	if cmd.Will {
		err = s.willDue(tx, c, m)
	} else {
		err = s.forgetWill(tx, m.Client)
	}
	if err == nil && m.Expiry != 0 {
		err = replaceSent(tx, c, m, cmd.Sent)
	}
	if err == nil {
		err = s.disconnect(tx, c, m)
	}
	if err != nil {
		return s.storeResult(err)
	}
	return core.Result{}
}
