package front

import (
	"net/url"

	"github.com/valyala/fasthttp"
)

// SameOrigin refuses what a browser sends for a page of another site: whoever visits that
// page may use this broker, and the page must not.
func SameOrigin(ctx *fasthttp.RequestCtx) error {
	origin := string(ctx.Request.Header.Peek(fasthttp.HeaderOrigin))
	if origin == "" {
		return nil
	}
	if u, err := url.Parse(origin); err == nil && u.Host != "" && u.Host == string(ctx.Host()) {
		return nil
	}
	return &Problem{Status: 403, Code: "cross_origin", Detail: "a page of another origin may not use this broker"}
}
