package mqtt

import (
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

// clocked is a broker whose time is the test's.
type clocked struct {
	*broker
	t     testing.TB
	r     *router.Router
	log   *routertest.Log
	clock *routertest.Clock
}

func serveClocked(t testing.TB, change func(*Options)) *clocked {
	t.Helper()
	clock := routertest.NewClock(time.UnixMilli(1_700_000_000_000))
	r, log := routertest.Start(t, func(o *router.Options) { o.Clock = clock.Now })
	b := serveOn(t, r, func(o *Options) {
		o.Clock = clock.Now
		if change != nil {
			change(o)
		}
	})
	return &clocked{b, t, r, log, clock}
}

// pass has d go by, and what is due then happen.
func (c *clocked) pass(d time.Duration) {
	c.t.Helper()
	c.clock.Advance(d)
	if err := c.r.CheckTimers(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
}

// willing connects a client with a will on w/ID.
func willing(t testing.TB, b *broker, id string, expiry, delay uint32, change func(*packets.Packet)) *client {
	t.Helper()
	c, ack := connectAs(t, b.addr, id, 5, func(p *packets.Packet) {
		p.Connect.Clean = false
		p.Connect.WillFlag, p.Connect.WillTopic, p.Connect.WillPayload, p.Connect.WillQos = true, "w/"+id, []byte("gone"), 1
		p.Connect.WillProperties.WillDelayInterval = delay
		p.Properties.SessionExpiryInterval, p.Properties.SessionExpiryIntervalFlag = expiry, true
		if change != nil {
			change(p)
		}
	})
	if ack.ReasonCode != 0 {
		t.Fatalf("CONNACK %#x", ack.ReasonCode)
	}
	return c
}

// disconnect is DISCONNECT with a reason; the broker has seen it to the end.
func (c *client) disconnect(reason byte) {
	c.t.Helper()
	c.send(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}, ReasonCode: reason})
	c.expectEnd(0)
}

// withWill is the reason of a DISCONNECT that wants the will published.
var withWill = packets.CodeDisconnectWillMessage.Code

// TestDelayedWill: a will waits for its delay, at most until the session ends, and is not published
// when the client is back before. Its expiry counts from its publication.
func TestDelayedWill(t *testing.T) {
	b := serveClocked(t, nil)
	sub := connected(t, b.broker, "sub", 5)
	sub.mustSubscribe("w/#", 2)
	props := packets.Properties{
		WillDelayInterval: 5, MessageExpiryInterval: 7, ContentType: "t", ResponseTopic: "r", CorrelationData: []byte{1, 0},
		PayloadFormat: 1, PayloadFormatFlag: true, User: []packets.UserProperty{{Key: "a", Val: "b"}, {Key: "a", Val: "c"}},
	}
	willing(t, b.broker, "late", 100, 5, func(p *packets.Packet) {
		p.Connect.WillProperties = props
		p.Mods.AllowResponseInfo = true
	}).disconnect(withWill)
	willing(t, b.broker, "back", 100, 5, nil).disconnect(withWill)
	willing(t, b.broker, "ends", 2, 5, nil).disconnect(withWill)
	willing(t, b.broker, "ended", 100, 5, nil).disconnect(withWill)
	willing(t, b.broker, "polite", 100, 5, nil).disconnect(0)
	b.pass(0)
	sub.quiet()
	willing(t, b.broker, "back", 100, 0, nil).disconnect(0)
	connected(t, b.broker, "ended", 5) // its session ends with that
	sub.expectMessage("w/ended", "gone")
	b.pass(2 * time.Second)
	sub.expectMessage("w/ends", "gone")
	b.pass(2*time.Second + 999*time.Millisecond)
	sub.quiet()
	b.pass(time.Millisecond)
	pk := sub.expectMessage("w/late", "gone")
	got := pk.Properties
	if got.MessageExpiryInterval != 7 || got.ContentType != "t" || got.ResponseTopic != "r" || string(got.CorrelationData) != "\x01\x00" ||
		got.PayloadFormat != 1 || len(got.User) != 2 || got.User[1].Val != "c" || pk.FixedHeader.Qos != 1 || pk.FixedHeader.Retain {
		t.Errorf("%+v", pk)
	}
	b.pass(time.Hour)
	sub.quiet()
}

