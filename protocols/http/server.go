// Package httpd is the HTTP listener: the REST interface, health checks, metrics and
// profiles. It serves every request with bounded time and memory and promises that Close
// leaves no connection and no running handler behind.
//
//	/v1/…                topics, queues and their messages: docs/http.md
//	POST /hooks/…        other people's webhooks
//	/console/            the console; / leads there
//	GET /openapi.json    the same for machines: OpenAPI 3.1
//	GET /health/live     200 while the process runs
//	GET /health/ready    200 when it can serve, else 503 and the reasons
//	GET /metrics         Prometheus metrics
//	GET /metrics/detail  those of single topics, queues and groups
//	GET /debug/pprof/    profiles of the process, to clients on this machine only
//
// A request's way: serve (route.go) finds who serves it, by the path as it was sent; below
// /v1 serveAPI (api.go) makes a call of it, whose handler reads the body (body.go) and
// returns an error that becomes a problem. Package front has the listener itself.
package httpd

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"polylog/protocols/http/console"
	"polylog/protocols/http/front"
	"polylog/router"
	"polylog/router/admin"
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
	Clients    *router.Clients  // that this node's connections are listed in; nil: none are
	Console    *console.Console // nil: there is none
	Version    string           // of the program
	// Health asks all nodes how they are; nil where this one does not.
	Health func(context.Context) (admin.Health, error)
	// Coordinator knows the members of Kafka's groups. It may be nil, or give nil.
	Coordinator func() Coordinator
}

// now is the time in ms.
func (o *Options) now() int64 { return o.Clock().UnixMilli() }

func (o *Options) ensureDefaults() {
	if o.Clock == nil {
		o.Clock = time.Now
	}
}

// Server is the HTTP listener and what it serves.
type Server struct {
	opts    Options
	front   *front.Server
	routes  map[string]fasthttp.RequestHandler
	answers *prometheus.CounterVec // by status code
	hooked  *prometheus.CounterVec // webhooks that came in, by what became of them
	calls   *front.Mux[handler]
	api     atomic.Pointer[api] // nil: not open yet
	turn    atomic.Uint32       // of messages without a key
	started time.Time
	history history
}

// New makes a server that answers once Serve runs. It owns the listener from now on.
func New(o Options) *Server {
	o.ensureDefaults()
	s := &Server{
		opts:  o,
		calls: endpoints(),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "polylog_http_requests_total", Help: "HTTP requests answered, by status code.",
		}, []string{"code"}),
	}
	s.hooked = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "polylog_hook_requests_total", Help: "Webhooks that came to hooks, by what became of them.",
	}, []string{"outcome"})
	o.Registry.MustRegister(s.answers, s.hooked)
	s.routes, s.started = s.table(), o.Clock()
	s.history.gather, s.history.clock = o.Registry, o.Clock
	s.front = front.New(front.Options{
		Listener: o.Listener, Handle: s.serve, Logger: o.Logger, MaxBody: o.MaxBody, BodyMemory: o.BodyMemory,
		Answered:  front.CountBy(s.answers),
		Connected: s.connected,
	})
	return s
}

// connected lists a connection.
func (s *Server) connected(nc net.Conn) (left func()) {
	return s.opts.Clients.AddHTTP("http", nc, s.opts.Clock())
}

// Serve answers requests until Close; it returns nil then.
func (s *Server) Serve() error { return s.front.Serve() }

// Close stops accepting, lets running requests finish until ctx ends, and then closes
// their connections. It may be called more than once.
func (s *Server) Close(ctx context.Context) error {
	s.CloseAPI()
	return s.front.Close(ctx)
}

func (s *Server) coordinator() Coordinator {
	if s.opts.Coordinator == nil {
		return nil
	}
	return s.opts.Coordinator()
}
