package httpd

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
	"github.com/valyala/fasthttp/pprofhandler"

	"polylog/core"
)

const profiles = "/debug/pprof/"

// table is what is served, by path.
func (s *Server) table() map[string]fasthttp.RequestHandler {
	return map[string]fasthttp.RequestHandler{
		"/health/live":  live,
		"/health/ready": s.ready,
		"/openapi.json": s.openAPI,
		"/metrics": fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(s.opts.Registry,
			promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4})),
		profiles: profile,
	}
}

// handle is every request's way in. A panic in a handler would end the process, for
// fasthttp does not catch it: it becomes a 500 here.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	defer func() {
		if p := recover(); p != nil {
			s.opts.Logger.Error("http handler panicked", "path", string(ctx.URI().PathOriginal()), "panic", p, "stack", string(debug.Stack()))
			refuseWith(ctx, core.E(core.Internal, "panic"))
		}
		s.answers.WithLabelValues(strconv.Itoa(ctx.Response.StatusCode())).Inc()
	}()
	if err := s.serve(ctx); err != nil {
		if core.KindOf(err) == core.Internal && !isProblem(err) {
			s.opts.Logger.Error("http request failed", "method", string(ctx.Method()), "path", string(ctx.URI().PathOriginal()), "err", err)
		}
		refuseWith(ctx, err)
	}
}

func isProblem(err error) bool {
	_, ok := errors.AsType[*problem](err)
	return ok
}

// serve finds who serves a request.
func (s *Server) serve(ctx *fasthttp.RequestCtx) error {
	path := string(ctx.URI().PathOriginal())
	if strings.HasPrefix(path, "/v1/") {
		return s.serveAPI(ctx)
	}
	if string(ctx.Path()) != path {
		// Dots, double slashes and escapes could mean one path here and another in a
		// handler; none of these paths has them.
		return &problem{Status: 400, Code: "bad_path", Detail: "the path is not in its plain form"}
	}
	if strings.HasPrefix(path, profiles) {
		path = profiles
	}
	h, ok := s.routes[path]
	switch {
	case !ok:
		return &problem{Status: 404, Code: "no_such_path", Detail: "there is nothing at this path"}
	case !ctx.IsGet() && !ctx.IsHead():
		ctx.Response.Header.Set(fasthttp.HeaderAllow, "GET, HEAD")
		return &problem{Status: 405, Code: "method_not_allowed", Detail: "this path takes only GET and HEAD"}
	}
	h(ctx)
	return nil
}

// profile serves the process's profiles. Taking one costs CPU and shows what the
// process does, and there are no users yet to ask for rights: clients on this machine
// only.
func profile(ctx *fasthttp.RequestCtx) {
	if !ctx.RemoteIP().IsLoopback() {
		refuseWith(ctx, core.E(core.Denied, "profiles are served to this machine only"))
		return
	}
	pprofhandler.PprofHandler(ctx)
}

// refuse answers a request that could not be read. fasthttp answers 400 to everything
// but long headers.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, err error) {
	p := problem{Status: 400, Code: "bad_request", Detail: "the request is malformed"}
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		p = problem{Status: 408, Code: "too_slow", Detail: "the request did not come in time", Retryable: true}
	}
	if small := (*fasthttp.ErrSmallBuffer)(nil); errors.As(err, &small) {
		p = problem{Status: 431, Code: "headers_too_large", Detail: fmt.Sprintf("the headers have more than %d bytes", maxHeader)}
	}
	refuseWith(ctx, &p)
	s.answers.WithLabelValues(strconv.Itoa(p.Status)).Inc()
}

// printfLogger takes fasthttp's remarks about its connections.
type printfLogger struct{ log *slog.Logger }

func (l printfLogger) Printf(format string, args ...any) {
	l.log.Debug("http connection", "detail", fmt.Sprintf(format, args...))
}
