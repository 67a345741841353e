package mqtt

import (
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

const denied = 0x87

// withTopics has users, and topics that alice may not make.
func withTopics(t testing.TB, change func(*Options)) *broker {
	t.Helper()
	b, _ := serve(t, func(o *Options) {
		quickly(o)
		if change != nil {
			change(o)
		}
	})
	b.withUsers(t)
	for _, name := range []string{"w", "r", "secret"} {
		if _, err := b.router.CreateTopic(t.Context(), b.admin(t), router.TopicSpec{Name: core.TopicName(name), Partitions: 1}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// answer publishes with QoS 1 or 2 and returns what it is acknowledged with.
func (c *client) answer(topic string, qos byte, id uint16) byte {
	c.t.Helper()
	c.send(publishPacket(topic, "m", qos, id))
	pk, err := c.read()
	if err != nil {
		c.t.Fatal(err)
	}
	return pk.ReasonCode
}

// TestPublishRights: a publish is refused with 0x87 by MQTT 5; MQTT 3.1.1 has no word for that, and is
// not told that it went well. Nothing of it is stored, nor a topic made for it.
func TestPublishRights(t *testing.T) {
	b := withTopics(t, nil)
	all := as(t, b, "admin", "all", 5)
	all.mustSubscribe("#", 1)
	c := as(t, b, "alice", "c", 5)
	for i, tc := range []struct {
		topic string
		want  byte
	}{
		{"w/x", 0},
		{"secret/x", denied},
		{"$delayed/1/secret/x", denied},
		{"c/made/by/her", 0},
		{"wide/x", denied}, // she may not make it
		{"s/x", denied},    // nor may she write to it
		{"/no/legal/topic", denied},
	} {
		for qos := byte(1); qos <= 2; qos++ {
			if got := c.answer(tc.topic, qos, uint16(10*i)+uint16(qos)); got != tc.want {
				t.Errorf("%s, QoS %d: %#x, want %#x", tc.topic, qos, got, tc.want)
			}
		}
		if tc.want == 0 {
			all.expectMessage(tc.topic, "m")
			all.expectMessage(tc.topic, "m")
		}
	}
	if topic, ok := b.router.Topic(core.TopicName("s")); ok {
		t.Errorf("there is %v", topic.Name)
	}
	if topic, ok := b.router.Topic(core.TopicName("mqtt")); ok {
		t.Errorf("there is %v", topic.Name)
	}
	before := b.metrics.rejected.Load()
	c.send(publishPacket("secret/x", "m", 0, 0))
	c.quiet()
	c.send(&packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1, Retain: true}, TopicName: "secret/kept", Payload: []byte("m"), PacketID: 99,
	})
	if ack := c.expectAck(packets.Puback, 99); ack.ReasonCode != denied {
		t.Errorf("PUBACK %#x", ack.ReasonCode)
	}
	if n := b.metrics.rejected.Load() - before; n != 2 {
		t.Errorf("%d messages were rejected, want 2", n)
	}
	for qos := byte(1); qos <= 2; qos++ {
		old := as(t, b, "alice", "old", 4)
		old.send(publishPacket("secret/x", "m", 0, 0)) // dropped
		old.publish("w/x", "m", 1, 1)
		all.expectMessage("w/x", "m")
		old.send(publishPacket("secret/x", "m", qos, 2))
		old.expectEnd(0)
	}
	all.quiet()
}

// TestUserIDIsTheClients: who says another's in the user property is refused, with a will as well.
func TestUserIDIsTheClients(t *testing.T) {
	b := withTopics(t, nil)
	all := as(t, b, "admin", "all", 5)
	all.mustSubscribe("w/#", 1)
	c := as(t, b, "alice", "c", 5)
	say := func(id byte, name, user string) byte {
		t.Helper()
		pk := publishPacket(name, "m", 1, uint16(id))
		pk.Properties.User = []packets.UserProperty{{Key: "a", Val: "b"}, {Key: headerUserID, Val: user}}
		c.send(pk)
		return c.expectAck(packets.Puback, uint16(id)).ReasonCode
	}
	if got := say(1, "w/x", "admin"); got != denied {
		t.Errorf("another's: %#x", got)
	}
	if got := say(2, "w/x", "alice"); got != 0 {
		t.Errorf("her own: %#x", got)
	}
	all.expectMessage("w/x", "m")
	all.quiet()
	topic, _ := b.router.Topic(core.TopicName("w"))
	if _, err := b.router.Browse(router.Itself("a test"), topic.Partitions[0], 0, 1, 1<<20, func(r router.Browsed) bool {
		if !r.Record.Vouched {
			t.Errorf("%+v", r.Record)
		}
		return true
	}); err != nil {
		t.Error(err)
	}
	_, ack := connectAs(t, b.addr, "will", 5, func(p *packets.Packet) {
		credentials("alice", "pw-alice")(p)
		p.Connect.WillFlag, p.Connect.WillTopic, p.Connect.WillPayload = true, "w/x", []byte("m")
		p.Connect.WillProperties.User = []packets.UserProperty{{Key: headerUserID, Val: "admin"}}
	})
	if ack.ReasonCode != denied {
		t.Errorf("CONNACK %#x", ack.ReasonCode)
	}
}

// TestSubscribeRights: a filter whose topic the client may not read is refused; of others it gets what it
// may, live, retained and from before, until it may not any more.
func TestSubscribeRights(t *testing.T) {
	b := withTopics(t, nil)
	pub := as(t, b, "admin", "pub", 5)
	for i, name := range []string{"r/kept", "secret/kept"} {
		pub.send(&packets.Packet{
			FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1, Retain: true}, TopicName: name, Payload: []byte("k"), PacketID: uint16(i + 1),
		})
		pub.expect(packets.Puback)
	}
	filters := []packets.Subscription{{Filter: "secret/#"}, {Filter: "r/#", Qos: 1}, {Filter: "$share/g/secret/+"}, {Filter: "$SYS/#"}, {Filter: "secret"}}
	c := as(t, b, "alice", "c", 5)
	if codes := c.subscribe(1, filters...); string(codes) != string([]byte{denied, 1, denied, denied, denied}) {
		t.Errorf("SUBACK %#x", codes)
	}
	c.expectMessage("r/kept", "k")
	old := as(t, b, "alice", "old", 4)
	if codes := old.subscribe(1, filters...); string(codes) != string([]byte{0x80, 1, 0x80, 0x80, 0x80}) {
		t.Errorf("SUBACK %#x", codes)
	}
	old.expectMessage("r/kept", "k")
	for _, expiry := range []uint32{0, 100} { // live, and from the filter's queue
		k, _ := connectAs(t, b.addr, "k", 5, func(p *packets.Packet) {
			credentials("alice", "pw-alice")(p)
			p.Properties.SessionExpiryInterval, p.Properties.SessionExpiryIntervalFlag = expiry, true
		})
		k.mustSubscribe("#", 1)
		k.expectMessage("r/kept", "k")
		pub.publish("secret/x", "no", 1, 1)
		pub.publish("r/x", "yes", 1, 1)
		k.expectMessage("r/x", "yes")
		b.grant(t, "alice", "", "", "^all")
		pub.publish("r/x", "no", 1, 1)
		pub.publish("all/x", "yes", 1, 1)
		k.expectMessage("all/x", "yes")
		b.grant(t, "alice", "", "", "^(r|all)")
		k.quiet()
		if expiry == 0 {
			c.expectMessage("r/x", "yes")
		}
	}
}

// TestSharedRights: a member of a shared subscription that meets what it may not read leaves that to the
// others, and itself until it subscribes anew.
func TestSharedRights(t *testing.T) {
	b := withTopics(t, nil)
	pub := as(t, b, "admin", "pub", 5)
	alice := as(t, b, "alice", "a", 5)
	alice.mustSubscribe("$share/g/#", 1)
	pub.publish("r/x", "1", 1, 1)
	alice.expectMessage("r/x", "1")
	pub.publish("secret/x", "2", 1, 1)
	pub.publish("r/x", "3", 1, 1)
	await(t, func() bool { return b.feeds("a") == 0 })
	all := as(t, b, "admin", "all", 5)
	all.mustSubscribe("$share/g/#", 1)
	got := map[string]bool{} // what was with her may come behind the others
	for range 2 {
		pk := all.expect(packets.Publish)
		all.acknowledge(&pk)
		got[pk.TopicName+string(pk.Payload)] = true
	}
	if !got["secret/x2"] || !got["r/x3"] {
		t.Errorf("%v", got)
	}
	alice.quiet()
	all.send(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsubscribe}, PacketID: 1, Filters: packets.Subscriptions{{Filter: "$share/g/#"}}})
	all.expect(packets.Unsuback)
	alice.mustSubscribe("$share/g/#", 1)
	pub.publish("r/x", "4", 1, 1)
	alice.expectMessage("r/x", "4")
}

