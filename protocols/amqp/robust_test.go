package amqp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
)

// TestCutEverywhere sends every prefix of a conversation and then hangs up.
func TestCutEverywhere(t *testing.T) {
	f := start(t, nil)
	talk := bytes.Join([][]byte{
		protocolHeader,
		spec.AppendMethod(nil, 0, plain("guest", "guest")),
		spec.AppendMethod(nil, 0, &spec.ConnectionTuneOk{ChannelMax: 10, FrameMax: 4096}),
		spec.AppendMethod(nil, 0, &spec.ConnectionOpen{VirtualHost: "/"}),
		spec.AppendMethod(nil, 1, &spec.ChannelOpen{}),
		publication(1, &spec.BasicPublish{RoutingKey: "k"}, &spec.Properties{MessageID: "1"}, []byte("0123456789"), 5),
	}, nil)
	for n := range talk {
		c := f.dial()
		c.write(talk[:n])
		_ = c.nc.Close()
	}
	waitFor(t, func() bool { return f.conns() == 0 })
	f.works()
}

// TestHalfBodies leaves messages half received: by an error, by closing the channel, by
// hanging up. The end of the fixture looks that their memory was given back.
func TestHalfBodies(t *testing.T) {
	f := start(t, nil)
	half := publication(1, &spec.BasicPublish{RoutingKey: "k"}, &spec.Properties{}, make([]byte, 1<<20), 100_000)[:300_000]
	for name, end := range map[string]func(c *client){
		"hangs up":   func(c *client) { _ = c.nc.Close() },
		"hangs up 2": func(c *client) { _ = c.nc.(*net.TCPConn).CloseWrite(); c.gone() },
	} {
		t.Run(name, func(*testing.T) {
			c := f.channel()
			c.write(half)
			waitFor(t, func() bool { return f.server.memory.held() > 0 })
			end(c)
			waitFor(t, func() bool { return f.server.memory.held() == 0 })
		})
	}
	c := f.channel()
	whole := publication(1, &spec.BasicPublish{RoutingKey: "k"}, &spec.Properties{}, make([]byte, 300_000), 100_000)
	c.write(whole[:len(whole)-100_000-spec.FrameOverhead])
	c.write(spec.AppendMethod(nil, 1, &spec.ChannelClose{}))
	c.told(spec.UnexpectedFrame, "UNEXPECTED_FRAME - expected content body, got non content body frame instead", spec.BasicPublishID)
	f.works()
}

