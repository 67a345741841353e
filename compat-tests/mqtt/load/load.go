// Package load is what goes on against MQTT while brokers are killed or cut off: devices that publish
// with QoS 1 and 2, and others that subscribe, all with sessions that outlive their connections. A
// device remembers what MQTT wants it to, and goes on over any node: what it has of QoS 1 and 2 unanswered it sends
// again. What must hold:
//
//   - a message that was acknowledged (PUBACK, PUBREC) is delivered to each subscriber, or to one of those that share;
//   - one of QoS 2 once;
//   - messages of a publisher and a QoS come in their order, but for those of QoS 1 that come again;
//   - a session that was opened is there when its client is back.
package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/compat/harness"
	"polylog/compat/harness/clients"
)

const (
	publishers = 4
	root       = "load"
	window     = 100  // publishes of a device that are unanswered
	expiry     = 3600 // of sessions, s
	// maxBehind is the deliveries that are to come before publishers wait: a busy machine must come
	// to an end.
	maxBehind = 5000
)

// Load is the devices and what became of their messages.
type Load struct {
	clients.Clients // each publishes bursts of up to 10 messages
	Ledger          *Ledger
}

// Views of the messages, and whether several subscribers share one.
var views = map[string]bool{"one": false, "two": false, "shared": true}

// New is a load on the brokers at the addresses; each connection goes to one of them by chance.
func New(addrs ...string) *Load {
	return &Load{Clients: clients.Clients{Addrs: addrs, Pace: 8 * time.Millisecond}, Ledger: newLedger(views)}
}

// Dial connects a client to one of the brokers.
func (l *Load) Dial(o Connect) (*Client, bool, error) {
	addr, in := l.Broker()
	var nc net.Conn
	err := in(func() (err error) {
		nc, err = net.DialTimeout("tcp", addr, 2*time.Second)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return open(nc, o)
}

// Start starts the devices. The seed repeats their choices. Subscriptions are made before anything is
// published.
func (l *Load) Start(ctx context.Context, seed uint64) error {
	all := func(qos byte) []packets.Subscription {
		return []packets.Subscription{{Filter: root + "/#", Qos: qos}}
	}
	subscribers := []*subscriber{
		{view: "one", filters: all(2)},
		{view: "two", filters: []packets.Subscription{{Filter: root + "/1/+", Qos: 1}, {Filter: root + "/2/+", Qos: 2}}},
		{view: "shared", filters: []packets.Subscription{{Filter: "$share/g/" + root + "/#", Qos: 2}}},
		{view: "shared", filters: []packets.Subscription{{Filter: "$share/g/" + root + "/#", Qos: 2}}},
	}
	for i, s := range subscribers {
		s.device = newDevice(l, fmt.Sprintf("subscriber-%d", i), rand.New(rand.NewPCG(seed, uint64(100+i))))
		s.held = map[uint16]struct{}{}
		c, err := s.connect(ctx)
		if err == nil {
			err = errors.Join(c.Subscribe(s.filters...), c.Leave())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.id, err)
		}
	}
	for _, s := range subscribers {
		l.Consume(ctx, s.run)
	}
	for n := range publishers {
		p := &publisher{device: newDevice(l, fmt.Sprintf("publisher-%d", n), rand.New(rand.NewPCG(seed, uint64(1+n)))), number: n}
		l.Produce(func() { p.run(ctx) })
	}
	return nil
}

// device is a client with a session.
type device struct {
	*Load
	id     string
	rng    *rand.Rand
	opened bool // the session is there
	left   []*Client
}

func newDevice(l *Load, id string, rng *rand.Rand) *device { return &device{Load: l, id: id, rng: rng} }

// connect connects, to any node, until that goes well or ctx ends.
func (d *device) connect(ctx context.Context) (*Client, error) {
	for {
		c, present, err := d.Dial(Connect{ID: d.id, Expiry: expiry, ReceiveMaximum: 60})
		if err == nil {
			if d.opened && !present {
				d.Ledger.Fail("%s: the session is gone", d.id)
			}
			d.opened = true
			for _, old := range d.left {
				_ = old.Close() // the broker has ended it
			}
			d.left = nil
			return c, nil
		}
		if !harness.Pause(ctx, 50*time.Millisecond) {
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

// part ends a connection in one of the ways in which they do.
func (d *device) part(c *Client) {
	switch d.rng.IntN(3) {
	case 0:
		_ = c.Leave() // it may be closed
	case 1:
		_ = c.Close() // the same
	default: // it hangs, and the next one takes the client id over
		d.left = append(d.left, c)
	}
}

// publisher publishes to one topic name with each of QoS 1 and 2.
type publisher struct {
	*device
	number int
	lastID uint16
	flying []*publish // in the order of sending
}

// publish is a message until the publisher need not remember it.
type publish struct {
	line    lineID
	number  int
	id      uint16
	payload string
	stored  bool // of QoS 2: PUBREC came, PUBREL is owed
}

func (p *publisher) run(ctx context.Context) {
	for ctx.Err() == nil && (!p.Stopping() || len(p.flying) > 0) {
		c, err := p.connect(ctx)
		if err != nil {
			return
		}
		_ = p.work(ctx, c) // it ends with its connection, or by chance
		p.part(c)
	}
	for _, c := range p.left {
		_ = c.Close()
	}
}

// work sends what is unanswered, then more, over one connection.
func (p *publisher) work(ctx context.Context, c *Client) error {
	for _, m := range p.flying { // MQTT-4.4.0-1
		if err := p.put(c, m, true); err != nil {
			return err
		}
	}
	if err := c.flush(); err != nil {
		return err
	}
	in := make(chan packets.Packet, window)
	failed := make(chan error, 1)
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			pk, err := c.Read(patience)
			if err != nil {
				failed <- err
				return
			}
			select {
			case in <- pk:
			case <-over:
				return
			}
		}
	}()
	pace := time.NewTicker(p.Pace)
	defer pace.Stop()
	ping := time.NewTicker(time.Second)
	defer ping.Stop()
	for !p.Stopping() || len(p.flying) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case <-ping.C:
			if err := c.Send(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}}); err != nil {
				return err
			}
		case <-pace.C:
			if !p.Stopping() && p.Ledger.behind() < maxBehind {
				if err := p.burst(c); err != nil {
					return err
				}
			}
			if p.rng.IntN(1000) == 0 {
				return nil
			}
		case pk := <-in:
			if err := p.answered(c, &pk); err != nil {
				return err
			}
		}
	}
	return nil
}

