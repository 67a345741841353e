package mqtt

import (
	"strings"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/router/routertest"
)

// TestSys: who subscribes to $SYS gets what there is, as retained, and then what changes. A
// filter that begins with a wildcard gets none of it.
func TestSys(t *testing.T) {
	b, _ := serve(t, func(o *Options) { o.Version, o.SysInterval = "1.2", time.Hour })
	all, c := connected(t, b, "all", 5), connected(t, b, "c", 5)
	all.mustSubscribe("#", 1)
	if codes := c.subscribe(1, packets.Subscription{Filter: "$SYS/broker/clients/+", Identifier: 7}); codes[0] != 0 {
		t.Fatalf("SUBACK %v", codes)
	}
	want := map[string]string{"connected": "2", "active": "2", "maximum": "2", "disconnected": "0", "total": "2"}
	for range len(want) {
		pk := c.expect(packets.Publish)
		name := strings.TrimPrefix(pk.TopicName, "$SYS/broker/clients/")
		if string(pk.Payload) != want[name] || !pk.FixedHeader.Retain || pk.FixedHeader.Qos != 0 || pk.Properties.SubscriptionIdentifier[0] != 7 {
			t.Errorf("%+v", pk)
		}
		delete(want, name)
	}
	if len(want) != 0 {
		t.Errorf("missing: %v", want)
	}
	c.subscribe(2, packets.Subscription{Filter: "$SYS/broker/version"})
	c.expectMessage("$SYS/broker/version", "polylog 1.2")
	b.sys.tick(time.Minute) // the first one sends everything
	for range 6 {
		c.expect(packets.Publish)
	}
	b.sys.tick(time.Minute)
	c.quiet() // nothing that c wants has changed
	connected(t, b, "third", 5)
	b.sys.tick(time.Minute)
	for range 4 { // all but those that are away
		if pk := c.expect(packets.Publish); string(pk.Payload) != "3" || pk.FixedHeader.Retain {
			t.Errorf("%+v", pk)
		}
	}
	all.quiet()
	c.send(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsubscribe}, PacketID: 3, Filters: packets.Subscriptions{{Filter: "$SYS/broker/clients/+"}, {Filter: "$SYS/broker/version"}}})
	c.expectAck(packets.Unsuback, 3)
	if b.sys.wanted() {
		t.Error("nobody subscribes to $SYS any more")
	}
}

// TestSysOfTheCluster: on any node there is what each says of itself, and the sums; not of one that is gone.
func TestSysOfTheCluster(t *testing.T) {
	r1, l1 := routertest.Start(t, nil)
	r2, l2 := routertest.Join(t, l1, "2", nil)
	quiet := func(o *Options) { o.SysInterval = time.Hour }
	b1, b2 := serveOn(t, r1, quiet), serveOn(t, r2, quiet)
	c := connected(t, b1, "c", 5)
	connected(t, b2, "x", 5)
	connected(t, b2, "y", 5)
	filters := []string{"$SYS/broker/clients/connected", "$SYS/broker/nodes/+/clients/connected", "$SYS/broker/cluster/clients/connected"}
	expect := func(want map[string]string) {
		t.Helper()
		for range len(want) {
			pk := c.expect(packets.Publish)
			name := strings.TrimPrefix(pk.TopicName, "$SYS/broker/")
			if value, ok := want[name]; !ok || string(pk.Payload) != value {
				t.Fatalf("%s is %s, want %v", pk.TopicName, pk.Payload, want)
			}
			delete(want, name)
		}
		c.quiet()
	}
	self := r1.Cluster().NodeID
	for i, f := range filters { // the others were not asked yet
		c.mustSubscribe(f, 0)
		expect([]map[string]string{{"clients/connected": "1"}, {"nodes/" + self + "/clients/connected": "1"}, {"cluster/clients/connected": "1"}}[i])
	}
	b1.sys.tick(time.Minute)
	expect(map[string]string{"clients/connected": "1", "nodes/" + self + "/clients/connected": "1", "nodes/2/clients/connected": "2", "cluster/clients/connected": "3"})
	b1.sys.tick(time.Minute)
	c.quiet()
	l2.Cut(true)
	b1.sys.tick(time.Minute)
	expect(map[string]string{"cluster/clients/connected": "1"})
}

