// Package front is what every HTTP listener of the broker is made of: fasthttp with bounds of time,
// memory and connections that hold against slow, large and malformed requests, paths that are
// decoded once, bodies within a budget that all connections share, and refusals as RFC 9457 has
// them. It knows no interface; handlers are given to it.
//
// fasthttp uses its buffers again as soon as a handler returns, so whatever outlives the call is
// copied first.
package front

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/semaphore"

	"polylog/core"
)

// Limits of a listener. ReadTimeout covers a request from its first byte to its
// last, so a client that trickles bytes is cut off by it too; a large body gets time by its
// length. There is no WriteTimeout below a minute because a CPU profile takes 30 s by default.
const (
	readTimeout  = 10 * time.Second
	writeTimeout = time.Minute
	idleTimeout  = time.Minute
	maxConns     = 4096
	MaxHeader    = 16 << 10 // bytes; fasthttp bounds headers by its read buffer
	// closeGrace is how long Close waits for handlers whose connections it closed.
	closeGrace = time.Second
)

// Options is what a Server needs.
type Options struct {
	Listener net.Listener
	// Handle serves a request. Its error is refused by Refuse; one of kind Internal that is no
	// Problem is logged, and so is a panic.
	Handle func(ctx *fasthttp.RequestCtx) error
	// Refuse answers with an error. RefuseWith when nil.
	Refuse func(ctx *fasthttp.RequestCtx, err error)
	// Answered is called with the status of every answer, if it is not nil.
	Answered func(status int)
	// Connected is told of every connection; what it gives is called at its end. It may be nil.
	Connected func(net.Conn) (left func())
	Logger    *slog.Logger
	// MaxBody bounds a request's body, in bytes; BodyMemory those of all requests at work.
	// 16 MiB and 128 MiB when 0.
	MaxBody    int
	BodyMemory int64
}

func (o *Options) ensureDefaults() {
	if o.MaxBody == 0 {
		o.MaxBody = 16 << 20
	}
	if o.BodyMemory == 0 {
		o.BodyMemory = 128 << 20
	}
	o.BodyMemory = max(o.BodyMemory, int64(o.MaxBody)+1) // one is let in always
	if o.Refuse == nil {
		o.Refuse = RefuseWith
	}
	if o.Answered == nil {
		o.Answered = func(int) {}
	}
	if o.Connected == nil {
		o.Connected = func(net.Conn) func() { return func() {} }
	}
}

// Server is an HTTP listener and its connections.
type Server struct {
	opts      Options
	http      *fasthttp.Server
	bodies    *semaphore.Weighted // bytes of bodies
	strangers *semaphore.Weighted // those of StrangerBudget, a quarter more

	mu     sync.Mutex
	conns  map[net.Conn]tracked // guarded by mu: open connections
	closed bool                 // guarded by mu: Close was called
}

// tracked is what is known of an open connection.
type tracked struct {
	state fasthttp.ConnState
	left  func()
}

// New makes a server that answers once Serve runs. It owns the listener from now on.
func New(o Options) *Server {
	o.ensureDefaults()
	s := &Server{opts: o, bodies: semaphore.NewWeighted(o.BodyMemory), strangers: semaphore.NewWeighted(max(o.BodyMemory/4, int64(o.MaxBody)+1)), conns: map[net.Conn]tracked{}}
	s.http = &fasthttp.Server{
		Handler:                      s.ServeRequest,
		ErrorHandler:                 s.unreadable,
		ConnState:                    s.track,
		Logger:                       printfLogger{o.Logger},
		Name:                         "polylog",
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		Concurrency:                  maxConns,
		ReadBufferSize:               MaxHeader,
		StreamRequestBody:            true, // the limits are ours: see body.go
		HeaderReceived:               s.timeFor,
		CloseOnShutdown:              true,
		ReduceMemoryUsage:            true, // idle keep-alive connections hold no buffers
		SecureErrorLogMessage:        true,
		ExpectHandler:                s.expect,
		DisablePreParseMultipartForm: true,
	}
	return s
}

// MaxBody is the most that a request's body may have, in bytes.
func (s *Server) MaxBody() int { return s.opts.MaxBody }

