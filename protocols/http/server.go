// Package httpd is the HTTP listener: the REST interface, health checks, metrics and
// profiles. It serves every request with bounded time and memory and promises that Close
// leaves no connection and no running handler behind.
//
//	/v1/…                topics, queues and their messages: docs/http.md
//	GET /openapi.json    the same for machines: OpenAPI 3.1
//	GET /health/live     200 while the process runs
//	GET /health/ready    200 when it can serve, else 503 and the reasons
//	GET /metrics         Prometheus metrics
//	GET /debug/pprof/    profiles of the process, to clients on this machine only
//
// A request's way: handle (route.go) finds who serves it, by the path as it was sent; below
// /v1 serveAPI (api.go) makes a call of it, whose handler reads the body (body.go) and
// returns an error that becomes a problem (problem.go). fasthttp uses its buffers again as
// soon as a handler returns, so whatever outlives the call is copied first.
package httpd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
	"golang.org/x/sync/semaphore"

	"polylog/core"
)

// Limits of the listener. ReadTimeout covers a request from its first byte to its
// last, so a client that trickles bytes is cut off by it too; a large body gets time by its
// length. There is no WriteTimeout below a minute because a CPU profile takes 30 s by default.
const (
	readTimeout  = 10 * time.Second
	writeTimeout = time.Minute
	idleTimeout  = time.Minute
	maxConns     = 4096
	maxHeader    = 16 << 10 // bytes; fasthttp bounds headers by its read buffer
	// closeGrace is how long Close waits for handlers whose connections it closed.
	closeGrace = time.Second
)

// Options is what a Server needs.
type Options struct {
	Listener net.Listener
	// Ready gives the reasons why the broker cannot serve now; none means ready.
	// It must not block.
	Ready    func() []string
	Registry *prometheus.Registry // served at /metrics; our own metrics join it
	Logger   *slog.Logger
	// MaxBody bounds a request's body, in bytes; BodyMemory those of all requests at work.
	// 16 MiB and 128 MiB when 0.
	MaxBody    int
	BodyMemory int64
	Clock      func() time.Time // of messages; time.Now when nil
}

// now is the time in ms.
func (o *Options) now() int64 { return o.Clock().UnixMilli() }

func (o *Options) ensureDefaults() {
	if o.MaxBody == 0 {
		o.MaxBody = 16 << 20
	}
	if o.BodyMemory == 0 {
		o.BodyMemory = 128 << 20
	}
	o.BodyMemory = max(o.BodyMemory, int64(o.MaxBody)+1) // one is let in always
	if o.Clock == nil {
		o.Clock = time.Now
	}
}

// Server is an HTTP listener and its connections.
type Server struct {
	opts    Options
	http    *fasthttp.Server
	routes  map[string]fasthttp.RequestHandler
	answers *prometheus.CounterVec // by status code
	calls   *mux[handler]
	api     atomic.Pointer[api] // nil: not open yet
	bodies  *semaphore.Weighted // bytes of bodies
	turn    atomic.Uint32       // of messages without a key

	mu     sync.Mutex
	conns  map[net.Conn]fasthttp.ConnState // guarded by mu: open connections
	closed bool                            // guarded by mu: Close was called
}

// New makes a server that answers once Serve runs. It owns the listener from now on.
func New(o Options) *Server {
	o.ensureDefaults()
	s := &Server{
		opts:   o,
		calls:  endpoints(),
		bodies: semaphore.NewWeighted(o.BodyMemory),
		conns:  map[net.Conn]fasthttp.ConnState{},
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "polylog_http_requests_total", Help: "HTTP requests answered, by status code.",
		}, []string{"code"}),
	}
	o.Registry.MustRegister(s.answers)
	s.routes = s.table()
	s.http = &fasthttp.Server{
		Handler:                      s.handle,
		ErrorHandler:                 s.refuse,
		ConnState:                    s.track,
		Logger:                       printfLogger{o.Logger},
		Name:                         "polylog",
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		Concurrency:                  maxConns,
		ReadBufferSize:               maxHeader,
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
	refuseWith(ctx, core.E(core.TooLarge, "the body has more than %d bytes", s.opts.MaxBody))
	return fasthttp.StatusRequestEntityTooLarge
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
	s.CloseAPI()
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
		delete(s.conns, c)
		return
	}
	s.conns[c] = state
	if s.closed && state != fasthttp.StateActive {
		_ = c.Close()
	}
}

// closeConns closes the connections that have no request running, or all of them.
func (s *Server) closeConns(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c, state := range s.conns {
		if all || state != fasthttp.StateActive {
			_ = c.Close()
		}
	}
}
