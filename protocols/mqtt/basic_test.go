package mqtt

import (
	"fmt"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/router/routertest"
)

func TestPublishAndSubscribe(t *testing.T) {
	for _, version := range []byte{4, 5} {
		for pubQoS := range byte(3) {
			for subQoS := range byte(3) {
				t.Run(fmt.Sprintf("v%d/%d-%d", version, pubQoS, subQoS), func(t *testing.T) {
					b, _ := serve(t, nil)
					sub, pub := connected(t, b, "sub", version), connected(t, b, "pub", version)
					sub.mustSubscribe("a/+", subQoS)
					pub.publish("b/b", "other", pubQoS, 8)
					for _, want := range [][2]string{{"a/b", "one"}, {"a/c", "two"}} {
						pub.publish(want[0], want[1], pubQoS, 9)
						if pk := sub.expectMessage(want[0], want[1]); pk.FixedHeader.Qos != min(pubQoS, subQoS) || pk.FixedHeader.Dup || pk.FixedHeader.Retain {
							t.Errorf("%+v", pk.FixedHeader)
						}
					}
					sub.quiet()
				})
			}
		}
	}
}

// TestPropertiesAreKept: what MQTT 5 has passes through the log unchanged.
func TestPropertiesAreKept(t *testing.T) {
	b, r := serve(t, nil)
	sub, pub := connected(t, b, "sub", 5), connected(t, b, "pub", 5)
	sub.mustSubscribe("#", 1)
	pk := publishPacket("a/ü /", "påyload", 1, 1)
	pk.Properties = packets.Properties{
		PayloadFormat: 1, PayloadFormatFlag: true, MessageExpiryInterval: 100, ContentType: "text/plain",
		ResponseTopic: "answers/1", CorrelationData: []byte{0, 255, 1},
		User: []packets.UserProperty{{Key: "b", Val: "1"}, {Key: "a", Val: "2"}, {Key: "b", Val: ""}, {Key: "content-encoding", Val: "x"}},
	}
	pub.send(pk)
	pub.expectAck(packets.Puback, 1)
	got := sub.expectMessage("a/ü /", "påyload").Properties
	want := pk.Properties
	if fmt.Sprint(got.User) != fmt.Sprint(want.User) || got.ContentType != want.ContentType || got.ResponseTopic != want.ResponseTopic ||
		string(got.CorrelationData) != string(want.CorrelationData) || got.PayloadFormat != 1 || got.MessageExpiryInterval < 99 || got.MessageExpiryInterval > 100 {
		t.Errorf("%+v, want %+v", got, want)
	}
	topic, ok := r.Topic(core.TopicName("a"))
	if !ok {
		t.Fatal("the topic was not created")
	}
	h, err := r.Head(topic.Partitions[0])
	if err != nil || h.End != 1 {
		t.Errorf("%+v, %v", h, err)
	}
}

// TestRecordsOfOthersReachSubscribers has a record appended as Kafka's producers do.
func TestRecordsOfOthersReachSubscribers(t *testing.T) {
	b, r := serve(t, nil)
	topic := routertest.Topic(t, r, "orders", 1, nil)
	sub := connected(t, b, "sub", 5)
	sub.mustSubscribe("orders/#", 2)
	var bb core.BatchBuilder
	bb.Add(1, []byte("eu/1"), []byte("x"), core.RecordHeader{Key: "h", Value: []byte("v")}, core.RecordHeader{Key: "bin", Value: []byte{255}})
	bb.Add(1, []byte("no+name"), []byte("never"))
	bb.Add(1, nil, nil)
	batch, err := bb.Build(nil, core.BatchOptions{Codec: core.CodecZstd, Producer: core.Nobody})
	if err != nil {
		t.Fatal(err)
	}
	if res := routertest.Publish(r, topic.Partitions[0], batch); res.Err != nil {
		t.Fatal(res.Err)
	}
	pk := sub.expectMessage("orders/eu/1", "x")
	if want := []packets.UserProperty{{Key: "h", Val: "v"}, {Key: "x-base64-bin", Val: "/w=="}}; fmt.Sprint(pk.Properties.User) != fmt.Sprint(want) || pk.FixedHeader.Qos != 1 {
		t.Errorf("%+v, want %v", pk, want)
	}
	sub.expectMessage("orders", "")
	sub.quiet()
	if n := b.metrics.unnamed.Load(); n != 1 {
		t.Errorf("%d records without a name, want 1", n)
	}
}

