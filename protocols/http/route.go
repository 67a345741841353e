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
)

const profiles = "/debug/pprof/"

// table is what is served, by path.
func (s *Server) table() map[string]fasthttp.RequestHandler {
	return map[string]fasthttp.RequestHandler{
		"/health/live":  live,
		"/health/ready": s.ready,
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
			s.opts.Logger.Error("http handler panicked", "path", string(ctx.Path()), "panic", p, "stack", string(debug.Stack()))
			ctx.ResetBody()
			fail(ctx, fasthttp.StatusInternalServerError, "internal error")
		}
		s.answers.WithLabelValues(strconv.Itoa(ctx.Response.StatusCode())).Inc()
	}()
	path := string(ctx.Path())
	if strings.HasPrefix(path, profiles) {
		path = profiles
	}
	h, ok := s.routes[path]
	switch {
	case string(ctx.Path()) != string(ctx.URI().PathOriginal()):
		// Dots, double slashes and escapes could mean one path here and another in a
		// handler; no path of ours has them.
		fail(ctx, fasthttp.StatusBadRequest, "path is not in its plain form")
	case !ok:
		fail(ctx, fasthttp.StatusNotFound, "no such path")
	case !ctx.IsGet() && !ctx.IsHead():
		ctx.Response.Header.Set(fasthttp.HeaderAllow, "GET, HEAD")
		fail(ctx, fasthttp.StatusMethodNotAllowed, "only GET and HEAD")
	default:
		h(ctx)
	}
}

// profile serves the process's profiles. Taking one costs CPU and shows what the
// process does, and there are no users yet to ask for rights: clients on this machine
// only.
func profile(ctx *fasthttp.RequestCtx) {
	if !ctx.RemoteIP().IsLoopback() {
		fail(ctx, fasthttp.StatusForbidden, "profiles are served to this machine only")
		return
	}
	pprofhandler.PprofHandler(ctx)
}

// refuse answers a request that could not be read. fasthttp answers 400 to everything
// but long headers.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, err error) {
	code, text := fasthttp.StatusBadRequest, "malformed request"
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		code, text = fasthttp.StatusRequestTimeout, "request took too long"
	}
	if small := (*fasthttp.ErrSmallBuffer)(nil); errors.As(err, &small) {
		code, text = fasthttp.StatusRequestHeaderFieldsTooLarge, fmt.Sprintf("headers exceed %d bytes", maxHeader)
	}
	if errors.Is(err, fasthttp.ErrBodyTooLarge) {
		code, text = fasthttp.StatusRequestEntityTooLarge, fmt.Sprintf("body exceeds %d bytes", maxBody)
	}
	fail(ctx, code, text)
	s.answers.WithLabelValues(strconv.Itoa(code)).Inc()
}

// fail answers with code and one line of text.
func fail(ctx *fasthttp.RequestCtx, code int, text string) {
	ctx.SetStatusCode(code)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(text + "\n")
}

// printfLogger takes fasthttp's remarks about its connections.
type printfLogger struct{ log *slog.Logger }

func (l printfLogger) Printf(format string, args ...any) {
	l.log.Debug("http connection", "detail", fmt.Sprintf(format, args...))
}
