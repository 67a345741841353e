package mqtt

import (
	"bytes"
	"encoding/binary"

	"github.com/mochi-mqtt/server/v2/packets"
)

// delivery is how one subscriber gets a message.
type delivery struct {
	version  byte
	qos      byte
	dup      bool
	retain   bool
	packetID uint16 // with QoS 1 and 2
	alias    uint16 // of the topic name; 0: none
	aliased  bool   // the client knows the alias: the name is left out
	ids      []int  // subscription identifiers
	now      int64  // ms
}

// appendPublish appends a PUBLISH (section 3.3). Package packets has an encoder too, which
// copies everything three times: this is what each delivery costs.
func appendPublish(dst []byte, m *message, d *delivery) []byte {
	props := 0
	name := m.name
	if d.aliased {
		name = ""
	}
	if d.version == 5 {
		props = len(m.props)
		if m.expiresAt != 0 {
			props += 5
		}
		if d.alias != 0 {
			props += 3
		}
		for _, id := range d.ids {
			props += 1 + varLen(id)
		}
	}
	dst = append(dst, publishByte(d))
	dst = appendVar(dst, publishLen(m, d, len(name), props))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(name)))
	dst = append(dst, name...)
	if d.qos > 0 {
		dst = binary.BigEndian.AppendUint16(dst, d.packetID)
	}
	if d.version == 5 {
		dst = appendVar(dst, props)
		if m.expiresAt != 0 {
			// Section 3.3.2.3.3: what is left of it; rounded up, for 0 would be no expiry.
			left := max(m.expiresAt-d.now+999, 1000) / 1000
			dst = append(dst, packets.PropMessageExpiryInterval)
			dst = binary.BigEndian.AppendUint32(dst, uint32(min(left, 1<<32-1)))
		}
		if d.alias != 0 {
			dst = append(dst, packets.PropTopicAlias, byte(d.alias>>8), byte(d.alias))
		}
		for _, id := range d.ids {
			dst = appendVar(append(dst, packets.PropSubscriptionIdentifier), id)
		}
		dst = append(dst, m.props...)
	}
	return append(dst, m.payload...)
}

func publishByte(d *delivery) byte {
	b := packets.Publish<<4 | d.qos<<1
	if d.dup {
		b |= 1 << 3
	}
	if d.retain {
		b |= 1
	}
	return b
}

// publishLen is the remaining length of a PUBLISH with a name and properties of such lengths.
func publishLen(m *message, d *delivery, name, props int) int {
	n := 2 + name + len(m.payload)
	if d.qos > 0 {
		n += 2
	}
	if d.version == 5 {
		n += varLen(props) + props
	}
	return n
}

// publishSize bounds the whole packet's length from above.
func publishSize(m *message, d *delivery) int {
	return 5 + 2 + len(m.name) + 2 + 4 + len(m.props) + 5 + 3 + 5*len(d.ids) + len(m.payload)
}

// maxRemaining is the greatest remaining length (section 2.1.4).
const maxRemaining = 268_435_455

func appendVar(dst []byte, n int) []byte {
	for n >= 0x80 {
		dst = append(dst, byte(n)|0x80)
		n >>= 7
	}
	return append(dst, byte(n))
}

func varLen(n int) int {
	l := 1
	for ; n >= 0x80; n >>= 7 {
		l++
	}
	return l
}

func appendString(dst, s []byte) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

// appendAck appends a PUBACK, PUBREC, PUBREL or PUBCOMP.
func appendAck(dst []byte, version, kind byte, id uint16, reason byte) []byte {
	flags := byte(0)
	if kind == packets.Pubrel {
		flags = 2
	}
	if version == 5 && reason != 0 {
		return append(dst, kind<<4|flags, 3, byte(id>>8), byte(id), reason)
	}
	return append(dst, kind<<4|flags, 2, byte(id>>8), byte(id))
}

// appendPacket appends a packet by package packets' encoder.
func appendPacket(dst []byte, pk *packets.Packet) []byte {
	var b bytes.Buffer
	var err error
	switch pk.FixedHeader.Type {
	case packets.Connack:
		err = pk.ConnackEncode(&b)
	case packets.Suback:
		err = pk.SubackEncode(&b)
	case packets.Unsuback:
		err = pk.UnsubackEncode(&b)
	case packets.Disconnect:
		err = pk.DisconnectEncode(&b)
	case packets.Auth:
		err = pk.AuthEncode(&b)
	case packets.Pingresp:
		err = pk.PingrespEncode(&b)
	}
	if err != nil {
		panic(err) // the encoders fail for packets without what makes them up only
	}
	return append(dst, b.Bytes()...)
}

// decode decodes a packet's body by package packets, whose decoders can run over the end of
// a packet that is cut short.
func decode(pk *packets.Packet, body []byte) (err error) {
	defer func() {
		if recover() != nil {
			err = packets.ErrMalformedPacket
		}
	}()
	switch pk.FixedHeader.Type {
	case packets.Connect:
		return pk.ConnectDecode(body)
	case packets.Publish:
		return pk.PublishDecode(body)
	case packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp:
		return pk.PubackDecode(body)
	case packets.Subscribe:
		return pk.SubscribeDecode(body)
	case packets.Unsubscribe:
		return pk.UnsubscribeDecode(body)
	case packets.Pingreq:
		return nil
	case packets.Disconnect:
		if pk.ProtocolVersion == 5 && len(body) == 1 { // the library takes no reason without properties
			pk.ReasonCode = body[0]
			return nil
		}
		return pk.DisconnectDecode(body)
	case packets.Auth:
		return pk.AuthDecode(body)
	default:
		return packets.ErrProtocolViolation // a packet that servers send, or none
	}
}