// TestTwoNodes has a subscriber and a publisher on two nodes, and a client id that moves.
func TestTwoNodes(t *testing.T) {
	r1, l1 := routertest.Start(t, nil)
	r2, _ := routertest.Join(t, l1, "2", nil)
	b1, b2 := serveOn(t, r1, nil), serveOn(t, r2, nil)
	sub, pub := connected(t, b1, "sub", 5), connected(t, b2, "pub", 5)
	sub.mustSubscribe("a", 1)
	pub.publish("a", "x", 1, 1)
	sub.expectMessage("a", "x")
	again := connected(t, b2, "sub", 5)
	sub.expectEnd(packets.ErrSessionTakenOver.Code)
	again.mustSubscribe("a", 1)
	pub.publish("a", "y", 1, 2)
	again.expectMessage("a", "y")
	third := connected(t, b2, "sub", 5) // on the same node
	again.expectEnd(packets.ErrSessionTakenOver.Code)
	third.quiet()
}

// TestOneCopyForOverlappingFilters: section 3.3.4.
func TestOneCopyForOverlappingFilters(t *testing.T) {
	b, _ := serve(t, nil)
	sub, pub := connected(t, b, "sub", 5), connected(t, b, "pub", 5)
	sub.subscribe(1, packets.Subscription{Filter: "a/#", Qos: 0, Identifier: 3})
	sub.subscribe(2, packets.Subscription{Filter: "a/b", Qos: 2, Identifier: 4})
	sub.subscribe(3, packets.Subscription{Filter: "+/b", Qos: 1})
	pub.publish("a/b", "x", 2, 1)
	pk := sub.expectMessage("a/b", "x")
	if ids := pk.Properties.SubscriptionIdentifier; len(ids) != 2 || ids[0]+ids[1] != 7 || pk.FixedHeader.Qos != 2 {
		t.Errorf("identifiers %v, QoS %d", ids, pk.FixedHeader.Qos)
	}
	sub.quiet()
	sub.send(&packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Unsubscribe}, PacketID: 4,
		Filters: packets.Subscriptions{{Filter: "a/b"}, {Filter: "a/b"}, {Filter: "+/b"}, {Filter: "a/#"}},
	})
	if codes := sub.expectAck(packets.Unsuback, 4).ReasonCodes; string(codes) != "\x00\x11\x00\x00" {
		t.Errorf("UNSUBACK %x", codes)
	}
	pub.publish("a/b", "y", 1, 2)
	sub.quiet()
	if n := b.subs.len(); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

func TestNoLocal(t *testing.T) {
	b, _ := serve(t, nil)
	c := connected(t, b, "c", 5)
	c.subscribe(1, packets.Subscription{Filter: "a", Qos: 1, NoLocal: true}, packets.Subscription{Filter: "b", Qos: 1})
	c.publish("a", "own", 1, 1)
	c.send(publishPacket("b", "own", 1, 2))
	seen := 0
	for range 2 { // the acknowledgement and the message, in either order
		switch pk, err := c.read(); {
		case err != nil:
			t.Fatal(err)
		case pk.FixedHeader.Type == packets.Publish && pk.TopicName == "b":
			seen++
		case pk.FixedHeader.Type != packets.Puback:
			t.Fatalf("%+v", pk)
		}
	}
	if seen != 1 {
		t.Error("the message on b did not come")
	}
	other := connected(t, b, "other", 5)
	other.publish("a", "others", 1, 1)
	c.expectMessage("a", "others")
}
