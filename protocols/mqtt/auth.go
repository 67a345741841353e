package mqtt

import (
	"bytes"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
)

// Exchange is one conversation of enhanced authentication (section 4.12), such as SCRAM: the
// client's data in, ours out. It is used by one goroutine.
type Exchange interface {
	// Step takes what the client said and gives what it is told, which may be nil. done says
	// that it has proved who it is. An error ends the exchange: of kind core.Denied, or any
	// other for data that makes no sense.
	Step(data []byte) (reply []byte, done bool, err error)
	// Principal is the name of who it was, after Step was done.
	Principal() string
}

// maxAuthRounds bounds the packets of one exchange.
const maxAuthRounds = 16

// authentication is a connection's method, and its exchange while there is one.
type authentication struct {
	method   string // of CONNECT; empty: none
	exchange Exchange
}

// begin begins an exchange.
func (a *authentication) begin(s *Server) packets.Code {
	if s.opts.EnhancedAuth != nil {
		a.exchange = s.opts.EnhancedAuth(a.method)
	}
	if a.exchange == nil {
		return packets.ErrBadAuthenticationMethod
	}
	return packets.CodeSuccess
}

// step takes the client's data.
func (a *authentication) step(data []byte) (reply []byte, done bool, why packets.Code) {
	reply, done, err := a.exchange.Step(data)
	switch {
	case core.KindOf(err) == core.OK:
		return reply, done, packets.CodeSuccess
	case core.KindOf(err) == core.Denied:
		return nil, false, packets.ErrNotAuthorized
	default:
		return nil, false, packets.ErrBadUsernameOrPassword
	}
}

// authenticate has the exchange that a CONNECT with an authentication method begins. reply is
// what CONNACK is to say. It ends within the time for CONNECT.
func (c *conn) authenticate(connect *packets.Packet, late time.Time) (reply []byte, why packets.Code) {
	c.auth.method = connect.Properties.AuthenticationMethod
	if c.auth.method == "" {
		return nil, packets.CodeSuccess
	}
	if code := c.auth.begin(c.srv); code != packets.CodeSuccess {
		return nil, code
	}
	data := connect.Properties.AuthenticationData
	for range maxAuthRounds {
		reply, done, code := c.auth.step(data)
		if code != packets.CodeSuccess {
			return nil, code
		}
		if done {
			c.principal.Name = c.auth.exchange.Principal()
			c.auth.exchange = nil
			return reply, packets.CodeSuccess
		}
		c.sendAuth(packets.CodeContinueAuthentication, reply)
		fh, body, err := c.in.next(maxConnectBytes, func() { c.waitUntil(late) })
		if err != nil {
			return nil, codeOf(err)
		}
		c.srv.metrics.packetsIn.Add(1)
		pk := packets.Packet{FixedHeader: fh, ProtocolVersion: 5}
		if fh.Type != packets.Auth {
			return nil, packets.ErrProtocolViolation
		}
		if err := decode(&pk, bytes.Clone(body)); err != nil {
			return nil, codeOf(err)
		}
		if pk.ReasonCode != packets.CodeContinueAuthentication.Code || pk.Properties.AuthenticationMethod != c.auth.method {
			return nil, packets.ErrProtocolViolation // MQTT-4.12.0-3, -5
		}
		data = pk.Properties.AuthenticationData
	}
	return nil, packets.ErrNotAuthorized
}

// authAgain is an AUTH after CONNACK: the client authenticates anew (section 4.12.1). It stays
// who it was until that is done.
func (c *conn) authAgain(pk *packets.Packet) error {
	a := &c.auth
	if a.method == "" || pk.Properties.AuthenticationMethod != a.method {
		return packets.ErrProtocolViolation
	}
	switch pk.ReasonCode {
	case packets.CodeReAuthenticate.Code:
		if a.exchange != nil {
			return packets.ErrProtocolViolation
		}
		if code := a.begin(c.srv); code != packets.CodeSuccess {
			return code
		}
	case packets.CodeContinueAuthentication.Code:
		if a.exchange == nil {
			return packets.ErrProtocolViolation
		}
	default:
		return packets.ErrProtocolViolation
	}
	reply, done, code := a.step(bytes.Clone(pk.Properties.AuthenticationData))
	switch {
	case code != packets.CodeSuccess:
		return code
	case !done:
		c.sendAuth(packets.CodeContinueAuthentication, reply)
	case a.exchange.Principal() != c.principal.Name:
		return packets.ErrNotAuthorized // a session belongs to who it was opened by
	default:
		a.exchange = nil
		c.sendAuth(packets.CodeSuccess, reply)
	}
	return nil
}

func (c *conn) sendAuth(reason packets.Code, data []byte) {
	c.out.put(func(b []byte) []byte {
		return appendPacket(b, &packets.Packet{
			FixedHeader: packets.FixedHeader{Type: packets.Auth}, ProtocolVersion: 5, ReasonCode: reason.Code,
			Properties: packets.Properties{AuthenticationMethod: c.auth.method, AuthenticationData: data},
		})
	})
}
