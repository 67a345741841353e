package kafka

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	errPanic       = errors.New("request handler panicked")
	errUnsupported = errors.New("unsupported API key or version")
	errStopping    = errors.New("server is stopping")
	errIdle        = errors.New("idle")
)

// readBufferSize is small: payloads bypass it on their way to the frame's buffer.
const readBufferSize = 8 << 10

// conn is one connection. The goroutine of serve reads, decodes and starts requests;
// a second one writes the responses.
type conn struct {
	srv     *Server
	nc      net.Conn
	br      *bufio.Reader
	log     *slog.Logger
	session session
	cancel  context.CancelFunc // ends the connection's context
	wg      sync.WaitGroup     // the writer and the calls' own goroutines

	wake chan struct{} // to the writer, of capacity 1: the first pending call may be done
	room chan struct{} // to the reader, of capacity 1: calls have left pending

	mu           sync.Mutex // guards what follows, and done, resp and raw of the calls
	pending      []*call    // unanswered or unwritten, in the order of the requests
	pendingBytes int        // their frames
	writing      int        // how many of the first are in the writer's hands, which ends them
	produceOnly  bool       // all pending calls are Produce
	closed       bool
}

func newConn(srv *Server, nc net.Conn, cancel context.CancelFunc) *conn {
	c := &conn{
		srv:    srv,
		nc:     nc,
		cancel: cancel,
		br:     bufio.NewReaderSize(nc, readBufferSize),
		log:    srv.log.With("client", nc.RemoteAddr().String()),
		wake:   make(chan struct{}, 1),
		room:   make(chan struct{}, 1),
	}
	c.session = session{srv: srv, conn: c}
	return c
}

// serve runs the connection to its end and waits for everything that it started. ctx
// is what c.cancel cancels.
func (c *conn) serve(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = c.nc.Close() }) // unblocks reader and writer
	c.wg.Go(func() { c.write(ctx) })
	err := c.read(ctx)
	if c.srv.isStopping() {
		err = errStopping
		c.drain(ctx)
	}
	c.close(err)
	c.srv.fetchSessions.closeAll(c)
	c.wg.Wait()
	stop()
	_ = c.nc.Close()
}

// close cancels everything the connection does. The first reason given is logged.
func (c *conn) close(err error) {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	var done []*call
	for _, p := range c.pending[min(c.writing, len(c.pending)):] {
		if p.done {
			done = append(done, p)
		}
	}
	c.pending, c.pendingBytes = nil, 0
	c.mu.Unlock()
	if !first {
		return
	}
	c.cancel()
	for _, p := range done {
		p.end()
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, errStopping), errors.Is(err, errIdle), errors.Is(err, net.ErrClosed):
		c.log.Debug("kafka connection closed", "reason", err)
	case isNetwork(err):
		c.log.Debug("kafka connection lost", "reason", err)
	default:
		c.log.Warn("kafka connection closed on error", "reason", err)
	}
}

// stop ends the connection from outside.
func (c *conn) stop() { c.close(errStopping) }

func isNetwork(err error) bool {
	_, ok := errors.AsType[*net.OpError](err)
	return ok || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded)
}

// drain waits until everything pending is answered and written.
func (c *conn) drain(ctx context.Context) {
	for {
		c.mu.Lock()
		idle := len(c.pending) == 0
		c.mu.Unlock()
		if idle {
			return
		}
		select {
		case <-c.room:
		case <-ctx.Done():
			return
		}
	}
}

// read takes requests off the connection until it ends.
func (c *conn) read(ctx context.Context) error {
	for {
		n, err := c.awaitFrame()
		if err != nil {
			return err
		}
		// From here on the client must keep the bytes coming.
		if err := c.setReadDeadline(frameLengthLen+n, c.srv.opts.FrameTimeout+time.Duration(n)*time.Second/minFrameRate); err != nil {
			return err
		}
		head, err := peekFrameHead(c.br)
		if err != nil {
			return err
		}
		a := c.srv.apis.lookup(head.key)
		if err := c.admit(a, head, n); err != nil {
			return err
		}
		cl := &call{session: &c.session, frameHead: head, budget: min(a.weight(n), c.srv.opts.RequestMemory)}
		if err := c.srv.requestBytes.Acquire(ctx, cl.budget); err != nil {
			return err
		}
		if cl.frame, err = readFrame(c.br, n); err != nil {
			cl.end()
			return err
		}
		if err := c.start(ctx, a, cl); err != nil {
			return err
		}
	}
}

// minFrameRate is how fast a frame has to arrive, in bytes a second, on top of
// FrameTimeout.
const minFrameRate = 64 << 10

