package probe

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// raw is a connection that can say what no client library would.
type raw struct {
	net.Conn
	e *env
	r *bufio.Reader
}

func (e *env) raw() *raw {
	c, err := net.DialTimeout("tcp", e.addr, patience)
	e.must(err)
	e.keep(c)
	return &raw{Conn: c, e: e, r: bufio.NewReader(c)}
}

// put writes; a connection that the broker has closed shows when it is read.
func (r *raw) put(pieces ...[]byte) { _, _ = r.Write(bytes.Join(pieces, nil)) }

// The types of AMQP's wire format.

func octet(v int) []byte { return []byte{byte(v)} }

func short(v int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(v)) }

func long(v int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(v)) }

func longlong(v int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

func shortstr(s string) []byte { return append(octet(len(s)), s...) }

func longstr(s string) []byte { return append(long(len(s)), s...) }

// fields is a field table of encoded names and values.
func fields(pieces ...[]byte) []byte { return longstr(string(bytes.Join(pieces, nil))) }

func boolean(name string) []byte { return append(shortstr(name), 't', 1) }

const (
	frameMethod = 1
	frameHeader = 2
	frameBody   = 3
	frameBeat   = 8
	frameEnd    = 0xCE
)

func frame(kind, channel int, payload ...[]byte) []byte {
	p := bytes.Join(payload, nil)
	return bytes.Join([][]byte{octet(kind), short(channel), long(len(p)), p, octet(frameEnd)}, nil)
}

func method(channel, class, id int, args ...[]byte) []byte {
	return frame(frameMethod, channel, short(class), short(id), bytes.Join(args, nil))
}

func publishMethod(channel int, exchange, key string, bits int) []byte {
	return method(channel, 60, 40, short(0), shortstr(exchange), shortstr(key), octet(bits))
}

func header(channel, size int) []byte {
	return frame(frameHeader, channel, short(60), short(0), longlong(size), short(0))
}

// message is a whole publish without properties.
func message(channel int, exchange, key string, bits int, body string) []byte {
	b := append(publishMethod(channel, exchange, key, bits), header(channel, len(body))...)
	if body != "" {
		b = append(b, frame(frameBody, channel, []byte(body))...)
	}
	return b
}

func declareQueue(channel int, name string, bits int, args ...[]byte) []byte {
	return method(channel, 50, 10, short(0), shortstr(name), octet(bits), fields(args...))
}

var protocolHeader = []byte{'A', 'M', 'Q', 'P', 0, 0, 9, 1}

var capabilities = bytes.Join([][]byte{
	shortstr("capabilities"),
	{'F'},
	fields(boolean("authentication_failure_close"), boolean("consumer_cancel_notify"), boolean("connection.blocked")),
}, nil)

// got is a frame that came in.
type got struct {
	kind, channel int
	payload       []byte
	err           error
}

func (r *raw) frame(wait time.Duration) got {
	if err := r.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return got{err: err}
	}
	h := make([]byte, 7)
	if _, err := io.ReadFull(r.r, h); err != nil {
		return got{err: err}
	}
	n := binary.BigEndian.Uint32(h[3:])
	if n > 1<<20 {
		return got{err: fmt.Errorf("a frame of %d bytes", n)}
	}
	p := make([]byte, n+1)
	_, err := io.ReadFull(r.r, p)
	return got{int(h[0]), int(h[1])<<8 | int(h[2]), p[:n], err}
}

// read is the next frame that is no heartbeat, in words.
func (r *raw) read() string {
	for {
		if g := r.frame(4 * time.Second); g.err != nil || g.kind != frameBeat {
			return g.String()
		}
	}
}

// reads are the next n frames.
func (r *raw) reads(n int) string {
	var s []string
	for range n {
		s = append(s, r.read())
	}
	return strings.Join(s, "; ")
}

// rest is everything until the broker is silent or has closed the connection.
func (r *raw) rest() string {
	var s []string
	for {
		g := r.frame(700 * time.Millisecond)
		if g.err == nil && g.kind == frameBeat {
			continue
		}
		s = append(s, g.String())
		if g.err != nil {
			return strings.Join(s, "; ")
		}
	}
}

