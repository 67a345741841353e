package kafka

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
)

// saslHandshakeFramed is the version after which tokens come in SaslAuthenticate.
const saslHandshakeFramed = 1

// saslHandshake begins a login. While there are no users it answers as Kafka does on a listener without
// SASL.
func saslHandshake(ctx context.Context, c *call, req *kmsg.SASLHandshakeRequest) *kmsg.SASLHandshakeResponse {
	resp := kmsg.NewPtrSASLHandshakeResponse()
	l := &c.login
	if !c.srv.router.HasUsers() || c.inside {
		resp.ErrorCode = codeIllegalSASLState
		return resp
	}
	resp.SupportedMechanisms = mechanisms
	switch {
	case l.mechanism != "":
		resp.ErrorCode = codeIllegalSASLState
		c.refuse(ctx, core.E(core.Invalid, "a second SaslHandshake"))
	case !slices.Contains(mechanisms, req.Mechanism):
		resp.ErrorCode = codeUnsupportedSASLMechanism
		c.refuse(ctx, core.E(core.Invalid, "Unsupported SASL mechanism %.64q", req.Mechanism))
	default:
		l.mechanism, l.raw, l.scram = req.Mechanism, c.version < saslHandshakeFramed, nil
	}
	return resp
}
