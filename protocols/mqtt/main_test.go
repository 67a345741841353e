package mqtt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
	"go.uber.org/goleak"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker is a server under test and its address.
type broker struct {
	*Server
	addr string
}

// serve starts a server on a router of its own.
func serve(t testing.TB, change func(*Options)) (*broker, *router.Router) {
	t.Helper()
	r, _ := routertest.Start(t, nil)
	return serveOn(t, r, change), r
}

// serveOn starts a server on a router.
func serveOn(t testing.TB, r *router.Router, change func(*Options)) *broker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Router: r, Listeners: []net.Listener{l}}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Serve()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return &broker{s, l.Addr().String()}
}

// client is a client of tests: it sends and receives packets one by one.
type client struct {
	t       testing.TB
	nc      net.Conn
	in      packetReader
	version byte
}

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

func dial(t testing.TB, addr string, version byte) *client {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return &client{t: t, nc: nc, in: packetReader{nc: nc, got: func(n int64) int64 { return n }}, version: version}
}

// connectAs connects a client and returns it with its CONNACK.
func connectAs(t testing.TB, addr, id string, version byte, change func(*packets.Packet)) (*client, packets.Packet) {
	t.Helper()
	c := dial(t, addr, version)
	pk := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: version,
		Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: id, Clean: true},
	}
	if change != nil {
		change(&pk)
	}
	c.send(&pk)
	ack := c.expect(packets.Connack)
	return c, ack
}

// connected is connectAs for who must be accepted.
func connected(t testing.TB, b *broker, id string, version byte) *client {
	t.Helper()
	c, ack := connectAs(t, b.addr, id, version, nil)
	if ack.ReasonCode != 0 {
		t.Fatalf("CONNACK %#x", ack.ReasonCode)
	}
	return c
}

func (c *client) encode(pk *packets.Packet) []byte {
	c.t.Helper()
	pk.ProtocolVersion = c.version
	pk.Mods.AllowResponseInfo = true
	var b bytes.Buffer
	var err error
	switch pk.FixedHeader.Type {
	case packets.Connect:
		err = pk.ConnectEncode(&b)
	case packets.Publish:
		err = pk.PublishEncode(&b)
	case packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp:
		if pk.FixedHeader.Type == packets.Pubrel {
			pk.FixedHeader.Qos = 1
		}
		err = pk.PubackEncode(&b)
	case packets.Subscribe:
		pk.FixedHeader.Qos = 1
		err = pk.SubscribeEncode(&b)
	case packets.Unsubscribe:
		pk.FixedHeader.Qos = 1
		err = pk.UnsubscribeEncode(&b)
	case packets.Disconnect:
		err = pk.DisconnectEncode(&b)
	case packets.Pingreq:
		err = pk.PingreqEncode(&b)
	case packets.Auth:
		err = pk.AuthEncode(&b)
	default:
		err = errors.New("no encoder")
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return b.Bytes()
}

func (c *client) send(pk *packets.Packet) {
	c.t.Helper()
	c.write(c.encode(pk))
}

func (c *client) write(b []byte) {
	c.t.Helper()
	if _, err := c.nc.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// read reads the next packet.
func (c *client) read() (packets.Packet, error) {
	until := time.Now().Add(patience)
	fh, body, err := c.in.next(maxRemaining, func() { _ = c.nc.SetReadDeadline(until) })
	if err != nil {
		return packets.Packet{}, err
	}
	pk := packets.Packet{FixedHeader: fh, ProtocolVersion: c.version}
	body = bytes.Clone(body)
	switch fh.Type {
	case packets.Connack:
		err = pk.ConnackDecode(body)
	case packets.Publish:
		err = pk.PublishDecode(body)
	case packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp:
		err = pk.PubackDecode(body)
	case packets.Suback:
		err = pk.SubackDecode(body)
	case packets.Unsuback:
		err = pk.UnsubackDecode(body)
	case packets.Disconnect:
		err = pk.DisconnectDecode(body)
	case packets.Auth:
		err = pk.AuthDecode(body)
	case packets.Pingresp:
	default:
		err = fmt.Errorf("packet type %d", fh.Type)
	}
	return pk, err
}

// expect reads a packet of this type.
func (c *client) expect(kind byte) packets.Packet {
	c.t.Helper()
	pk, err := c.read()
	if err != nil {
		c.t.Fatalf("want %s: %v", packets.PacketNames[kind], err)
	}
	if pk.FixedHeader.Type != kind {
		c.t.Fatalf("%s with reason %#x, want %s", packets.PacketNames[pk.FixedHeader.Type], pk.ReasonCode, packets.PacketNames[kind])
	}
	return pk
}

// expectMessage reads a PUBLISH with this topic and payload, and acknowledges it.
func (c *client) expectMessage(topic, payload string) packets.Packet {
	c.t.Helper()
	pk := c.expect(packets.Publish)
	if pk.TopicName != topic || string(pk.Payload) != payload {
		c.t.Fatalf("message %q on %q, want %q on %q", pk.Payload, pk.TopicName, payload, topic)
	}
	c.acknowledge(&pk)
	return pk
}

func (c *client) acknowledge(pk *packets.Packet) {
	c.t.Helper()
	switch pk.FixedHeader.Qos {
	case 1:
		c.ack(packets.Puback, pk.PacketID)
	case 2:
		c.ack(packets.Pubrec, pk.PacketID)
		c.expectAck(packets.Pubrel, pk.PacketID)
		c.ack(packets.Pubcomp, pk.PacketID)
	}
}

func (c *client) ack(kind byte, id uint16) {
	c.t.Helper()
	c.send(&packets.Packet{FixedHeader: packets.FixedHeader{Type: kind}, PacketID: id})
}

func (c *client) expectAck(kind byte, id uint16) packets.Packet {
	c.t.Helper()
	pk := c.expect(kind)
	if pk.PacketID != id {
		c.t.Fatalf("%s of %d, want %d", packets.PacketNames[kind], pk.PacketID, id)
	}
	return pk
}

// quiet has a ping answered before anything else comes.
func (c *client) quiet() {
	c.t.Helper()
	c.send(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}})
	c.expect(packets.Pingresp)
}