var methodNames = map[int]string{
	10<<8 | 10: "connection.start", 10<<8 | 20: "connection.secure", 10<<8 | 30: "connection.tune", 10<<8 | 41: "connection.open-ok",
	10<<8 | 50: "connection.close", 10<<8 | 51: "connection.close-ok", 10<<8 | 60: "connection.blocked", 10<<8 | 71: "connection.update-secret-ok",
	20<<8 | 11: "channel.open-ok", 20<<8 | 20: "channel.flow", 20<<8 | 21: "channel.flow-ok", 20<<8 | 40: "channel.close", 20<<8 | 41: "channel.close-ok",
	30<<8 | 11: "access.request-ok", 40<<8 | 11: "exchange.declare-ok", 40<<8 | 21: "exchange.delete-ok",
	50<<8 | 11: "queue.declare-ok", 50<<8 | 21: "queue.bind-ok", 50<<8 | 31: "queue.purge-ok", 50<<8 | 41: "queue.delete-ok", 50<<8 | 51: "queue.unbind-ok",
	60<<8 | 11: "basic.qos-ok", 60<<8 | 21: "basic.consume-ok", 60<<8 | 30: "basic.cancel", 60<<8 | 31: "basic.cancel-ok", 60<<8 | 50: "basic.return",
	60<<8 | 60: "basic.deliver", 60<<8 | 71: "basic.get-ok", 60<<8 | 72: "basic.get-empty", 60<<8 | 80: "basic.ack", 60<<8 | 111: "basic.recover-ok", 60<<8 | 120: "basic.nack",
	85<<8 | 11: "confirm.select-ok", 90<<8 | 11: "tx.select-ok", 90<<8 | 21: "tx.commit-ok", 90<<8 | 31: "tx.rollback-ok",
}

func (g got) String() string {
	switch {
	case errors.Is(g.err, io.EOF), errors.Is(g.err, io.ErrUnexpectedEOF):
		return "closed"
	case g.err != nil:
		var n net.Error
		if errors.As(g.err, &n) && n.Timeout() {
			return "silence"
		}
		return "closed" // a reset says no more than an end
	case g.kind == frameHeader:
		return fmt.Sprintf("header on %d", g.channel)
	case g.kind == frameBody:
		return fmt.Sprintf("body on %d: %q", g.channel, g.payload)
	case g.kind != frameMethod || len(g.payload) < 4:
		return fmt.Sprintf("frame of type %d", g.kind)
	}
	p := g.payload
	class, id := int(binary.BigEndian.Uint16(p)), int(binary.BigEndian.Uint16(p[2:]))
	s, ok := methodNames[class<<8|id]
	if !ok {
		s = fmt.Sprintf("%d.%d", class, id)
	}
	if g.channel != 0 {
		s += fmt.Sprintf(" on %d", g.channel)
	}
	switch s, _, _ := strings.Cut(s, " "); s {
	case "connection.close", "channel.close":
		n := int(p[6])
		return fmt.Sprintf("%s %d %s (of %d.%d)", s, binary.BigEndian.Uint16(p[4:]), p[7:7+n], binary.BigEndian.Uint16(p[7+n:]), binary.BigEndian.Uint16(p[9+n:]))
	case "connection.tune":
		return fmt.Sprintf("%s channels %d, frame %d, heartbeat %d", s, binary.BigEndian.Uint16(p[4:]), binary.BigEndian.Uint32(p[6:]), binary.BigEndian.Uint16(p[10:]))
	case "basic.return":
		n := int(p[6])
		return fmt.Sprintf("%s %d %s", s, binary.BigEndian.Uint16(p[4:]), p[7:7+n])
	case "basic.ack", "basic.nack":
		return fmt.Sprintf("%s on %d %d", s, g.channel, binary.BigEndian.Uint64(p[4:]))
	}
	return s
}

// start sends the protocol header and reads connection.start.
func (r *raw) start() got {
	r.put(protocolHeader)
	g := r.frame(patience)
	r.e.must(g.err)
	return g
}

// login answers connection.start and gives what comes back.
func (r *raw) login(mechanism, response string, properties []byte) string {
	r.start()
	r.put(method(0, 10, 11, fields(properties), shortstr(mechanism), longstr(response), shortstr("en_US")))
	return r.read()
}

const plainGuest = "\x00guest\x00guest"

// tune does the handshake up to open with that tune-ok, and gives what comes back to open.
func (r *raw) tune(channels, frameMax, heartbeat int, vhost string) string {
	r.login("PLAIN", plainGuest, capabilities)
	r.put(method(0, 10, 31, short(channels), long(frameMax), short(heartbeat)), method(0, 10, 40, shortstr(vhost), shortstr(""), octet(0)))
	return r.read()
}

// opened is a connection whose channel 1 is open.
func (e *env) opened() *raw {
	r := e.raw()
	if s := r.tune(2047, 131072, 0, "/"); s != "connection.open-ok" {
		e.must(errors.New("open: " + s))
	}
	r.put(method(1, 20, 10, shortstr("")))
	if s := r.read(); s != "channel.open-ok on 1" {
		e.must(errors.New("channel: " + s))
	}
	return r
}
