package httpd

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"polylog/core"
	"polylog/protocols/http/front"
	"polylog/protocols/http/webhook"
	"polylog/router"
)

// api is the data plane: everything below /v1. It is there while the broker serves.
type api struct {
	srv    *Server
	router *router.Router
	engine *webhook.Engine

	gate *front.Gate

	keepers keepers
	streams atomic.Int64 // connections that are streams
}

// Open begins to serve the data plane; until then, and after CloseAPI, its paths answer
// with 503.
func (s *Server) Open(r *router.Router, e *webhook.Engine) {
	a := &api{srv: s, router: r, engine: e, gate: front.NewGate()}
	if s.opts.Console != nil {
		s.opts.Console.SetUsers(consoleUsers{r})
	}
	s.api.Store(a)
	r.ServePeers(opsService, a.serveOps)
}

// CloseAPI ends what waits below /v1, streams too, and returns when no call is running. The
// router may be closed then. It may be called again, and without Open.
func (s *Server) CloseAPI() {
	a := s.api.Load()
	if a == nil {
		return
	}
	a.gate.Close()
	a.keepers.close()
	s.history.close()
}

// handler serves a call. Its error becomes a problem.
type handler func(c *call) error

// call is one request of the data plane.
type call struct {
	*fasthttp.RequestCtx
	*api
	params    front.Params
	namespace string
	principal router.Principal
	ctx       context.Context //nolint:containedctx // of the call
	digest    [32]byte        // of a body with messages, if there is an idempotency key
	budget    front.Budget
	turn      uint32          // of keyless; 0: not taken yet
	over      <-chan struct{} // of a stream: closed when the principal is not who it was
}

// endpoints are the calls of the data plane, by method and path.
func endpoints() *front.Mux[handler] {
	m := &front.Mux[handler]{}
	for _, prefix := range []string{"/v1", "/v1/namespaces/{namespace}"} {
		for _, e := range calls {
			m.Handle(e.method, prefix+e.path, e.do)
		}
	}
	receivers(m)
	for _, e := range userCalls {
		m.Handle(e.method, e.path, e.do)
	}
	for _, e := range adminCalls {
		m.Handle(e.method, e.path, e.do)
	}
	m.Handle("GET", detailPath, metricsDetail)
	m.Handle("GET", "/v1/namespaces", listNamespaces)
	m.Handle("PUT", "/v1/namespaces/{namespace}", putNamespace)
	m.Handle("DELETE", "/v1/namespaces/{namespace}", deleteNamespace)
	return m
}

// calls are the paths below a namespace.
var calls = []struct {
	method, path string
	do           handler
}{
	{"GET", "/topics", listTopics},
	{"GET", "/topics/{topic}", getTopic},
	{"PUT", "/topics/{topic}", putTopic},
	{"PATCH", "/topics/{topic}", patchTopic},
	{"DELETE", "/topics/{topic}", deleteTopic},
	{"GET", "/topics/{topic}/configs", getTopicConfigs},
	{"GET", "/topics/{topic}/readers", listReaders},
	{"GET", "/topics/{topic}/messages", browseTopic},
	{"POST", "/topics/{topic}/messages", publishToTopic},
	{"GET", "/topics/{topic}/messages/{message}", getMessage},
	{"GET", "/topics/{topic}/stream", streamTopic},

	{"GET", "/queues", listQueues},
	{"GET", "/queues/{queue}", getQueue},
	{"PUT", "/queues/{queue}", putQueue},
	{"DELETE", "/queues/{queue}", deleteQueue},
	{"POST", "/queues/{queue}:purge", purgeQueue},
	{"GET", "/queues/{queue}/messages", peekQueue},
	{"POST", "/queues/{queue}/messages", publishToQueue},
	{"POST", "/queues/{queue}:pull", pull},
	{"POST", "/queues/{queue}:ack", ack},
	{"POST", "/queues/{queue}:nack", nack},
	{"POST", "/queues/{queue}:extend", extend},
	{"POST", "/queues/{queue}:redrive", redrive},
	{"GET", "/queues/{queue}/ws", openSocket},

	{"GET", "/exchanges", listExchanges},
	{"GET", "/exchanges/{exchange}", getExchange},
	{"PUT", "/exchanges/{exchange}", putExchange},
	{"DELETE", "/exchanges/{exchange}", deleteExchange},
	{"GET", "/exchanges/{exchange}/bindings", listBindings},
	{"POST", "/exchanges/{exchange}/bindings", bind},
	{"DELETE", "/exchanges/{exchange}/bindings", unbind},
	{"POST", "/exchanges/{exchange}/messages", publishToExchange},

	{"GET", "/subscriptions", listSubscriptions},
	{"GET", "/subscriptions/{subscription}", getSubscription},
	{"PUT", "/subscriptions/{subscription}", putSubscription},
	{"DELETE", "/subscriptions/{subscription}", deleteSubscription},
	{"POST", "/subscriptions/{subscription}:pull", pull},
	{"POST", "/subscriptions/{subscription}:ack", ack},
	{"POST", "/subscriptions/{subscription}:nack", nack},
	{"POST", "/subscriptions/{subscription}:extend", extend},
	{"POST", "/subscriptions/{subscription}:seek", seekSubscription},
	{"POST", "/subscriptions/{subscription}:test", testPush},
	{"POST", "/subscriptions/{subscription}:rotate", rotateSecret},
	{"POST", "/subscriptions/{subscription}:enable", enablePush},
	{"POST", "/subscriptions/{subscription}:pause", pausePush},
	{"GET", "/subscriptions/{subscription}/attempts", listAttempts},
	{"GET", "/subscriptions/{subscription}/ws", openSocket},

	{"GET", "/hooks", listHooks},
	{"GET", "/hooks/{hook}", getHook},
	{"PUT", "/hooks/{hook}", putHook},
	{"DELETE", "/hooks/{hook}", deleteHook},
	{"POST", "/hooks/{hook}:rotate", rotateHook},

	{"GET", "/sessions", listSessions},
	{"GET", "/sessions/{client}", getSession},
	{"DELETE", "/sessions/{client}", deleteSession},

	{"GET", "/rights/{name}", getRights},
}

