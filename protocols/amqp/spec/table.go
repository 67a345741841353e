package spec

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"polylog/core/message"
)

// A field table is a length of 32 bits and, for each entry, a shortstr and a value: one
// letter for its type and then its bytes. The letters are RabbitMQ's, which differ from
// those of section 4.2.1 (https://www.rabbitmq.com/amqp-0-9-1-errata, "Field types"):
//
//	t bool    b int8   B uint8   s int16   u uint16   I int32   i uint32   l int64
//	f float32 d float64 D decimal (scale u8, i32)  S longstr  x bytes
//	A array (u32 length of its values)  F table  T timestamp (u64, s)  V void

// AppendTable appends a field table.
func AppendTable(b []byte, t message.Table) []byte {
	at := len(b)
	b = appendLong(b, 0)
	for i := range t {
		b = appendValue(appendShortstr(b, t[i].Name), t[i].Value)
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// appendValue appends a value with its letter.
func appendValue(b []byte, v message.Value) []byte {
	n, fits := v.Int()
	switch v.Kind() {
	case message.KindBool:
		return appendBits(append(b, 't'), v.Bool())
	case message.KindInt8:
		return append(b, 'b', byte(n))
	case message.KindUint8:
		return append(b, 'B', byte(n))
	case message.KindInt16:
		return appendShort(append(b, 's'), uint16(n))
	case message.KindUint16:
		return appendShort(append(b, 'u'), uint16(n))
	case message.KindInt32:
		return appendLong(append(b, 'I'), uint32(n))
	case message.KindUint32:
		return appendLong(append(b, 'i'), uint32(n))
	case message.KindInt64:
		return appendLonglong(append(b, 'l'), uint64(n))
	case message.KindUint64: // AMQP has none: what is above an int64 is text
		if fits {
			return appendLonglong(append(b, 'l'), uint64(n))
		}
		return appendLongstr(append(b, 'S'), strconv.AppendUint(nil, v.Uint(), 10))
	case message.KindFloat32:
		return appendLong(append(b, 'f'), math.Float32bits(float32(v.Float())))
	case message.KindFloat64:
		return appendLonglong(append(b, 'd'), math.Float64bits(v.Float()))
	case message.KindDecimal:
		scale, unscaled := v.Decimal()
		return appendLong(append(b, 'D', scale), uint32(unscaled))
	case message.KindString:
		return appendLongstr(append(b, 'S'), v.Bytes())
	case message.KindBytes:
		return appendLongstr(append(b, 'x'), v.Bytes())
	case message.KindTime:
		return appendTimestamp(append(b, 'T'), n)
	case message.KindArray:
		at := len(b) + 1
		b = appendLong(append(b, 'A'), 0)
		for i := range v.Len() {
			b = appendValue(b, v.At(i))
		}
		binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
		return b
	case message.KindTable:
		return AppendTable(append(b, 'F'), v.Table())
	default:
		return append(b, 'V')
	}
}

// ReadTable decodes a table without its length, as SASL AMQPLAIN sends it.
func ReadTable(b []byte) (message.Table, error) {
	r := reader{b: b}
	t := r.entries(message.MaxDepth)
	return t, r.close()
}

// table reads a field table; nil when it is empty.
func (r *reader) table() message.Table { return r.nestedTable(message.MaxDepth) }

// nestedTable reads a table, which may have depth-1 more in each other.
func (r *reader) nestedTable(depth int) message.Table {
	in := r.nested(depth)
	t := in.entries(depth)
	r.leave(&in)
	return t
}

func (r *reader) entries(depth int) (t message.Table) {
	for len(r.b) > 0 {
		t = append(t, message.Header{Name: r.name(), Value: r.value(depth)})
	}
	return t
}

func (r *reader) array(depth int) message.Value {
	in := r.nested(depth)
	var vs []message.Value
	for len(in.b) > 0 {
		vs = append(vs, in.value(depth))
	}
	r.leave(&in)
	return message.Array(vs...)
}

// nested is a reader of the counted bytes that follow.
func (r *reader) nested(depth int) reader {
	if depth == 0 {
		r.fail(fmt.Sprintf("tables and arrays nested deeper than %d", message.MaxDepth))
	}
	return reader{b: r.counted(), names: r.names} // what is in tables need not be text
}

// leave takes over the error of a nested reader.
func (r *reader) leave(in *reader) {
	if in.err != nil && r.err == nil {
		r.err, r.b = in.err, nil
	}
}

func (r *reader) value(depth int) message.Value {
	switch letter := r.octet(); letter {
	case 't':
		return message.Bool(r.octet() != 0)
	case 'b':
		return message.Int(message.KindInt8, int64(int8(r.octet())))
	case 'B':
		return message.Int(message.KindUint8, int64(r.octet()))
	case 's':
		return message.Int(message.KindInt16, int64(int16(r.short())))
	case 'u':
		return message.Int(message.KindUint16, int64(r.short()))
	case 'I':
		return message.Int(message.KindInt32, int64(int32(r.long())))
	case 'i':
		return message.Int(message.KindUint32, int64(r.long()))
	case 'l', 'L':
		return message.Int(message.KindInt64, int64(r.longlong()))
	case 'f':
		return message.Float32(math.Float32frombits(r.long()))
	case 'd':
		return message.Float64(math.Float64frombits(r.longlong()))
	case 'D':
		scale := r.octet()
		return message.Decimal(scale, int32(r.long()))
	case 'S':
		return message.Text(r.longstr())
	case 'x':
		return message.Bytes(r.longstr())
	case 'A':
		return r.array(depth - 1)
	case 'F':
		return message.Nested(r.nestedTable(depth - 1))
	case 'T':
		return message.Time(r.timestamp())
	case 'V':
		return message.Void()
	default:
		if r.err == nil {
			r.fail(fmt.Sprintf("a field of type %q", letter))
		}
		return message.Void()
	}
}
