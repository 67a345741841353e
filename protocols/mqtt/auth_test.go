package mqtt

import (
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/router"
)

// riddle is a method of enhanced authentication: it answers "who?" to anything and then wants
// "me", or a name that starts with it.
type riddle struct {
	asked bool
	name  string
}

func (r *riddle) Step(data []byte) ([]byte, bool, error) {
	switch {
	case !r.asked:
		r.asked = true
		return []byte("who?"), false, nil
	case len(data) < 2 || string(data[:2]) != "me":
		return nil, false, core.E(core.Denied, "it is %q", data)
	}
	r.name = string(data)
	return []byte("hello"), true, nil
}

func (r *riddle) Principal() router.Principal { return router.Principal{Name: r.name} }

func authPacket(reason byte, method, data string) *packets.Packet {
	return &packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Auth}, ReasonCode: reason,
		Properties: packets.Properties{AuthenticationMethod: method, AuthenticationData: []byte(data)},
	}
}

func TestEnhancedAuth(t *testing.T) {
	b, _ := serve(t, func(o *Options) {
		o.EnhancedAuth = func(method, _ string) Exchange {
			if method != "RIDDLE" {
				return nil
			}
			return &riddle{}
		}
	})
	begin := func(method string) *client {
		c := dial(t, b.addr, 5)
		c.send(&packets.Packet{
			FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: 5,
			Connect:    packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: "c", Clean: true},
			Properties: packets.Properties{AuthenticationMethod: method, AuthenticationData: []byte("hi")},
		})
		return c
	}
	if ack := begin("OTHER").expect(packets.Connack); ack.ReasonCode != packets.ErrBadAuthenticationMethod.Code {
		t.Errorf("CONNACK %#x", ack.ReasonCode)
	}
	for answer, want := range map[string]byte{"me": 0, "you": packets.ErrBadUsernameOrPassword.Code} {
		c := begin("RIDDLE")
		if pk := c.expect(packets.Auth); pk.ReasonCode != 0x18 || string(pk.Properties.AuthenticationData) != "who?" || pk.Properties.AuthenticationMethod != "RIDDLE" {
			t.Errorf("%+v", pk)
		}
		c.send(authPacket(0x18, "RIDDLE", answer))
		ack := c.expect(packets.Connack)
		if ack.ReasonCode != want {
			t.Fatalf("%q: CONNACK %#x, want %#x", answer, ack.ReasonCode, want)
		}
		if want == 0 && (ack.Properties.AuthenticationMethod != "RIDDLE" || string(ack.Properties.AuthenticationData) != "hello") {
			t.Errorf("%+v", ack.Properties)
		}
	}
	c := begin("RIDDLE")
	c.expect(packets.Auth)
	c.send(authPacket(0x18, "RIDDLE", "me"))
	c.expect(packets.Connack)
	c.send(authPacket(0x19, "RIDDLE", "hi")) // again
	c.expect(packets.Auth)
	c.quiet() // it goes on meanwhile
	c.send(authPacket(0x18, "RIDDLE", "me"))
	if pk := c.expect(packets.Auth); pk.ReasonCode != 0 {
		t.Errorf("AUTH %#x", pk.ReasonCode)
	}
	c.send(authPacket(0x19, "RIDDLE", "hi"))
	c.expect(packets.Auth)
	c.send(authPacket(0x18, "RIDDLE", "me too")) // somebody else
	c.expectEnd(packets.ErrNotAuthorized.Code)
	wrong := begin("RIDDLE")
	wrong.expect(packets.Auth)
	wrong.send(authPacket(0x18, "OTHER", "me"))
	if ack := wrong.expect(packets.Connack); ack.ReasonCode != packets.ErrProtocolViolation.Code {
		t.Errorf("CONNACK %#x", ack.ReasonCode)
	}
}
