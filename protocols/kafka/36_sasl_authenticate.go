package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
)

// saslAuthenticate takes a token of a login. Sessions have no end (lifetime 0): what a user may do is
// asked for each request, and a connection ends with its user.
func saslAuthenticate(ctx context.Context, c *call, req *kmsg.SASLAuthenticateRequest) *kmsg.SASLAuthenticateResponse {
	resp := kmsg.NewPtrSASLAuthenticateResponse()
	resp.SASLAuthBytes = []byte{}
	fail := func(code int16, text string) {
		resp.ErrorCode, resp.ErrorMessage = code, &text
	}
	switch {
	case c.inside || !c.srv.router.HasUsers() && c.login.mechanism == "":
		fail(codeIllegalSASLState, "SASL is not enabled on this listener")
		return resp
	case c.login.mechanism == "" && c.login.in:
		fail(codeIllegalSASLState, "SaslAuthenticate request received after successful authentication")
		return resp
	case c.login.mechanism == "":
		fail(codeIllegalSASLState, "SaslAuthenticate request received before SaslHandshake")
		c.refuse(ctx, core.E(core.Invalid, "SaslAuthenticate before SaslHandshake"))
		return resp
	}
	reply, err := c.authenticate(ctx, req.SASLAuthBytes)
	switch {
	case err == nil && reply != nil:
		resp.SASLAuthBytes = reply
	case err == nil:
	case isRefusal(err):
		fail(codeSASLAuthenticationFailed, err.Error())
		c.refuse(ctx, err)
	default: // clients try again on another connection
		c.answer.err = err
	}
	return resp
}
