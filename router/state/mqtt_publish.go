package state

import (
	"polylog/core"
	"polylog/core/wire"
)

// PublishMQTT publishes a message of MQTT, retained where it says so. With a PacketID that is
// done exactly once: until its PUBREL (FlowMQTT) a second one of that session changes nothing
// and has the first's result (section 4.3.3). With a Delay it is published that much later; the
// result's Offset is -1 then.
//
// Its body is packet id u16 and, where that is not 0, lease and token uvarint; delay uvarint,
// queue uvarint, name, retain byte, and the batch.
type PublishMQTT struct {
	MQTTLeased
	PacketID uint16 // 0: not of QoS 2
	Delay    uint32 // s
	MQTTMessage
}

// MaxMQTTDelay bounds delays, in s: as those of other brokers, about 136 years.
const MaxMQTTDelay = 1<<32 - 1

// Command does not copy the batch.
func (c *PublishMQTT) Command() core.Command {
	b := []byte{byte(c.PacketID >> 8), byte(c.PacketID)}
	if c.PacketID != 0 {
		b = c.MQTTLeased.appendTo(b)
	}
	b = wire.AppendUvarint(wire.AppendUvarint(b, uint64(c.Delay)), uint64(c.Queue))
	b = wire.AppendBool(wire.AppendString(b, c.Name), c.Retain)
	return core.Command{Code: CodePublishMQTT, Head: b, Payload: c.Batch}
}

func decodePublishMQTT(body []byte) (c PublishMQTT, err error) {
	r := wire.NewReader(body)
	c.PacketID = uint16(r.Byte())<<8 | uint16(r.Byte())
	if c.PacketID != 0 {
		c.MQTTLeased = readMQTTLeased(&r)
	}
	c.Delay, c.Queue = readUint32(&r), core.QueueID(r.Uvarint())
	c.Name, c.Retain = r.String(), r.Bool()
	c.Batch = r.Rest()
	return c, r.Close()
}

func (s *State) publishMQTT(tx txn, c *cursor, body []byte, pos uint32) core.Result {
	cmd, err := decodePublishMQTT(body)
	if err != nil {
		return invalid("mqtt publish", err)
	}
	pos += uint32(len(body) - len(cmd.Batch))
	if cmd.PacketID == 0 {
		return s.publishOrDelay(tx, c, &cmd, pos)
	}
	m, refusal := s.connected(tx, &cmd.MQTTLeased)
	if refusal != nil {
		return core.Result{Err: refusal}
	}
	key := mqttPacketKey(mqttReceived, m.Number, cmd.PacketID)
	v, again, err := tx.Get(key)
	if err != nil {
		return s.storeResult(err)
	}
	if again {
		return readReceived(v)
	}
	res := s.publishOrDelay(tx, c, &cmd, pos)
	if res.Err == nil {
		b := wire.AppendVarint([]byte{valueVersion}, int64(res.Offset))
		tx.Set(key, wire.AppendVarint(b, int64(res.Start)))
	}
	return res
}

// What is known of a packet id: version byte, the result's offset varint and start varint.
func readReceived(v []byte) core.Result {
	r := wire.NewReader(v)
	r.Byte()
	return core.Result{Offset: core.Offset(r.Varint()), Start: core.Offset(r.Varint())}
}

// publishOrDelay publishes a message, whose batch lies at pos of the entry's data, or keeps it
// until its time.
func (s *State) publishOrDelay(tx txn, c *cursor, cmd *PublishMQTT, pos uint32) core.Result {
	if cmd.Delay == 0 {
		return s.publishMessage(tx, c, &cmd.MQTTMessage, pos)
	}
	if err := cmd.check(); err != nil {
		return core.Result{Err: err}
	}
	if _, topic := s.all.queues.find(cmd.Queue); !topic {
		return refused(core.NotFound, "no partition %d", cmd.Queue)
	}
	id, err := s.take(tx, counterMQTT, 1)
	if err != nil {
		return s.storeResult(err)
	}
	w := MQTTWill{MQTTMessage: cmd.MQTTMessage}
	key := mqttNumberKey(mqttDelayed, id)
	tx.Set(key, w.encode())
	if err := s.mqttDue.Set(tx, dueID(key), c.time+1000*int64(cmd.Delay), nil); err != nil {
		return s.storeResult(err)
	}
	return core.Result{Offset: -1, Start: -1}
}

// CarryMQTTNames says that records of a topic may say their MQTT topic name in the header
// mqtt-topic, which need not begin with the topic's name: filters get them from then on.
type CarryMQTTNames struct{ Topic core.Name }

// Command encodes: name.
func (c *CarryMQTTNames) Command() core.Command {
	return core.Command{Code: CodeCarryMQTTNames, Head: appendName(nil, c.Topic)}
}

func decodeCarryMQTTNames(body []byte) (c CarryMQTTNames, err error) {
	r := wire.NewReader(body)
	c.Topic = readName(&r)
	return c, r.Close()
}

func (s *State) carryMQTTNames(tx txn, body []byte) core.Result {
	cmd, err := decodeCarryMQTTNames(body)
	if err != nil {
		return invalid("carry mqtt names", err)
	}
	t := s.all.byName[cmd.Topic]
	if t == nil {
		return refused(core.NotFound, "topic %s does not exist", cmd.Topic)
	}
	if _, ok := s.mqtt.carry[t.ID]; !ok {
		s.mqtt.carry[t.ID] = struct{}{}
		tx.Set(mqttNamesKey(t.ID), nil)
	}
	return core.Result{}
}

// CarriesMQTTNames reports whether CarryMQTTNames was applied for a topic.
func (s *State) CarriesMQTTNames(id core.TopicID) (bool, error) {
	_, ok, err := s.store.Get(mqttNamesKey(id))
	return ok, err
}

// forgetTopic is told that a topic is gone.
func (m *mqtt) forgetTopic(tx txn, id core.TopicID) {
	if _, ok := m.carry[id]; ok {
		delete(m.carry, id)
		tx.Delete(mqttNamesKey(id))
	}
}
