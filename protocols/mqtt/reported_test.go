package mqtt

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
	"polylog/router/state"
)

// These are what users of other brokers have reported, with those in traps_test.go: docs/mqtt-known-bugs.md.

// TestPacketIDsOverOfflineGaps: a session gets more messages than there are packet ids, many while
// it is away, and never acknowledges the first one: its id is no other's.
func TestPacketIDsOverOfflineGaps(t *testing.T) {
	const n, gaps = 66_000, 3
	b, r := serve(t, func(o *Options) { o.MaxQueued = n })
	sub, pub := keeping(t, b, "sub", false, nil), connected(t, b, "pub", 5)
	sub.mustSubscribe("a", 1)
	pub.stream("a", 1, 1)
	first := sub.expect(packets.Publish)
	for gap := range gaps {
		sub.leave()
		// What comes before the dispatcher has heard of that is the old connection's, and may have DUP afterwards.
		if c, err := r.MQTTClient(t.Context(), router.Principal{}, core.TopicName("sub")); err != nil {
			t.Fatal(err)
		} else if at := c.Session.Subscriptions[0]; at.Queue == 0 {
			t.Fatalf("%+v", at)
		} else if n, err := r.CountQueue(t.Context(), at.Queue, at.Group); err != nil || n.Consumers != 0 {
			t.Fatalf("%+v, %v", n, err)
		}
		pub.stream("a", 500, 500) // while it is away
		sub = keeping(t, b, "sub", true, nil)
		if pk := sub.expect(packets.Publish); pk.PacketID != first.PacketID || !pk.FixedHeader.Dup || string(pk.Payload) != string(first.Payload) {
			t.Fatalf("%+v, want packet id %d again", pk, first.PacketID)
		}
		live := 500
		if gap == gaps-1 {
			live = n - gaps*500
		}
		var all sync.WaitGroup
		all.Go(func() { pub.stream("a", live, 500) })
		for i := range 500 + live {
			pk := sub.expect(packets.Publish)
			next := uint32(i) // each stream numbers its own
			if i >= 500 {
				next -= 500
			}
			if got := binary.BigEndian.Uint32(pk.Payload); got != next || pk.PacketID == first.PacketID || pk.PacketID == 0 || pk.FixedHeader.Dup {
				t.Fatalf("message %d with packet id %d, want %d; %d is in use", got, pk.PacketID, next, first.PacketID)
			}
			sub.ack(packets.Puback, pk.PacketID)
		}
		all.Wait()
	}
	sub.ack(packets.Puback, first.PacketID)
	sub.quiet()
}

// TestReleaseOutlivesExpiry: a message of QoS 2 whose PUBREC came is not forgotten by its expiry:
// PUBREL has the same packet id, and PUBCOMP ends it.
func TestReleaseOutlivesExpiry(t *testing.T) {
	b := serveClocked(t, nil)
	sub, pub := keeping(t, b.broker, "sub", false, nil), connected(t, b.broker, "pub", 5)
	sub.mustSubscribe("a", 2)
	pk := publishPacket("a", "x", 2, 1)
	pk.Properties.MessageExpiryInterval = 5
	pub.send(pk)
	pub.expectAck(packets.Pubrec, 1)
	got := sub.expect(packets.Publish)
	sub.ack(packets.Pubrec, got.PacketID)
	sub.expectAck(packets.Pubrel, got.PacketID)
	_ = sub.nc.Close()
	b.pass(time.Minute)
	sub = keeping(t, b.broker, "sub", true, nil)
	if rel := sub.expectAck(packets.Pubrel, got.PacketID); rel.ReasonCode != 0 {
		t.Errorf("PUBREL %#x", rel.ReasonCode)
	}
	sub.ack(packets.Pubcomp, got.PacketID)
	sub.quiet()
	sub.leave()
	keeping(t, b.broker, "sub", true, nil).quiet()
}