// feeds is how many feeds a client has.
func (b *broker) feeds(client string) int {
	b.mu.Lock()
	c := b.clients[client]
	b.mu.Unlock()
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	return len(c.session.feeds)
}

// TestWillRights: a will that its client may not publish is refused at CONNECT.
func TestWillRights(t *testing.T) {
	b := withTopics(t, nil)
	refusedAs(t, b, denied, 5, func(p *packets.Packet) {
		credentials("alice", "pw-alice")(p)
		p.Connect.WillFlag, p.Connect.WillTopic, p.Connect.WillPayload = true, "secret/w", []byte("gone")
	})
}

// TestWillRightsInTheEnd: a will whose user has lost the right meanwhile is not published.
func TestWillRightsInTheEnd(t *testing.T) {
	b := serveClocked(t, quickly)
	b.withUsers(t)
	sub := as(t, b.broker, "admin", "sub", 5)
	sub.mustSubscribe("#", 1)
	for i, right := range []string{"^(w|c|all)", "^all"} {
		b.grant(t, "alice", "^(c|all)", "^(w|c|all)", "")
		c, ack := connectAs(t, b.addr, "c", 5, func(p *packets.Packet) {
			credentials("alice", "pw-alice")(p)
			p.Connect.WillFlag, p.Connect.WillTopic, p.Connect.WillPayload, p.Connect.WillQos = true, "c/w", []byte("gone"), 1
		})
		if ack.ReasonCode != 0 {
			t.Fatalf("CONNACK %#x", ack.ReasonCode)
		}
		b.grant(t, "alice", "", right, "")
		c.disconnect(withWill)
		awaitConnections(t, b.broker, 1)
		b.pass(0)
		if i == 0 {
			sub.expectMessage("c/w", "gone")
		}
	}
	as(t, b.broker, "admin", "pub", 5).publish("c/x", "next", 1, 1)
	sub.expectMessage("c/x", "next")
}

