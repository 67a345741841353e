// Package nsq is the HTTP interface of nsqd, for programs that publish by POST to /pub and /mpub, and for
// scripts that make topics and channels: the same paths, answers and words of refusal. A topic of
// NSQ's is a topic; a channel is a subscription, which the REST interface and webhooks read.
// docs/nsq.md says where it differs.
package nsq

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"polylog/core"
	"polylog/protocols/http/front"
	"polylog/router"
)

// Options is what a Server needs.
type Options struct {
	Listener   net.Listener
	Router     *router.Router
	Logger     *slog.Logger
	Registerer prometheus.Registerer // of metrics; nil for none
	Clients    *router.Clients       // that connections are listed in; nil: none are
	Ready      func() []string       // why the broker cannot serve now; nil: it always can
	Clock      func() time.Time      // of messages; time.Now when nil
	Version    string                // of the program

	MaxBody    int   // of a request, in bytes; 16 MiB when 0
	BodyMemory int64 // of all requests at work; 128 MiB when 0
}

// Server serves the interface.
type Server struct {
	opts    Options
	router  *router.Router
	front   *front.Server
	gate    *front.Gate
	answers *prometheus.CounterVec // by status code
	turn    atomic.Uint32          // of messages: they have no keys
	started time.Time
}

// New makes a server that answers once Serve runs. It owns the listener from now on.
func New(o Options) (*Server, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Ready == nil {
		o.Ready = func() []string { return nil }
	}
	s := &Server{opts: o, router: o.Router, gate: front.NewGate(), started: o.Clock()}
	s.answers = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "polylog_nsq_requests_total", Help: "Requests to the NSQ interface answered, by status code.",
	}, []string{"code"})
	if o.Registerer != nil {
		if err := o.Registerer.Register(s.answers); err != nil {
			return nil, err
		}
	}
	s.front = front.New(front.Options{
		Listener: o.Listener, Handle: s.handle, Refuse: refuse, Logger: o.Logger, MaxBody: o.MaxBody, BodyMemory: o.BodyMemory,
		Answered:  front.CountBy(s.answers),
		Connected: s.connected,
	})
	return s, nil
}

// connected lists a connection.
func (s *Server) connected(nc net.Conn) (left func()) {
	return s.opts.Clients.AddHTTP("nsq", nc, s.opts.Clock())
}

// Serve answers requests until Close; it returns nil then.
func (s *Server) Serve() error { return s.front.Serve() }

// Close ends what waits and closes the connections. It may be called more than once.
func (s *Server) Close(ctx context.Context) error {
	s.gate.Close()
	return s.front.Close(ctx)
}

// route is a path's one method and who serves it.
type route struct {
	method string
	do     func(c *call) error
	open   bool // to anybody
}

// routes are the calls, by path.
var routes = map[string]route{
	"/ping":            {method: "GET", do: ping, open: true},
	"/info":            {method: "GET", do: info},
	"/pub":             {method: "POST", do: pub},
	"/mpub":            {method: "POST", do: mpub},
	"/topic/create":    {method: "POST", do: createTopic},
	"/topic/delete":    {method: "POST", do: deleteTopic},
	"/topic/empty":     {method: "POST", do: emptyTopic},
	"/topic/pause":     {method: "POST", do: pauseTopic},
	"/topic/unpause":   {method: "POST", do: pauseTopic},
	"/channel/create":  {method: "POST", do: createChannel},
	"/channel/delete":  {method: "POST", do: deleteChannel},
	"/channel/empty":   {method: "POST", do: emptyChannel},
	"/channel/pause":   {method: "POST", do: pauseChannel},
	"/channel/unpause": {method: "POST", do: unpauseChannel},
	"/stats":           {method: "GET", do: stats},
}

// call is one request.
type call struct {
	*fasthttp.RequestCtx
	*Server
	principal router.Principal
	ctx       context.Context //nolint:containedctx // of the call
	budget    front.Budget
}

// handle answers what is a refusal itself: it is nothing to log.
func (s *Server) handle(ctx *fasthttp.RequestCtx) error {
	err := s.serve(ctx)
	if err != nil && isRefusal(err) {
		refuse(ctx, err)
		return nil
	}
	return err
}

func (s *Server) serve(ctx *fasthttp.RequestCtx) error {
	mark(ctx)
	r, ok := routes[string(ctx.URI().PathOriginal())]
	if !ok {
		return refusal{fasthttp.StatusNotFound, "NOT_FOUND", ""}
	}
	if string(ctx.Method()) != r.method {
		ctx.Response.Header.Set(fasthttp.HeaderAllow, r.method)
		return refusal{fasthttp.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", ""}
	}
	if err := front.SameOrigin(ctx); err != nil {
		return err
	}
	if !s.gate.Enter() {
		return errExiting
	}
	defer s.gate.Leave()
	c := &call{RequestCtx: ctx, Server: s, ctx: s.gate.Call(), budget: s.front.Budget()}
	defer c.budget.Release()
	if r.open {
		return r.do(c)
	}
	if err := c.login(); err != nil {
		return err
	}
	return r.do(c)
}

// login says who calls.
func (c *call) login() (err error) {
	if c.principal, err = front.LogIn[router.Principal](c.ctx, c.RequestCtx, c.router); core.KindOf(err) == core.Denied {
		return refusal{fasthttp.StatusUnauthorized, "AUTH_FAILED", err.Error()}
	}
	return err
}

// now is the time of messages, in ms.
func (c *call) now() int64 { return c.opts.Clock().UnixMilli() }

// may is nil when the caller has the right for op.
func (c *call) may(op router.Operation, kind router.ResourceKind, n core.Name) error {
	return c.router.Authorize(c.principal, op, router.Resource{Kind: kind, Name: n})
}

// answer sends v as JSON.
func (c *call) answer(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	send(c.RequestCtx, fasthttp.StatusOK, typeJSON, body)
	return nil
}

// answerOK answers as nsqd does what has been published.
func (c *call) answerOK() error {
	send(c.RequestCtx, fasthttp.StatusOK, typeText, []byte("OK"))
	return nil
}

// Content types of answers.
const (
	typeJSON = "application/json; charset=utf-8"
	typeText = "text/plain; charset=utf-8"
)

// send answers with the body as it is.
func send(ctx *fasthttp.RequestCtx, status int, contentType string, body []byte) {
	front.Send(ctx, status, contentType, nil)
	ctx.Response.SetBodyRaw(body)
}

// mark has an answer say what it is to clients of NSQ.
func mark(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.Set("X-NSQ-Content-Type", "nsq; version=1.0")
}
