package httpd

import (
	"net"
	"runtime/debug"
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
	// writeWait is how long a reader may take for one write: a message, or passBytes of events.
	writeWait = 10 * time.Second
)

// errStreamsEnd is why a stream ends where its node does.
var errStreamsEnd = core.E(core.Closed, "this node is shutting down")

// stream serves the connection of the call after it, until fn returns or the data plane is
// closed. fn gets a call without a request.
func (c *call) stream(fn func(*call, net.Conn)) error {
	if c.streams.Add(1) > maxStreams {
		c.streams.Add(-1)
		return core.E(core.Unavailable, "this node has %d streams already", maxStreams)
	}
	later := &call{api: c.api, params: c.params, namespace: c.namespace, principal: c.principal, ctx: c.api.ctx}
	c.HijackSetNoResponse(true)
	c.Hijack(func(conn net.Conn) {
		defer later.streams.Add(-1)
		if !later.enter() {
			return
		}
		defer later.calls.Done()
		defer func() {
			if p := recover(); p != nil {
				later.srv.opts.Logger.Error("http stream panicked", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		t := taken{conn, conn}
		if c, ok := conn.(interface{ UnsafeConn() net.Conn }); ok {
			t.below = c.UnsafeConn()
		}
		defer later.srv.connected(t.below)() // front has it no more
		fn(later, t)
	})
	return nil
}

// taken is a connection that was taken from fasthttp, whose own Close does nothing before fn
// returns; but what reads from it has to end before.
type taken struct {
	net.Conn
	below net.Conn // without what fasthttp has read already
}

func (t taken) Close() error { return t.below.Close() }

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