// TestNewestRetainedIsSeenLast: a status changes on one node while somebody subscribes on another.
func TestNewestRetainedIsSeenLast(t *testing.T) {
	r1, l1 := routertest.Start(t, nil)
	r2, _ := routertest.Join(t, l1, "2", nil)
	b1, b2 := serveOn(t, r1, nil), serveOn(t, r2, nil)
	pub, sub := connected(t, b1, "pub", 5), connected(t, b2, "sub", 5)
	for i := range 200 {
		name := fmt.Sprintf("s/%d", i)
		var all sync.WaitGroup
		all.Go(func() {
			for k, status := range []string{"offline", "online"} {
				pk := publishPacket(name, status, 1, uint16(1+k))
				pk.FixedHeader.Retain = true
				if _, err := pub.nc.Write(pub.encode(pk)); err != nil {
					t.Error(err)
				}
			}
		})
		sub.send(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe}, PacketID: 1, Filters: packets.Subscriptions{{Filter: name, Qos: 1}}})
		all.Wait()
		pub.expectAck(packets.Puback, 1)
		pub.expectAck(packets.Puback, 2)
		last := ""
		for acked := false; !acked || last != "online"; {
			pk, err := sub.read()
			if err != nil {
				t.Fatalf("%s: %v after %q", name, err, last)
			}
			if pk.FixedHeader.Type == packets.Suback { // messages may come before it
				acked = true
				continue
			}
			if pk.TopicName != name {
				t.Fatalf("%q on %s after %q", pk.Payload, pk.TopicName, "online")
			}
			sub.acknowledge(&pk)
			last = string(pk.Payload)
		}
	}
	sub.quiet() // nothing older comes behind the newest
}

// TestLostNodesSession: of three nodes the subscriber's is lost under load; its client goes on over another, which
// is not the publisher's. Every message whose PUBACK came is there, in order.
func TestLostNodesSession(t *testing.T) {
	r1, l1 := routertest.Start(t, nil)
	r2, l2 := routertest.Join(t, l1, "2", nil)
	r3, _ := routertest.Join(t, l1, "3", nil)
	b1, b2, b3 := serveOn(t, r1, nil), serveOn(t, r2, nil), serveOn(t, r3, nil)
	sub, pub := keeping(t, b2, "sub", false, nil), connected(t, b1, "pub", 5)
	sub.mustSubscribe("a", 1)
	const n = 2000
	var all sync.WaitGroup
	all.Go(func() { pub.stream("a", n, 100) })
	for i := range uint32(n / 4) {
		pk := sub.expect(packets.Publish)
		if got := binary.BigEndian.Uint32(pk.Payload); got != i {
			t.Fatalf("message %d, want %d", got, i)
		}
		sub.ack(packets.Puback, pk.PacketID)
	}
	l2.Cut(true) // it hears of nothing any more, and nobody of it
	endSessionOf(t, l1, "2")
	sub = keeping(t, b3, "sub", true, nil)
	next := uint32(0)
	for next < n {
		pk := sub.expect(packets.Publish)
		got := binary.BigEndian.Uint32(pk.Payload)
		if next == 0 {
			next = got // those before are known to be acknowledged
			if next > n/4 {
				t.Fatalf("the first message is %d, %d was not acknowledged", got, n/4)
			}
		}
		if got != next {
			t.Fatalf("message %d, want %d", got, next)
		}
		next++
		sub.ack(packets.Puback, pk.PacketID)
	}
	all.Wait()
	sub.quiet()
}

// endSessionOf is what the leader proposes when a node does not answer. Which number its session has is
// not known here.
func endSessionOf(t *testing.T, log *routertest.Log, node string) {
	t.Helper()
	ended := 0
	for n := range uint64(9) {
		end := state.EndSession{Node: node, Session: n}
		if res, err := log.Propose(t.Context(), end.Command()); err == nil && res.Err == nil {
			ended++
		}
	}
	sweep := state.SweepLeases{Work: 10}
	if res, err := log.Propose(t.Context(), sweep.Command()); err != nil || res.Err != nil || ended != 1 {
		t.Fatal(err, res.Err, ended)
	}
}

