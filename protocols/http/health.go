package httpd

import (
	"encoding/json"

	"github.com/valyala/fasthttp"
)

// health is the body of the answers under /health.
type health struct {
	Status  string   `json:"status"`
	Reasons []string `json:"reasons,omitempty"`
}

// live says that the process runs: a supervisor restarts it when this fails, so it
// must not depend on anything that a restart does not mend.
func live(ctx *fasthttp.RequestCtx) { answer(ctx, fasthttp.StatusOK, health{Status: "live"}) }

// ready says whether a load balancer should send clients here.
func (s *Server) ready(ctx *fasthttp.RequestCtx) {
	if reasons := s.opts.Ready(); len(reasons) > 0 {
		answer(ctx, fasthttp.StatusServiceUnavailable, health{Status: "not ready", Reasons: reasons})
		return
	}
	answer(ctx, fasthttp.StatusOK, health{Status: "ready"})
}

func answer(ctx *fasthttp.RequestCtx, code int, h health) {
	body, err := json.Marshal(h)
	if err != nil {
		panic(err) // a struct of strings always encodes
	}
	ctx.SetStatusCode(code)
	ctx.SetContentType("application/json")
	ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
	ctx.SetBody(append(body, '\n'))
}