// TestLoad: the averages of a steady counter come near its rate.
func TestLoad(t *testing.T) {
	n := int64(0)
	l := load{read: func() int64 { return n }}
	for range 6 * 60 {
		n += 10
		l.tick(10 * time.Second)
	}
	for i, r := range l.rates {
		if r < 58 || r > 60.001 {
			t.Errorf("average over %s: %f a minute, want 60", loadSpans[i].name, r)
		}
	}
}

// TestOwnAliases: a client that allows aliases is sent each name once.
func TestOwnAliases(t *testing.T) {
	b, _ := serve(t, nil)
	sub, _ := connectAs(t, b.addr, "sub", 5, func(p *packets.Packet) { p.Properties.TopicAliasMaximum = 1 })
	sub.mustSubscribe("+", 1)
	pub := connected(t, b, "pub", 5)
	for i, want := range []struct {
		published, name string
		alias           uint16
	}{{"a", "a", 1}, {"b", "b", 0}, {"a", "", 1}, {"b", "b", 0}, {"a", "", 1}} {
		pub.publish(want.published, "x", byte(i%2), 1)
		pk := sub.expect(packets.Publish)
		if pk.TopicName != want.name || pk.Properties.TopicAlias != want.alias {
			t.Errorf("message %d on %q with alias %d, want %q with %d", i, pk.TopicName, pk.Properties.TopicAlias, want.name, want.alias)
		}
		sub.acknowledge(&pk)
	}
	plain := connected(t, b, "plain", 5)
	plain.mustSubscribe("+", 0)
	pub.publish("a", "x", 0, 0)
	if pk := plain.expect(packets.Publish); pk.TopicName != "a" || pk.Properties.TopicAliasFlag {
		t.Errorf("%+v", pk)
	}
}

// TestDeniedFilter cannot be subscribed to, others can.
func TestDeniedFilter(t *testing.T) {
	b, _ := serve(t, func(o *Options) { o.DenySubscribe = []string{"#", "test/nosubscribe"} })
	for _, version := range []byte{4, 5} {
		c := connected(t, b, "c", version)
		codes := c.subscribe(1, packets.Subscription{Filter: "#", Qos: 1}, packets.Subscription{Filter: "a", Qos: 1}, packets.Subscription{Filter: "test/nosubscribe"})
		if len(codes) != 3 || codes[0] != 0x80 || codes[1] != 1 || codes[2] != 0x80 {
			t.Errorf("SUBACK %v", codes)
		}
	}
}

// TestSysCountsClients: who has not sent CONNECT is none; who is away is one as long as its session goes on, on any node.
func TestSysCountsClients(t *testing.T) {
	hourly := func(o *Options) { o.SysInterval = time.Hour }
	r1, l1 := routertest.Start(t, nil)
	r2, _ := routertest.Join(t, l1, "2", nil)
	b1, b2 := serveOn(t, r1, hourly), serveOn(t, r2, hourly)
	dial(t, b1.addr, 5)
	for end := time.Now().Add(patience); b1.connected() < 1; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the connection is not there")
		}
	}
	c := connected(t, b1, "c", 5)
	connected(t, b2, "d", 5)
	keeping(t, b2, "away", false, nil).leave()
	keeping(t, b2, "back", false, nil).leave()
	keeping(t, b1, "back", true, nil)
	b1.sys.ask()
	for i, want := range [][2]string{{"clients/connected", "2"}, {"clients/disconnected", "1"}, {"clients/total", "4"}} {
		c.subscribe(uint16(i+1), packets.Subscription{Filter: "$SYS/broker/" + want[0]})
		c.expectMessage("$SYS/broker/"+want[0], want[1])
	}
}
