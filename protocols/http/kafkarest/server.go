package kafkarest

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"polylog/core"
	"polylog/protocols/http/front"
	"polylog/protocols/kafka"
	"polylog/router"
)

// Options is what a Server needs.
type Options struct {
	Listener   net.Listener
	Router     *router.Router
	Kafka      *kafka.Server // coordinates the groups, or knows the way there
	Advertised string        // host:port in base_uri; empty: what the client called it
	Logger     *slog.Logger
	Registerer prometheus.Registerer // of metrics; nil for none
	Clients    *router.Clients       // that connections are listed in; nil: none are
	Clock      func() time.Time      // of records; time.Now when nil

	MaxBody         int           // of a request, in bytes; 16 MiB when 0
	BodyMemory      int64         // of all requests and answers at work; 128 MiB when 0
	InstanceTimeout time.Duration // of consumer instances that nobody asks anything; 5 min when 0
	MaxInstances    int           // consumer instances of this node; 1,000 when 0
}

func (o *Options) ensureDefaults() {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.InstanceTimeout == 0 {
		o.InstanceTimeout = 5 * time.Minute
	}
	if o.MaxInstances == 0 {
		o.MaxInstances = 1000
	}
}

// Server serves the API.
type Server struct {
	opts      Options
	router    *router.Router
	front     *front.Server
	mux       front.Mux[handler]
	instances instances
	answers   *prometheus.CounterVec // by version and status code
	turn      atomic.Uint32          // of records without a key
	gate      *front.Gate
}

// New makes a server that answers once Serve runs. It owns the listener from now on.
func New(o Options) (*Server, error) {
	o.ensureDefaults()
	s := &Server{opts: o, router: o.Router, gate: front.NewGate()}
	s.instances.init(s)
	s.answers = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "polylog_kafka_rest_requests_total", Help: "Requests to the Kafka REST interface answered, by status code.",
	}, []string{"code"})
	if o.Registerer != nil {
		open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "polylog_kafka_rest_instances", Help: "Consumer instances of the Kafka REST interface on this node.",
		}, func() float64 { return float64(s.instances.count()) })
		for _, c := range []prometheus.Collector{s.answers, open} {
			if err := o.Registerer.Register(c); err != nil {
				return nil, err
			}
		}
	}
	s.front = front.New(front.Options{
		Listener: o.Listener, Handle: s.handle, Refuse: refuse, Logger: o.Logger, MaxBody: o.MaxBody, BodyMemory: o.BodyMemory,
		Answered:  front.CountBy(s.answers),
		Connected: s.connected,
	})
	for _, r := range routes {
		s.mux.Handle(r.method, r.path, r.do)
	}
	return s, nil
}

// connected lists a connection.
func (s *Server) connected(nc net.Conn) (left func()) {
	return s.opts.Clients.AddHTTP("kafka-rest", nc, s.opts.Clock())
}

// Serve answers requests until Close; it returns nil then.
func (s *Server) Serve() error { return s.front.Serve() }

// Close ends what waits, has the consumer instances leave their groups, and closes the
// connections. It may be called more than once.
func (s *Server) Close(ctx context.Context) error {
	s.gate.Close()
	s.instances.closeAll(ctx)
	return s.front.Close(ctx)
}

// handler serves a call.
type handler func(c *call) error

// call is one request.
type call struct {
	*fasthttp.RequestCtx
	*Server
	params    front.Params
	principal router.Principal
	ctx       context.Context //nolint:containedctx // of the call
	budget    front.Budget
	kept      bool // the call goes on after its handler: release is called later
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
	path := string(ctx.URI().PathOriginal())
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/") // which clients of the original may send
	}
	if path == "/" {
		return answerEmpty(ctx)
	}
	methods, ps, err := s.mux.Find(path)
	if err != nil {
		if p := front.ProblemOf(err); p.Status == fasthttp.StatusNotFound {
			return &refusal{404, "HTTP 404 Not Found"}
		}
		return err
	}
	method := string(ctx.Method())
	if method == fasthttp.MethodHead {
		method = fasthttp.MethodGet
	}
	do, ok := methods[method]
	if !ok {
		ctx.Response.Header.Set(fasthttp.HeaderAllow, front.Allowed(methods))
		return &refusal{405, "HTTP 405 Method Not Allowed"}
	}
	if err := front.SameOrigin(ctx); err != nil {
		return err
	}
	if !s.gate.Enter() {
		return errNotReady
	}
	c := &call{RequestCtx: ctx, Server: s, params: ps, ctx: s.gate.Call(), budget: s.front.Budget()}
	defer func() {
		if !c.kept {
			c.release()
		}
	}()
	if err := c.login(); err != nil {
		return err
	}
	return do(c)
}

// release gives back what the call holds.
func (c *call) release() {
	c.budget.Release()
	c.gate.Leave()
}

// login says who calls.
func (c *call) login() (err error) {
	if c.principal, err = front.LogIn[router.Principal](c.ctx, c.RequestCtx, c.router); core.KindOf(err) == core.Denied {
		return &refusal{codeUnauthorized, err.Error()}
	}
	return err
}

// may is nil when the caller has the right for op.
func (c *call) may(op router.Operation, kind router.ResourceKind, n core.Name) error {
	return c.router.Authorize(c.principal, op, router.Resource{Kind: kind, Name: n})
}

// topicName is a topic's name where Kafka's clients find it.
func topicName(name string) core.Name {
	return core.Name{Namespace: core.DefaultNamespace, Name: name}
}

// decode reads the body into v, which is a pointer to a struct. An empty body leaves it as it is;
// any says whether there was one.
func (c *call) decode(limit int, v any) (any bool, err error) {
	b, err := c.budget.Body(c.ctx, c.RequestCtx, limit)
	if err != nil || len(b) == 0 {
		return false, err
	}
	if front.MoreThan(b, maxRecords+8, 2) { // of records, and of what is beside them
		return true, errRecords
	}
	return true, decodeJSON(b, v)
}

// answer sends v as JSON.
func (c *call) answer(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	front.Send(c.RequestCtx, status, answerType(c.RequestCtx), body)
	return nil
}

// noContent answers that it is done.
func (c *call) noContent() error {
	c.SetStatusCode(fasthttp.StatusNoContent)
	return nil
}

// answerEmpty is the root, which is there to see whether the server is.
func answerEmpty(ctx *fasthttp.RequestCtx) error {
	front.Send(ctx, fasthttp.StatusOK, typeV2, []byte("{}"))
	return nil
}
