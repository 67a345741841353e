package mqtt

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

// sessionOf is a connected client's session.
func (b *broker) sessionOf(client string) *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.clients[client].session
}

// nothingUnderWay checks that no packet id of a client's stored session is in use.
func nothingUnderWay(t *testing.T, r *router.Router, client string) {
	t.Helper()
	c, err := r.MQTTClient(t.Context(), router.Principal{}, core.TopicName(client))
	if err != nil || len(c.Session.Assigned)+len(c.Session.Released)+len(c.Session.Received) != 0 {
		t.Errorf("%+v, %v; want no packet ids", c.Session, err)
	}
}

// expectRelease reads the PUBREL of a message that was sent with QoS 2 before, and answers it.
func (c *client) expectRelease(id uint16) {
	c.t.Helper()
	if rel := c.expectAck(packets.Pubrel, id); rel.ReasonCode != 0 {
		c.t.Errorf("PUBREL %#x", rel.ReasonCode)
	}
	c.ack(packets.Pubcomp, id)
}

// collect reads n messages and ends them, and PUBRELs of others, with what belongs to that, in whatever order it comes.
func (c *client) collect(n, others int) (got []packets.Packet, released []uint16) {
	c.t.Helper()
	open := map[uint16]bool{}
	for len(got) < n || len(released) < others || len(open) > 0 {
		pk, err := c.read()
		switch {
		case err != nil:
			c.t.Fatalf("%d messages, %d PUBRELs of others, %v: %v", len(got), len(released), open, err)
		case pk.FixedHeader.Type == packets.Publish:
			got = append(got, pk)
			switch pk.FixedHeader.Qos {
			case 1:
				c.ack(packets.Puback, pk.PacketID)
			case 2:
				if open[pk.PacketID] {
					c.t.Fatalf("packet id %d is in use", pk.PacketID)
				}
				open[pk.PacketID] = true
				c.ack(packets.Pubrec, pk.PacketID)
			}
		case pk.FixedHeader.Type == packets.Pubrel:
			if !open[pk.PacketID] {
				released = append(released, pk.PacketID)
			}
			delete(open, pk.PacketID)
			c.ack(packets.Pubcomp, pk.PacketID)
		default:
			c.t.Fatalf("%+v", pk)
		}
	}
	return got, released
}

// TestSentAndNotAgain: a message went with QoS 2, its PUBREC was lost with the connection, and it is not sent over the
// next one. Its packet id is no other message's until PUBREL and PUBCOMP have ended it, and is free then.
func TestSentAndNotAgain(t *testing.T) {
	expiring := func(pk *packets.Packet) { pk.Properties.MessageExpiryInterval = 5 }
	for name, tc := range map[string]struct {
		change  func(*packets.Packet)              // of the PUBLISH
		between func(b *clocked, sub, pub *client) // before the connection ends
		connect func(*packets.Packet)              // of the second one
		left    string                             // what comes besides
	}{
		"it expires":            {change: expiring, between: func(b *clocked, _, _ *client) { b.pass(time.Minute) }},
		"it expires once there": {change: expiring},
		"it is too large":       {connect: func(pk *packets.Packet) { pk.Properties.MaximumPacketSize = 40 }},
		"unsubscribed": {between: func(_ *clocked, sub, _ *client) {
			sub.send(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsubscribe}, PacketID: 9, Filters: packets.Subscriptions{{Filter: "a"}}})
			sub.expectAck(packets.Unsuback, 9)
		}},
		"too many wait": {between: func(_ *clocked, _, pub *client) {
			for i := range 40 {
				pub.publish("a", fmt.Sprint(i), 1, uint16(i+10))
			}
		}, left: "23"},
	} {
		t.Run(name, func(t *testing.T) {
			b := serveClocked(t, func(o *Options) { o.MaxQueued = 16 })
			one := func(pk *packets.Packet) { pk.Properties.ReceiveMaximum = 1 }
			sub, pub := keeping(t, b.broker, "sub", false, one), connected(t, b.broker, "pub", 5)
			sub.mustSubscribe("a", 2)
			pk := publishPacket("a", string(make([]byte, 100)), 2, 1)
			if tc.change != nil {
				tc.change(pk)
			}
			pub.send(pk)
			pub.expectAck(packets.Pubrec, 1)
			sent := sub.expect(packets.Publish)
			if tc.between != nil {
				tc.between(b, sub, pub)
			}
			sub.leave()
			if name == "it expires once there" {
				b.clock.Advance(time.Minute) // nobody but the next connection sees it
			}
			sub = keeping(t, b.broker, "sub", true, func(pk *packets.Packet) {
				if tc.connect != nil {
					tc.connect(pk)
				}
			})
			sub.expectRelease(sent.PacketID)
			if tc.left != "" {
				for i := 23; i < 40; i++ {
					sub.expectMessage("a", fmt.Sprint(i))
				}
			}
			sub.quiet()
			sub.leave()
			sub = keeping(t, b.broker, "sub", true, nil)
			sub.quiet()
			nothingUnderWay(t, b.r, "sub")
		})
	}
}

