package amqp

import (
	"sync"
	"sync/atomic"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
)

// output is what a connection has queued for its client: frames, and bodies between them
// that are not copied. Appending never blocks; who has a choice looks at the size first.
type output struct {
	wake chan struct{} // for the writer, of capacity 1: there is something to do
	room chan struct{} // for the reader, of capacity 1: there is less
	size atomic.Int64  // bytes queued, changed under mu

	mu       sync.Mutex // guards what follows, and the state of channels
	queued   chunk
	usual    int // bytes of frames in the last chunk: how large the next one may well be
	frameMax int
	last     spec.Method // closes the output as soon as the sources have been asked once more
	finished bool        // the writer ends when everything is sent
	ended    bool        // the connection waits for its goroutines: none may start
	sources  []source    // that wait for the writer, in turn

	// closed says that connection.close or close-ok is queued, and that nothing may follow.
	// It is written under mu.
	closed atomic.Bool
}

// chunk is a part of the output.
type chunk struct {
	frames *buffer // nil: none
	bodies []between
}

// between is a body that goes out after the first `at` bytes of the frames.
type between struct {
	at   int
	body []byte
}

// largeBody is the size from which a body's part is not copied.
const largeBody = 16 << 10

func (o *output) init() {
	o.wake, o.room = make(chan struct{}, 1), make(chan struct{}, 1)
	o.frameMax = handshakeFrameMax
}

func (o *output) setFrameMax(n int) {
	o.mu.Lock()
	o.frameMax = n
	o.mu.Unlock()
}

// endLocked queues a last method of the connection, with which its output closes.
func (o *output) endLocked(m spec.Method) {
	o.methodLocked(0, m)
	o.closed.Store(true)
}

// appendLocked appends what fn appends.
func (o *output) appendLocked(fn func(b []byte) []byte) {
	if o.queued.frames == nil {
		o.queued.frames = getBuffer(o.usual)
	}
	v := o.queued.frames
	before := len(v.b)
	v.b = fn(v.b)
	o.grewLocked(len(v.b) - before)
}

func (o *output) grewLocked(n int) {
	if o.size.Add(int64(n)) == int64(n) {
		signal(o.wake)
	}
}

// methodLocked appends a method frame.
func (o *output) methodLocked(channel uint16, m spec.Method) {
	o.appendLocked(func(b []byte) []byte { return spec.AppendMethod(b, channel, m) })
}

// contentLocked appends a method with content (section 4.2.6). It reports whether the
// properties fit into a frame; where they do not, the headers are left out.
func (o *output) contentLocked(channel uint16, m spec.Method, p *spec.Properties, body []byte) (fits bool) {
	o.methodLocked(channel, m)
	fits = true
	o.appendLocked(func(b []byte) []byte {
		at := len(b)
		b = spec.AppendHeader(b, channel, len(body), p)
		if size := len(b) - at; size > o.frameMax {
			fits = false
			without := *p
			without.Headers = message.Table{{Name: "x-headers-too-large", Value: message.Int(message.KindInt32, int64(size))}}
			b = spec.AppendHeader(b[:at], channel, len(body), &without)
		}
		return b
	})
	for len(body) > 0 {
		n := min(len(body), o.frameMax-spec.FrameOverhead)
		part := body[:n]
		body = body[n:]
		if n < largeBody {
			o.appendLocked(func(b []byte) []byte { return spec.AppendBody(b, channel, part) })
			continue
		}
		o.appendLocked(func(b []byte) []byte { return spec.AppendBodyHead(b, channel, n) })
		o.queued.bodies = append(o.queued.bodies, between{len(o.queued.frames.b), part})
		o.grewLocked(n)
		o.appendLocked(func(b []byte) []byte { return append(b, spec.FrameEnd) })
	}
	return fits
}

// send queues a method of channel 0.
func (c *conn) send(m spec.Method) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	if !c.out.closed.Load() {
		c.out.methodLocked(0, m)
	}
}

// heartbeat queues a heartbeat, unless something else is on its way.
func (c *conn) heartbeat() {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	if !c.out.closed.Load() && c.out.size.Load() == 0 {
		c.out.appendLocked(spec.AppendHeartbeat)
	}
}

// send queues a method. When the channel has ended it does nothing.
func (ch *channel) send(m spec.Method) {
	o := &ch.conn.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if ch.writableLocked() {
		o.methodLocked(ch.id, m)
	}
}

// sendContent queues a method with its message. body must not change until it is sent. When
// the channel has ended it does nothing, and returns false.
func (ch *channel) sendContent(m spec.Method, p *spec.Properties, body []byte) bool {
	o := &ch.conn.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if !ch.writableLocked() {
		return false
	}
	if !o.contentLocked(ch.id, m, p, body) {
		ch.conn.srv.metrics.headersCut.Add(1)
	}
	return true
}
