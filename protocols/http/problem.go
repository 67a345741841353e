package httpd

import (
	"github.com/valyala/fasthttp"

	"polylog/core"
	"polylog/protocols/http/front"
)

// problem is the body of every refusal, and an error.
type problem = front.Problem

// problemOf is what an error is in HTTP.
func problemOf(err error) *problem { return front.ProblemOf(err) }

// invalid refuses a request that can never succeed as it is.
func invalid(format string, args ...any) error { return core.E(core.Invalid, format, args...) }

// refuseWith answers with a problem.
func refuseWith(ctx *fasthttp.RequestCtx, err error) { front.RefuseWith(ctx, err) }

// send answers with a body that nobody may keep.
func send(ctx *fasthttp.RequestCtx, status int, contentType string, body []byte) {
	front.Send(ctx, status, contentType, body)
}
