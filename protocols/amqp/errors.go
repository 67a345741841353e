package amqp

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"polylog/core"
	"polylog/protocols/amqp/spec"
)

// protocolError is an error that the client is told: a soft one closes its channel, a hard
// one the connection.
type protocolError struct {
	code spec.Code
	text string // without the code's name
	hard bool
	// method is the one that failed, where it is not the one that was being handled.
	method spec.MethodID
}

// soft is an error that closes the channel.
func soft(code spec.Code, format string, args ...any) *protocolError {
	return &protocolError{code: code, text: fmt.Sprintf(format, args...)}
}

// hard is an error that closes the connection.
func hard(code spec.Code, format string, args ...any) *protocolError {
	return &protocolError{code: code, text: fmt.Sprintf(format, args...), hard: true}
}

// of says which method failed, whatever is being handled.
func (e *protocolError) of(id spec.MethodID) *protocolError {
	e.method = id
	return e
}

// Error is the reply text: the front of it where it is too long for a short string.
func (e *protocolError) Error() string {
	text := e.code.String() + " - " + e.text
	if len(text) <= spec.MaxShortstr {
		return text
	}
	const more = "..."
	return strings.ToValidUTF8(text[:spec.MaxShortstr-len(more)], "") + more
}

// connectionClose is the error as the client is told of a hard one.
func (e *protocolError) connectionClose() *spec.ConnectionClose {
	m := &spec.ConnectionClose{ReplyCode: uint16(e.code), ReplyText: e.Error()}
	if e.method != noMethod {
		m.ClassID, m.MethodID = e.method.Class(), e.method.Method()
	}
	return m
}

// noMethod stands for no method in an error that says so.
const noMethod spec.MethodID = 1<<32 - 1

// errBroken is for a stream of bytes that cannot be made out any more: what follows is not
// read as frames.
type errBroken struct{ *protocolError }

// kindCodes is the one table from error kinds to reply codes. Handlers choose their own code
// and text where RabbitMQ has them; this is for the rest.
var kindCodes = map[core.Kind]spec.Code{
	core.Invalid:     spec.PreconditionFailed,
	core.NotFound:    spec.NotFound,
	core.Exists:      spec.PreconditionFailed,
	core.OutOfRange:  spec.PreconditionFailed,
	core.TooLarge:    spec.PreconditionFailed,
	core.Denied:      spec.AccessRefused,
	core.Conflict:    spec.ResourceLocked,
	core.Fenced:      spec.ResourceLocked,
	core.Limit:       spec.PreconditionFailed,
	core.Unsupported: spec.NotImplemented,
	core.NotLeader:   spec.ConnectionForced,
	core.Unavailable: spec.ConnectionForced,
	core.Uncertain:   spec.ConnectionForced,
	core.Closed:      spec.ConnectionForced,
}

// asProtocolError is err as the client is told.
func asProtocolError(err error) *protocolError {
	if e, ok := errors.AsType[*protocolError](err); ok {
		return e
	}
	code, ok := kindCodes[core.KindOf(err)]
	if !ok {
		code = spec.InternalError
	}
	return &protocolError{code: code, text: err.Error(), hard: code.Hard()}
}

// octets writes bytes as RabbitMQ's texts have them: <<"abc">> when all can be printed, else
// <<1,2,3>>. Nothing beyond what fits into a reply text is written.
func octets(b []byte) string {
	b = b[:min(len(b), spec.MaxShortstr)]
	printable := len(b) > 0
	for _, c := range b {
		printable = printable && c >= ' ' && c < 0x7f
	}
	if printable {
		return "<<" + strconv.Quote(string(b)) + ">>"
	}
	var s strings.Builder
	s.WriteString("<<")
	for i, c := range b {
		if i > 0 {
			s.WriteByte(',')
		}
		s.WriteString(strconv.Itoa(int(c)))
	}
	s.WriteString(">>")
	return s.String()
}

// unexpectedFrame is for a frame that may not come now.
func unexpectedFrame(h spec.FrameHead, payload []byte) *protocolError {
	return hard(spec.UnexpectedFrame, "type %d, all octets = %s", h.Type, octets(payload))
}

// frameError is for a frame that cannot be one.
func frameError(h spec.FrameHead, payload []byte, what string) *protocolError {
	return hard(spec.FrameError, "type %d, all octets = %s: %s", h.Type, octets(payload), what)
}
