package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
)

// While the broker has users, a client has to say who it is before anything else: it names a mechanism
// of SASL (RFC 4422) in SaslHandshake, then sends that mechanism's tokens in SaslAuthenticate
// (KIP-152) or, after version 0 of SaslHandshake, bare with their length in front (KIP-43). It may do
// so again on the same connection (KIP-368).

// The mechanisms.
const (
	mechanismPlain  = "PLAIN" // RFC 4616
	mechanismSHA256 = "SCRAM-SHA-256"
	mechanismSHA512 = "SCRAM-SHA-512"
)

var mechanisms = []string{mechanismPlain, mechanismSHA256, mechanismSHA512}

const (
	// maxToken bounds a token, in bytes. A bare one fits into the connection's read buffer.
	maxToken = readBufferSize - frameLengthLen
	// loginTimeout is for how long a client that has to log in may say nothing.
	loginTimeout = time.Minute
)

var (
	errRefused     = errors.New("authentication failed")
	errGone        = errors.New("the user is gone or has another password, or the broker has users now")
	errNotLoggedIn = errors.New("request before authentication")
	errLoggingIn   = errors.New("request during authentication")
)

// login is how far a client has come in saying who it is.
type login struct {
	in        bool   // it has
	by        string // the mechanism of that
	mechanism string // of a login that has begun; empty: none has
	raw       bool   // its tokens come bare
	scram     *router.Scram
	leave     func() // what ends the connection with its user no longer does; nil: nothing does
	refused   error  // why the connection is to end once everything is answered
}

// end is for when the connection is not the user's any more.
func (l *login) end() {
	if l.leave != nil {
		l.leave()
		l.leave = nil
	}
}

// begin has a connection end that is nobody's when the first user is made, and one that another protocol
// has opened with its user.
func (s *session) begin() {
	if s.inside || !s.srv.router.HasUsers() {
		s.while(s.principal())
	}
}

// while has the connection end when the principal does.
func (s *session) while(who router.Principal) {
	s.login.end()
	c := s.conn
	s.login.leave = s.srv.router.WhileLoggedIn(who, func() { c.close(errGone) })
}

// mustLogIn reports whether the client has to say who it is before anything else.
func (s *session) mustLogIn() bool {
	return !s.login.in && !s.inside && s.srv.router.HasUsers()
}

// admits is why the client may not ask for an API yet.
func (s *session) admits(key kmsg.Key) error {
	switch {
	case key == kmsg.ApiVersions || key == kmsg.SASLHandshake || key == kmsg.SASLAuthenticate:
		return nil
	case s.mustLogIn():
		return fmt.Errorf("%w: %s", errNotLoggedIn, key.Name())
	case s.login.mechanism != "":
		return fmt.Errorf("%w: %s", errLoggingIn, key.Name())
	}
	return nil
}

// refuse ends the connection once the call is answered, which it is a moment later, so that guessing
// takes time. The connection holds nothing else meanwhile than its goroutines, which are as many as there
// are connections.
func (c *call) refuse(ctx context.Context, why error) {
	c.srv.metrics.refusedLogins.Add(1)
	delay := time.NewTimer(c.srv.opts.loginDelay)
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-c.srv.stopping:
	case <-ctx.Done():
	}
	c.login.refused = fmt.Errorf("%w: %w", errRefused, why)
}

