package mqtt

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// stuckListener accepts connections whose writes wait while stuck is set, as if the client
// did not read and the kernel took nothing more.
type stuckListener struct {
	net.Listener
	stuck atomic.Bool
}

func (l *stuckListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	return &stuckConn{Conn: nc, l: l, closed: make(chan struct{})}, err
}

type stuckConn struct {
	net.Conn
	l      *stuckListener
	once   sync.Once
	closed chan struct{}
}

func (c *stuckConn) Write(b []byte) (int, error) {
	for c.l.stuck.Load() {
		select {
		case <-c.closed:
			return 0, net.ErrClosed
		case <-time.After(time.Millisecond):
		}
	}
	return c.Conn.Write(b)
}

func (c *stuckConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// queuedFor is how many bytes of messages the server has in memory for a client, and whether that
// is all it takes for now.
func queuedFor(s *Server, id string) (n int, rests bool) {
	s.mu.Lock()
	c := s.clients[id]
	s.mu.Unlock()
	if c == nil || c.session == nil {
		return 0, false
	}
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	n = c.session.lined + c.out.unsent()
	return n, !c.session.pumping && n >= highWater
}

// TestClientThatDoesNotRead: whatever waits for it, and by however many subscriptions, the server
// has no more of it in memory than the mark and one message; and nothing is lost when it reads.
func TestClientThatDoesNotRead(t *testing.T) {
	const size, messages = 50_000, 40
	filters := []string{"big/#", "big/+", "big/x", "+/x", "#"}
	for _, qos := range []byte{1, 2} {
		for _, kept := range []bool{true, false} {
			t.Run(fmt.Sprintf("QoS %d, kept %v", qos, kept), func(t *testing.T) {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				stuck := &stuckListener{Listener: l}
				b, _ := serve(t, func(o *Options) { o.Listeners = append(o.Listeners, stuck) })
				forSub := &broker{b.Server, l.Addr().String()}
				pub := connected(t, b, "pub", 5)
				var sub *client
				copies := 1 // of a session that ends with its connection, whatever its filters
				if kept {
					sub, copies = keeping(t, forSub, "sub", false, nil), len(filters)
				} else {
					sub = connected(t, forSub, "sub", 5)
				}
				for _, f := range filters {
					sub.mustSubscribe(f, qos)
				}
				stuck.stuck.Store(true)
				payload := strings.Repeat("x", size)
				most := 0
				look := func() bool {
					n, rests := queuedFor(b.Server, "sub")
					if most = max(most, n); n > highWater+size+1000 {
						t.Fatalf("%d bytes are in memory, want %d at most", n, highWater+size+1000)
					}
					return rests
				}
				for i := range messages {
					pub.publish("big/x", payload, qos, uint16(i+1))
					look()
				}
				for end := time.Now().Add(patience); !look(); {
					if time.Now().After(end) {
						t.Fatalf("it has %d bytes at most, and never %d", most, highWater)
					}
					<-time.After(time.Millisecond)
				}
				stuck.stuck.Store(false)
				for got := 0; got < messages*copies; {
					pk, err := sub.read()
					switch {
					case err != nil:
						t.Fatal(err)
					case pk.FixedHeader.Type == packets.Pubrel:
						sub.ack(packets.Pubcomp, pk.PacketID)
						continue
					case pk.FixedHeader.Type != packets.Publish || string(pk.Payload) != payload || pk.FixedHeader.Qos != qos:
						t.Fatalf("%s of QoS %d with %d bytes", packets.PacketNames[pk.FixedHeader.Type], pk.FixedHeader.Qos, len(pk.Payload))
					case qos == 1:
						sub.ack(packets.Puback, pk.PacketID)
					default:
						sub.ack(packets.Pubrec, pk.PacketID)
					}
					got++
					look()
				}
			})
		}
	}
}

// TestQueuedBytes: what waits is bounded in bytes of payload as it is in messages: for who is away the
// newest are kept, for who is there and does not keep up those that came first.
func TestQueuedBytes(t *testing.T) {
	const n, size, limit = 40, 100, 1600
	b, _ := serve(t, func(o *Options) { o.MaxQueuedBytes = limit })
	pub := connected(t, b, "pub", 5)
	payload := func(i int) string { return fmt.Sprintf("%*d", size, i) }
	publish := func(topic string) {
		for i := range n {
			pub.publish(topic, payload(i), 1, uint16(i+1))
		}
	}
	for _, filter := range []string{"away/x", "$share/g/away/x"} {
		sub := keeping(t, b, "away", false, func(p *packets.Packet) { p.Connect.Clean = true })
		sub.mustSubscribe(filter, 1)
		sub.leave()
		publish("away/x")
		sub = keeping(t, b, "away", true, nil)
		// An eighth more than 1600 are 18 messages: with the 19th, and then with each third, 16 are left.
		for i := n - limit/size; i < n; i++ {
			sub.expectMessage("away/x", payload(i))
		}
		sub.quiet()
		sub.leave()
	}
	slow, _ := connectAs(t, b.addr, "slow", 5, func(p *packets.Packet) { p.Properties.ReceiveMaximum = 1 })
	slow.mustSubscribe("slow", 1)
	slow.mustSubscribe("last", 0)
	publish("slow")
	first := slow.expect(packets.Publish)
	pub.publish("last", "", 0, 0)
	slow.expectMessage("last", "") // all that came before it is on its way, waits or is left out
	slow.acknowledge(&first)
	for i := 1; i <= limit/size; i++ {
		slow.expectMessage("slow", payload(i))
	}
	slow.quiet()
	if got, want := b.metrics.overflowed.Load(), int64(n-1-limit/size); got != want {
		t.Errorf("%d are left out, want %d", got, want)
	}
}
