package manage

import (
	"encoding/base64"
	"strings"

	"github.com/valyala/fasthttp"

	"polylog/core"
	"polylog/protocols/http/front"
	"polylog/router"
)

// login takes the user and password of Basic authentication (RFC 7617), and checks them as AMQP does.
// Who has none of the tags that let a user in is refused, as in RabbitMQ.
func (c *call) login() (err error) {
	kind, encoded, _ := strings.Cut(string(c.Request.Header.Peek(fasthttp.HeaderAuthorization)), " ")
	if !strings.EqualFold(kind, "basic") {
		return &refusal{status: 401, Kind: "not_authorized", Reason: "Log in with a user and a password"}
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	ok := false
	if err == nil {
		c.user, c.password, ok = strings.Cut(string(text), ":")
	}
	if ok {
		c.principal, err = c.router.Login(c.ctx, c.user, c.password, front.Host(c.RequestCtx))
	}
	switch {
	case !ok || core.KindOf(err) == core.Denied:
		return &refusal{status: 401, Kind: "not_authorized", Reason: "Login failed"}
	case core.KindOf(err) == core.Limit:
		c.Response.Header.Set(fasthttp.HeaderRetryAfter, "1")
		return &refusal{status: fasthttp.StatusTooManyRequests, Kind: "too_many_requests", Reason: err.Error()}
	case err != nil:
		return err
	case !c.isOne(router.TagAdministrator, router.TagMonitoring, router.TagPolicymaker, router.TagManagement):
		return notAuthorised("Not management user")
	}
	return nil
}

func notAuthorised(why string) error { return &refusal{401, "not_authorised", why} }

// isOne reports whether the user has one of the tags.
func (c *call) isOne(tags ...string) bool {
	for _, tag := range tags {
		if c.router.IsTagged(c.principal, tag) {
			return true
		}
	}
	return false
}

func (c *call) administrates() bool { return c.isOne(router.TagAdministrator) }

func (c *call) monitors() bool { return c.isOne(router.TagAdministrator, router.TagMonitoring) }

// caller is who may make a call, beside the rights to what it is about.
type caller uint8

const (
	anybody       caller = iota // that is let in at all
	monitor                     // or administrator
	administrator               //
)

// check refuses those who may not make such calls.
func (c *call) check(who caller) error {
	switch {
	case who == monitor && !c.monitors():
		return notAuthorised("Not monitor user")
	case who == administrator && !c.administrates():
		return notAuthorised("Not administrator user")
	}
	return nil
}

// mayLookAt checks that a connection is the user's, or it may see others'.
func (c *call) mayLookAt(user string) error {
	if user != c.user && !c.monitors() {
		return notAuthorised("User not authorised to access object")
	}
	return nil
}
