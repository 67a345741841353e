package mqtt

import (
	"errors"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
)

// Reasons for which we end a connection, beside those that package packets has.
var (
	codeShuttingDown = packets.ErrServerShuttingDown
	codeTakenOver    = packets.ErrSessionTakenOver
	codeEnded        = packets.ErrAdministrativeAction
)

// reasonOf is the reason code (section 2.4) for an error of the router, on a publish or where it ends the connection.
func reasonOf(err error) packets.Code {
	switch core.KindOf(err) {
	case core.OK:
		return packets.CodeSuccess
	case core.Denied:
		return packets.ErrNotAuthorized
	case core.NotFound, core.Invalid:
		return packets.ErrTopicNameInvalid
	case core.TooLarge:
		return packets.ErrPacketTooLarge
	case core.Limit:
		return packets.ErrQuotaExceeded
	case core.Unavailable, core.NotLeader, core.Uncertain, core.Closed:
		return packets.ErrServerUnavailable
	case core.Fenced:
		return codeTakenOver
	default:
		return packets.ErrImplementationSpecificError
	}
}

// refusal is the reason code for such an error in SUBACK and UNSUBACK, which have few of them (sections 3.9.3 and 3.11.3).
func refusal(err error) packets.Code {
	switch code := reasonOf(err); code {
	case packets.CodeSuccess, packets.ErrNotAuthorized, packets.ErrQuotaExceeded:
		return code
	case packets.ErrTopicNameInvalid:
		return packets.ErrTopicFilterInvalid
	default:
		return packets.ErrImplementationSpecificError
	}
}

// passing reports whether what failed may go well when the client sends it again: over another connection, where this
// one's session is another's by now.
func passing(err error) bool {
	switch core.KindOf(err) { //nolint:exhaustive // the others stay
	case core.Unavailable, core.NotLeader, core.Uncertain, core.Closed, core.Conflict, core.Fenced:
		return true
	}
	return false
}

// codeOf is the code that an error ends a connection with: its own, or that for a packet
// that cannot be read.
func codeOf(err error) packets.Code {
	if c, ok := errors.AsType[packets.Code](err); ok {
		return c
	}
	return packets.ErrMalformedPacket
}

// connack3 is the return code of MQTT 3.1.1 (section 3.2.2.3) for a reason of MQTT 5.
func connack3(c packets.Code) byte {
	switch c.Code {
	case packets.CodeSuccess.Code:
		return 0
	case packets.ErrUnsupportedProtocolVersion.Code:
		return 1
	case packets.ErrClientIdentifierNotValid.Code:
		return 2
	case packets.ErrBadUsernameOrPassword.Code:
		return 4
	case packets.ErrNotAuthorized.Code:
		return 5
	default:
		return 3 // server unavailable
	}
}