// TestSentAndDowngraded: what went with QoS 2 comes again so, though the subscription is of QoS 1 by now.
func TestSentAndDowngraded(t *testing.T) {
	b, r := serve(t, nil)
	sub, pub := keeping(t, b, "sub", false, nil), connected(t, b, "pub", 5)
	sub.mustSubscribe("a", 2)
	pub.publish("a", "x", 2, 1)
	sent := sub.expect(packets.Publish)
	sub.mustSubscribe("a", 1)
	sub.leave()
	sub = keeping(t, b, "sub", true, nil)
	if pk := sub.expectMessage("a", "x"); pk.PacketID != sent.PacketID || pk.FixedHeader.Qos != 2 || !pk.FixedHeader.Dup {
		t.Errorf("%+v, want packet id %d", pk, sent.PacketID)
	}
	pub.publish("a", "y", 2, 2)
	if pk := sub.expectMessage("a", "y"); pk.FixedHeader.Qos != 1 {
		t.Errorf("%+v", pk)
	}
	sub.quiet()
	nothingUnderWay(t, r, "sub")
}

// TestNoPacketIDIsFree: the connection ends, instead of looking for one for ever.
func TestNoPacketIDIsFree(t *testing.T) {
	b, _ := serve(t, nil)
	sub, pub := keeping(t, b, "sub", false, nil), connected(t, b, "pub", 5)
	sub.mustSubscribe("a", 1)
	s := b.sessionOf("sub")
	s.mu.Lock()
	for id := range packetIDs {
		s.reserved[uint16(id+1)] = struct{}{}
	}
	s.mu.Unlock()
	pub.publish("a", "x", 1, 1)
	sub.expectEnd(packets.ErrQuotaExceeded.Code)
	keeping(t, b, "sub", true, nil).expectMessage("a", "x")
}

// TestRetainedOfAKeptSession: what a connection did not send, or its client did not acknowledge, of the retained messages
// of a subscription comes over the next one, also where the node was lost; what went with QoS 2 under its packet id.
func TestRetainedOfAKeptSession(t *testing.T) {
	const n = 5
	for qos := byte(1); qos <= 2; qos++ {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("QoS %d, node lost %v", qos, lost), func(t *testing.T) {
				r1, l1 := routertest.Start(t, nil)
				r2, l2 := routertest.Join(t, l1, "2", nil)
				b1, b2 := serveOn(t, r1, nil), serveOn(t, r2, nil)
				pub := connected(t, b1, "pub", 5)
				for i := range n {
					pk := publishPacket(fmt.Sprintf("r/%d", i), fmt.Sprint(i), 2, uint16(i+1))
					pk.FixedHeader.Retain = true
					pub.send(pk)
					pub.expectAck(packets.Pubrec, uint16(i+1))
				}
				sub := keeping(t, b2, "sub", false, func(p *packets.Packet) { p.Properties.ReceiveMaximum = 2 })
				sub.mustSubscribe("r/#", qos)
				first, sent := sub.expect(packets.Publish), sub.expect(packets.Publish)
				sub.acknowledge(&first)
				sub.expect(packets.Publish)
				if lost {
					l2.Cut(true)
					endSessionOf(t, l1, "2")
				} else {
					sub.leave()
				}
				sub = keeping(t, b1, "sub", true, nil)
				got, _ := sub.collect(n, 0)
				for i, pk := range got {
					again := qos == 2 && (i == 1 || i == 2)
					if pk.TopicName != fmt.Sprintf("r/%d", i) || string(pk.Payload) != fmt.Sprint(i) || pk.FixedHeader.Qos != qos || !pk.FixedHeader.Retain || pk.FixedHeader.Dup != again || again && i == 1 && pk.PacketID != sent.PacketID {
						t.Errorf("%+v, want packet id %d", pk, sent.PacketID)
					}
				}
				sub.quiet()
				sub.leave()
				sub = keeping(t, b1, "sub", true, nil)
				sub.quiet() // once they have come they are owed no more
				pub.publish("r/9", "live", 2, 50)
				sub.expectMessage("r/9", "live")
				sub.quiet()
				nothingUnderWay(t, r1, "sub")
			})
		}
	}
}

