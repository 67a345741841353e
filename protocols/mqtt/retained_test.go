package mqtt

import (
	"fmt"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/router/routertest"
)

func (c *client) retain(topic, payload string, qos byte, id uint16) {
	c.t.Helper()
	pk := publishPacket(topic, payload, qos, id)
	pk.FixedHeader.Retain = true
	c.send(pk)
	if qos == 1 {
		if ack := c.expectAck(packets.Puback, id); ack.ReasonCode != 0 {
			c.t.Fatalf("PUBACK %#x", ack.ReasonCode)
		}
	}
}

// TestRetained: the newest message of each name comes to new subscriptions, on any node,
// with the flag; to those that are there without it.
func TestRetained(t *testing.T) {
	r1, l1 := routertest.Start(t, nil)
	r2, _ := routertest.Join(t, l1, "2", nil)
	b1, b2 := serveOn(t, r1, nil), serveOn(t, r2, nil)
	pub := connected(t, b1, "pub", 5)
	early := connected(t, b2, "early", 5)
	early.subscribe(1, packets.Subscription{Filter: "s/#", Qos: 1}, packets.Subscription{Filter: "s/+", Qos: 0, RetainAsPublished: true})
	pub.retain("s/a", "offline", 1, 1)
	pub.retain("s/a", "online", 1, 2)
	pub.retain("s", "root", 1, 3)
	pub.retain("s/b", "x", 1, 4)
	pub.retain("s/b", "", 1, 5)
	for _, want := range []struct {
		topic, payload string
		retain         bool
	}{{"s/a", "offline", true}, {"s/a", "online", true}, {"s", "root", false}, {"s/b", "x", true}, {"s/b", "", true}} {
		if pk := early.expectMessage(want.topic, want.payload); pk.FixedHeader.Retain != want.retain {
			t.Errorf("%s: retain %v", want.topic, pk.FixedHeader.Retain)
		}
	}
	early.quiet()
	late := connected(t, b2, "late", 5)
	late.subscribe(1, packets.Subscription{Filter: "s/#", Qos: 2, Identifier: 9})
	for _, want := range [][2]string{{"s", "root"}, {"s/a", "online"}} {
		if pk := late.expectMessage(want[0], want[1]); !pk.FixedHeader.Retain || pk.FixedHeader.Qos != 1 || len(pk.Properties.SubscriptionIdentifier) != 1 {
			t.Errorf("%+v", pk)
		}
	}
	late.quiet()
	for handling, want := range []bool{true, false, false} { // the subscription is there already
		late.subscribe(uint16(handling+2), packets.Subscription{Filter: "s/a", Qos: 0, RetainHandling: byte(handling)})
		if want {
			late.expectMessage("s/a", "online")
		}
		late.quiet()
	}
	other := connected(t, b1, "other", 4)
	other.mustSubscribe("s/+", 0)
	if pk := other.expectMessage("s/a", "online"); !pk.FixedHeader.Retain || pk.FixedHeader.Qos != 0 {
		t.Errorf("%+v", pk.FixedHeader)
	}
	other.quiet()
}

// TestManyRetainedForASlowSubscriber: each of them once, whatever the window is.
func TestManyRetainedForASlowSubscriber(t *testing.T) {
	const n = 40_000
	b, r := serve(t, nil)
	topic := routertest.Topic(t, r, "many", 1, nil)
	retain(t, r, topic, n, func(i int) string { return fmt.Sprintf("many/%d", i) })
	for _, qos := range []byte{0, 1} {
		c, _ := connectAs(t, b.addr, "c", 5, func(p *packets.Packet) { p.Properties.ReceiveMaximum = 3 })
		c.mustSubscribe("#", qos)
		seen := map[string]bool{}
		for len(seen) < n {
			pk := c.expect(packets.Publish)
			if seen[pk.TopicName] || pk.FixedHeader.Qos != qos {
				t.Fatalf("%s again, or with QoS %d", pk.TopicName, pk.FixedHeader.Qos)
			}
			seen[pk.TopicName] = true
			c.acknowledge(&pk)
		}
		c.quiet()
		_ = c.nc.Close()
	}
}

// TestRetainedWill is retained.
func TestRetainedWill(t *testing.T) {
	b, _ := serve(t, nil)
	sub := connected(t, b, "sub", 4)
	sub.mustSubscribe("w", 1)
	c, _ := connectAs(t, b.addr, "c", 4, func(p *packets.Packet) {
		p.Connect.WillFlag, p.Connect.WillTopic, p.Connect.WillPayload, p.Connect.WillRetain = true, "w", []byte("gone"), true
	})
	_ = c.nc.Close()
	sub.expectMessage("w", "gone")
	late := connected(t, b, "late", 4)
	late.mustSubscribe("w", 1)
	if pk := late.expectMessage("w", "gone"); !pk.FixedHeader.Retain {
		t.Error("it has no retain flag")
	}
}
