package mqtt

import (
	"strings"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// TestConnack: what CONNECT is answered with, and what is announced.
func TestConnack(t *testing.T) {
	b, _ := serve(t, func(o *Options) { o.MaxKeepAlive = time.Minute })
	for _, c := range []struct {
		name    string
		version byte
		change  func(*packets.Packet)
		want    byte
	}{
		{"plain", 4, nil, 0},
		{"plain", 5, nil, 0},
		{"MQTT 3.1", 3, func(p *packets.Packet) { p.Connect.ProtocolName = []byte("MQIsdp") }, 0},
		{"no client id, clean", 4, func(p *packets.Packet) { p.Connect.ClientIdentifier = "" }, 0},
		{"no client id, not clean", 4, func(p *packets.Packet) { p.Connect.ClientIdentifier, p.Connect.Clean = "", false }, 2},
		{"unknown version", 6, nil, 1},
		{"long client id", 5, func(p *packets.Packet) { p.Connect.ClientIdentifier = strings.Repeat("x", 1001) }, 0x85},
		{"enhanced authentication", 5, func(p *packets.Packet) { p.Properties.AuthenticationMethod = "SCRAM" }, 0x8c},
		{"will on a wildcard", 5, func(p *packets.Packet) {
			p.Connect.WillFlag, p.Connect.WillTopic, p.Connect.WillPayload = true, "a/#", []byte("x")
		}, 0x90},
		{"will on $SYS", 5, func(p *packets.Packet) {
			p.Connect.WillFlag, p.Connect.WillTopic, p.Connect.WillPayload = true, "$SYS/x", []byte("x")
		}, 0x90},
		{"empty will", 5, func(p *packets.Packet) { p.Connect.WillFlag, p.Connect.WillTopic = true, "a" }, 0},
		{"password without name", 5, func(p *packets.Packet) { p.Connect.PasswordFlag, p.Connect.Password = true, []byte("x") }, 0},
	} {
		cl, ack := connectAs(t, b.addr, "c", c.version, c.change)
		if ack.ReasonCode != c.want || ack.SessionPresent {
			t.Errorf("%s, version %d: CONNACK %#x, session present %v; want %#x", c.name, c.version, ack.ReasonCode, ack.SessionPresent, c.want)
		}
		if c.want != 0 {
			cl.version = 4 // no DISCONNECT after a CONNACK that refuses
			cl.expectEnd(0)
		}
	}
	_, ack := connectAs(t, b.addr, "", 5, func(p *packets.Packet) {
		p.Connect.Keepalive = 120
		p.Properties.SessionExpiryInterval, p.Properties.SessionExpiryIntervalFlag = 10, true
	})
	p := ack.Properties
	if p.AssignedClientID == "" || p.ServerKeepAlive != 60 || p.ReceiveMaximum == 0 || p.TopicAliasMaximum == 0 || p.MaximumPacketSize == 0 {
		t.Errorf("%+v", p)
	}
}

// TestBadPackets: what clients must not send ends the connection with the right reason.
func TestBadPackets(t *testing.T) {
	b, _ := serve(t, func(o *Options) { o.MaxPacketBytes = 1 << 16 })
	publish := func(change func(*packets.Packet)) func(c *client) []byte {
		return func(c *client) []byte {
			pk := publishPacket("a", "x", 1, 1)
			change(pk)
			return c.encode(pk)
		}
	}
	raw := func(b ...byte) func(*client) []byte { return func(*client) []byte { return b } }
	for _, c := range []struct {
		name string
		make func(*client) []byte
		want byte
	}{
		{"second CONNECT", func(c *client) []byte {
			return c.encode(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}, Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), Clean: true}})
		}, 0x82},
		{"wildcard in a topic name", publish(func(p *packets.Packet) { p.TopicName = "a/+" }), 0x90},
		{"no topic name", publish(func(p *packets.Packet) { p.TopicName = "" }), 0x82},
		{"alias 0", raw(0x30, 7, 0, 1, 'a', 3, 35, 0, 0), 0x94},
		{"alias too high", publish(func(p *packets.Packet) { p.Properties.TopicAlias, p.Properties.TopicAliasFlag = 33, true }), 0x94},
		{"alias that is not set", raw(0x30, 6, 0, 0, 3, 35, 0, 5), 0x82},
		{"QoS 3", raw(0x36, 5, 0, 1, 'a', 0, 1), 0x82},
		{"packet id 0", raw(0x32, 6, 0, 1, 'a', 0, 0, 0), 0x82},
		{"invalid UTF-8", raw(0x30, 4, 0, 1, 0xff, 0), 0x81},
		{"null character", raw(0x30, 4, 0, 1, 0, 0), 0x81},
		{"topic longer than the packet", raw(0x30, 4, 0, 9, 'a', 0), 0x81},
		{"remaining length of five bytes", raw(0x30, 0xff, 0xff, 0xff, 0xff, 1), 0x81},
		{"larger than announced", raw(0x30, 0x81, 0x80, 4), 0x95},
		{"SUBSCRIBE without filter", raw(0x82, 3, 0, 1, 0), 0x82},
		{"SUBSCRIBE cut short", raw(0x82, 6, 0, 1, 0, 0, 1, 'a'), 0x81},
		{"SUBSCRIBE with wrong flags", raw(0x80, 7, 0, 1, 0, 0, 1, 'a', 0), 0x81},
		{"subscription identifier 0", raw(0x82, 9, 0, 1, 2, 11, 0, 0, 1, 'a', 0), 0x82},
		{"no-local on a shared subscription", func(c *client) []byte {
			return c.encode(&packets.Packet{
				FixedHeader: packets.FixedHeader{Type: packets.Subscribe}, PacketID: 1,
				Filters: packets.Subscriptions{{Filter: "$share/g/a", NoLocal: true}},
			})
		}, 0x82},
		{"a server's packet", raw(0xd0, 0), 0x82},
		{"packet type 0", raw(0, 0), 0x82},
		{"AUTH", raw(0xf0, 2, 0, 0), 0x82},
		{"payload that is not the UTF-8 it says", publish(func(p *packets.Packet) {
			p.FixedHeader.Qos, p.PacketID, p.Payload = 0, 0, []byte{0xff}
			p.Properties.PayloadFormat, p.Properties.PayloadFormatFlag = 1, true
		}), 0x99},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := connected(t, b, "c", 5)
			cl.write(c.make(cl))
			cl.expectEnd(c.want)
		})
	}
	before := dial(t, b.addr, 5)
	before.write(before.encode(publishPacket("a", "x", 0, 0)))
	before.version = 4
	before.expectEnd(0)
	if n := b.metrics.broken.Load(); n == 0 {
		t.Error("no connection was counted as broken")
	}
}