// burst publishes some messages.
func (p *publisher) burst(c *Client) error {
	for range 1 + p.rng.IntN(10) {
		if len(p.flying) >= window {
			break
		}
		m := &publish{line: lineID{byte(1 + p.rng.IntN(2)), p.number}, id: p.nextID()}
		m.number = p.Ledger.sent(m.line)
		m.payload = fmt.Sprintf("%d %s", m.number, strings.Repeat("x", p.rng.IntN(512)))
		p.flying = append(p.flying, m)
		if err := p.put(c, m, false); err != nil {
			return err
		}
	}
	return c.flush()
}

func (p *publisher) nextID() uint16 {
	for {
		if p.lastID++; p.lastID == 0 || p.find(p.lastID) != nil {
			continue
		}
		return p.lastID
	}
}

func (p *publisher) find(id uint16) *publish {
	for _, m := range p.flying {
		if m.id == id {
			return m
		}
	}
	return nil
}

// put sends a message, or the PUBREL that is owed.
func (p *publisher) put(c *Client, m *publish, again bool) error {
	if m.stored {
		return c.put(ackPacket(packets.Pubrel, m.id))
	}
	return c.put(&packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: m.line.qos, Dup: again},
		TopicName:   fmt.Sprintf("%s/%d/%d", root, m.line.qos, m.line.publisher), Payload: []byte(m.payload), PacketID: m.id,
	})
}

// answered takes what the broker says.
func (p *publisher) answered(c *Client, pk *packets.Packet) error {
	kind := pk.FixedHeader.Type
	if kind == packets.Pingresp {
		return nil
	}
	m := p.find(pk.PacketID)
	fits := m != nil && (m.line.qos == 1 && kind == packets.Puback || m.line.qos == 2 && (kind == packets.Pubrec || kind == packets.Pubcomp && m.stored))
	switch {
	case !fits:
		p.Ledger.Fail("%s: %s of packet id %d, of which is known: %+v", p.id, packets.PacketNames[kind], pk.PacketID, m)
		return nil
	case pk.ReasonCode >= 0x80 && (kind != packets.Pubcomp || pk.ReasonCode != packets.ErrPacketIdentifierNotFound.Code):
		p.Ledger.Fail("%s: %s %#x of %+v", p.id, packets.PacketNames[kind], pk.ReasonCode, m)
	}
	if kind == packets.Pubrec {
		if !m.stored {
			m.stored = true
			p.Ledger.ack(m.line, m.number)
		}
		return c.Ack(packets.Pubrel, m.id)
	}
	if kind == packets.Puback {
		p.Ledger.ack(m.line, m.number)
	}
	for i := range p.flying {
		if p.flying[i] == m {
			p.flying = append(p.flying[:i], p.flying[i+1:]...)
			break
		}
	}
	return nil
}

