package mqtt

import (
	"bytes"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/router"
)

// Exchange is one conversation of enhanced authentication (section 4.12), such as SCRAM: the
// client's data in, ours out. It is used by one goroutine.
type Exchange interface {
	// Step takes what the client said and gives what it is told, which may be nil. done says
	// that it has proved who it is. An error ends the exchange: of kind core.Denied, of
	// core.Invalid for data that makes no sense, of core.Limit after too many wrong ones.
	Step(data []byte) (reply []byte, done bool, err error)
	// Principal is who it was, after Step was done.
	Principal() router.Principal
}

// maxAuthRounds bounds the packets of one exchange.
const maxAuthRounds = 16

// authentication is a connection's method, and its exchange while there is one.
type authentication struct {
	method   string // of CONNECT; empty: none
	exchange Exchange
}

// exchange begins one, nil for a method that there is not: SCRAM for the broker's users.
func (s *Server) exchange(method, host string) Exchange {
	if s.opts.EnhancedAuth != nil {
		return s.opts.EnhancedAuth(method, host)
	}
	if s.router.HasUsers() {
		if x := s.router.Scram(method, host); x != nil {
			return x
		}
	}
	return nil
}

// begin begins an exchange.
func (c *conn) begin() packets.Code {
	if c.auth.exchange = c.srv.exchange(c.auth.method, c.principal.Host); c.auth.exchange == nil {
		return packets.ErrBadAuthenticationMethod
	}
	return packets.CodeSuccess
}

// authenticate has the exchange that a CONNECT with an authentication method begins. reply is
// what CONNACK is to say. It ends within the time for CONNECT.
func (c *conn) authenticate(connect *packets.Packet, late time.Time) (who router.Principal, reply []byte, why packets.Code) {
	c.auth.method = connect.Properties.AuthenticationMethod
	if code := c.begin(); code != packets.CodeSuccess {
		return who, nil, code
	}
	data := connect.Properties.AuthenticationData
	for range maxAuthRounds {
		reply, done, err := c.auth.exchange.Step(data)
		if err != nil {
			return who, nil, loginReason(err)
		}
		if done {
			who = c.auth.exchange.Principal()
			c.auth.exchange = nil
			return who, reply, packets.CodeSuccess
		}
		c.sendAuth(packets.CodeContinueAuthentication, reply)
		fh, body, err := c.in.next(maxConnectBytes, func() { c.waitUntil(late) })
		if err != nil {
			return who, nil, codeOf(err)
		}
		c.srv.metrics.packetsIn.Add(1)
		pk := packets.Packet{FixedHeader: fh, ProtocolVersion: 5}
		if fh.Type != packets.Auth {
			return who, nil, packets.ErrProtocolViolation
		}
		if err := decode(&pk, bytes.Clone(body)); err != nil {
			return who, nil, codeOf(err)
		}
		if pk.ReasonCode != packets.CodeContinueAuthentication.Code || pk.Properties.AuthenticationMethod != c.auth.method {
			return who, nil, packets.ErrProtocolViolation // MQTT-4.12.0-3, -5
		}
		data = pk.Properties.AuthenticationData
	}
	return who, nil, packets.ErrNotAuthorized
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
		if code := c.begin(); code != packets.CodeSuccess {
			return code
		}
	case packets.CodeContinueAuthentication.Code:
		if a.exchange == nil {
			return packets.ErrProtocolViolation
		}
	default:
		return packets.ErrProtocolViolation
	}
	reply, done, err := a.exchange.Step(bytes.Clone(pk.Properties.AuthenticationData))
	switch {
	case err != nil:
		c.srv.metrics.logins.Add(1)
		return packets.ErrNotAuthorized // 0x86 is for CONNACK only (section 3.14.2.1)
	case !done:
		c.sendAuth(packets.CodeContinueAuthentication, reply)
	case a.exchange.Principal().Name != c.principal.Name:
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