// expectEnd reads the connection's end, in MQTT 5 after a DISCONNECT with this reason unless
// that is 0.
func (c *client) expectEnd(reason byte) {
	c.t.Helper()
	if c.version == 5 && reason != 0 {
		if pk := c.expect(packets.Disconnect); pk.ReasonCode != reason {
			c.t.Fatalf("DISCONNECT %#x, want %#x", pk.ReasonCode, reason)
		}
	}
	pk, err := c.read()
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("packet type %d, %v; want the connection's end", pk.FixedHeader.Type, err)
	}
}

func (c *client) subscribe(id uint16, subs ...packets.Subscription) []byte {
	c.t.Helper()
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe}, PacketID: id, Filters: subs}
	for _, s := range subs {
		if s.Identifier != 0 {
			pk.Properties.SubscriptionIdentifier = []int{s.Identifier}
		}
	}
	c.send(&pk)
	return c.expectAck(packets.Suback, id).ReasonCodes
}

// mustSubscribe subscribes to one filter.
func (c *client) mustSubscribe(filter string, qos byte) {
	c.t.Helper()
	if codes := c.subscribe(1, packets.Subscription{Filter: filter, Qos: qos}); len(codes) != 1 || codes[0] != qos {
		c.t.Fatalf("SUBACK %v, want %d", codes, qos)
	}
}

func publishPacket(topic, payload string, qos byte, id uint16) *packets.Packet {
	return &packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: qos},
		TopicName:   topic, Payload: []byte(payload), PacketID: id,
	}
}

// publish publishes and waits for the acknowledgements.
func (c *client) publish(topic, payload string, qos byte, id uint16) {
	c.t.Helper()
	c.send(publishPacket(topic, payload, qos, id))
	switch qos {
	case 1:
		if ack := c.expectAck(packets.Puback, id); ack.ReasonCode != 0 {
			c.t.Fatalf("PUBACK %#x", ack.ReasonCode)
		}
	case 2:
		if ack := c.expectAck(packets.Pubrec, id); ack.ReasonCode != 0 {
			c.t.Fatalf("PUBREC %#x", ack.ReasonCode)
		}
		c.ack(packets.Pubrel, id)
		c.expectAck(packets.Pubcomp, id)
	}
}

// recordBatch is a batch of the record that a publish to a name becomes.
func recordBatch(t testing.TB, name string, pk *packets.Packet) []byte {
	t.Helper()
	var bb core.BatchBuilder
	pk.TopicName = name
	appendRecord(&bb, 1, target{topic: "many", key: name, keyed: true}, pk, []byte("c"))
	b, err := bb.Build(nil, core.BatchOptions{Producer: core.Nobody})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