// authenticate takes a token of the login that has begun, and gives the answer to it. Error kinds: Denied,
// with Kafka's words for the client; Limit; Unavailable, which is none of the client's doing.
func (c *call) authenticate(ctx context.Context, token []byte) (reply []byte, err error) {
	l := &c.login
	var who router.Principal
	done := true
	switch {
	case len(token) > maxToken:
		return nil, invalidCredentials(l.mechanism)
	case l.in && l.mechanism != l.by:
		return nil, core.E(core.Denied, "SASL mechanism '%s' requested by client is not supported for reauthentication of mechanism '%s'", l.mechanism, l.by)
	case l.mechanism == mechanismPlain:
		who, err = c.plain(ctx, token)
	default:
		if l.scram == nil {
			l.scram = c.srv.router.Scram(l.mechanism, c.principal().Host)
		}
		if reply, done, err = l.scram.Step(token); core.KindOf(err) == core.Denied || core.KindOf(err) == core.Invalid {
			err = invalidCredentials(l.mechanism)
		}
		who = l.scram.Principal()
	}
	switch {
	case err != nil || !done:
		return reply, err
	case l.in && who.Name != c.principal().Name:
		return nil, core.E(core.Denied, "Cannot change principals during re-authentication from User.%s: User.%s", c.principal().Name, who.Name)
	}
	c.who.Store(&who)
	l.in, l.by, l.mechanism, l.raw, l.scram = true, l.mechanism, "", false, nil
	c.while(who)
	return reply, nil
}

// invalidCredentials are Kafka's words for everything that a mechanism may find wrong.
func invalidCredentials(mechanism string) error {
	return core.E(core.Denied, "Authentication failed during authentication due to invalid credentials with SASL mechanism %s", mechanism)
}

// plain takes PLAIN's only token: who the client wants to be, who it is, and its password.
func (c *call) plain(ctx context.Context, token []byte) (router.Principal, error) {
	parts := bytes.Split(token, []byte{0})
	if len(parts) != 3 || len(parts[1]) == 0 || len(parts[2]) == 0 {
		return router.Principal{}, invalidCredentials(mechanismPlain)
	}
	as, user, password := string(parts[0]), string(parts[1]), string(parts[2])
	if as != "" && as != user {
		return router.Principal{}, core.E(core.Denied, "Authentication failed: Client requested an authorization id that is different from username")
	}
	who, err := c.srv.router.Login(ctx, user, password, c.principal().Host)
	if core.KindOf(err) == core.Denied {
		err = core.E(core.Denied, "Authentication failed: Invalid username or password")
	}
	return who, err
}

// isRefusal reports whether err is an answer to the client, and no failure of ours.
func isRefusal(err error) bool {
	return slices.Contains([]core.Kind{core.Denied, core.Limit}, core.KindOf(err))
}

// readToken takes a bare token off the connection and answers it. A wrong one has no answer.
func (c *conn) readToken(ctx context.Context) error {
	if err := c.setReadDeadline(frameLengthLen, loginTimeout); err != nil {
		return err
	}
	token, err := peekToken(c, c.srv.opts.FrameTimeout)
	if err != nil {
		return err
	}
	cl := &call{session: &c.session, frameHead: frameHead{key: kmsg.SASLAuthenticate.Int16()}}
	if err := c.enqueue(ctx, cl, false); err != nil {
		cl.end()
		return err
	}
	reply, err := cl.authenticate(ctx, token)
	_, _ = c.br.Discard(frameLengthLen + len(token)) // it is in the buffer
	switch {
	case err == nil:
		cl.replyRaw(&rawReply{parts: []part{{bytes: reply}}, size: len(reply)})
		return nil
	case isRefusal(err):
		cl.refuse(ctx, err)
	default:
		c.session.login.refused = err
	}
	cl.drop()
	return nil
}

// peekToken waits for a bare token: its length, i32, and as many bytes.
func peekToken(c *conn, patience time.Duration) ([]byte, error) {
	b, err := c.br.Peek(frameLengthLen)
	if err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(b)))
	if n < 0 || n > maxToken {
		return nil, fmt.Errorf("%w: a token of %d bytes, want at most %d", errFrameLength, n, maxToken)
	}
	if err := c.setReadDeadline(frameLengthLen+n, patience); err != nil {
		return nil, err
	}
	if b, err = c.br.Peek(frameLengthLen + n); err != nil {
		return nil, unexpected(err)
	}
	return b[frameLengthLen:], nil
}