// TestWillOfALostNode is published by who leads, once; and when the client is back first, before
// anything that it says then.
func TestWillOfALostNode(t *testing.T) {
	r1, l1 := routertest.Start(t, nil)
	r2, _ := routertest.Join(t, l1, "2", nil)
	b1, b2 := serveOn(t, r1, nil), serveOn(t, r2, nil)
	sub := connected(t, b1, "sub", 5)
	sub.mustSubscribe("w/#", 1)
	willing(t, b2, "taken", 100, 0, func(p *packets.Packet) { p.Connect.WillRetain = true })
	willing(t, b2, "lost", 0, 0, nil)
	back := willing(t, b1, "taken", 100, 0, nil)
	back.retain("w/taken", "online", 1, 1)
	sub.expectMessage("w/taken", "gone")
	sub.expectMessage("w/taken", "online")
	late := connected(t, b1, "late", 5)
	late.mustSubscribe("w/taken", 1)
	late.expectMessage("w/taken", "online")
	late.quiet()
	sub.quiet()
	endSessionOf(t, l1, "2")
	sub.expectMessage("w/lost", "gone")
	sub.quiet()
}

// TestWillThatIsRefused: a will that its client may not publish, or that cannot be stored, refuses
// the connection; nothing of it is left.
func TestWillThatIsRefused(t *testing.T) {
	r, log := routertest.Start(t, func(o *router.Options) { o.Authorizer = denyTopic("denied") })
	b := serveOn(t, r, nil)
	routertest.Topic(t, r, "small", 1, map[string]string{"max.message.bytes": "1000"})
	for _, c := range []struct {
		topic, payload string
		version, want  byte
	}{
		{"denied/x", "x", 5, packets.ErrNotAuthorized.Code},
		{"denied/x", "x", 4, 5},
		{"small/x", string(make([]byte, 2000)), 5, packets.ErrPacketTooLarge.Code},
		{"$delayed/1/a", "x", 5, packets.ErrTopicNameInvalid.Code},
	} {
		_, ack := connectAs(t, b.addr, "c", c.version, func(p *packets.Packet) {
			p.Connect.WillFlag, p.Connect.WillTopic, p.Connect.WillPayload = true, c.topic, []byte(c.payload)
		})
		if ack.ReasonCode != c.want {
			t.Errorf("%s, version %d: CONNACK %#x, want %#x", c.topic, c.version, ack.ReasonCode, c.want)
		}
	}
	log.Refuse(core.E(core.Unavailable, "nobody leads"))
	if _, ack := connectAs(t, b.addr, "d", 5, nil); ack.ReasonCode != packets.ErrServerUnavailable.Code {
		t.Errorf("CONNACK %#x", ack.ReasonCode)
	}
	log.Refuse(nil)
}

// denyTopic denies writing to a topic.
type denyTopic string

func (d denyTopic) Authorize(_ router.Principal, op router.Operation, res router.Resource) error {
	if op == router.OpWrite && res.Name.Name == string(d) {
		return core.E(core.Denied, "not for you")
	}
	return nil
}

