package mqtt

import (
	"encoding/binary"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/router/routertest"
)

// These are errors that brokers were found to have.

// TestReceiveMaximum: a subscriber with a window of 2 gets 10,000 messages, two at a time.
func TestReceiveMaximum(t *testing.T) {
	const n = 10_000
	b, _ := serve(t, nil)
	sub, _ := connectAs(t, b.addr, "sub", 5, func(p *packets.Packet) { p.Properties.ReceiveMaximum = 2 })
	sub.mustSubscribe("a", 1)
	pub := connected(t, b, "pub", 5)
	var all sync.WaitGroup
	all.Go(func() { pub.stream("a", n, 500) })
	for i := 0; i < n; i += 2 {
		one, two := sub.expect(packets.Publish), sub.expect(packets.Publish)
		for k, pk := range []packets.Packet{one, two} {
			if got := binary.BigEndian.Uint32(pk.Payload); got != uint32(i+k) || pk.FixedHeader.Dup {
				t.Fatalf("message %d, want %d", got, i+k)
			}
		}
		if one.PacketID == two.PacketID {
			t.Fatalf("packet id %d twice", one.PacketID)
		}
		sub.ack(packets.Puback, two.PacketID)
		sub.ack(packets.Puback, one.PacketID)
	}
	sub.quiet()
	all.Wait()
}

// stream publishes n numbered messages with QoS 1, window of them under way.
func (c *client) stream(topic string, n, window int) {
	sent, acked := 0, 0
	payload := make([]byte, 4)
	for acked < n {
		for ; sent < n && sent-acked < window; sent++ {
			binary.BigEndian.PutUint32(payload, uint32(sent))
			pk := publishPacket(topic, string(payload), 1, uint16(sent%60000)+1)
			if _, err := c.nc.Write(c.encode(pk)); err != nil {
				c.t.Error(err)
				return
			}
		}
		pk, err := c.read()
		if err != nil || pk.FixedHeader.Type != packets.Puback || pk.PacketID != uint16(acked%60000)+1 {
			c.t.Errorf("%+v, %v; want PUBACK %d", pk, err, acked%60000+1)
			return
		}
		acked++
	}
}

// TestPacketIDsAreNotReused: one message is never acknowledged while more than 65,535 others
// are sent.
func TestPacketIDsAreNotReused(t *testing.T) {
	const n = 66_000
	b, _ := serve(t, func(o *Options) { o.MaxQueued = n })
	sub, pub := connected(t, b, "sub", 5), connected(t, b, "pub", 5)
	sub.mustSubscribe("a", 1)
	var all sync.WaitGroup
	all.Go(func() { pub.stream("a", n, 1000) })
	first := sub.expect(packets.Publish)
	for i := uint32(1); i < n; i++ {
		pk := sub.expect(packets.Publish)
		if got := binary.BigEndian.Uint32(pk.Payload); got != i || pk.PacketID == first.PacketID || pk.PacketID == 0 {
			t.Fatalf("message %d with packet id %d, want %d; %d is in use", got, pk.PacketID, i, first.PacketID)
		}
		sub.ack(packets.Puback, pk.PacketID)
	}
	all.Wait()
}

// long is how long TestFourPublishersOneSubscriber goes on.
var long = flag.Duration("long", 0, "how long four publishers and one subscriber are kept at work; 0 is once through")

// TestFourPublishersOneSubscriber does not stall.
func TestFourPublishersOneSubscriber(t *testing.T) {
	const publishers, each = 4, 5000
	b, _ := serve(t, func(o *Options) { o.MaxQueued = publishers * each })
	sub := connected(t, b, "sub", 5)
	sub.mustSubscribe("+", 1)
	pubs := make([]*client, publishers)
	for i := range pubs {
		pubs[i] = connected(t, b, fmt.Sprint("pub", i), 5)
	}
	rounds := 0
	for begin := time.Now(); rounds == 0 || time.Since(begin) < *long; rounds++ {
		var all sync.WaitGroup
		for i, pub := range pubs {
			all.Go(func() { pub.stream(fmt.Sprint(i), each, 50) })
		}
		next := map[string]uint32{}
		for range publishers * each {
			pk := sub.expect(packets.Publish)
			if got := binary.BigEndian.Uint32(pk.Payload); got != next[pk.TopicName] {
				t.Fatalf("%s: message %d, want %d", pk.TopicName, got, next[pk.TopicName])
			}
			next[pk.TopicName]++
			sub.ack(packets.Puback, pk.PacketID)
		}
		all.Wait()
	}
	t.Logf("%d messages", rounds*publishers*each)
}

// TestStuckSubscriber: one subscriber of a hundred reads nothing. The others and the publisher do
// not notice; what it is owed is bounded.
func TestStuckSubscriber(t *testing.T) {
	const n = 300
	b, _ := serve(t, func(o *Options) { o.MaxQueued, o.WriteTimeout = 100, time.Hour })
	stuck := connected(t, b, "stuck", 5)
	stuck.subscribe(1, packets.Subscription{Filter: "a", Qos: 1}, packets.Subscription{Filter: "b", Qos: 0})
	pub := connected(t, b, "pub", 5)
	big := make([]byte, 10_000)
	for i := range 1000 { // fills the sockets' buffers and the outbox
		pub.publish("b", string(big), 1, uint16(i+1))
	}
	subs := make([]*client, 99)
	for i := range subs {
		subs[i] = connected(t, b, fmt.Sprint("sub", i), 5)
		subs[i].mustSubscribe("a", 1)
	}
	for range n / 100 {
		pub.stream("a", 100, 100)
		for _, sub := range subs {
			for want := range uint32(100) {
				pk := sub.expect(packets.Publish)
				if got := binary.BigEndian.Uint32(pk.Payload); got != want {
					t.Fatalf("message %d, want %d", got, want)
				}
				sub.ack(packets.Puback, pk.PacketID)
			}
		}
	}
	if b.metrics.dropped.Load() == 0 || b.metrics.overflowed.Load() != n-100 {
		t.Errorf("%d dropped, %d overflowed; want some, and %d", b.metrics.dropped.Load(), b.metrics.overflowed.Load(), n-100)
	}
}