// timeFor gives a body time by its length.
func (s *Server) timeFor(h *fasthttp.RequestHeader) (c fasthttp.RequestConfig) {
	if n := h.ContentLength(); n > bodyRate && n <= s.opts.MaxBody {
		c.ReadTimeout = readTimeout + time.Duration(n/bodyRate)*time.Second
	}
	return c
}

// expect answers a client that asks before it sends a body: a body that is too large is
// refused before it is sent.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	if ctx.Request.Header.ContentLength() <= s.opts.MaxBody {
		return fasthttp.StatusContinue
	}
	s.opts.Refuse(ctx, core.E(core.TooLarge, "the body has more than %d bytes", s.opts.MaxBody))
	return fasthttp.StatusRequestEntityTooLarge
}

// ServeRequest is every request's way in. A panic in a handler would end the process, for
// fasthttp does not catch it: it becomes a 500 here.
func (s *Server) ServeRequest(ctx *fasthttp.RequestCtx) {
	defer func() {
		if p := recover(); p != nil {
			s.opts.Logger.Error("http handler panicked", "path", string(ctx.URI().PathOriginal()), "panic", p, "stack", string(debug.Stack()))
			s.opts.Refuse(ctx, core.E(core.Internal, "panic"))
		}
		s.opts.Answered(ctx.Response.StatusCode())
	}()
	if err := s.opts.Handle(ctx); err != nil {
		if core.KindOf(err) == core.Internal && !isProblem(err) {
			s.opts.Logger.Error("http request failed", "method", string(ctx.Method()), "path", string(ctx.URI().PathOriginal()), "err", err)
		}
		s.opts.Refuse(ctx, err)
	}
}

// unreadable answers a request that could not be read. fasthttp answers 400 to everything
// but long headers.
func (s *Server) unreadable(ctx *fasthttp.RequestCtx, err error) {
	p := Problem{Status: 400, Code: "bad_request", Detail: "the request is malformed"}
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		p = Problem{Status: 408, Code: "too_slow", Detail: "the request did not come in time", Retryable: true}
	}
	if small := (*fasthttp.ErrSmallBuffer)(nil); errors.As(err, &small) {
		p = Problem{Status: 431, Code: "headers_too_large", Detail: fmt.Sprintf("the headers have more than %d bytes", MaxHeader)}
	}
	s.opts.Refuse(ctx, &p)
	s.opts.Answered(p.Status)
}

// Serve answers requests until Close; it returns nil then.
func (s *Server) Serve() error {
	err := s.http.Serve(s.opts.Listener)
	if err == nil || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("http listener %s: %w", s.opts.Listener.Addr(), err)
}

// Close stops accepting, lets running requests finish until ctx ends, and then closes
// their connections. It may be called more than once.
func (s *Server) Close(ctx context.Context) error {
	err := s.opts.Listener.Close() // Serve may never have been called
	s.closeConns(false)
	if s.http.ShutdownWithContext(ctx) != nil {
		s.closeConns(true)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer cancel()
		// Its error says that a handler still runs; there is nothing more to close.
		_ = s.http.ShutdownWithContext(grace)
	}
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// track keeps the set of connections, which fasthttp does not: its own shutdown waits
// for a client that has connected and says nothing until the read timeout.
func (s *Server) track(c net.Conn, state fasthttp.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == fasthttp.StateClosed || state == fasthttp.StateHijacked {
		if t, ok := s.conns[c]; ok {
			t.left()
			delete(s.conns, c)
		}
		return
	}
	t, ok := s.conns[c]
	if !ok {
		t.left = s.opts.Connected(c)
	}
	t.state = state
	s.conns[c] = t
	if s.closed && state != fasthttp.StateActive {
		_ = c.Close()
	}
}

// closeConns closes the connections that have no request running, or all of them.
func (s *Server) closeConns(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c, t := range s.conns {
		if all || t.state != fasthttp.StateActive {
			_ = c.Close()
		}
	}
}

// printfLogger takes fasthttp's remarks about its connections.
type printfLogger struct{ log *slog.Logger }

func (l printfLogger) Printf(format string, args ...any) {
	l.log.Debug("http connection", "detail", fmt.Sprintf(format, args...))
}
