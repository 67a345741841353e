package amqp

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

var (
	errStopping    = errors.New("server is stopping")
	errClientEnded = errors.New("the client closed the connection")
	errRefused     = errors.New("the client was refused")
	errSilent      = errors.New("nothing was heard from the client for too long")
	errTimeout     = errors.New("the client took too long")
	errPanic       = errors.New("a handler panicked")
	errNotAMQP     = errors.New("not AMQP 0-9-1")
)

// readBufferSize is small, for there is one for each connection; bodies that do not fit are
// read past it.
const readBufferSize = 16 << 10

// conn is one connection. What has no comment is the reader goroutine's own, or does not
// change once the connection is open.
type conn struct {
	srv    *Server
	nc     net.Conn
	br     *bufio.Reader
	log    *slog.Logger
	inside bool                    // it is this process's own
	name   string                  // unique in the cluster and over time
	cancel context.CancelCauseFunc // ends the connection's context
	wg     sync.WaitGroup          // the writer, and what async started

	principal  router.Principal
	leave      func() // from those whose login is watched; nil: it has not logged in
	user       shown
	host       string // that the client came from; see hostOf
	subject    string // of the certificate that the client has shown; see certs.Subject
	phase      phase
	vhost      string // as the client calls it
	namespace  string
	caps       capabilities
	frameMax   int
	channelMax int
	opened     bool // connection.open was answered
	connected  time.Time
	properties message.Table // that the client gave
	clientName string        // that the client gave the connection
	listed     func()        // takes it off the list of clients; nil: it is not there

	decoder   spec.Decoder
	incoming  incoming            // the message that is being published; it aliases nothing between two
	channels  map[uint16]*channel // changed under out.mu, for the sweep and for who lists them
	announced int                 // bytes of the bodies that are being received in several frames, once they are whole

	out      output
	flight   flight
	heart    heart
	deadline atomic.Int64           // ns since the epoch when the connection is cut off; 0: never
	where    atomic.Pointer[string] // the namespace once the connection is open
	blocked  atomic.Bool            // the client was told that it is blocked

	connState
}

func newConn(srv *Server, nc net.Conn, name string, cancel context.CancelCauseFunc) *conn {
	c := &conn{
		srv:      srv,
		nc:       nc,
		name:     name,
		cancel:   cancel,
		host:     hostOf(nc),
		log:      srv.log.With("client", nc.RemoteAddr().String()),
		frameMax: handshakeFrameMax,
		channels: map[uint16]*channel{},

		connected: srv.opts.Clock(),
	}
	_, c.inside = nc.(insideConn)
	c.heart.init(nc)
	c.br = bufio.NewReaderSize(&c.heart, readBufferSize)
	c.out.init()
	c.flight.init(&srv.memory, int64(srv.opts.MaxInFlightBytes))
	return c
}

// serve runs the connection to its end and waits for everything that it started. ctx is what
// c.cancel cancels.
func (c *conn) serve(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = c.nc.Close() }) // unblocks reader and writer; TLS may say goodbye first
	c.heart.onStop = func() error { return c.shutDown(ctx) }
	c.cutOffAfter(c.srv.opts.HandshakeTimeout)
	var writing sync.WaitGroup
	writing.Go(func() { c.write(ctx) })
	err := c.run(ctx)
	if c.listed != nil {
		c.listed()
	}
	if c.leave != nil {
		c.leave()
	}
	c.log.Log(ctx, c.level(err), "amqp connection closed", "name", c.name, "reason", err)

	c.endAll(ctx)
	c.cutOffAfter(c.srv.opts.CloseTimeout)
	c.out.finish()
	writing.Wait()
	c.cancel(err)
	c.wg.Wait()
	stop()
	_ = c.nc.Close()
}

// run reads until there is nothing more to read, and says why.
func (c *conn) run(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			c.log.Error("amqp handler panicked", "panic", r, "stack", string(debug.Stack()))
			c.close(hard(spec.InternalError, "see the broker's log"))
			err = errPanic
		}
	}()
	if err := c.greet(); err != nil {
		return err
	}
	for {
		if err := c.next(ctx); err != nil {
			return err
		}
	}
}

// endAll ends the channels and what belongs to the connection. It returns the queues that may
// have gone with the consumers.
func (c *conn) endAll(ctx context.Context) (left []core.QueueID) {
	c.out.mu.Lock()
	c.out.ended = true
	c.out.mu.Unlock()
	for _, ch := range c.channels {
		ch.finish()
		ch.endContent()
		left = append(left, ch.mayHaveGone()...)
	}
	c.out.mu.Lock()
	clear(c.channels)
	c.out.mu.Unlock()
	if c.opened {
		c.opened = false
		c.endState(context.WithoutCancel(ctx))
	}
	return left
}

// close tells the client why the connection ends. The reader goes on, deaf to everything but
// the answer. Anybody may call it; the first reason counts.
func (c *conn) close(e *protocolError) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	if c.isClosing() {
		return
	}
	c.cutOffAfter(c.srv.opts.CloseTimeout)
	c.out.endLocked(e.connectionClose())
	c.srv.metrics.closed(e)
	c.log.Info("amqp connection is being closed", "name", c.name, "code", int(e.code), "text", e.Error(), "method", e.method.String())
}

// isClosing reports whether connection.close was sent.
func (c *conn) isClosing() bool { return c.out.closed.Load() }

// abort ends the connection at once, without a word.
func (c *conn) abort(err error) {
	nc := c.nc
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // nobody waits for what was not sent
	}
	c.cancel(err)
}

// async runs fn on a goroutine of its own, with which the connection does not end before it
// has ended. ctx ends with the connection. When the connection has ended already fn does not
// run.
func (c *conn) async(ctx context.Context, fn func(ctx context.Context)) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	if !c.out.ended {
		c.wg.Go(func() { fn(ctx) })
	}
}

// cutOffAfter sets the time after which the connection is aborted; the earliest one set
// counts, until d <= 0 takes it away.
func (c *conn) cutOffAfter(d time.Duration) {
	if d <= 0 {
		c.deadline.Store(0)
		return
	}
	at := time.Now().Add(d).UnixNano()
	if old := c.deadline.Load(); old == 0 || at < old {
		c.deadline.Store(at)
	}
}

// level is how much the end of a connection matters to whoever reads the log.
func (c *conn) level(err error) slog.Level {
	switch {
	case errors.Is(err, errClientEnded), errors.Is(err, errStopping), errors.Is(err, io.EOF) && !c.opened:
		return slog.LevelDebug
	case errors.Is(err, io.EOF), isNetwork(err):
		return slog.LevelInfo
	default:
		return slog.LevelWarn
	}
}

// isEnd reports whether an error is the end of the connection, of which the client cannot be
// told.
func isEnd(err error) bool {
	return errors.Is(err, errClientEnded) || errors.Is(err, errRefused) || errors.Is(err, errStopping) || errors.Is(err, io.EOF) || isNetwork(err)
}

func isNetwork(err error) bool {
	_, ok := errors.AsType[*net.OpError](err)
	return ok || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded)
}
