package front

import (
	"context"

	"github.com/valyala/fasthttp"

	"polylog/core"
)

// Logins says whom a user and a password are (router.Router).
type Logins[P any] interface {
	HasUsers() bool
	Login(ctx context.Context, user, password, host string) (P, error)
	Anonymous(host string) (P, error)
}

// LogIn says who calls, by the user and password of Basic authentication. While the broker has no users
// nobody is asked. A refusal is of kind Denied, and the answer asks for credentials then.
func LogIn[P any](wait context.Context, ctx *fasthttp.RequestCtx, users Logins[P]) (p P, err error) {
	host := Host(ctx)
	switch user, password, ok := Basic(ctx); {
	case ok && users.HasUsers():
		p, err = users.Login(wait, user, password, host)
	case ctx.Request.Header.Peek(fasthttp.HeaderAuthorization) != nil && users.HasUsers():
		err = core.E(core.Denied, "the header Authorization is not of the form Basic, with a user and a password")
	default:
		p, err = users.Anonymous(host)
	}
	switch core.KindOf(err) { //nolint:exhaustive // the others say nothing by headers
	case core.Denied:
		ctx.Response.Header.Set(fasthttp.HeaderWWWAuthenticate, Challenge)
	case core.Limit: // too many logins have failed
		ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, "1")
	}
	return p, err
}
