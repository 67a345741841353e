package httpd

import (
	"context"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"polylog/core"
)

// Streams outlive the request that asks for one: its connection is taken from fasthttp, whose
// time-out for an answer would end it and which does not say when a client is gone. How much
// waits for a slow reader is bounded by what the operating system buffers: what comes next is
// read from the log when the last write is done.
const (
	// maxStreams bounds the streams of a node.
	maxStreams = 4096
	// heartbeat is how often something is sent where there is nothing to send, so that both
	// sides find out about a connection that is dead.
	heartbeat = 15 * time.Second
	// writeWait is how long a reader may take for one write, and a second more for each writeRate bytes.
	writeWait = 10 * time.Second
	writeRate = 64 << 10
	// lastWrite is how long a write may take when the data plane is closed.
	lastWrite = 2 * time.Second
)

// writeTime is how long a reader may take for a write of n bytes.
func writeTime(n int) time.Duration { return writeWait + time.Duration(n)*time.Second/writeRate }

// Why streams end: their node does, or their client is not who it was.
var (
	errStreamsEnd = core.E(core.Closed, "this node is shutting down")
	errLoggedOut  = core.E(core.Denied, "the user is gone, has another password, or there was none: log in again")
)

// stream serves the connection of the call after it, until fn returns or the data plane is
// closed. fn gets a call without a request.
func (c *call) stream(fn func(*call, net.Conn)) error {
	if c.streams.Load() >= maxStreams {
		return core.E(core.Unavailable, "this node has %d streams already", maxStreams)
	}
	over := make(chan struct{})
	later := &call{api: c.api, params: c.params, namespace: c.namespace, principal: c.principal, ctx: c.api.gate.Context(), over: over}
	c.HijackSetNoResponse(true)
	c.Hijack(func(conn net.Conn) { // which fasthttp does not call where the connection has ended meanwhile
		if !later.gate.Enter() {
			return
		}
		defer later.gate.Leave()
		defer later.streams.Add(-1)
		if later.streams.Add(1) > maxStreams {
			return
		}
		defer func() {
			if p := recover(); p != nil {
				later.srv.opts.Logger.Error("http stream panicked", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		t := &taken{Conn: conn, below: conn}
		if c, ok := conn.(interface{ UnsafeConn() net.Conn }); ok {
			t.below = c.UnsafeConn()
		}
		defer later.srv.connected(t.below)() // front has it no more
		defer context.AfterFunc(later.ctx, t.hurry)()
		defer later.router.WhileLoggedIn(later.principal, func() {
			close(over)
			t.hurry()
		})()
		fn(later, t)
	})
	return nil
}

// taken is a connection that was taken from fasthttp, whose own Close does nothing before fn
// returns; but what reads from it has to end before.
type taken struct {
	net.Conn
	below net.Conn // without what fasthttp has read already

	mu   sync.Mutex
	last time.Time // guarded by mu: no write may take longer than that; zero: the data plane is open
}

// Close implements net.Conn.
func (t *taken) Close() error { return t.below.Close() }

// SetWriteDeadline implements net.Conn. A slow reader does not hold up the end of the data plane.
func (t *taken) SetWriteDeadline(at time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.last.IsZero() && at.After(t.last) {
		at = t.last
	}
	return t.below.SetWriteDeadline(at)
}

// hurry bounds a write that is under way, and those to come. It may be late, when fasthttp has Conn again.
func (t *taken) hurry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = time.Now().Add(lastWrite)
	_ = t.below.SetWriteDeadline(t.last) // it fails where the connection is closed
}

// closedBy is closed when the other side of a connection that sends nothing more is gone, or
// conn was closed here.
func closedBy(conn net.Conn) <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		var b [512]byte
		for {
			if _, err := conn.Read(b[:]); err != nil {
				return
			}
		}
	}()
	return gone
}
