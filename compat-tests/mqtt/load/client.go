package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// Client is one connection of MQTT 5: packets out, packets in. It keeps nothing of a session. One
// goroutine may read while another writes.
type Client struct {
	nc net.Conn
	r  *bufio.Reader
	w  *bufio.Writer
}

// Connect says how a client connects.
type Connect struct {
	ID             string
	Clean          bool
	Expiry         uint32 // of the session, s
	ReceiveMaximum uint16 // 0: not said
	Will           *Will
}

// Will is a client's will, of QoS 1.
type Will struct {
	Topic, Payload string
	Retain         bool
	Delay          uint32 // s
}

// patience is how long a client waits for what must come.
const patience = 5 * time.Second

// errRefused is a CONNACK that says no.
var errRefused = errors.New("refused")

// Dial connects a client to a broker; present says whether its session was there.
func Dial(addr string, o Connect) (c *Client, present bool, err error) {
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, false, err
	}
	return open(nc, o)
}

// open connects over nc, which is closed when that fails.
func open(nc net.Conn, o Connect) (c *Client, present bool, err error) {
	c = &Client{nc: nc, r: bufio.NewReaderSize(nc, 16<<10), w: bufio.NewWriterSize(nc, 16<<10)}
	defer func() {
		if err != nil {
			err = errors.Join(err, nc.Close())
		}
	}()
	pk := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Connect},
		Connect:     packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: o.ID, Clean: o.Clean, Keepalive: 120},
		Properties:  packets.Properties{SessionExpiryInterval: o.Expiry, SessionExpiryIntervalFlag: true, ReceiveMaximum: o.ReceiveMaximum},
	}
	if w := o.Will; w != nil {
		p := &pk.Connect
		p.WillFlag, p.WillQos, p.WillRetain, p.WillTopic, p.WillPayload = true, 1, w.Retain, w.Topic, []byte(w.Payload)
		p.WillProperties.WillDelayInterval = w.Delay
	}
	if err := c.Send(&pk); err != nil {
		return nil, false, err
	}
	ack, err := c.Read(patience)
	switch {
	case err != nil:
		return nil, false, err
	case ack.FixedHeader.Type != packets.Connack:
		return nil, false, fmt.Errorf("%s before CONNACK", packets.PacketNames[ack.FixedHeader.Type])
	case ack.ReasonCode != 0:
		return nil, false, fmt.Errorf("%w: %#x", errRefused, ack.ReasonCode)
	}
	return c, ack.SessionPresent, nil
}

// Close closes the connection without a word.
func (c *Client) Close() error { return c.nc.Close() }

// Leave says DISCONNECT and closes.
func (c *Client) Leave() error {
	err := c.Send(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}})
	return errors.Join(err, c.nc.Close())
}

// put adds a packet to what flush sends.
func (c *Client) put(pk *packets.Packet) error {
	pk.ProtocolVersion = 5
	pk.Mods.AllowResponseInfo = true
	var b bytes.Buffer
	var err error
	switch pk.FixedHeader.Type {
	case packets.Connect:
		err = pk.ConnectEncode(&b)
	case packets.Publish:
		err = pk.PublishEncode(&b)
	case packets.Puback, packets.Pubrec, packets.Pubcomp:
		err = pk.PubackEncode(&b)
	case packets.Pubrel:
		pk.FixedHeader.Qos = 1
		err = pk.PubackEncode(&b)
	case packets.Subscribe:
		pk.FixedHeader.Qos = 1
		err = pk.SubscribeEncode(&b)
	case packets.Pingreq:
		err = pk.PingreqEncode(&b)
	case packets.Disconnect:
		err = pk.DisconnectEncode(&b)
	default:
		err = fmt.Errorf("packet type %d", pk.FixedHeader.Type)
	}
	if err != nil {
		return err
	}
	_, err = c.w.Write(b.Bytes())
	return err
}

func (c *Client) flush() error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	return c.w.Flush()
}

// Send sends a packet.
func (c *Client) Send(pk *packets.Packet) error {
	if err := c.put(pk); err != nil {
		return err
	}
	return c.flush()
}

// Ack sends a packet that has nothing but a packet id.
func (c *Client) Ack(kind byte, id uint16) error { return c.Send(ackPacket(kind, id)) }

func ackPacket(kind byte, id uint16) *packets.Packet {
	return &packets.Packet{FixedHeader: packets.FixedHeader{Type: kind}, PacketID: id}
}

// waiting reports whether something has come that Read has not returned.
func (c *Client) waiting() bool { return c.r.Buffered() > 0 }

// maxRead bounds a packet.
const maxRead = 1 << 20

// Read reads the next packet; it waits that long for its beginning. After that time it may be called
// again.
func (c *Client) Read(wait time.Duration) (pk packets.Packet, err error) {
	if err := c.nc.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return pk, err
	}
	if _, err := c.r.Peek(1); err != nil {
		return pk, err // nothing of a packet was taken
	}
	if err := c.nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return pk, err
	}
	first, err := c.r.ReadByte()
	if err != nil {
		return pk, err
	}
	if err := pk.FixedHeader.Decode(first); err != nil {
		return pk, err
	}
	n, _, err := packets.DecodeLength(c.r)
	if err != nil || n > maxRead {
		return pk, errors.Join(err, fmt.Errorf("packet of %d bytes", n))
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(c.r, body); err != nil {
		return pk, err
	}
	pk.ProtocolVersion, pk.FixedHeader.Remaining = 5, n
	switch pk.FixedHeader.Type {
	case packets.Connack:
		err = pk.ConnackDecode(body)
	case packets.Publish:
		err = pk.PublishDecode(body)
	case packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp:
		err = pk.PubackDecode(body)
	case packets.Suback:
		err = pk.SubackDecode(body)
	case packets.Disconnect:
		if err = pk.DisconnectDecode(body); err == nil {
			err = fmt.Errorf("DISCONNECT %#x", pk.ReasonCode)
		}
	case packets.Pingresp:
	default:
		err = fmt.Errorf("packet type %d", pk.FixedHeader.Type)
	}
	return pk, err
}

// Publish publishes and waits until that is acknowledged.
func (c *Client) Publish(topic, payload string, qos byte, retain bool) error {
	const id = 65535
	err := c.Send(&packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: qos, Retain: retain},
		TopicName:   topic, Payload: []byte(payload), PacketID: id,
	})
	if err != nil || qos == 0 {
		return err
	}
	if qos == 2 {
		if err := c.expect(packets.Pubrec, id); err != nil {
			return err
		}
		if err := c.Ack(packets.Pubrel, id); err != nil {
			return err
		}
		return c.expect(packets.Pubcomp, id)
	}
	return c.expect(packets.Puback, id)
}

// Subscribe subscribes and waits for the answer.
func (c *Client) Subscribe(filters ...packets.Subscription) error {
	const id = 65534
	if err := c.Send(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe}, PacketID: id, Filters: filters}); err != nil {
		return err
	}
	return c.expect(packets.Suback, id)
}

// expect reads this answer, of success.
func (c *Client) expect(kind byte, id uint16) error {
	pk, err := c.Read(patience)
	if err != nil {
		return err
	}
	failed := pk.ReasonCode >= 0x80
	for _, code := range pk.ReasonCodes {
		failed = failed || code >= 0x80
	}
	if pk.FixedHeader.Type != kind || pk.PacketID != id || failed {
		return fmt.Errorf("%s %d, %#x %v; want %s %d", packets.PacketNames[pk.FixedHeader.Type], pk.PacketID, pk.ReasonCode, pk.ReasonCodes, packets.PacketNames[kind], id)
	}
	return nil
}
