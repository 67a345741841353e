package mqtt

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// awaitConnections waits until so many connections are left.
func awaitConnections(t *testing.T, b *broker, n int) {
	t.Helper()
	for end := time.Now().Add(patience); b.connected() != n; {
		if time.Now().After(end) {
			t.Fatalf("%d connections, want %d", b.connected(), n)
		}
		<-time.After(time.Millisecond)
	}
}

// connectPacket is a CONNECT with everything that one can have.
func connectPacket(id string) *packets.Packet {
	return &packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Connect},
		Connect: packets.ConnectParams{
			ProtocolName: []byte("MQTT"), ClientIdentifier: id, Clean: true,
			WillFlag: true, WillTopic: "cut/will", WillPayload: []byte("gone"),
			UsernameFlag: true, Username: []byte("u"), PasswordFlag: true, Password: []byte("p"),
		},
	}
}

// TestPacketsCutAnywhere: a connection that breaks within a packet leaves nothing of that packet, and
// disturbs nobody.
func TestPacketsCutAnywhere(t *testing.T) {
	b, _ := serve(t, nil)
	sub, pub := connected(t, b, "sub", 5), connected(t, b, "pub", 5)
	sub.mustSubscribe("cut/#", 1)
	for _, version := range []byte{4, 5} {
		c := &client{t: t, version: version}
		connect := c.encode(connectPacket("c"))
		plain := connectPacket("c")
		plain.Connect.WillFlag = false
		hello := c.encode(plain)
		for name, pk := range map[string][]byte{
			"PUBLISH": c.encode(&packets.Packet{
				FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 2, Retain: true}, TopicName: "cut/x", PacketID: 1,
				Properties: packets.Properties{ContentType: "t", User: []packets.UserProperty{{Key: "a", Val: "b"}}}, Payload: []byte("payload"),
			}),
			"SUBSCRIBE":   c.encode(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe}, PacketID: 1, Filters: packets.Subscriptions{{Filter: "cut/+", Qos: 1}}}),
			"UNSUBSCRIBE": c.encode(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsubscribe}, PacketID: 1, Filters: packets.Subscriptions{{Filter: "cut/+"}}}),
			"PUBREL":      c.encode(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pubrel}, PacketID: 1}),
			"CONNECT":     nil,
		} {
			bytes, before := pk, hello
			if pk == nil {
				bytes, before = connect, nil
			}
			for n := range bytes {
				nc, err := net.Dial("tcp", b.addr)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := nc.Write(append(slices.Clip(before), bytes[:n]...)); err != nil {
					t.Fatalf("%s, version %d: %v", name, version, err)
				}
				_ = nc.Close()
			}
		}
	}
	awaitConnections(t, b, 2)
	pub.publish("cut/after", "x", 1, 1)
	sub.expectMessage("cut/after", "x") // the first that comes
	late := connected(t, b, "late", 5)
	late.mustSubscribe("cut/#", 1)
	late.quiet() // nothing is retained
}

// TestPacketsBeforeConnect: whatever comes before CONNECT ends the connection, and does nothing.
func TestPacketsBeforeConnect(t *testing.T) {
	b, _ := serve(t, nil)
	sub := connected(t, b, "sub", 5)
	sub.mustSubscribe("#", 1)
	for kind := range byte(16) {
		if kind == packets.Connect {
			continue
		}
		c := dial(t, b.addr, 4) // there is no DISCONNECT before CONNACK
		switch kind {
		case packets.Publish:
			c.write(c.encode(publishPacket("a", "x", 1, 1)))
		case packets.Subscribe:
			c.write(c.encode(&packets.Packet{FixedHeader: packets.FixedHeader{Type: kind}, PacketID: 1, Filters: packets.Subscriptions{{Filter: "a"}}}))
		default:
			c.write([]byte{kind << 4, 2, 0, 1})
		}
		c.expectEnd(0)
	}
	awaitConnections(t, b, 1)
	if n := b.metrics.broken.Load(); n != 15 {
		t.Errorf("%d connections were counted as broken, want 15", n)
	}
	sub.quiet()
}

// TestConnectStorm: from one address come connections as fast as they can, which say nothing, nonsense, half
// a CONNECT, or come and go. Who is connected does not notice, and nothing is left of them.
func TestConnectStorm(t *testing.T) {
	const storms, each = 8, 150
	b, _ := serve(t, nil)
	sub, pub := connected(t, b, "sub", 5), connected(t, b, "pub", 5)
	sub.mustSubscribe("a", 1)
	var all sync.WaitGroup
	for s := range storms {
		all.Go(func() {
			c := &client{t: t, version: 5}
			for i := range each {
				nc, err := net.Dial("tcp", b.addr)
				if err != nil {
					t.Error(err)
					return
				}
				hello := c.encode(&packets.Packet{
					FixedHeader: packets.FixedHeader{Type: packets.Connect},
					Connect:     packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: fmt.Sprintf("storm-%d-%d", s, i%3), Clean: true},
				})
				switch i % 4 {
				case 0:
					_, _ = nc.Write(hello)
					_, _ = nc.Read(make([]byte, 100))
				case 1:
					_, _ = nc.Write(hello[:len(hello)/2])
				case 2:
					_, _ = nc.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
				}
				_ = nc.Close()
			}
		})
	}
	const n = 2000
	all.Go(func() { pub.stream("a", n, 50) })
	for range n {
		pk := sub.expect(packets.Publish)
		sub.ack(packets.Puback, pk.PacketID)
	}
	all.Wait()
	awaitConnections(t, b, 2)
	sub.quiet()
}