// TestExactlyOnce: a QoS 2 publish that comes again before its PUBREL is stored once.
func TestExactlyOnce(t *testing.T) {
	b, _ := serve(t, nil)
	sub, pub := connected(t, b, "sub", 5), connected(t, b, "pub", 5)
	sub.mustSubscribe("a", 0)
	pk := publishPacket("a", "x", 2, 7)
	again := publishPacket("a", "x", 2, 7)
	again.FixedHeader.Dup = true
	pub.write(append(pub.encode(pk), pub.encode(again)...)) // the first is on its way to the log
	if ack := pub.expectAck(packets.Pubrec, 7); ack.ReasonCode != 0 {
		t.Errorf("PUBREC %#x", ack.ReasonCode)
	}
	sub.expectMessage("a", "x")
	pub.send(again)
	pub.send(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pubrel}, PacketID: 7})
	got, err := pub.read()
	for err == nil && got.FixedHeader.Type == packets.Pubrec { // those that came late have one of their own
		if got.ReasonCode != 0 {
			t.Errorf("PUBREC %#x", got.ReasonCode)
		}
		got, err = pub.read()
	}
	if err != nil || got.FixedHeader.Type != packets.Pubcomp || got.ReasonCode != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	sub.quiet()
	pub.publish("a", "y", 2, 7) // the id is free
	sub.expectMessage("a", "y")
	pub.ack(packets.Pubrel, 9)
	if ack := pub.expectAck(packets.Pubcomp, 9); ack.ReasonCode != packets.ErrPacketIdentifierNotFound.Code {
		t.Errorf("PUBCOMP %#x", ack.ReasonCode)
	}
	sub.quiet()
}

// TestPublishRightAfterSuback reaches the subscription, from a connection to another node.
func TestPublishRightAfterSuback(t *testing.T) {
	r1, l1 := routertest.Start(t, nil)
	r2, _ := routertest.Join(t, l1, "2", nil)
	b1, b2 := serveOn(t, r1, nil), serveOn(t, r2, nil)
	sub, kept := connected(t, b1, "sub", 5), keeping(t, b1, "kept", false, nil)
	pub := connected(t, b2, "pub", 5)
	for i := range 100 {
		name := fmt.Sprintf("a/%d", i)
		sub.mustSubscribe(name, 0)
		pub.publish(name, "x", 0, 0)
		sub.expectMessage(name, "x")
		kept.mustSubscribe(name, 1)
		pub.publish(name, "y", 1, 1) // and its reason is 0
		kept.expectMessage(name, "y")
		sub.expectMessage(name, "y")
	}
}

// TestPacketsInPieces: packets may come byte by byte, or many at once.
func TestPacketsInPieces(t *testing.T) {
	b, _ := serve(t, nil)
	sub, pub := connected(t, b, "sub", 4), connected(t, b, "pub", 4)
	sub.mustSubscribe("a", 0)
	for _, c := range pub.encode(publishPacket("a", "slow", 0, 0)) {
		pub.write([]byte{c})
	}
	sub.expectMessage("a", "slow")
	var all []byte
	big := string(make([]byte, 40_000))
	for i := range 200 {
		all = append(all, pub.encode(publishPacket("a", fmt.Sprint(i), 0, 0))...)
		if i%50 == 0 {
			all = append(all, pub.encode(publishPacket("a", big, 0, 0))...)
		}
	}
	pub.write(all)
	for i := range 200 {
		sub.expectMessage("a", fmt.Sprint(i))
		if i%50 == 0 {
			sub.expectMessage("a", big)
		}
	}
}

func FuzzPackets(f *testing.F) {
	c := &client{t: f, version: 5}
	f.Add(c.encode(publishPacket("a/b", "x", 1, 1)))
	f.Add(c.encode(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe}, PacketID: 1, Filters: packets.Subscriptions{{Filter: "a"}}}))
	f.Fuzz(func(_ *testing.T, b []byte) {
		for _, version := range []byte{4, 5} {
			p := packetReader{buf: append([]byte(nil), b...), w: len(b)}
			for p.buffered() {
				fh, body, err := p.next(1<<16, func() {})
				if err != nil {
					break
				}
				pk := packets.Packet{FixedHeader: fh, ProtocolVersion: version}
				_ = decode(&pk, body)
			}
		}
	})
}

// TestDisconnectIsSeen: a client that is disconnected while it sends reads why.
func TestDisconnectIsSeen(t *testing.T) {
	b, _ := serve(t, func(o *Options) { o.ReceiveMaximum = 10 })
	c := connected(t, b, "c", 5)
	for i := range 11 {
		c.send(publishPacket("a", "x", 2, uint16(i+1)))
	}
	for range 1000 { // after the connection's end, for all that we know
		if _, err := c.nc.Write(c.encode(publishPacket("a", "x", 0, 0))); err != nil {
			break // we have taken what it still sends for long enough
		}
	}
	for {
		pk, err := c.read()
		if err != nil {
			t.Fatal(err)
		}
		if pk.FixedHeader.Type == packets.Disconnect {
			if pk.ReasonCode != packets.ErrReceiveMaximum.Code {
				t.Errorf("DISCONNECT %#x", pk.ReasonCode)
			}
			return
		}
	}
}