// TestRetainedOverAChange: a subscription that is changed, and does not ask for retained messages again, gets what it was
// owed.
func TestRetainedOverAChange(t *testing.T) {
	b, _ := serve(t, nil)
	pub := connected(t, b, "pub", 5)
	for i := range 3 {
		pub.retain(fmt.Sprintf("r/%d", i), fmt.Sprint(i), 1, uint16(i+1))
	}
	sub := keeping(t, b, "sub", false, func(p *packets.Packet) { p.Properties.ReceiveMaximum = 1 })
	sub.mustSubscribe("r/+", 1)
	first := sub.expect(packets.Publish)
	sub.subscribe(2, packets.Subscription{Filter: "r/+", Qos: 2, RetainHandling: 2})
	sub.acknowledge(&first)
	sub.expect(packets.Publish)
	sub.leave()
	sub = keeping(t, b, "sub", true, nil)
	if got, _ := sub.collect(3, 0); string(got[2].Payload) != "2" {
		t.Errorf("%+v", got)
	}
	sub.quiet()
}

// TestRetainedIDIsNotReused: a retained message of QoS 2 was sent, its PUBREC was lost with the connection, and another
// message is retained by then. No message has its packet id before PUBREL and PUBCOMP: the client would take it for the
// first one.
func TestRetainedIDIsNotReused(t *testing.T) {
	b, r := serve(t, nil)
	pub := connected(t, b, "pub", 5)
	retain := func(payload string, id uint16) {
		pk := publishPacket("a", payload, 2, id)
		pk.FixedHeader.Retain = true
		pub.send(pk)
		pub.expectAck(packets.Pubrec, id)
	}
	retain("old", 1)
	sub := keeping(t, b, "sub", false, nil)
	sub.mustSubscribe("a", 2)
	sent := sub.expect(packets.Publish)
	sub.leave()
	retain("new", 2)
	sub = keeping(t, b, "sub", true, nil)
	got, released := sub.collect(2, 1) // it was published to the subscription, and retained
	if len(released) != 1 || released[0] != sent.PacketID {
		t.Errorf("PUBREL of %v, want of %d", released, sent.PacketID)
	}
	for _, pk := range got {
		if string(pk.Payload) != "new" || pk.PacketID == sent.PacketID {
			t.Errorf("%+v; packet id %d is in use", pk, sent.PacketID)
		}
	}
	sub.quiet()
	nothingUnderWay(t, r, "sub")
}

// TestResumedPublisher: publishes of an earlier connection do not count against the receive maximum.
func TestResumedPublisher(t *testing.T) {
	b, _ := serve(t, func(o *Options) { o.ReceiveMaximum = 2 })
	pub := keeping(t, b, "pub", false, nil)
	for id := range uint16(2) {
		pub.send(publishPacket("a", "x", 2, id+1))
		pub.expectAck(packets.Pubrec, id+1)
	}
	pub.leave()
	pub = keeping(t, b, "pub", true, nil)
	for id := range uint16(2) {
		pub.send(publishPacket("a", "y", 2, id+3))
		pub.expectAck(packets.Pubrec, id+3)
	}
	for id := range uint16(4) {
		pub.ack(packets.Pubrel, id+1)
		pub.expectAck(packets.Pubcomp, id+1)
	}
	pub.publish("a", "z", 2, 1)
}

// TestRoomAfterPubcomp: what waits comes when PUBCOMP has made room, whatever it is.
func TestRoomAfterPubcomp(t *testing.T) {
	b, _ := serve(t, nil)
	pub := connected(t, b, "pub", 5)
	pub.retain("r", "kept", 1, 1)
	sub := keeping(t, b, "sub", false, func(p *packets.Packet) { p.Properties.ReceiveMaximum = 1 })
	sub.mustSubscribe("a", 2)
	pub.publish("a", "x", 2, 2)
	pk := sub.expect(packets.Publish)
	sub.mustSubscribe("r", 1)
	sub.acknowledge(&pk)
	sub.expectMessage("r", "kept")
}

// TestRoomIsForOne: while a message of a feed is on its way into the window, no other one gets its place; and one that waits
// for it gets it where it was not needed.
func TestRoomIsForOne(t *testing.T) {
	b, _ := serve(t, nil)
	sub, _ := connectAs(t, b.addr, "sub", 5, func(p *packets.Packet) { p.Properties.ReceiveMaximum = 1 })
	sub.mustSubscribe("a", 1)
	sub.mustSubscribe("last", 0)
	pub := connected(t, b, "pub", 5)
	s := b.sessionOf("sub")
	for drains := true; drains; { // instead of drain, which may still be at work
		s.mu.Lock()
		drains, s.pumping = s.pumping, true
		s.mu.Unlock()
		runtime.Gosched()
	}
	if !s.room() {
		t.Fatal("there is no room")
	}
	pub.publish("a", "x", 1, 1)
	pub.publish("last", "", 0, 0)
	sub.expectMessage("last", "")
	s.takeNoMore()
	s.mu.Lock()
	s.pumping = false
	s.mu.Unlock()
	sub.expectMessage("a", "x")
	sub.quiet() // it is acknowledged
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, reading := range []bool{true, false} { // refill takes a message that waited, or does not
		if s.reading = reading; s.roomLocked() == reading {
			t.Errorf("room beside what is read: %v", reading)
		}
	}
}

