package manage

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"polylog/core"
	"polylog/protocols/amqp"
	"polylog/protocols/http/front"
	"polylog/router"
)

// Listener is an address that the broker serves, for who lists them.
type Listener struct {
	Protocol string // as RabbitMQ calls it: amqp, http, mqtt, …
	Addr     netip.AddrPort
	TLS      bool
}

// Options is what a Server needs.
type Options struct {
	Listener  net.Listener
	Router    *router.Router
	AMQP      *amqp.Server
	Listeners func() []Listener
	Ready     func() []string // reasons why the broker cannot serve now
	Started   time.Time       // of the process
	Logger    *slog.Logger
	MaxBody   int // of a request, in bytes; 16 MiB when 0
}

// Server serves the API.
type Server struct {
	opts   Options
	router *router.Router
	front  *front.Server
	mux    front.Mux[route]

	maxNames int // maxNames; tests have less

	ctx  context.Context //nolint:containedctx // ends what waits when the server is closed
	stop context.CancelFunc
}

// New makes a server that answers once Serve runs. It owns the listener from now on.
func New(o Options) *Server {
	s := &Server{opts: o, router: o.Router, maxNames: maxNames}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.front = front.New(front.Options{Listener: o.Listener, Handle: s.handle, Refuse: refuse, Logger: o.Logger, MaxBody: o.MaxBody})
	for _, r := range routes {
		s.mux.Handle(r.method, "/api"+r.path, route{r.who, r.do})
	}
	return s
}

// Serve answers requests until Close; it returns nil then.
func (s *Server) Serve() error { return s.front.Serve() }

// Close ends what waits and closes the connections. It may be called more than once.
func (s *Server) Close(ctx context.Context) error {
	s.stop()
	return s.front.Close(ctx)
}

// handler serves a call. What it returns is answered as JSON with status 200; nil is nothing, with
// the status that it has set, or 204.
type handler func(c *call) (any, error)

// route is a call that there is.
type route struct {
	who caller
	do  handler
}

// call is one request.
type call struct {
	*fasthttp.RequestCtx
	*Server
	params    front.Params
	user      string
	password  string
	principal router.Principal
	ctx       context.Context //nolint:containedctx // of the call
	budget    front.Budget
}

// How long a call may take, and an import of definitions.
const (
	callTimeout   = 30 * time.Second
	importTimeout = 10 * time.Minute
)

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
	path := strings.TrimSuffix(string(ctx.URI().PathOriginal()), "/") // RabbitMQ's own client for Java ends some with it
	methods, ps, err := s.mux.Find(path)
	if err != nil {
		return err
	}
	method := string(ctx.Method())
	if method == fasthttp.MethodHead {
		method = fasthttp.MethodGet
	}
	to, ok := methods[method]
	if !ok {
		ctx.Response.Header.Set(fasthttp.HeaderAllow, front.Allowed(methods))
		if method == fasthttp.MethodOptions {
			return nil
		}
		return &refusal{status: 405, Kind: "method_not_allowed", Reason: "Method Not Allowed"}
	}
	if err := front.SameOrigin(ctx); err != nil {
		return err
	}
	for _, p := range ps {
		if err := short(p.Value); err != nil {
			return err
		}
	}
	c := &call{RequestCtx: ctx, Server: s, params: ps, budget: s.front.Budget()}
	var cancel context.CancelFunc
	c.ctx, cancel = context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	if err := c.login(); err != nil {
		return err
	}
	if err := c.check(to.who); err != nil {
		return err
	}
	defer c.budget.Release()
	v, err := to.do(c)
	if err != nil {
		return err
	}
	if v == nil {
		if ctx.Response.StatusCode() == fasthttp.StatusOK {
			ctx.SetStatusCode(fasthttp.StatusNoContent)
		}
		return nil
	}
	if v, err = c.selected(v); err != nil {
		return err
	}
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	front.Send(ctx, fasthttp.StatusOK, "application/json", body)
	return nil
}

// may reports whether the user may see something.
func (c *call) may(kind router.ResourceKind, n core.Name) bool {
	return c.router.Authorize(c.principal, router.OpDescribe, router.Resource{Kind: kind, Name: n}) == nil
}

// node is this node's name, as RabbitMQ would have it.
func (s *Server) node() string { return nodeName(s.router.Cluster().NodeID) }

func nodeName(id string) string { return "polylog@" + id }

// created answers 201 for what is new, else 204.
func (c *call) created(is bool) (any, error) {
	if is {
		c.SetStatusCode(fasthttp.StatusCreated)
	} else {
		c.SetStatusCode(fasthttp.StatusNoContent)
	}
	return nil, nil
}

// flag is whether a query argument is "true".
func (c *call) flag(name string) bool { return string(c.QueryArgs().Peek(name)) == "true" }
