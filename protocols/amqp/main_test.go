package amqp

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
	"polylog/router/routertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a server on a port of its own, in front of a router in memory.
type fixture struct {
	t      testing.TB
	addr   string
	server *Server
	router *router.Router
	log    *routertest.Log
}

// start serves until the test ends. change, which may be nil, sees the options first.
func start(t testing.TB, change func(*Options)) *fixture {
	t.Helper()
	r, log := routertest.Start(t, nil)
	return serveRouter(t, r, log, change)
}

// serveRouter serves AMQP clients on a router.
func serveRouter(t testing.TB, r *router.Router, log *routertest.Log, change func(*Options)) *fixture {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Router: r, NodeID: "1"}
	if change != nil {
		change(&o)
	}
	s, err := NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(l)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		for s.memory.held() != 0 && ctx.Err() == nil { // a client is told of its last publish before that is off the books
			<-time.After(time.Millisecond)
		}
		if n := s.memory.held(); n != 0 {
			t.Errorf("%d bytes of messages were never given back", n)
		}
		if n := s.metrics.channels.Load(); n != 0 {
			t.Errorf("%d channels never ended", n)
		}
	})
	return &fixture{t, l.Addr().String(), s, r, log}
}

// waitFor waits until ok, for 10 s at most.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	timeout := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatal("it did not happen within 10 s")
		}
	}
}

func (f *fixture) conns() int { return len(f.server.all()) }

// client is one connection that speaks in frames; what hangs fails after a minute.
type client struct {
	t       testing.TB
	nc      net.Conn
	br      *bufio.Reader
	decoder spec.Decoder
	beats   int // heartbeats that came
}

// dial connects without a word.
func (f *fixture) dial() *client {
	f.t.Helper()
	nc, err := net.Dial("tcp", f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		f.t.Fatal(err)
	}
	return &client{t: f.t, nc: nc, br: bufio.NewReader(nc)}
}

// allCapabilities are those of a modern client.
var allCapabilities = []string{
	"authentication_failure_close", "basic.nack", "connection.blocked", "consumer_cancel_notify", "publisher_confirms",
}

func clientProperties(capabilities []string) message.Table {
	var caps message.Table
	for _, name := range capabilities {
		caps = append(caps, message.Header{Name: name, Value: message.Bool(true)})
	}
	return message.Table{{Name: "capabilities", Value: message.Nested(caps)}}
}

func plain(user, password string) *spec.ConnectionStartOk {
	return &spec.ConnectionStartOk{
		ClientProperties: clientProperties(allCapabilities), Mechanism: "PLAIN",
		Response: []byte("\x00" + user + "\x00" + password), Locale: "en_US",
	}
}

// greeted is a connection that has received connection.start.
func (f *fixture) greeted() *client {
	f.t.Helper()
	c := f.dial()
	c.write(protocolHeader)
	recv[*spec.ConnectionStart](c, 0)
	return c
}

// tuned is a connection that has received connection.tune.
func (f *fixture) tuned() *client {
	f.t.Helper()
	c := f.greeted()
	c.send(0, plain("guest", "guest"))
	recv[*spec.ConnectionTune](c, 0)
	return c
}

// connect is an open connection with what the server offers, but for heartbeats.
func (f *fixture) connect() *client {
	f.t.Helper()
	return f.connectWith(&spec.ConnectionTuneOk{ChannelMax: maxChannels, FrameMax: maxFrame})
}

func (f *fixture) connectWith(ok *spec.ConnectionTuneOk) *client {
	f.t.Helper()
	c := f.tuned()
	c.send(0, ok)
	c.send(0, &spec.ConnectionOpen{VirtualHost: "/"})
	recv[*spec.ConnectionOpenOk](c, 0)
	return c
}

// channel is an open connection with channel 1 open.
func (f *fixture) channel() *client {
	f.t.Helper()
	c := f.connect()
	c.openChannel(1)
	return c
}

func (c *client) openChannel(ch uint16) {
	c.t.Helper()
	c.send(ch, &spec.ChannelOpen{})
	recv[*spec.ChannelOpenOk](c, ch)
}