// onRecord calls a function with each record of a log.
type onRecord func()

func (f onRecord) Enabled(context.Context, slog.Level) bool      { return true }
func (f onRecord) Handle(_ context.Context, _ slog.Record) error { f(); return nil }
func (f onRecord) WithAttrs([]slog.Attr) slog.Handler            { return f }
func (f onRecord) WithGroup(string) slog.Handler                 { return f }

// TestDisconnectWithoutALeader: a client that has taken its will back while nobody leads has taken it back.
func TestDisconnectWithoutALeader(t *testing.T) {
	for _, kind := range []core.Kind{core.Uncertain, core.Unavailable, core.NotLeader} {
		r, log := routertest.Start(t, nil)
		var once sync.Once
		b := serveOn(t, r, func(o *Options) {
			o.Logger = slog.New(onRecord(func() { once.Do(func() { log.Refuse(nil) }) })) // it has failed
		})
		watch, c := connected(t, b, "watch", 5), willing(t, b, "c", 100, 0, nil)
		watch.mustSubscribe("w/#", 1)
		log.Refuse(core.E(kind, "the leader is gone"))
		c.leave()
		if err := r.CheckTimers(t.Context()); err != nil {
			t.Fatal(err)
		}
		watch.quiet()
		keeping(t, b, "c", true, nil).leave()
	}
}

// TestNothingBehindATakeover: what a connection has read and not stored when another one has its client id is left to that.
func TestNothingBehindATakeover(t *testing.T) {
	b, r := serve(t, nil)
	c := connected(t, b, "c", 5)
	s := b.sessionOf("c")
	p := &s.c.pub
	pk := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1}, TopicName: "a/b", PacketID: 1}
	to, err := b.locate(s.c.principal, pk.TopicName)
	if err != nil {
		t.Fatal(err)
	}
	ack, _, err := p.begin(pk)
	if err != nil {
		t.Fatal(err)
	}
	late := &outBatch{queue: to.queue, acks: []uint64{ack}}
	appendRecord(&late.builder, 1, to, pk, nil)
	s.c.kick(codeTakenOver)
	p.send(late)
	c.expectEnd(packets.ErrSessionTakenOver.Code)
	if head, err := r.Head(to.queue); err != nil || head.End != 0 {
		t.Errorf("the partition ends at %d, %v; want 0", head.End, err)
	}
}

// TestRefusedConnect: CONNACK with an error is the last packet, also where the session could not be opened.
func TestRefusedConnect(t *testing.T) {
	b, r := serve(t, nil)
	routertest.Topic(t, r, "w", 1, map[string]string{"max.message.bytes": "100"})
	c, ack := connectAs(t, b.addr, "c", 5, func(p *packets.Packet) {
		p.Connect.WillFlag, p.Connect.WillTopic, p.Connect.WillPayload = true, "w/x", make([]byte, 200)
	})
	if ack.ReasonCode != packets.ErrPacketTooLarge.Code {
		t.Errorf("CONNACK %#x", ack.ReasonCode)
	}
	c.expectEnd(0)
}

// TestMaxSubscriptions: a client that has as many as it may can change each of them.
func TestMaxSubscriptions(t *testing.T) {
	b, _ := serve(t, nil)
	c := keeping(t, b, "c", false, nil)
	for i := 0; i < maxSubscriptions; i += 101 {
		var subs []packets.Subscription
		for k := range 101 {
			subs = append(subs, packets.Subscription{Filter: fmt.Sprintf("a/%d", i+k)})
		}
		for _, code := range c.subscribe(1, subs...) {
			if code != 0 {
				t.Fatalf("SUBACK %#x", code)
			}
		}
	}
	if codes := c.subscribe(2, packets.Subscription{Filter: "b"}); codes[0] != packets.ErrQuotaExceeded.Code {
		t.Errorf("SUBACK %v for one more", codes)
	}
	if codes := c.subscribe(3, packets.Subscription{Filter: "a/7", Qos: 1}); codes[0] != 1 {
		t.Errorf("SUBACK %v for a change", codes)
	}
}
