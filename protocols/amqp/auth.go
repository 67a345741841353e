package amqp

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/netip"
	"strings"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
)

// credentials are what a client shows of itself.
type credentials struct {
	mechanism string
	user      string
	password  string
	anonymous bool
}

// Login decides whether a user may log in from an address. It must not block for long.
type Login func(user, password string, from netip.Addr) bool

// The user that exists before any is made, as RabbitMQ's.
const (
	guestUser     = "guest"
	guestPassword = "guest"
)

// guestOnly knows that user alone, and lets it in from this machine.
func guestOnly(user, password string, from netip.Addr) bool {
	return user == guestUser && password == guestPassword && from.IsLoopback()
}

// mechanisms are the ways to log in, in the order in which clients are told of them.
const mechanisms = "PLAIN AMQPLAIN ANONYMOUS"

// external is the mechanism of those who have shown a certificate (RFC 4422, appendix A); others
// are not told of it.
const external = "EXTERNAL"

// subjectOf is whom the certificate names that the client has shown, which an authority of the
// listener has signed: its subject, as RabbitMQ calls the user. It is empty where there is none.
// The handshake must be over.
func subjectOf(nc net.Conn) string {
	t, ok := nc.(*tls.Conn)
	if !ok {
		return ""
	}
	chains := t.ConnectionState().VerifiedChains
	if len(chains) == 0 {
		return ""
	}
	return chains[0][0].Subject.String()
}

// parseCredentials decodes the response of a SASL mechanism. ok is false where it is
// malformed; known is whether there is such a mechanism.
func parseCredentials(mechanism string, response []byte) (c credentials, ok, known bool) {
	c.mechanism = mechanism
	switch mechanism {
	case "PLAIN": // RFC 4616: authorization identity NUL user NUL password
		parts := bytes.Split(response, []byte{0})
		if len(parts) != 3 {
			return c, false, true
		}
		c.user, c.password = string(parts[1]), string(parts[2])
	case "AMQPLAIN": // a field table without its length
		t, err := spec.ReadTable(response)
		user, ok1 := t.Get("LOGIN")
		password, ok2 := t.Get("PASSWORD")
		if err != nil || !ok1 || !ok2 || user.Kind() != message.KindString || password.Kind() != message.KindString {
			return c, false, true
		}
		c.user, c.password = user.Str(), password.Str()
	case "ANONYMOUS": // RFC 4505: what the client says of itself does not count
		c.user, c.password, c.anonymous = guestUser, guestPassword, true
	default:
		return c, false, false
	}
	return c, true, true
}

// remoteAddr is the address that a connection came from; the zero address where it has none
// of IP, as pipes.
func remoteAddr(nc net.Conn) netip.Addr {
	if tcp, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
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