// TestDelayedPublish: $delayed/SECONDS/name, of any QoS and version, retained too.
func TestDelayedPublish(t *testing.T) {
	b := serveClocked(t, nil)
	sub := connected(t, b.broker, "sub", 5)
	sub.mustSubscribe("#", 2)
	sub.mustSubscribe("$delayed/#", 2) // nothing has such a name
	pub := connected(t, b.broker, "pub", 5)
	old := connected(t, b.broker, "old", 4)
	stays := keeping(t, b.broker, "stays", false, nil)
	first := publishPacket("$delayed/2/a/b", "two", 1, 1)
	first.Properties = packets.Properties{MessageExpiryInterval: 9, ContentType: "t", User: []packets.UserProperty{{Key: "a", Val: "b"}}}
	pub.send(first)
	pub.expectAck(packets.Puback, 1)
	pub.publish("$delayed/1/a", "one", 0, 0)
	pub.retain("$delayed/3/kept", "three", 1, 2)
	pub.publish("$delayed/4//x", "four", 2, 3)
	old.publish("$delayed/5/o/", "five", 2, 1)
	old.publish("$delayed/6/o", "six", 1, 2)
	stays.publish("$delayed/7/s", "seven", 2, 1)
	stays.publish("$delayed/0/now", "at once", 1, 2)
	pub.quiet()
	sub.expectMessage("now", "at once")
	b.pass(0)
	sub.quiet()
	for i, want := range []struct {
		topic, payload string
		qos            byte
	}{{"a", "one", 0}, {"a/b", "two", 1}, {"kept", "three", 1}, {"/x", "four", 2}, {"o/", "five", 2}, {"o", "six", 1}, {"s", "seven", 2}} {
		b.pass(time.Second)
		pk := sub.expectMessage(want.topic, want.payload)
		if pk.FixedHeader.Qos != want.qos {
			t.Errorf("%s: QoS %d, want %d", want.topic, pk.FixedHeader.Qos, want.qos)
		}
		if p := pk.Properties; i == 1 && (p.MessageExpiryInterval != 9 || p.ContentType != "t" || len(p.User) != 1) {
			t.Errorf("%+v", p)
		}
	}
	sub.quiet()
	late := connected(t, b.broker, "late", 5)
	late.mustSubscribe("#", 1)
	if pk := late.expectMessage("kept", "three"); !pk.FixedHeader.Retain {
		t.Error("it is not retained")
	}
	late.quiet()

	for i, name := range []string{"$delayed/x/a", "$delayed/-1/a", "$delayed/1.5/a", "$delayed/4294967296/a", "$delayed/1", "$delayed/1/", "$delayed//a", "$delayed/1/$SYS/a", "$delayed/1/$delayed/1/a", "$delayed"} {
		for qos := byte(1); qos <= 2; qos++ {
			pub.send(publishPacket(name, "x", qos, uint16(10+i)))
			kind := packets.Puback
			if qos == 2 {
				kind = packets.Pubrec
			}
			if ack := pub.expectAck(kind, uint16(10+i)); ack.ReasonCode != packets.ErrTopicNameInvalid.Code {
				t.Errorf("%s: QoS %d got %#x", name, qos, ack.ReasonCode)
			}
		}
	}
	wild := connected(t, b.broker, "wild", 5)
	wild.send(publishPacket("$delayed/1/a/+", "x", 1, 1))
	wild.expectEnd(packets.ErrTopicNameInvalid.Code)
	b.pass(time.Hour)
	sub.quiet()
}

// TestDelayedExactlyOnce: a delayed publish of QoS 2 that comes again over another connection is one.
func TestDelayedExactlyOnce(t *testing.T) {
	b := serveClocked(t, nil)
	sub := connected(t, b.broker, "sub", 5)
	sub.mustSubscribe("#", 0)
	pub := keeping(t, b.broker, "pub", false, nil)
	pk := publishPacket("$delayed/5/a", "x", 2, 7)
	pub.send(pk)
	pub.expectAck(packets.Pubrec, 7)
	pub.leave()
	pub = keeping(t, b.broker, "pub", true, nil)
	pk.FixedHeader.Dup = true
	pub.send(pk)
	pub.expectAck(packets.Pubrec, 7)
	pub.ack(packets.Pubrel, 7)
	pub.expectAck(packets.Pubcomp, 7)
	b.pass(5 * time.Second)
	sub.expectMessage("a", "x")
	b.pass(time.Hour)
	sub.quiet()
}
