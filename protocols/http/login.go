package httpd

import (
	"context"

	"github.com/valyala/fasthttp"

	"polylog/core"
	"polylog/protocols/http/front"
	"polylog/router"
)

// logIn finds out whose call it is: by the user and password of Basic authentication (RFC 7617), or
// by a session of the console. While the broker has no users nobody is asked.
func (c *call) logIn() (err error) {
	host := front.Host(c.RequestCtx)
	if !c.router.HasUsers() {
		c.principal, err = c.router.Anonymous(host)
		return err
	}
	switch user, password, ok := front.Basic(c.RequestCtx); {
	case ok:
		c.principal, err = c.router.Login(c.ctx, user, password, host)
	case c.Request.Header.Peek(fasthttp.HeaderAuthorization) != nil:
		err = core.E(core.Denied, "the header Authorization is not of the form Basic, with a user and a password")
	default:
		if page := c.srv.opts.Console; page != nil {
			if user := page.User(c.RequestCtx); user != "" {
				c.principal, err = c.router.Resume(user, host)
				break
			}
		}
		c.principal, err = c.router.Anonymous(host)
	}
	if core.KindOf(err) != core.Denied {
		return later(err)
	}
	// Browsers would ask people themselves, also for what a page asks for, and that has a form.
	if mode := string(c.Request.Header.Peek("Sec-Fetch-Mode")); mode == "" || mode == "navigate" {
		c.Response.Header.Set(fasthttp.HeaderWWWAuthenticate, front.Challenge)
	}
	return &problem{Status: fasthttp.StatusUnauthorized, Code: "login_failed", Detail: err.Error()}
}

// consoleUsers are the users for the console.
type consoleUsers struct{ *router.Router }

// Anonymous implements console.Users.
func (u consoleUsers) Anonymous(host string) string {
	p, err := u.Router.Anonymous(host)
	if err != nil {
		return ""
	}
	return p.Name
}

// Login implements console.Users.
func (u consoleUsers) Login(ctx context.Context, user, password, host string) error {
	_, err := u.Router.Login(ctx, user, password, host)
	return later(err)
}

// later is the error of a login, which may succeed in a second where there were too many that failed.
func later(err error) error {
	if core.KindOf(err) != core.Limit {
		return err
	}
	p := *problemOf(err)
	p.Retryable, p.RetryAfter = true, 1
	return &p
}