// TestLyingSizes takes memory for what has come; what was announced only counts.
func TestLyingSizes(t *testing.T) {
	f := start(t, nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const liars, channels = 4, 2
	for range liars {
		c := f.connect()
		for ch := range uint16(channels) {
			c.openChannel(ch + 1)
			c.write(spec.AppendMethod(nil, ch+1, &spec.BasicPublish{RoutingKey: "k"}))
			c.write(spec.AppendHeader(nil, ch+1, 16<<20, &spec.Properties{}))
			c.write(spec.AppendBody(nil, ch+1, []byte("x")))
		}
		c.write(binary.BigEndian.AppendUint32([]byte{spec.FrameBody, 0, 1}, 131064)) // and no more
	}
	waitFor(t, func() bool { return f.server.memory.held() == liars*channels*16<<20 })
	runtime.ReadMemStats(&after)
	if grown := int64(after.TotalAlloc - before.TotalAlloc); grown > liars*(8<<20) {
		t.Errorf("%d bytes were allocated for messages that did not come", grown)
	}
	f.works()
}

// TestUnfinishedMessages bounds what one connection may leave half received.
func TestUnfinishedMessages(t *testing.T) {
	f := start(t, func(o *Options) { o.MaxMessageBytes = 100_000 })
	c := f.connect()
	for ch := uint16(1); ch <= 3; ch++ {
		c.openChannel(ch)
		c.write(spec.AppendMethod(nil, ch, &spec.BasicPublish{RoutingKey: "k"}))
		c.write(spec.AppendHeader(nil, ch, 100_000, &spec.Properties{}))
		c.write(spec.AppendBody(nil, ch, make([]byte, 10_000)))
	}
	c.told(spec.ResourceError, "RESOURCE_ERROR - more than 200000 bytes of unfinished messages", spec.BasicPublishID)
	f.works()
}

// TestMemoryForMessages has publishers wait, and be told, when others hold all of it.
func TestMemoryForMessages(t *testing.T) {
	f := start(t, func(o *Options) { o.MessageMemory, o.patience = 1<<20, time.Millisecond })
	f.server.memory.add(1 << 20)
	c := f.channel()
	c.publish(1, &spec.BasicPublish{RoutingKey: "k"}, &spec.Properties{}, []byte("x"))
	if m := recv[*spec.ConnectionBlocked](c, 0); m.Reason != "low on memory" {
		t.Errorf("%+v", m)
	}
	if n := f.server.metrics.blocked.Load(); n != 1 {
		t.Errorf("%d connections are blocked", n)
	}
	f.works() // whoever does not publish is not held up
	f.server.memory.add(-1 << 20)
	recv[*spec.ConnectionUnblocked](c, 0)
}

// TestAllChannels opens as many channels as there may be, and closes them.
func TestAllChannels(t *testing.T) {
	f := start(t, nil)
	c := f.connect()
	var out []byte
	for ch := range uint16(maxChannels) {
		out = spec.AppendMethod(out, ch+1, &spec.ChannelOpen{})
	}
	c.write(out)
	for ch := range uint16(maxChannels) {
		recv[*spec.ChannelOpenOk](c, ch+1)
	}
	_ = c.nc.Close()
	waitFor(t, func() bool { return f.server.metrics.channels.Load() == 0 })
}

// TestDeepTable refuses a table that is nested too deep.
func TestDeepTable(t *testing.T) {
	f := start(t, nil)
	var deep []byte
	for range 8_000 {
		deep = append(binary.BigEndian.AppendUint32([]byte{1, 'n', 'F'}, uint32(len(deep))), deep...)
	}
	payload := binary.BigEndian.AppendUint32([]byte{0, 50, 0, 10, 0, 0, 1, 'q', 0}, uint32(len(deep)))
	c := f.channel()
	c.write(frame(spec.FrameMethod, 1, append(payload, deep...)))
	if m := recv[*spec.ConnectionClose](c, 0); m.ReplyCode != uint16(spec.FrameError) || m.ClassID != 50 || m.MethodID != 10 {
		t.Errorf("%+v", m)
	}
	f.works()
}

// TestClientThatDoesNotRead is sent no more than the bounds say, and holds up nobody else.
func TestClientThatDoesNotRead(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	asked := make(chan int, 1)
	go func() { // asks until the server stops reading
		many := bytes.Repeat(spec.AppendMethod(nil, 1, &spec.AccessRequest{}), 10_000)
		n := 0
		for {
			_ = c.nc.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			w, err := c.nc.Write(many)
			n += w
			if err != nil {
				asked <- n
				return
			}
		}
	}()
	n := <-asked
	srv := f.server.all()[0]
	if queued := srv.out.size.Load(); queued > maxQueued+1<<16 {
		t.Errorf("%d bytes are queued", queued)
	}
	f.works()
	_ = c.nc.SetDeadline(time.Now().Add(time.Minute))
	answers := n / len(spec.AppendMethod(nil, 1, &spec.AccessRequest{}))
	for range answers { // whoever reads again gets everything
		recv[*spec.AccessRequestOk](c, 1)
	}
}

// feed is a source that has any number of messages.
type feed struct {
	turn
	ch   *channel
	body []byte
	fed  atomic.Int64
}

func (s *feed) feed() {
	for s.ch.conn.hasRoom() {
		s.ch.sendContent(&spec.BasicDeliver{ConsumerTag: "c", DeliveryTag: uint64(s.fed.Add(1))}, &spec.Properties{}, s.body)
	}
	s.ch.conn.ready(s)
}

// TestSlowConsumer feeds a consumer as much as it reads.
func TestSlowConsumer(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	srv := f.server.all()[0]
	s := &feed{ch: srv.channels[1], body: bytes.Repeat([]byte("0123456789abcdef"), 20_000)} // several frames
	srv.ready(s)
	var stuck int64
	waitFor(t, func() bool { // until nothing moves any more
		n := s.fed.Load()
		done := n > 0 && n == stuck
		stuck = n
		return done
	})
	if n := s.fed.Load() * int64(len(s.body)); n > 64<<20 {
		t.Errorf("%d bytes were fed to a client that does not read", n)
	}
	f.works()
	for i := range uint64(3 * stuck) {
		if m := recv[*spec.BasicDeliver](c, 1); m.DeliveryTag != i+1 {
			t.Fatalf("delivery %d, want %d", m.DeliveryTag, i+1)
		}
		if _, body := c.content(1); !bytes.Equal(body, s.body) {
			t.Fatalf("delivery %d is not what was sent", i+1)
		}
	}
	_ = c.nc.Close()
	waitFor(t, func() bool { return f.conns() == 0 })
}

// TestHeadersTooLarge leaves out headers that no frame can hold.
func TestHeadersTooLarge(t *testing.T) {
	f := start(t, nil)
	c := f.connectWith(&spec.ConnectionTuneOk{ChannelMax: 1, FrameMax: 4096})
	c.openChannel(1)
	p := spec.Properties{MessageID: "m", Headers: message.Table{{Name: "h", Value: message.Bytes(make([]byte, 5000))}}}
	f.server.all()[0].channels[1].sendContent(&spec.BasicDeliver{}, &p, []byte("body"))
	recv[*spec.BasicDeliver](c, 1)
	got, body := c.content(1)
	if v, ok := got.Headers.Get("x-headers-too-large"); !ok || got.MessageID != "m" || string(body) != "body" {
		t.Errorf("%+v, %v", got, v)
	}
	r := prometheus.NewRegistry()
	r.MustRegister(f.server.metrics)
	all, err := r.Gather()
	if err != nil || len(all) != 13 {
		t.Errorf("%d metrics, %v", len(all), err)
	}
	for _, m := range all {
		if m.GetName() == "polylog_amqp_headers_cut_total" && m.Metric[0].Counter.GetValue() != 1 {
			t.Errorf("%v", m)
		}
	}
}

func TestHeartbeats(t *testing.T) {
	f := start(t, func(o *Options) { o.heartbeatUnit = 40 * time.Millisecond })
	c := f.connectWith(&spec.ConnectionTuneOk{ChannelMax: 1, FrameMax: 4096, Heartbeat: 1})
	if h, _, err := c.next(); err == nil {
		t.Fatalf("frame %+v", h)
	}
	if c.beats == 0 {
		t.Error("there was no heartbeat")
	}
	waitFor(t, func() bool { return f.server.metrics.silent.Load() == 1 })

	c = f.connectWith(&spec.ConnectionTuneOk{ChannelMax: 1, FrameMax: 4096, Heartbeat: 50})
	for range 10 {
		c.write(spec.AppendHeartbeat(nil))
	}
	c.openChannel(1)
}

// TestHeart is what the sweep decides, on a clock of its own.
func TestHeart(t *testing.T) {
	at := time.Unix(0, 0)
	after := func(d time.Duration) time.Time { return at.Add(d) }
	var h heart
	h.begin(10 * time.Second)
	h.reading.Store(true)
	look := func(d time.Duration, beat, silent bool) {
		t.Helper()
		if b, s := h.look(after(d)); b != beat || s != silent {
			t.Errorf("after %s: heartbeat %t, silent %t", d, b, s)
		}
	}
	look(0, false, false)
	look(4*time.Second, false, false)
	look(5*time.Second, true, false)
	h.sent.Add(1)
	look(6*time.Second, false, false)
	look(11*time.Second, true, false)
	look(24*time.Second, true, false)
	look(25*time.Second, true, true)
	h.bytes.Add(1)
	look(26*time.Second, true, false)
	h.reading.Store(false) // we keep the client waiting
	look(100*time.Second, true, false)
	h.reading.Store(true)
	look(120*time.Second, true, false)
	look(125*time.Second, true, true)
	h.begin(0)
	look(1000*time.Second, false, false)
}

func TestHandshakeTimeout(t *testing.T) {
	f := start(t, func(o *Options) { o.HandshakeTimeout, o.heartbeatUnit = 20*time.Millisecond, 20*time.Millisecond })
	f.dial().gone()
	f.greeted().gone()
}

func TestMaxConnections(t *testing.T) {
	f := start(t, func(o *Options) { o.MaxConnections = 1 })
	first := f.connect()
	f.dial().gone()
	_ = first.nc.Close()
	waitFor(t, func() bool { return f.conns() == 0 })
	f.works()
}

// TestStop tells clients, waits for what they published, and cuts off those that do not
// answer.
func TestStop(t *testing.T) {
	f := start(t, func(o *Options) { o.closeGrace = time.Minute })
	c, deaf, shaking := f.channel(), f.connect(), f.tuned()
	srv := f.serving(c)
	srv.flight.add(100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.server.Close(ctx) }()
	shaking.gone()
	if m := recv[*spec.ConnectionClose](deaf, 0); m.ReplyCode != 320 {
		t.Errorf("%+v", m)
	}
	confirm := &oneConfirm{ch: srv.channels[1]}
	srv.ready(confirm)
	srv.flight.done(100)
	recv[*spec.BasicAck](c, 1) // what was published is confirmed first
	if m := recv[*spec.ConnectionClose](c, 0); m.ReplyText != "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'" {
		t.Errorf("%+v", m)
	}
	c.send(0, &spec.ConnectionCloseOk{})
	c.gone()
	cancel()
	deaf.gone()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", f.addr); err == nil {
		t.Error("the listener is still there")
	}
}

