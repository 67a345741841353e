package main

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"polylog/compat/harness"
)

// flow is one publisher whose messages go to some subscribers.
type flow struct {
	name        string
	title       string
	qos         byte
	subscribers int
	// window is how many messages may be under way: with QoS 1 without their PUBACK, with QoS 2
	// without their PUBCOMP. Those that some subscriber has not got are bounded, too, or a broker
	// would have to leave some out.
	window int
	stored bool // the subscribers have sessions that outlive their connections
}

var flows = []flow{
	{"q0", "QoS 0, 1 → 1", 0, 1, 1000, false},
	{"q1-20", "QoS 1, 1 → 1, 20 in flight", 1, 1, 20, false},
	{"q1-1000", "QoS 1, 1 → 1, 1,000 in flight", 1, 1, 1000, false},
	{"q2-20", "QoS 2, 1 → 1, 20 in flight", 2, 1, 20, false},
	{"q2-1000", "QoS 2, 1 → 1, 1,000 in flight", 2, 1, 1000, false},
	{"q0x100", "QoS 0, 1 → 100", 0, 100, 200, false},
	{"q1x100", "QoS 1, 1 → 100", 1, 100, 200, false},
	{"q1x100s", "QoS 1, 1 → 100 stored sessions", 1, 100, 200, true},
	{"q0x1000", "QoS 0, 1 → 1,000", 0, 1000, 40, false},
	{"q1x1000", "QoS 1, 1 → 1,000", 1, 1000, 40, false},
	{"q1x1000s", "QoS 1, 1 → 1,000 stored sessions", 1, 1000, 40, true},
}

const (
	payloadSize = 100 // bytes
	warmUp      = time.Second
)

// topic is one of the flow's own: what a broker still has of the flow before must not come.
func (f flow) topic() string { return "bench/" + f.name }

// measure runs a flow for a while, after its warm-up, and says what was delivered and what the
// broker used for it.
func (f flow) measure(broker *harness.Broker, seconds float64) (s sample, err error) {
	one := publishPacket(f.topic(), f.qos, 0, make([]byte, payloadSize))
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for i := range f.subscribers {
		c, err := dial(broker.MQTT, fmt.Sprint("sub-", f.name, i), !f.stored)
		if err != nil {
			return s, err
		}
		conns = append(conns, c)
		if err := subscribe(c, f.topic(), f.qos); err != nil {
			return s, err
		}
	}
	pub, err := dial(broker.MQTT, "pub-"+f.name, true)
	if err != nil {
		return s, err
	}
	defer pub.Close()
	r, err := newReceiver(conns, f.qos, len(one), len(one)-payloadSize-2)
	if err != nil {
		return s, err
	}
	stop := make(chan struct{})
	var publishing sync.WaitGroup
	failed := make(chan error, 1)
	publishing.Go(func() { failed <- f.publish(pub, r, stop) })
	defer func() {
		close(stop)
		publishing.Wait()
		err = errors.Join(err, <-failed, r.close())
	}()
	time.Sleep(warmUp)
	before, err := broker.Usage()
	if err != nil {
		return s, err
	}
	begin, first := time.Now(), r.received.Load()
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	n, took := r.received.Load()-first, time.Since(begin)
	after, err := broker.Usage()
	if err != nil {
		return s, err
	}
	if n == 0 {
		return s, fmt.Errorf("nothing was delivered, after %d in the warm-up", first)
	}
	return sample{rate: float64(n) / took.Seconds(), cpu: float64((after.CPU - before.CPU).Nanoseconds()) / 1e3 / float64(n), rss: after.RSS}, nil
}

// publish sends as fast as the window allows, until stop.
func (f flow) publish(c net.Conn, r *receiver, stop chan struct{}) error {
	// All packets that are ever sent, one behind the other, so that any number goes by one write.
	// The ids of twice the window are used in turn, since one is free when it is acknowledged.
	count := max(2*f.window, 256)
	var ring []byte
	for i := range count {
		ring = append(ring, publishPacket(f.topic(), f.qos, uint16(i+1), make([]byte, payloadSize))...)
	}
	size := len(ring) / count
	acks, part := make([]byte, 64<<10), 0 // the first part of them is of an answer that has not come whole
	var releases []byte
	at, sent, acked := 0, int64(0), int64(0)
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		underWay := sent - r.received.Load()/int64(f.subscribers)
		room := int64(f.window) - (sent - acked)
		if f.qos == 0 {
			room = int64(f.window) - underWay
		} else {
			room = min(room, 2*int64(f.window)+1000-underWay)
		}
		n := min(int(room), count-at)
		if n > 0 {
			if _, err := c.Write(ring[at*size : (at+n)*size]); err != nil {
				return err
			}
			at, sent = (at+n)%count, sent+int64(n)
		} else if f.qos == 0 || sent == acked {
			time.Sleep(20 * time.Microsecond)
			continue
		}
		if f.qos == 0 || n > 0 && sent-acked < int64(f.window)/2 {
			continue
		}
		if err := c.SetReadDeadline(time.Now().Add(ioTimeout)); err != nil {
			return err
		}
		k, err := c.Read(acks[part:])
		if err != nil {
			return fmt.Errorf("after %d acknowledgements of %d: %w", acked, sent, err)
		}
		k += part
		part = k % 4
		releases = releases[:0]
		for b := acks[:k-part]; len(b) > 0; b = b[4:] {
			if b[0] == pubrec<<4 {
				releases = append(releases, pubrel<<4|2, 2, b[2], b[3])
			} else {
				acked++
			}
		}
		copy(acks, acks[k-part:k])
		if _, err := c.Write(releases); err != nil {
			return err
		}
	}
}
