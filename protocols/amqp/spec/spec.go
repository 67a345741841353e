// Package spec is AMQP 0-9-1 on the wire: methods, content headers, field tables and frames.
// Structs, encoders and decoders are generated from the published definition with
// RabbitMQ's extensions, which lies beside them under its own (BSD) licence.
//
// Encoders append to the caller's slice. Decoders take a whole frame's payload, check every
// length against it before they allocate, and reject what is left over.
package spec

//go:generate go run ./gen amqp0-9-1.stripped.extended.xml access.xml

import (
	"errors"
	"fmt"
)

// MethodID is a class and a method: class<<16 | method, as on the wire.
type MethodID uint32

// Class is the number of the class.
func (id MethodID) Class() uint16 { return uint16(id >> 16) }

// Method is the number within the class.
func (id MethodID) Method() uint16 { return uint16(id) }

func (id MethodID) numbers() string { return fmt.Sprintf("%d.%d", id.Class(), id.Method()) }

// BasicClass is the class of content.
const BasicClass = 60

// Code is the reply code of a close or return.
type Code uint16

// Method is a method with its arguments.
type Method interface {
	ID() MethodID
	// AppendTo appends the arguments.
	AppendTo(b []byte) []byte
}

// decodable is what all generated methods are.
type decodable interface {
	Method
	read(r *reader)
}

var (
	// ErrSyntax says that a method, a content header or a table is malformed.
	ErrSyntax = errors.New("malformed")
	// ErrText says that a short string of a method is not UTF-8.
	ErrText = errors.New("a short string is not UTF-8")
	// ErrUnknownMethod says that there is no such class or method.
	ErrUnknownMethod = errors.New("unknown method")
)

// Decoder decodes what one connection receives. It remembers short strings, for clients
// repeat the names of exchanges and queues, and the structs of the most frequent methods:
// those of basic.publish, ack, nack and reject are valid until the next one only. The zero
// value is ready.
type Decoder struct {
	names   names
	r       reader // here, for methods read through an interface
	publish BasicPublish
	ack     BasicAck
	nack    BasicNack
	reject  BasicReject
}

// PeekMethod is the id at the front of a method frame's payload; 0 where there is none.
func PeekMethod(payload []byte) MethodID {
	r := reader{b: payload}
	return MethodID(r.long())
}

// Method decodes the payload of a method frame. Errors are ErrSyntax, ErrText
// and ErrUnknownMethod.
func (d *Decoder) Method(payload []byte) (Method, error) {
	d.r = reader{b: payload, names: &d.names, text: true}
	r := &d.r
	id := MethodID(r.long())
	var m decodable
	switch id {
	case BasicPublishID:
		m = &d.publish
	case BasicAckID:
		m = &d.ack
	case BasicNackID:
		m = &d.nack
	case BasicRejectID:
		m = &d.reject
	default:
		m = newMethod(id)
	}
	switch {
	case r.err != nil:
		return nil, r.err
	case m == nil:
		return nil, fmt.Errorf("%w %s", ErrUnknownMethod, id)
	}
	m.read(r)
	if err := r.close(); err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	return m, nil
}

// Header decodes the payload of a content header frame (section 4.2.6.1): class, weight,
// body size, properties.
func (d *Decoder) Header(payload []byte, p *Properties) (class uint16, size uint64, err error) {
	r := reader{b: payload, names: &d.names}
	class = r.short()
	r.short() // weight: unused
	size = r.longlong()
	p.read(&r)
	if err := r.close(); err != nil {
		return class, size, err
	}
	return class, size, nil
}