// serving is the server's side of an open connection.
func (f *fixture) serving(c *client) (srv *conn) {
	waitFor(f.t, func() bool {
		for _, x := range f.server.all() {
			if x.out.size.Load() == 0 && len(x.name) > 0 && x.nc.RemoteAddr().String() == c.nc.LocalAddr().String() {
				srv = x
			}
		}
		return srv != nil
	})
	return srv
}

// Who has closed its connection finds stored what it had published, confirmed or not.
func TestCloseAwaitsPublishes(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	srv := f.serving(c)
	srv.flight.add(100)
	c.send(0, &spec.ConnectionClose{ReplyCode: 200})
	srv.ready(&oneConfirm{ch: srv.channels[1]})
	recv[*spec.BasicAck](c, 1)
	_ = c.nc.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := c.nc.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("close-ok came before the end of a publish: %v", err)
	}
	_ = c.nc.SetReadDeadline(time.Time{})
	srv.flight.done(100)
	recv[*spec.ConnectionCloseOk](c, 0)
}

// oneConfirm is a source with one confirm.
type oneConfirm struct {
	turn
	ch *channel
}

func (s *oneConfirm) feed() { s.ch.send(&spec.BasicAck{DeliveryTag: 1}) }

// TestPanic loses the connection whose handler panics, and no other.
func TestPanic(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	srv := f.server.all()[0]
	srv.heart.onStop = func() error { panic("test") }
	srv.stop()
	if m := recv[*spec.ConnectionClose](c, 0); m.ReplyCode != uint16(spec.InternalError) {
		t.Errorf("%+v", m)
	}
	c.gone()
	f.works()
}

// FuzzConnection sends whatever follows an open channel.
func FuzzConnection(f *testing.F) {
	f.Add(spec.AppendMethod(nil, 1, &spec.ChannelFlow{Active: true}))
	f.Add(publication(1, &spec.BasicPublish{RoutingKey: "k"}, &spec.Properties{MessageID: "1"}, []byte("0123456789"), 5))
	f.Add(spec.AppendMethod(nil, 0, &spec.ConnectionClose{}))
	f.Add(bytes.Join([][]byte{spec.AppendHeartbeat(nil), spec.AppendMethod(nil, 2, &spec.ChannelOpen{}), spec.AppendMethod(nil, 1, &spec.ChannelClose{})}, nil))
	x := start(f, func(o *Options) { o.MaxMessageBytes = 100_000 })
	f.Fuzz(func(t *testing.T, b []byte) {
		here := *x
		here.t = t
		c := here.channel()
		_, _ = c.nc.Write(b)
		_ = c.nc.(*net.TCPConn).CloseWrite()
		if _, err := io.Copy(io.Discard, c.nc); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the connection stays open")
		}
		_ = c.nc.Close()
	})
}
