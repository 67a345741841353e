package mqtt

import (
	"fmt"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/router/routertest"
)

// keeping connects a client whose session outlives its connection.
func keeping(t testing.TB, b *broker, id string, present bool, change func(*packets.Packet)) *client {
	t.Helper()
	c, ack := connectAs(t, b.addr, id, 5, func(p *packets.Packet) {
		p.Connect.Clean = false
		p.Properties.SessionExpiryInterval, p.Properties.SessionExpiryIntervalFlag = 1000, true
		if change != nil {
			change(p)
		}
	})
	if ack.ReasonCode != 0 || ack.SessionPresent != present {
		t.Fatalf("CONNACK %#x, session present %v, want %v", ack.ReasonCode, ack.SessionPresent, present)
	}
	return c
}

func (c *client) leave() {
	c.t.Helper()
	c.send(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}})
	c.expectEnd(0)
}

// TestSessionGoesOn: what came while the client was away, and what it had not acknowledged,
// comes when it is back: in order, with the packet ids and the DUP of before.
func TestSessionGoesOn(t *testing.T) {
	b, _ := serve(t, nil)
	sub, pub := keeping(t, b, "sub", false, nil), connected(t, b, "pub", 5)
	sub.mustSubscribe("a/+", 2)
	for i := range 4 {
		pub.publish("a/b", fmt.Sprint(i), 1, uint16(i+1))
	}
	ids := map[string]uint16{}
	for i := range 3 {
		pk := sub.expect(packets.Publish)
		if string(pk.Payload) != fmt.Sprint(i) || pk.FixedHeader.Dup || pk.FixedHeader.Qos != 1 {
			t.Fatalf("%+v", pk)
		}
		ids[string(pk.Payload)] = pk.PacketID
	}
	last := sub.expect(packets.Publish)
	sub.ack(packets.Puback, ids["1"])
	ids["3"] = last.PacketID
	sub.leave()
	pub.publish("a/b", "none", 0, 0) // of QoS 0 nothing is kept
	pub.publish("a/c", "away", 2, 9)

	sub = keeping(t, b, "sub", true, nil)
	for _, want := range []string{"0", "2", "3"} {
		pk := sub.expect(packets.Publish)
		if string(pk.Payload) != want || !pk.FixedHeader.Dup || pk.PacketID != ids[want] {
			t.Errorf("message %q, DUP %v, packet id %d; want %q, DUP, %d", pk.Payload, pk.FixedHeader.Dup, pk.PacketID, want, ids[want])
		}
		sub.ack(packets.Puback, pk.PacketID)
	}
	pk := sub.expectMessage("a/c", "away")
	if pk.FixedHeader.Qos != 2 || pk.FixedHeader.Dup {
		t.Errorf("%+v", pk.FixedHeader)
	}
	sub.quiet()
	sub.leave()
	sub = keeping(t, b, "sub", true, nil)
	sub.quiet()
	pub.publish("a/d", "live", 0, 0)
	sub.expectMessage("a/d", "live")
	again := keeping(t, b, "sub", false, func(p *packets.Packet) { p.Connect.Clean = true })
	sub.expectEnd(packets.ErrSessionTakenOver.Code)
	pub.publish("a/d", "nobody", 1, 10)
	again.quiet()
}

// TestExactlyOnceAcrossConnections: the ids of QoS 2 outlive the connection, both ways.
func TestExactlyOnceAcrossConnections(t *testing.T) {
	b, _ := serve(t, nil)
	sub, pub := keeping(t, b, "sub", false, nil), keeping(t, b, "pub", false, nil)
	sub.mustSubscribe("a", 2)
	pk := publishPacket("a", "x", 2, 7)
	pub.send(pk)
	pub.expectAck(packets.Pubrec, 7)
	pub.leave()
	pub = keeping(t, b, "pub", true, nil)
	pk.FixedHeader.Dup = true
	pub.send(pk)
	pub.expectAck(packets.Pubrec, 7)
	pub.ack(packets.Pubrel, 7)
	if ack := pub.expectAck(packets.Pubcomp, 7); ack.ReasonCode != 0 {
		t.Errorf("PUBCOMP %#x", ack.ReasonCode)
	}
	first := sub.expect(packets.Publish)
	sub.leave()
	sub = keeping(t, b, "sub", true, nil) // PUBREC was lost
	second := sub.expect(packets.Publish)
	if !second.FixedHeader.Dup || second.PacketID != first.PacketID || string(second.Payload) != "x" {
		t.Errorf("%+v after %+v", second, first)
	}
	sub.ack(packets.Pubrec, second.PacketID)
	sub.expectAck(packets.Pubrel, second.PacketID)
	sub.leave()
	sub = keeping(t, b, "sub", true, nil) // PUBREL is owed
	sub.expectAck(packets.Pubrel, second.PacketID)
	sub.ack(packets.Pubcomp, second.PacketID)
	sub.quiet()
	sub.leave()
	sub = keeping(t, b, "sub", true, nil)
	sub.quiet()
	pub.publish("a", "y", 2, 7)
	sub.expectMessage("a", "y")
}