// TestClientIDsAreTheirUsers: nobody ends a connection of another user by its client id, or gets its session,
// over whatever node, while that user is there.
func TestClientIDsAreTheirUsers(t *testing.T) {
	r, log := routertest.Start(t, nil)
	b := serveOn(t, r, quickly)
	r2, _ := routertest.Join(t, log, "2", nil)
	other := serveOn(t, r2, quickly)
	b.withUsers(t)
	keep := func(user string) func(*packets.Packet) {
		return func(p *packets.Packet) {
			credentials(user, "pw-"+user)(p)
			p.Connect.Clean = false
			p.Properties.SessionExpiryInterval, p.Properties.SessionExpiryIntervalFlag = 100, true
		}
	}
	refused := func() {
		t.Helper()
		for _, at := range []*broker{b, other} {
			for _, change := range []func(*packets.Packet){credentials("admin", "pw-admin"), keep("admin")} {
				c, ack := connectAs(t, at.addr, "dev", 5, change)
				if ack.ReasonCode != denied {
					t.Errorf("CONNACK %#x", ack.ReasonCode)
				}
				c.expectEnd(0)
			}
		}
	}
	dev := as(t, b, "alice", "dev", 5) // a connection without a session that is stored
	refused()
	dev.quiet()
	again := as(t, other, "alice", "dev", 5)
	dev.expectEnd(codeTakenOver.Code)
	again.disconnect(0)
	if _, ack := connectAs(t, b.addr, "dev", 5, keep("alice")); ack.ReasonCode != 0 {
		t.Fatalf("CONNACK %#x", ack.ReasonCode)
	}
	dev, _ = connectAs(t, b.addr, "dev", 5, keep("alice"))
	dev.mustSubscribe("all/#", 1)
	dev.disconnect(0)
	awaitConnections(t, b, 0)
	as(t, b, "admin", "pub", 5).publish("all/x", "m", 1, 1)
	refused()
	if err := b.router.DeleteUser(t.Context(), b.admin(t), "alice", false); err != nil {
		t.Fatal(err)
	}
	dev, ack := connectAs(t, b.addr, "dev", 5, keep("admin"))
	if !ack.SessionPresent {
		t.Fatalf("%+v", ack)
	}
	dev.expectMessage("all/x", "m")
}