// subscriber takes what comes, and parts now and then.
type subscriber struct {
	*device
	view    string
	filters []packets.Subscription
	held    map[uint16]struct{} // packet ids of QoS 2 whose PUBREL is to come
}

func (s *subscriber) run(ctx context.Context) {
	for ctx.Err() == nil {
		c, err := s.connect(ctx)
		if err != nil {
			break
		}
		stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // the read ends
		_ = s.take(c)                                            // it ends with its connection, or by chance
		stop()
		s.part(c)
	}
	for _, c := range s.left {
		_ = c.Close()
	}
}

// take takes what comes over one connection. A ping goes out whenever nothing comes for a second, so
// that a broker which is gone is noticed.
func (s *subscriber) take(c *Client) error {
	silent := time.Duration(0)
	for {
		pk, err := c.Read(time.Second)
		if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() && silent < patience && !c.waiting() {
			silent += time.Second
			if err := c.Send(&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}}); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		silent = 0
		if s.rng.IntN(3000) == 0 {
			return nil // it is not acknowledged, or even looked at
		}
		if err := s.handle(c, &pk); err != nil {
			return err
		}
		if !c.waiting() {
			if err := c.flush(); err != nil {
				return err
			}
		}
	}
}

func (s *subscriber) handle(c *Client, pk *packets.Packet) error {
	switch pk.FixedHeader.Type {
	case packets.Publish:
		if pk.FixedHeader.Qos < 2 {
			s.deliver(pk)
			return c.put(ackPacket(packets.Puback, pk.PacketID))
		}
		if _, again := s.held[pk.PacketID]; !again {
			s.held[pk.PacketID] = struct{}{}
			s.deliver(pk)
		}
		return c.put(ackPacket(packets.Pubrec, pk.PacketID))
	case packets.Pubrel:
		delete(s.held, pk.PacketID)
		return c.put(ackPacket(packets.Pubcomp, pk.PacketID))
	}
	return nil
}

func (s *subscriber) deliver(pk *packets.Packet) {
	var id lineID
	var number int
	_, err1 := fmt.Sscanf(pk.TopicName, root+"/%d/%d", &id.qos, &id.publisher)
	_, err2 := fmt.Sscan(string(pk.Payload), &number)
	if err := errors.Join(err1, err2); err != nil || pk.FixedHeader.Qos != id.qos {
		s.Ledger.Fail("%s: %q on %s with QoS %d: %v", s.id, pk.Payload, pk.TopicName, pk.FixedHeader.Qos, err)
		return
	}
	s.Ledger.deliver(s.view, s.id, id, number)
}

// Progress waits until n more messages were acknowledged, and delivered to each view.
func (l *Load) Progress(ctx context.Context, n int) error {
	acked, came := l.Ledger.counts()
	err := harness.Await(ctx, time.Minute, func() bool {
		a, c := l.Ledger.counts()
		return a >= acked+n && c >= came+len(views)*n
	})
	if err != nil {
		_, wrong := l.Ledger.Wrong()
		return fmt.Errorf("the load does not get on: %w: %s; %v", err, l.Ledger.Summary(), wrong)
	}
	return nil
}

// Finish has the publishers come to an end, waits until every message was delivered, and ends the
// subscribers.
func (l *Load) Finish(ctx context.Context) error {
	l.EndProducers()
	err := harness.Await(ctx, time.Minute, func() bool {
		n, _ := l.Ledger.missing()
		return n == 0
	})
	if err != nil {
		n, first := l.Ledger.missing()
		err = fmt.Errorf("%d acknowledged messages were never delivered, one is %s: %w", n, first, err)
	}
	l.EndConsumers()
	return err
}