// TestRejectedPublishes have a reason and end nothing.
func TestRejectedPublishes(t *testing.T) {
	b, _ := serve(t, nil)
	c := connected(t, b, "c", 5)
	for i, p := range []struct {
		change func(*packets.Packet)
		want   byte
	}{
		{func(p *packets.Packet) { p.TopicName = "$SYS/x" }, 0x90},
		{func(p *packets.Packet) {
			p.Payload = []byte{0xff}
			p.Properties.PayloadFormat, p.Properties.PayloadFormatFlag = 1, true
		}, 0x99},
		{func(*packets.Packet) {}, 0},
	} {
		pk := publishPacket("a", "x", 1, uint16(i+1))
		p.change(pk)
		c.send(pk)
		if ack := c.expectAck(packets.Puback, uint16(i+1)); ack.ReasonCode != p.want {
			t.Errorf("PUBACK %#x, want %#x", ack.ReasonCode, p.want)
		}
	}
	old := connected(t, b, "old", 4)
	old.publish("$SYS/x", "x", 1, 1) // MQTT 3.1.1 has no other answer
	old.quiet()
}

// TestSlowConnect: who does not say CONNECT in time is closed, and who falls silent too.
func TestSlowConnect(t *testing.T) {
	b, _ := serve(t, func(o *Options) { o.ConnectTimeout = 50 * time.Millisecond })
	c := dial(t, b.addr, 4)
	c.expectEnd(0)
	silent, _ := connectAs(t, b.addr, "s", 5, func(p *packets.Packet) { p.Connect.Keepalive = 1 })
	silent.expectEnd(packets.ErrKeepAliveTimeout.Code)
	long, _ := connectAs(t, b.addr, "l", 5, func(p *packets.Packet) { p.Connect.Keepalive = 65535 })
	long.quiet()
}

func TestTooManyConnections(t *testing.T) {
	b, _ := serve(t, func(o *Options) { o.MaxConnections = 1 })
	c := connected(t, b, "a", 4)
	dial(t, b.addr, 4).expectEnd(0)
	c.quiet()
	if n := b.metrics.refused.Load(); n != 1 {
		t.Errorf("%d refused", n)
	}
}

// TestWill: the will is published unless the client takes it back.
func TestWill(t *testing.T) {
	b, _ := serve(t, nil)
	sub := connected(t, b, "sub", 5)
	sub.mustSubscribe("wills/#", 1)
	withWill := func(id string) *client {
		c, _ := connectAs(t, b.addr, id, 5, func(p *packets.Packet) {
			p.Connect.WillFlag, p.Connect.WillTopic, p.Connect.WillPayload, p.Connect.WillQos = true, "wills/"+id, []byte("gone"), 1
			p.Connect.WillProperties = packets.Properties{
				ContentType: "t", ResponseTopic: "r", MessageExpiryInterval: 100, User: []packets.UserProperty{{Key: "a", Val: "b"}},
			}
			p.Mods.AllowResponseInfo = true
		})
		return c
	}
	_ = withWill("lost").nc.Close()
	pk := sub.expectMessage("wills/lost", "gone")
	if p := pk.Properties; p.ContentType != "t" || p.ResponseTopic != "r" || p.MessageExpiryInterval < 99 || len(p.User) != 1 {
		t.Errorf("%+v", p)
	}
	polite := withWill("polite")
	polite.send(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}})
	polite.expectEnd(0)
	asked := withWill("asked")
	asked.send(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}, ReasonCode: 4})
	sub.expectMessage("wills/asked", "gone")
	short := withWill("short")
	short.write([]byte{0xE0, 1, 4}) // a reason, and no length of properties: section 3.14.2.2.1
	sub.expectMessage("wills/short", "gone")
	taken := withWill("taken")
	connected(t, b, "taken", 5)
	taken.expectEnd(packets.ErrSessionTakenOver.Code)
	sub.expectMessage("wills/taken", "gone")
	sub.quiet()
}