// serveAPI is every data plane request's way in.
func (s *Server) serveAPI(ctx *fasthttp.RequestCtx) error {
	methods, ps, err := s.calls.Find(string(ctx.URI().PathOriginal()))
	if err != nil {
		return err
	}
	method := string(ctx.Method())
	if method == fasthttp.MethodHead {
		method = fasthttp.MethodGet
	}
	do, ok := methods[method]
	if !ok {
		ctx.Response.Header.Set(fasthttp.HeaderAllow, front.Allowed(methods))
		return &problem{Status: 405, Code: "method_not_allowed", Detail: "this path takes " + front.Allowed(methods)}
	}
	if !strings.HasPrefix(string(ctx.URI().PathOriginal()), hooksPath) { // those say whom they believe
		if err := front.SameOrigin(ctx); err != nil {
			return err
		}
		if c := s.opts.Console; c != nil && (method != fasthttp.MethodGet || ctx.Request.Header.ConnectionUpgrade()) {
			if err := c.MayWrite(ctx); err != nil {
				return err
			}
		}
	}
	a := s.api.Load()
	if a == nil || !a.gate.Enter() {
		return &problem{Status: 503, Code: "not_ready", Detail: "the broker is starting or stopping", Retryable: true, RetryAfter: 1}
	}
	c := &call{RequestCtx: ctx, api: a, params: ps, namespace: ps.Get("namespace"), ctx: a.gate.Call(), budget: s.front.Budget()}
	if c.namespace == "" {
		c.namespace = core.DefaultNamespace
	}
	defer func() {
		c.budget.Release()
		a.gate.Leave()
	}()
	if strings.HasPrefix(string(ctx.URI().PathOriginal()), hooksPath) {
		c.principal.Host = front.Host(ctx)
	} else if err := c.logIn(); err != nil {
		return err
	}
	return do(c)
}

// name is a parameter as the name of an object in the call's namespace.
func (c *call) name(param string) core.Name {
	return core.Name{Namespace: c.namespace, Name: c.params.Get(param)}
}

// answer sends v as JSON.
func (c *call) answer(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	send(c.RequestCtx, status, "application/json", body)
	return nil
}

// noContent answers that it is done.
func (c *call) noContent() error {
	c.SetStatusCode(fasthttp.StatusNoContent)
	return nil
}

// number is a query argument, or def where it is not there.
func (c *call) number(name string, def, low, high int64) (int64, error) {
	text := c.QueryArgs().Peek(name)
	if text == nil {
		return def, nil
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < low || n > high {
		if high == math.MaxInt64 {
			return 0, invalid("%s=%.40q: want a whole number from %d on", name, text, low)
		}
		return 0, invalid("%s=%.40q: want a whole number from %d to %d", name, text, low, high)
	}
	return n, nil
}

// flag is a query argument that is true or false; without a value it is true.
func (c *call) flag(name string) (bool, error) {
	if !c.QueryArgs().Has(name) {
		return false, nil
	}
	text := string(c.QueryArgs().Peek(name))
	if text == "" {
		return true, nil
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		return false, invalid("%s=%.40q: want true or false", name, text)
	}
	return b, nil
}

// onlyQuery refuses query arguments that the call does not have: a misspelt one would
// otherwise be passed over.
func (c *call) onlyQuery(names ...string) error {
	for k := range c.QueryArgs().All() {
		known := false
		for _, n := range names {
			known = known || n == string(k)
		}
		if !known {
			return invalid("unknown query argument %.40q", k)
		}
	}
	return nil
}