// TestSysRights: what the broker says of itself is for who may look at the cluster.
func TestSysRights(t *testing.T) {
	b := withTopics(t, func(o *Options) { o.SysInterval = time.Hour })
	admin := as(t, b, "admin", "admin", 5)
	admin.mustSubscribe("$SYS/broker/version", 0)
	admin.expectMessage("$SYS/broker/version", "polylog")
	b.addUser(t, "mon", router.TagMonitoring)
	b.grant(t, "mon", "", "", "^none$")
	mon := as(t, b, "mon", "mon", 5)
	mon.mustSubscribe("$SYS/broker/clients/connected", 0)
	mon.expectMessage("$SYS/broker/clients/connected", "2")
	if _, err := b.router.SetUser(t.Context(), b.admin(t), "mon", router.UserChange{There: true, Tags: &[]string{}}); err != nil {
		t.Fatal(err)
	}
	third := as(t, b, "admin", "third", 5)
	third.mustSubscribe("$SYS/broker/clients/connected", 0)
	third.expectMessage("$SYS/broker/clients/connected", "3")
	b.sys.tick(b.opts.SysInterval)
	third.expectMessage("$SYS/broker/clients/connected", "3")
	mon.quiet()
}

// TestFirstUserLosesNothing: what is published to a session while its client may not be there is kept for
// it, from the moment on at which the first user was made.
func TestFirstUserLosesNothing(t *testing.T) {
	b, _ := serve(t, quickly)
	keep := func(p *packets.Packet) {
		p.Connect.Clean = false
		p.Properties.SessionExpiryInterval, p.Properties.SessionExpiryIntervalFlag = 100, true
	}
	dev, _ := connectAs(t, b.addr, "dev", 5, keep)
	dev.mustSubscribe("r/#", 1)
	b.addUser(t, "admin", router.TagAdministrator)
	b.grant(t, "admin", ".*", ".*", ".*")
	pub := as(t, b, "admin", "pub", 5)
	pub.publish("r/x", "during", 1, 1)
	dev.expectEnd(denied)
	dev, ack := connectAs(t, b.addr, "dev", 5, func(p *packets.Packet) {
		keep(p)
		credentials("admin", "pw-admin")(p)
	})
	if !ack.SessionPresent {
		t.Fatalf("%+v", ack)
	}
	dev.expectMessage("r/x", "during")
}