// TestSharedBacklog: what is published while one member of a shared subscription is away goes to the
// other, and what the first one has not acknowledged too; with nobody there, it waits, beyond a member's
// end, for whoever comes next.
func TestSharedBacklog(t *testing.T) {
	const filter = "$share/g/a"
	b := serveClocked(t, nil)
	expiring := func(p *packets.Packet) {
		p.Properties.SessionExpiryInterval, p.Properties.ReceiveMaximum = 5, 3
	}
	one, two, pub := keeping(t, b.broker, "one", false, expiring), keeping(t, b.broker, "two", false, nil), connected(t, b.broker, "pub", 5)
	one.mustSubscribe(filter, 1)
	for i := range 3 {
		pub.publish("a", fmt.Sprint(i), 1, uint16(i+1))
		one.expect(packets.Publish)
	}
	two.mustSubscribe(filter, 1)
	one.leave() // with three that it did not acknowledge
	for i := 3; i < 100; i++ {
		pub.publish("a", fmt.Sprint(i), 1, uint16(i+1))
	}
	got := map[string]bool{}
	for range 100 {
		pk := two.expect(packets.Publish)
		got[string(pk.Payload)] = true
		two.ack(packets.Puback, pk.PacketID)
	}
	two.quiet()
	if len(got) != 100 {
		t.Errorf("%d different messages, want 100", len(got))
	}
	two.send(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsubscribe}, PacketID: 9, Filters: packets.Subscriptions{{Filter: filter}}})
	two.expectAck(packets.Unsuback, 9)
	for i := range 50 { // for one, which is away
		pub.publish("a", fmt.Sprint("away ", i), 1, uint16(i+1))
	}
	two.mustSubscribe(filter, 1)
	b.pass(6 * time.Second) // one's session ends
	for i := range 50 {
		two.expectMessage("a", fmt.Sprint("away ", i))
	}
	two.quiet()
}

// TestSharedFilterOfAll gets no messages of the server's.
func TestSharedFilterOfAll(t *testing.T) {
	b, _ := serve(t, func(o *Options) { o.SysInterval = 10 * time.Millisecond })
	sys, c, pub := connected(t, b, "sys", 5), connected(t, b, "c", 5), connected(t, b, "pub", 5)
	for _, filter := range []string{"$share/g/#", "$share/g/+/#"} {
		c.mustSubscribe(filter, 0)
	}
	sys.mustSubscribe("$SYS/#", 0)
	for range 30 {
		sys.expect(packets.Publish)
	}
	pub.publish("foo", "x", 1, 1) // both filters match
	c.expectMessage("foo", "x")
	c.expectMessage("foo", "x")
	c.quiet()
}

// TestResumeWithASmallWindow: what came while a client was away comes in order, as many at once as it
// wants, without DUP; and all of it is kept.
func TestResumeWithASmallWindow(t *testing.T) {
	const n = 10_000
	b, _ := serve(t, nil)
	small := func(p *packets.Packet) { p.Properties.ReceiveMaximum = 3 }
	sub, pub := keeping(t, b, "sub", false, small), connected(t, b, "pub", 5)
	sub.mustSubscribe("a", 1)
	sub.leave()
	pub.stream("a", n, 500)
	sub = keeping(t, b, "sub", true, small)
	ids := make([]uint16, 0, 3)
	for i := range uint32(3) {
		pk := sub.expect(packets.Publish)
		if got := binary.BigEndian.Uint32(pk.Payload); got != i || pk.FixedHeader.Dup {
			t.Fatalf("message %d, DUP %v; want %d", got, pk.FixedHeader.Dup, i)
		}
		ids = append(ids, pk.PacketID)
	}
	sub.quiet()
	for i := uint32(3); i < n; i++ {
		sub.ack(packets.Puback, ids[0])
		pk := sub.expect(packets.Publish)
		if got := binary.BigEndian.Uint32(pk.Payload); got != i || pk.FixedHeader.Dup {
			t.Fatalf("message %d, DUP %v; want %d", got, pk.FixedHeader.Dup, i)
		}
		ids = append(ids[1:], pk.PacketID)
	}
	for _, id := range ids {
		sub.ack(packets.Puback, id)
	}
	sub.quiet()
}

