package httpd

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
	"github.com/valyala/fasthttp/pprofhandler"

	"polylog/core"
	"polylog/protocols/http/console"
	"polylog/protocols/http/front"
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

// serve finds who serves a request.
func (s *Server) serve(ctx *fasthttp.RequestCtx) error {
	path := string(ctx.URI().PathOriginal())
	if strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, hooksPath) || path == detailPath {
		return s.serveAPI(ctx)
	}
	if string(ctx.Path()) != path {
		// Dots, double slashes and escapes could mean one path here and another in a
		// handler; none of these paths has them.
		return &problem{Status: 400, Code: "bad_path", Detail: "the path is not in its plain form"}
	}
	if c := s.opts.Console; c != nil {
		switch {
		case path == "/" || path+"/" == console.Prefix:
			ctx.Response.Header.Set(fasthttp.HeaderLocation, console.Prefix)
			ctx.SetStatusCode(fasthttp.StatusFound)
			return nil
		case strings.HasPrefix(path, console.Prefix):
			budget := s.front.Budget()
			defer budget.Release()
			return c.Serve(ctx, path, func(limit int) ([]byte, error) { return budget.Body(ctx, ctx, limit) })
		}
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

// profile serves the process's profiles, to clients on this machine only, who need be no users: taking one
// costs CPU and shows what the process does.
func profile(ctx *fasthttp.RequestCtx) {
	if !front.IsLocal(ctx) {
		refuseWith(ctx, core.E(core.Denied, "profiles are served to this machine only"))
		return
	}
	pprofhandler.PprofHandler(ctx)
}
