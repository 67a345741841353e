package amqp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"polylog/core"
	"polylog/core/certs"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// What is offered in connection.tune, as RabbitMQ does, and the least that a client may ask
// for: RabbitMQ 4.1 raised it to 8192, for which old clients are too old.
const (
	maxChannels = 2047
	maxFrame    = 131072
	minFrame    = 4096
	// handshakeFrameMax holds before anything is agreed upon.
	handshakeFrameMax = 8192
)

// phase is how far the handshake is (section 2.2.4). The names are RabbitMQ's.
type phase string

const (
	starting phase = "starting" // connection.start was sent
	tuning   phase = "tuning"   // connection.tune was sent
	opening  phase = "opening"  // tune-ok came
	running  phase = "running"  // open-ok was sent
)

// protocolHeader is what a client begins with (section 4.2.2), and what it gets back when it
// began with something else.
var protocolHeader = []byte("AMQP\x00\x00\x09\x01")

// greet takes the protocol header and answers with connection.start.
func (c *conn) greet() error {
	b, err := c.br.Peek(len(protocolHeader))
	if err != nil {
		if len(b) > 0 && errors.Is(err, io.EOF) {
			err = errNotAMQP
		}
		return err
	}
	if !speaks091(b) {
		c.out.mu.Lock()
		defer c.out.mu.Unlock()
		c.out.appendLocked(func(b []byte) []byte { return append(b, protocolHeader...) })
		c.out.closed.Store(true)
		return errNotAMQP
	}
	if _, err := c.br.Discard(len(protocolHeader)); err != nil {
		return err
	}
	c.phase = starting
	c.subject = certs.Subject(c.nc)
	c.send(&spec.ConnectionStart{
		VersionMajor: 0, VersionMinor: 9,
		ServerProperties: c.srv.properties,
		Mechanisms:       []byte(c.mechanisms()),
		Locales:          []byte("en_US"),
	})
	return nil
}

// speaks091 reports whether a protocol header asks for AMQP 0-9-1, or for 0-9 as it was
// written before, which is close enough.
func speaks091(h []byte) bool {
	switch {
	case !bytes.HasPrefix(h, protocolHeader[:4]):
		return false
	case h[4] == 0 && h[5] == 0 && h[6] == 9:
		return true
	default:
		return bytes.Equal(h[4:], []byte{1, 1, 0, 9}) || bytes.Equal(h[4:], []byte{1, 1, 9, 1})
	}
}

// startOk is connection.start-ok: the client logs in.
func (c *conn) startOk(ctx context.Context, m *spec.ConnectionStartOk) error {
	c.caps, c.properties = readCapabilities(m.ClientProperties), m.ClientProperties
	if v, ok := m.ClientProperties.Get("connection_name"); ok {
		c.clientName = spec.Cut(v.Str())
		c.log = c.log.With("connection_name", c.clientName)
	}
	who, err := c.logIn(ctx, m.Mechanism, m.Response)
	switch core.KindOf(err) {
	case core.OK:
	case core.Denied, core.Limit:
		return c.loginRefused(ctx, err)
	default:
		return err
	}
	c.principal = who
	c.leave = c.srv.router.WhileLoggedIn(who, c.loggedOut)
	c.phase = tuning
	c.send(&spec.ConnectionTune{ChannelMax: maxChannels, FrameMax: maxFrame, Heartbeat: uint16(c.srv.opts.Heartbeat / time.Second)})
	return nil
}

// loginRefused tells a client that would understand it. The others have to wait for a reset,
// as guessing passwords would be fast otherwise.
func (c *conn) loginRefused(ctx context.Context, why error) error {
	c.srv.metrics.logins.Add(1)
	c.log.Warn("amqp login refused", "user", c.user.name, "mechanism", c.user.mechanism, "err", why)
	if c.caps.authFailureClose {
		return hard(spec.AccessRefused, "Login was refused using authentication mechanism %s. For details see the broker logfile.", c.user.mechanism).of(noMethod)
	}
	pause := time.NewTimer(c.srv.opts.silence)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
	c.abort(errRefused)
	return errRefused
}

// loggedOut ends the connection, for its user is not what it was. It may be called on any goroutine.
func (c *conn) loggedOut() {
	name := c.principal.Name
	switch u := c.srv.router.User(name); {
	case c.principal.IsUser() && u == nil:
		c.close(hard(spec.ConnectionForced, "user '%s' is deleted", name))
	case c.principal.IsUser():
		c.close(hard(spec.ConnectionForced, "password of user '%s' is changed", name))
	default:
		c.close(hard(spec.ConnectionForced, "this broker has users now: log in again"))
	}
}

// tuneOk is connection.tune-ok: what the client wants of what was offered.
func (c *conn) tuneOk(m *spec.ConnectionTuneOk) error {
	if err := negotiated("channel_max", int(m.ChannelMax), 1, maxChannels); err != nil {
		return err
	}
	if err := negotiated("frame_max", int(m.FrameMax), minFrame, maxFrame); err != nil {
		return err
	}
	c.channelMax, c.frameMax = int(m.ChannelMax), int(m.FrameMax)
	c.out.setFrameMax(c.frameMax)
	c.phase = opening
	c.heart.begin(time.Duration(m.Heartbeat) * c.srv.opts.heartbeatUnit)
	return nil
}

// negotiated checks a value of tune-ok, where 0 means no limit.
func negotiated(field string, v, least, most int) error {
	switch {
	case v == 0 || v > most:
		return hard(spec.NotAllowed, "negotiated %s = %d is higher than the maximum allowed value (%d)", field, v, most).of(spec.ConnectionTuneID)
	case v < least:
		return hard(spec.NotAllowed, "negotiated %s = %d is lower than the minimum allowed value (%d)", field, v, least).of(spec.ConnectionTuneID)
	}
	return nil
}

// open is connection.open: which virtual host it is to be.
func (c *conn) open(ctx context.Context, m *spec.ConnectionOpen) error {
	namespace, ok, err := c.srv.namespace(ctx, m.VirtualHost)
	if err != nil {
		return err
	}
	if !ok {
		return hard(spec.NotAllowed, "vhost %s not found", m.VirtualHost)
	}
	inside := router.Resource{Kind: router.ResourceNamespace, Name: core.Name{Name: namespace}}
	if err := c.srv.router.Authorize(c.principal, router.OpRead, inside); err != nil {
		return hard(spec.NotAllowed, "access to vhost '%s' refused for user '%s'", m.VirtualHost, c.principal.Name)
	}
	c.vhost, c.namespace = m.VirtualHost, namespace
	c.phase = running
	c.cutOffAfter(0)
	if err := c.beginState(ctx); err != nil {
		return err
	}
	c.opened = true
	c.where.Store(&namespace)
	if !c.inside {
		c.listed = c.srv.opts.Clients.Add(c.describe)
	}
	c.srv.metrics.opened.Add(1)
	c.send(&spec.ConnectionOpenOk{})
	return nil
}