// awaitFrame waits for the next frame's length. A connection with requests in flight is
// not idle, however long they take.
func (c *conn) awaitFrame() (int, error) {
	for {
		if err := c.setReadDeadline(frameLengthLen, c.srv.opts.IdleTimeout); err != nil {
			return 0, err
		}
		n, err := peekFrameLength(c.br, c.srv.opts.MaxRequestBytes)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if c.srv.isStopping() {
			return 0, errStopping
		}
		c.mu.Lock()
		idle := len(c.pending) == 0
		c.mu.Unlock()
		if idle {
			return 0, errIdle
		}
	}
}

// setReadDeadline sets the deadline for the next n bytes, unless they are here already:
// in a pipeline of small requests that saves two looks at the clock for each. When the
// server is stopping, its own deadline (now) must win.
func (c *conn) setReadDeadline(n int, d time.Duration) error {
	if c.br.Buffered() < n {
		if err := c.nc.SetReadDeadline(time.Now().Add(d)); err != nil {
			return err
		}
	}
	if c.srv.isStopping() {
		return errStopping
	}
	return nil
}

// admit decides by its first bytes whether a frame is worth reading.
func (c *conn) admit(a *api, head frameHead, n int) error {
	if a == nil || !a.serves(head.version) && a.key != kmsg.ApiVersions {
		return fmt.Errorf("%w: %s (key %d) version %d", errUnsupported, kmsg.NameForKey(head.key), head.key, head.version)
	}
	limit := c.srv.opts.MaxOtherRequestBytes
	switch {
	case a.is(hasRecords):
		limit = c.srv.opts.MaxRequestBytes
	case !c.session.valid:
		limit = firstRequestBytes
	}
	if n > limit {
		return fmt.Errorf("%w: %d bytes of %s, want at most %d", errFrameLength, n, kmsg.NameForKey(head.key), limit)
	}
	return nil
}

// firstRequestBytes bounds a connection's first frame unless it is a Produce, which old
// clients send without any negotiation.
const firstRequestBytes = 64 << 10

// start decodes a request and hands it to its handler when its turn has come.
func (c *conn) start(ctx context.Context, a *api, cl *call) error {
	version := cl.version
	if !a.serves(version) { // only ApiVersions comes here: its answer needs the header alone
		version = 0
	}
	req := a.request(version)
	clientID, body, err := splitHeader(cl.frame.b, req.IsFlexible() && a.serves(cl.version))
	if err != nil {
		cl.end()
		return err
	}
	cl.clientID = string(clientID)
	if a.serves(cl.version) {
		if err := a.decode(req, body); err != nil {
			cl.end()
			return fmt.Errorf("decode %s version %d: %w", kmsg.NameForKey(cl.key), cl.version, err)
		}
	}
	switch {
	case a.is(hasRecords):
		cl.req = req
	case !a.is(keepsFrame):
		cl.frame.release()
		cl.frame = nil
	}
	c.session.valid = true
	if err := c.enqueue(ctx, cl, a.key == kmsg.Produce); err != nil {
		cl.end()
		return err
	}
	func() {
		defer cl.recover()
		a.handle(ctx, cl, req)
	}()
	return nil
}

// enqueue waits for the call's turn and appends it to the pending calls.
func (c *conn) enqueue(ctx context.Context, cl *call, produce bool) error {
	for {
		c.mu.Lock()
		n := len(c.pending)
		switch {
		case c.closed:
			c.mu.Unlock()
			return context.Canceled
		case n == 0, produce && c.produceOnly && n < c.srv.opts.MaxInFlight && c.pendingBytes < c.srv.opts.MaxInFlightBytes:
			c.produceOnly = produce && (n == 0 || c.produceOnly)
			c.pending = append(c.pending, cl)
			c.pendingBytes += int(cl.budget)
			c.mu.Unlock()
			return nil
		}
		c.mu.Unlock()
		select {
		case <-c.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// finish records a call's outcome. It never blocks.
func (c *conn) finish(cl *call, resp kmsg.Response, raw *rawReply) {
	c.mu.Lock()
	if cl.done {
		c.mu.Unlock()
		if raw != nil && raw.release != nil {
			raw.release()
		}
		return
	}
	cl.done, cl.resp, cl.raw = true, resp, raw
	closed := c.closed
	first := !closed && c.pending[0] == cl
	c.mu.Unlock()
	if closed {
		cl.end()
		return
	}
	if first {
		signal(c.wake)
	}
}

// end gives back what the call holds. It is called once: by the writer, or by whoever
// finds the connection closed.
func (c *call) end() {
	c.frame.release()
	c.frame = nil
	if c.raw != nil && c.raw.release != nil {
		c.raw.release()
	}
	if p, ok := c.req.(*kmsg.ProduceRequest); ok {
		producePool.Put(p)
	}
	c.raw, c.resp, c.req = nil, nil, nil
	c.srv.requestBytes.Release(c.budget)
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
