package mqtt

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/core/certs"
	"polylog/router"
)

// errLoginRefused is the end of a connection whose client did not say who it is, or may not be here.
var errLoginRefused = errors.New("the login was refused")

// logIn finds out who the client is, before anything else is done for it. proof is what CONNACK is to say
// of an exchange. It ends within the time for CONNECT, but for the pause before a refusal.
func (c *conn) logIn(pk *packets.Packet, late time.Time) (proof []byte, err error) {
	who, proof, code := c.identify(pk, late)
	if code == packets.CodeSuccess {
		inside := router.Resource{Kind: router.ResourceNamespace, Name: core.Name{Name: c.srv.opts.Namespace}}
		code = reasonOf(c.srv.router.Authorize(who, router.OpRead, inside))
	}
	switch code.Code {
	case packets.CodeSuccess.Code:
		c.principal = who
		c.logout = c.srv.router.WhileLoggedIn(who, c.loggedOut)
		return proof, nil
	case packets.ErrBadUsernameOrPassword.Code, packets.ErrNotAuthorized.Code, packets.ErrConnectionRateExceeded.Code:
		c.srv.metrics.logins.Add(1)
		c.srv.log.LogAttrs(c.srv.ctx, slog.LevelWarn, "mqtt login refused", slog.String("remote", c.remote),
			slog.String("client", pk.Connect.ClientIdentifier), slog.String("user", string(pk.Connect.Username)), slog.Any("err", code))
		c.hesitate()
		c.refuse(pk.ProtocolVersion, code)
		return nil, errLoginRefused
	}
	c.refuse(pk.ProtocolVersion, code)
	return nil, code
}

// identify is who the client has shown to be: by its method of authentication, its user name and
// password, its certificate, in this order, or by nothing.
func (c *conn) identify(pk *packets.Packet, late time.Time) (who router.Principal, proof []byte, code packets.Code) {
	r, p, host := c.srv.router, &pk.Connect, c.principal.Host
	if pk.Properties.AuthenticationMethod != "" {
		return c.authenticate(pk, late)
	}
	var err error
	switch subject := certs.Subject(c.nc); {
	case r.HasUsers() && len(p.Username)+len(p.Password) > 0:
		ctx, cancel := context.WithDeadline(c.srv.ctx, late)
		defer cancel()
		who, err = r.Login(ctx, string(p.Username), string(p.Password), host)
		return who, nil, loginReason(err)
	case subject != "":
		who, err = r.Certified(subject, host)
	default:
		who, err = r.Anonymous(host)
	}
	return who, nil, reasonOf(err)
}

// loginReason is the reason code for an error of a login by a password, or by an exchange.
func loginReason(err error) packets.Code {
	switch core.KindOf(err) { //nolint:exhaustive // the others are as everywhere
	case core.Denied, core.Invalid:
		return packets.ErrBadUsernameOrPassword
	case core.Limit:
		return packets.ErrConnectionRateExceeded
	}
	return reasonOf(err)
}

// hesitate waits before a refusal, so that guessing takes time. The connection holds nothing else
// meanwhile than its goroutine; of those there are as many as connections.
func (c *conn) hesitate() {
	pause := time.NewTimer(c.srv.opts.loginDelay)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-c.srv.quit:
	}
}

// loggedOut ends the connection, for its client is not who it was. It may be called on any goroutine.
func (c *conn) loggedOut() {
	why := packets.ErrAdministrativeAction
	switch name := c.principal.Name; {
	case !c.principal.IsUser():
		why = packets.ErrNotAuthorized
		why.Reason = "this broker has users now: log in"
	case c.srv.router.User(name) == nil:
		why.Reason = "the user is deleted"
	default:
		why.Reason = "the user's password is changed"
	}
	c.kick(why)
}