// TestSharedSubscription: each message goes to one member; what a member leaves behind goes to
// another.
func TestSharedSubscription(t *testing.T) {
	b, _ := serve(t, nil)
	one, _ := connectAs(t, b.addr, "one", 5, func(p *packets.Packet) { p.Properties.ReceiveMaximum = 3 })
	pub := connected(t, b, "pub", 5)
	one.mustSubscribe("$share/g/a/#", 1)
	for i := range 10 {
		pub.publish("a/b", fmt.Sprint(i), 1, uint16(i+1))
	}
	for i := range 3 {
		if pk := one.expect(packets.Publish); string(pk.Payload) != fmt.Sprint(i) {
			t.Fatalf("%+v", pk)
		}
	}
	one.quiet() // three are with it
	two := connected(t, b, "two", 5)
	two.mustSubscribe("$share/g/a/#", 1)
	_ = one.nc.Close()
	got := map[string]bool{}
	for range 10 {
		pk := two.expect(packets.Publish)
		if got[string(pk.Payload)] {
			t.Errorf("%q twice", pk.Payload)
		}
		got[string(pk.Payload)] = true
		two.ack(packets.Puback, pk.PacketID)
	}
	two.quiet()
	for _, filter := range []string{"$share/a", "$share//a", "$share/+/a", "$share/g/"} {
		if codes := two.subscribe(5, packets.Subscription{Filter: filter}); codes[0] != packets.ErrTopicFilterInvalid.Code {
			t.Errorf("%s: SUBACK %v", filter, codes)
		}
	}
}

// TestSessionMovesToAnotherNode, with what was not acknowledged.
func TestSessionMovesToAnotherNode(t *testing.T) {
	r, log := routertest.Start(t, nil)
	other, _ := routertest.Join(t, log, "2", nil)
	one, two := serveOn(t, r, nil), serveOn(t, other, nil)
	sub, pub := keeping(t, one, "sub", false, nil), connected(t, two, "pub", 5)
	sub.mustSubscribe("a", 1)
	pub.publish("a", "x", 1, 1)
	sub.expect(packets.Publish)
	moved := keeping(t, two, "sub", true, nil)
	sub.expectEnd(packets.ErrSessionTakenOver.Code)
	pub.publish("a", "y", 1, 2)
	moved.expectMessage("a", "x")
	moved.expectMessage("a", "y")
	moved.quiet()
}

// TestPublishBehindATakeover: what a connection publishes when its session is another's already, which it has not heard
// of, is not answered: an answer would be the last word on a message that its client sends again over the other.
func TestPublishBehindATakeover(t *testing.T) {
	r, log := routertest.Start(t, nil)
	other, late := routertest.Join(t, log, "2", nil)
	one, two := serveOn(t, r, nil), serveOn(t, other, nil)
	sub, pub := keeping(t, one, "sub", false, nil), keeping(t, two, "pub", false, nil)
	sub.mustSubscribe("a", 2)
	pub.publish("a", "x", 2, 1)
	sub.expectMessage("a", "x")
	late.Hold()
	moved := keeping(t, one, "pub", true, nil)
	pub.send(publishPacket("a", "y", 2, 2))
	pub.expectEnd(packets.ErrSessionTakenOver.Code)
	moved.publish("a", "y", 2, 2)
	sub.expectMessage("a", "y")
	late.Release()
}

// TestSubscribeWithoutALeader ends the connection, so that the client subscribes again: SUBACK and UNSUBACK could only
// say that it is refused.
func TestSubscribeWithoutALeader(t *testing.T) {
	for _, kind := range []byte{packets.Subscribe, packets.Unsubscribe} {
		r, log := routertest.Start(t, nil)
		c := keeping(t, serveOn(t, r, nil), "c", false, nil)
		c.mustSubscribe("a", 1)
		log.Refuse(core.E(core.Uncertain, "the leader is gone"))
		c.send(&packets.Packet{FixedHeader: packets.FixedHeader{Type: kind, Qos: 1}, PacketID: 9, Filters: packets.Subscriptions{{Filter: "a", Qos: 1}}})
		c.expectEnd(packets.ErrServerUnavailable.Code)
		log.Refuse(nil)
	}
}