// TestNothingIsAdded: a message without properties has none when it arrives, live, retained or kept
// for who was away.
func TestNothingIsAdded(t *testing.T) {
	b, _ := serve(t, nil)
	sub, pub := keeping(t, b, "sub", false, nil), connected(t, b, "pub", 5)
	sub.mustSubscribe("a", 1)
	none := func(pk packets.Packet) {
		t.Helper()
		p := pk.Properties
		if p.MessageExpiryInterval != 0 || len(p.User) > 0 || p.ContentType != "" || p.ResponseTopic != "" || p.CorrelationData != nil || p.PayloadFormatFlag || p.TopicAliasFlag {
			t.Errorf("%+v", p)
		}
	}
	pub.retain("a", "x", 1, 1)
	none(sub.expectMessage("a", "x"))
	sub.leave()
	pub.publish("a", "y", 2, 2)
	none(keeping(t, b, "sub", true, nil).expectMessage("a", "y"))
	late := connected(t, b, "late", 5)
	late.mustSubscribe("a", 1)
	none(late.expectMessage("a", "x"))
}

// TestSubscriptionsBesideRetained: filters that match none of many retained messages are answered, and
// get none.
func TestSubscriptionsBesideRetained(t *testing.T) {
	const retained, filters = 20_000, 1000
	b, r := serve(t, nil)
	topic := routertest.Topic(t, r, "many", 1, nil)
	retain(t, r, topic, retained, func(i int) string { return fmt.Sprintf("many/%d/topic/X", i) })
	c := connected(t, b, "c", 5)
	for i := range filters {
		if codes := c.subscribe(uint16(i+1), packets.Subscription{Filter: fmt.Sprintf("other/+/topic/%d", i), Qos: 1}); codes[0] != 1 {
			t.Fatalf("SUBACK %v", codes)
		}
	}
	c.quiet()
	c.mustSubscribe("many/77/topic/+", 1)
	c.expect(packets.Publish)
	c.quiet()
}

// retain has n retained messages under the names in the index.
func retain(t *testing.T, r *router.Router, topic *router.Topic, n int, name func(int) string) {
	t.Helper()
	done := make(chan error, n)
	for i := range n {
		var m packets.Packet
		m.FixedHeader = packets.FixedHeader{Retain: true, Qos: 1}
		m.Payload = make([]byte, 100)
		r.PublishRetained(router.Principal{}, nil, topic.Partitions[0], core.TopicName(name(i)), recordBatch(t, name(i), &m), func(res router.PublishResult) { done <- res.Err })
	}
	for range n {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// What a client sent behind a message that could not be stored just then is not stored before it: the
// client sends all of it again, in its order.
func TestNothingOvertakesWhatFailed(t *testing.T) {
	b, r := serve(t, nil)
	c := connected(t, b, "c", 5)
	b.mu.Lock()
	conn := b.clients["c"]
	b.mu.Unlock()
	p := &conn.pub
	first := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1}, TopicName: "a/b", PacketID: 1}
	to, err := b.locate(conn.principal, first.TopicName)
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[byte]uint64{}
	for _, qos := range []byte{1, 2} {
		pk := *first
		pk.FixedHeader.Qos, pk.PacketID = qos, uint16(qos)
		if numbers[qos], _, err = p.begin(&pk); err != nil {
			t.Fatal(err)
		}
	}
	p.stored([]uint64{numbers[1]}, 1, 0, core.E(core.Unavailable, "nobody leads"))
	second := *first
	second.FixedHeader.Qos, second.PacketID = 2, 2
	if p.take(1) { // as store asks
		t.Error("a message of its own may go to the log behind one that has failed")
	}
	behind := &outBatch{queue: to.queue}
	appendRecord(&behind.builder, 1, to, &second, nil)
	p.send(behind)
	c.expectEnd(packets.ErrServerUnavailable.Code)
	if head, err := r.Head(to.queue); err != nil || head.End != 0 {
		t.Errorf("the partition ends at %d, %v; want 0", head.End, err)
	}
}
