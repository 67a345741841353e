package kafka

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/router"
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
	since   time.Time
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
		since:  srv.opts.Clock(),
		cancel: cancel,
		br:     bufio.NewReaderSize(nc, readBufferSize),
		log:    srv.log.With("client", nc.RemoteAddr().String()),
		wake:   make(chan struct{}, 1),
		room:   make(chan struct{}, 1),
	}
	c.session = session{srv: srv, conn: c}
	who := &router.Principal{}
	if in, ok := nc.(insideConn); ok {
		who, c.session.inside = &in.caller.Principal, true
	} else if host, _, err := net.SplitHostPort(nc.RemoteAddr().String()); err == nil {
		who.Host = host
	}
	c.session.who.Store(who)
	return c
}

// serve runs the connection to its end and waits for everything that it started. ctx
// is what c.cancel cancels.
func (c *conn) serve(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = c.nc.Close() }) // unblocks reader and writer
	c.wg.Go(func() { c.write(ctx) })
	c.session.begin()
	err := c.read(ctx)
	c.session.login.end()
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
	case errors.Is(err, errRefused), errors.Is(err, errGone):
		c.log.Info("kafka connection closed", "reason", err)
	case errors.Is(err, io.EOF), errors.Is(err, errStopping), errors.Is(err, errIdle), errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe):
		c.log.Debug("kafka connection closed", "reason", err)
	case isNetwork(err):
		c.log.Debug("kafka connection lost", "reason", err)
	default:
		c.srv.metrics.broken.Add(1)
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
	c.srv.answerBytes.Release(c.answer.held)
	c.hold.release()
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
