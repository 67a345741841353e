package amqp

import (
	"bytes"
	"context"
	"net"
	"strings"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// shown is what a client has shown of itself: whom it says to be, which need not be true.
type shown struct {
	mechanism string
	name      string
}

// The ways to log in.
const (
	mechPlain    = "PLAIN"    // RFC 4616
	mechAMQPlain = "AMQPLAIN" // a table
	// mechAnonymous is for those who show nothing (RFC 4505).
	mechAnonymous = "ANONYMOUS"
	// mechExternal is for those who have shown a certificate (RFC 4422, appendix A).
	mechExternal = "EXTERNAL"
)

// guest is whom RabbitMQ's clients are while there are no users.
const guest = "guest"

// mechanisms are the ways that a client may log in by, in the order in which it is told of them.
func (c *conn) mechanisms() string {
	all := []string{mechPlain, mechAMQPlain}
	if _, err := c.srv.router.Anonymous(c.host); err == nil {
		all = append(all, mechAnonymous)
	}
	if c.subject != "" {
		all = append(all, mechExternal)
	}
	return strings.Join(all, " ")
}

// logIn finds out who the client is. Error kinds: as Router.Login's; a protocolError where there is
// no such mechanism.
func (c *conn) logIn(ctx context.Context, mechanism string, response []byte) (who router.Principal, err error) {
	r := c.srv.router
	c.user.mechanism = mechanism
	switch mechanism {
	case mechPlain, mechAMQPlain:
		user, password, ok := parseCredentials(mechanism, response)
		c.user.name = user
		if !ok {
			return who, core.E(core.Denied, "what the client has sent makes no sense")
		}
		return r.Login(ctx, user, password, c.host)
	case mechAnonymous: // what the client says of itself does not count
		if !r.HasUsers() {
			c.user.name = guest
			return r.Login(ctx, guest, guest, c.host)
		}
		return r.Anonymous(c.host)
	case mechExternal:
		if c.user.name = c.subject; c.subject == "" {
			return who, core.E(core.Denied, "the client has shown no certificate")
		}
		return r.Certified(c.subject, c.host)
	}
	return who, hard(spec.CommandInvalid, "unknown authentication mechanism '%s'", mechanism)
}

// parseCredentials decodes the response of PLAIN or AMQPLAIN. ok is false where it is malformed.
func parseCredentials(mechanism string, response []byte) (user, password string, ok bool) {
	if mechanism == mechPlain { // authorization identity NUL user NUL password
		parts := bytes.Split(response, []byte{0})
		if len(parts) != 3 {
			return "", "", false
		}
		return string(parts[1]), string(parts[2]), true
	}
	t, err := spec.ReadTable(response) // without its length
	u, has1 := t.Get("LOGIN")
	p, has2 := t.Get("PASSWORD")
	if err != nil || !has1 || !has2 || u.Kind() != message.KindString || p.Kind() != message.KindString {
		return "", "", false
	}
	return u.Str(), p.Str(), true
}

// hostOf is the address that a connection came from; empty where it has none of IP.
func hostOf(nc net.Conn) string {
	if tcp, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().String()
	}
	return ""
}

// capabilities are what a client understands beyond AMQP 0-9-1.
type capabilities struct {
	authFailureClose     bool
	basicNack            bool
	connectionBlocked    bool
	consumerCancelNotify bool
	publisherConfirms    bool
}

func readCapabilities(clientProperties message.Table) (c capabilities) {
	v, _ := clientProperties.Get("capabilities")
	has := func(name string) bool {
		v, _ := v.Table().Get(name)
		return v.Bool()
	}
	c.authFailureClose = has("authentication_failure_close")
	c.basicNack = has("basic.nack")
	c.connectionBlocked = has("connection.blocked")
	c.consumerCancelNotify = has("consumer_cancel_notify")
	c.publisherConfirms = has("publisher_confirms")
	return c
}

// serverProperties are what connection.start says of us.
func (s *Server) serverProperties() message.Table {
	text := message.String
	var caps message.Table
	for name := range strings.FieldsSeq("publisher_confirms exchange_exchange_bindings basic.nack consumer_cancel_notify connection.blocked consumer_priorities authentication_failure_close per_consumer_qos direct_reply_to") {
		caps = append(caps, message.Header{Name: name, Value: message.Bool(true)})
	}
	return message.Table{
		{Name: "capabilities", Value: message.Nested(caps)},
		{Name: "cluster_name", Value: text(s.opts.ClusterName)},
		{Name: "copyright", Value: text("The authors of Polylog")},
		{Name: "information", Value: text("AMQP 0-9-1 as RabbitMQ " + Version + " speaks it")},
		{Name: "platform", Value: text("Go")},
		{Name: "product", Value: text("Polylog")},
		{Name: "version", Value: text(Version)},
	}
}

// Version is the version that clients are told, for some decide by it what to expect: that of
// the RabbitMQ whose behaviour this is.
const Version = "4.3.0"
