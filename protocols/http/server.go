// Package httpd is the HTTP listener: health checks, metrics and profiles, and later
// the REST interface. It serves every request with bounded time and memory and
// promises that Close leaves no connection and no running handler behind.
//
//	GET /health/live     200 while the process runs
//	GET /health/ready    200 when it can serve, else 503 and the reasons
//	GET /metrics         Prometheus metrics
//	GET /debug/pprof/    profiles of the process, to clients on this machine only
package httpd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
)

// Limits of the listener. ReadTimeout covers a request from its first byte to its
// last, so a client that trickles bytes is cut off by it too. There is no
// WriteTimeout below a minute because a CPU profile takes 30 s by default.
const (
	readTimeout  = 10 * time.Second
	writeTimeout = time.Minute
	idleTimeout  = time.Minute
	maxConns     = 1024
	maxHeader    = 16 << 10 // bytes; fasthttp bounds headers by its read buffer
	maxBody      = 64 << 10 // bytes; nothing here takes a body yet
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
}

// Server is an HTTP listener and its connections.
type Server struct {
	opts    Options
	http    *fasthttp.Server
	routes  map[string]fasthttp.RequestHandler
	answers *prometheus.CounterVec // by status code

	mu     sync.Mutex
	conns  map[net.Conn]fasthttp.ConnState // guarded by mu: open connections
	closed bool                            // guarded by mu: Close was called
}

// New makes a server that answers once Serve runs. It owns the listener from now on.
func New(o Options) *Server {
	s := &Server{
		opts:  o,
		conns: map[net.Conn]fasthttp.ConnState{},
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "polylog_http_requests_total", Help: "HTTP requests answered, by status code.",
		}, []string{"code"}),
	}
	o.Registry.MustRegister(s.answers)
	s.routes = s.table()
	s.http = &fasthttp.Server{
		Handler:               s.handle,
		ErrorHandler:          s.refuse,
		ConnState:             s.track,
		Logger:                printfLogger{o.Logger},
		Name:                  "polylog",
		ReadTimeout:           readTimeout,
		WriteTimeout:          writeTimeout,
		IdleTimeout:           idleTimeout,
		Concurrency:           maxConns,
		ReadBufferSize:        maxHeader,
		MaxRequestBodySize:    maxBody,
		CloseOnShutdown:       true,
		ReduceMemoryUsage:     true, // idle keep-alive connections hold no buffers
		SecureErrorLogMessage: true,
		// A client that asks "Expect: 100-continue" is told at once that there is
		// nothing to continue with, before it sends a body.
		ExpectHandler: func(*fasthttp.RequestCtx) int { return fasthttp.StatusExpectationFailed },
	}
	return s
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