func (c *client) write(b []byte) {
	c.t.Helper()
	if _, err := c.nc.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// send sends a method.
func (c *client) send(ch uint16, m spec.Method) {
	c.t.Helper()
	c.write(spec.AppendMethod(nil, ch, m))
}

// frame is a frame of any type and content.
func frame(typ uint8, ch uint16, payload []byte) []byte {
	b := []byte{typ, byte(ch >> 8), byte(ch)}
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(append(b, payload...), spec.FrameEnd)
}

// publication is basic.publish with its content, in body frames of up to part bytes.
func publication(ch uint16, m *spec.BasicPublish, p *spec.Properties, body []byte, part int) []byte {
	b := spec.AppendMethod(nil, ch, m)
	b = spec.AppendHeader(b, ch, len(body), p)
	for len(body) > 0 {
		n := min(len(body), part)
		b = spec.AppendBody(b, ch, body[:n])
		body = body[n:]
	}
	return b
}

// publish sends a message on a channel.
func (c *client) publish(ch uint16, m *spec.BasicPublish, p *spec.Properties, body []byte) {
	c.t.Helper()
	c.write(publication(ch, m, p, body, maxFrame-spec.FrameOverhead))
}

// next is the next frame that is no heartbeat.
func (c *client) next() (h spec.FrameHead, payload []byte, err error) {
	for {
		var head [spec.FrameHeadLen]byte
		if _, err := io.ReadFull(c.br, head[:]); err != nil {
			return h, nil, err
		}
		h = spec.ParseFrameHead(head[:])
		payload = make([]byte, h.Size+1)
		if _, err := io.ReadFull(c.br, payload); err != nil {
			return h, nil, err
		}
		if payload[h.Size] != spec.FrameEnd {
			return h, nil, fmt.Errorf("frame %+v ends with %d", h, payload[h.Size])
		}
		if h.Type != spec.FrameHeartbeat {
			return h, payload[:h.Size], nil
		}
		c.beats++
	}
}

// method is the next frame, which must be a method on a channel.
func (c *client) method(ch uint16) spec.Method {
	c.t.Helper()
	h, payload, err := c.next()
	if err != nil {
		c.t.Fatal(err)
	}
	if h.Type != spec.FrameMethod || h.Channel != ch {
		c.t.Fatalf("frame %+v, want a method on channel %d", h, ch)
	}
	m, err := c.decoder.Method(payload)
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// recv is the next frame, which must be a method of that type.
func recv[M spec.Method](c *client, ch uint16) M {
	c.t.Helper()
	m := c.method(ch)
	want, ok := m.(M)
	if !ok {
		c.t.Fatalf("%s %+v, want %T", m.ID(), m, want)
	}
	return want
}

// content is the content that follows a method.
func (c *client) content(ch uint16) (p spec.Properties, body []byte) {
	c.t.Helper()
	h, payload, err := c.next()
	if err != nil || h.Type != spec.FrameHeader || h.Channel != ch {
		c.t.Fatalf("frame %+v (%v), want a content header on channel %d", h, err, ch)
	}
	_, size, err := c.decoder.Header(payload, &p)
	if err != nil {
		c.t.Fatal(err)
	}
	for uint64(len(body)) < size {
		h, payload, err := c.next()
		if err != nil || h.Type != spec.FrameBody || h.Channel != ch {
			c.t.Fatalf("frame %+v (%v), want a body on channel %d", h, err, ch)
		}
		body = append(body, payload...)
	}
	return p, body
}

// told fails unless the server closes the connection next with a code and text.
func (c *client) told(code spec.Code, text string, id spec.MethodID) {
	c.t.Helper()
	m := recv[*spec.ConnectionClose](c, 0)
	want := spec.ConnectionClose{ReplyCode: uint16(code), ReplyText: text, ClassID: id.Class(), MethodID: id.Method()}
	if *m != want {
		c.t.Fatalf("%+v, want %+v", *m, want)
	}
	c.send(0, &spec.ConnectionCloseOk{})
	c.gone()
}

// channelClosed fails unless the server closes the channel next with a code and text.
func (c *client) channelClosed(ch uint16, code spec.Code, text string, id spec.MethodID) {
	c.t.Helper()
	m := recv[*spec.ChannelClose](c, ch)
	want := spec.ChannelClose{ReplyCode: uint16(code), ReplyText: text, ClassID: id.Class(), MethodID: id.Method()}
	if *m != want {
		c.t.Fatalf("%+v, want %+v", *m, want)
	}
}

// gone fails unless the server ends the connection next.
func (c *client) gone() {
	c.t.Helper()
	h, payload, err := c.next()
	if err == nil {
		c.t.Fatalf("frame %+v %q, want the connection's end", h, payload)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatal("the connection stays open")
	}
}

// works fails unless the server serves others.
func (f *fixture) works() {
	f.t.Helper()
	c := f.channel()
	c.send(1, &spec.ChannelClose{ReplyCode: 200})
	recv[*spec.ChannelCloseOk](c, 1)
	c.send(0, &spec.ConnectionClose{ReplyCode: 200})
	recv[*spec.ConnectionCloseOk](c, 0)
	c.gone()
}