// TestOrderOfQoS: messages of one name come in their order, whatever their QoS.
func TestOrderOfQoS(t *testing.T) {
	b, _ := serve(t, nil)
	sub, pub := keeping(t, b, "sub", false, nil), connected(t, b, "pub", 5)
	sub.mustSubscribe("a", 2)
	sub.leave()
	const n = 40
	for i := range n {
		pub.publish("a", fmt.Sprint(i), byte(1+i%2), uint16(i+1))
		if i%2 == 1 {
			pub.ack(packets.Pubrel, uint16(i+1))
			pub.expectAck(packets.Pubcomp, uint16(i+1))
		}
	}
	sub = keeping(t, b, "sub", true, nil)
	for i := range n {
		if pk := sub.expect(packets.Publish); string(pk.Payload) != fmt.Sprint(i) || pk.FixedHeader.Qos != byte(1+i%2) {
			t.Fatalf("message %q with QoS %d, want %d", pk.Payload, pk.FixedHeader.Qos, i)
		}
	}
}

// TestMaxSessionExpiry: no session is without a connection for longer than the server allows, whatever
// its client asked for in CONNECT or DISCONNECT; MQTT 3.1.1 cannot ask.
func TestMaxSessionExpiry(t *testing.T) {
	b := serveClocked(t, func(o *Options) { o.MaxSessionExpiry = 5 * time.Second })
	open := func(version byte, asked uint32) (*client, packets.Packet) {
		c, ack := connectAs(t, b.addr, fmt.Sprint("c", version), version, func(p *packets.Packet) {
			p.Connect.Clean = false
			p.Properties.SessionExpiryInterval, p.Properties.SessionExpiryIntervalFlag = asked, true
		})
		if ack.ReasonCode != 0 {
			t.Fatalf("version %d: CONNACK %#x", version, ack.ReasonCode)
		}
		return c, ack
	}
	for _, version := range []byte{4, 5} {
		c, ack := open(version, 100)
		if told := ack.Properties.SessionExpiryInterval; version == 5 && told != 5 {
			t.Errorf("told %d s, want 5", told)
		}
		more := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}}
		more.Properties.SessionExpiryInterval, more.Properties.SessionExpiryIntervalFlag = 1000, version == 5
		c.send(more)
		c.expectEnd(0)
		b.pass(4 * time.Second)
		c, ack = open(version, 3)
		if told := ack.Properties; !ack.SessionPresent || told.SessionExpiryIntervalFlag {
			t.Errorf("version %d, after 4 s: session present %v, told %d s of 3", version, ack.SessionPresent, told.SessionExpiryInterval)
		}
		c.leave()
		b.pass(6 * time.Second)
		if _, ack := open(version, 3); ack.SessionPresent {
			t.Errorf("version %d: the session is there after 6 s", version)
		}
	}
}

// TestLeaderChangesInFlight: a dispatcher that begins anew gives what a client has not acknowledged to
// its connection again, which has sent it already. The client gets it once (MQTT-4.4.0-1), and what it
// says of it counts.
func TestLeaderChangesInFlight(t *testing.T) {
	for qos := byte(1); qos <= 2; qos++ {
		r1, l1 := routertest.Start(t, nil)
		r2, l2 := routertest.Join(t, l1, "2", nil)
		b := serveOn(t, r1, nil)
		sub := keeping(t, b, "sub", false, nil)
		sub.mustSubscribe("a", qos)
		pub := connected(t, serveOn(t, r2, nil), "pub", 5)
		pub.publish("a", "one", qos, 1)
		one := sub.expect(packets.Publish)
		l2.SetLeader(true)
		pub.publish("a", "two", qos, 2)
		sub.expectMessage("a", "two")
		sub.acknowledge(&one)
		if qos == 2 { // of QoS 1 nobody knows when the acknowledgement has arrived
			l1.SetLeader(true)
			pub.publish("a", "three", qos, 3)
			sub.expectMessage("a", "three")
		}
		sub.quiet()
		if n := b.onTheirWay("sub"); n != 0 {
			t.Errorf("QoS %d: %d messages are still looked for, of which the client said all", qos, n)
		}
		sub.leave()
	}
}

// onTheirWay is how many messages a client's feeds would find that come again.
func (b *broker) onTheirWay(client string) (n int) {
	b.mu.Lock()
	s := b.clients[client].session
	b.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.feeds {
		n += len(f.sent)
	}
	return n
}
