package message

import (
	"bytes"
	"fmt"
	"math"
	"slices"
)

// Kind is the type of a Value. The numbers are stored; they are never reused.
type Kind uint8

// The kinds are AMQP's field types, and unsigned integers of 64 bits.
const (
	KindVoid Kind = iota
	KindBool
	KindInt8
	KindUint8
	KindInt16
	KindUint16
	KindInt32
	KindUint32
	KindInt64
	KindUint64
	KindFloat32
	KindFloat64
	KindDecimal
	KindString
	KindBytes
	KindTime // whole seconds since the epoch
	KindArray
	KindTable
	kinds // their number
)

// Value is the value of a header: immutable, but for the bytes that it may alias. The zero
// value is void, Kafka's null.
type Value struct {
	kind  Kind
	scale uint8  // of a decimal
	num   uint64 // bool, integers, time: two's complement; floats: their bits; decimal: unscaled
	data  []byte // string, bytes
	items Table  // table; an array's have no names
}

// Header is a named value.
type Header struct {
	Name  string
	Value Value
}

// Void is no value.
func Void() Value { return Value{} }

// Bool is a truth value.
func Bool(b bool) Value {
	v := Value{kind: KindBool}
	if b {
		v.num = 1
	}
	return v
}

// Int is an integer of kind k, which is one of the integers but Uint64, cut to its width.
func Int(k Kind, n int64) Value { return Value{kind: k, num: fit(k, uint64(n))} }

// Uint64 is an integer of KindUint64.
func Uint64(n uint64) Value { return Value{kind: KindUint64, num: n} }

// Float32 is a number of KindFloat32.
func Float32(f float32) Value { return Value{kind: KindFloat32, num: uint64(math.Float32bits(f))} }

// Float64 is a number of KindFloat64.
func Float64(f float64) Value { return Value{kind: KindFloat64, num: math.Float64bits(f)} }

// Decimal is unscaled/10^scale.
func Decimal(scale uint8, unscaled int32) Value {
	return Value{kind: KindDecimal, scale: scale, num: uint64(int64(unscaled))}
}

// String is text, or what its sender took for text.
func String(s string) Value { return Value{kind: KindString, data: []byte(s)} }

// Text is String for bytes, which the value aliases.
func Text(b []byte) Value { return Value{kind: KindString, data: b} }

// Bytes aliases b.
func Bytes(b []byte) Value { return Value{kind: KindBytes, data: b} }

// Time is a time in seconds since the epoch.
func Time(seconds int64) Value { return Value{kind: KindTime, num: uint64(seconds)} }

// Array holds copies of the values.
func Array(vs ...Value) Value {
	v := Value{kind: KindArray, items: make(Table, len(vs))}
	for i := range vs {
		v.items[i].Value = vs[i]
	}
	return v
}

// Nested is a table as a value, which aliases it.
func Nested(t Table) Value { return Value{kind: KindTable, items: t} }

// width is that of an integer kind in bits, signed or not; 0 for other kinds.
func (k Kind) width() (bits int, signed bool) {
	switch k { //nolint:exhaustive // the integers
	case KindInt8:
		return 8, true
	case KindUint8:
		return 8, false
	case KindInt16:
		return 16, true
	case KindUint16:
		return 16, false
	case KindInt32:
		return 32, true
	case KindUint32:
		return 32, false
	case KindInt64, KindTime:
		return 64, true
	case KindUint64:
		return 64, false
	}
	return 0, false
}

// fit cuts n to the width of k, with the sign extended.
func fit(k Kind, n uint64) uint64 {
	bits, signed := k.width()
	if bits == 0 || bits == 64 {
		return n
	}
	n <<= 64 - bits
	if signed {
		return uint64(int64(n) >> (64 - bits))
	}
	return n >> (64 - bits)
}

// Kind is the value's type.
func (v Value) Kind() Kind { return v.kind }

// Bool is a truth value; false for other kinds.
func (v Value) Bool() bool { return v.kind == KindBool && v.num != 0 }

// Int is the number of an integer kind or time. It is false for other kinds, and for what is
// above the range of int64.
func (v Value) Int() (n int64, ok bool) {
	bits, signed := v.kind.width()
	if bits == 0 || !signed && v.num > math.MaxInt64 {
		return 0, false
	}
	return int64(v.num), true
}

// Uint is the number of an unsigned integer kind; 0 for other kinds.
func (v Value) Uint() uint64 {
	if bits, signed := v.kind.width(); bits == 0 || signed {
		return 0
	}
	return v.num
}

// Float is the number of a float kind; 0 for other kinds.
func (v Value) Float() float64 {
	switch v.kind { //nolint:exhaustive // the floats
	case KindFloat32:
		return float64(math.Float32frombits(uint32(v.num)))
	case KindFloat64:
		return math.Float64frombits(v.num)
	}
	return 0
}

// Decimal is unscaled/10^scale; 0 for other kinds.
func (v Value) Decimal() (scale uint8, unscaled int32) {
	if v.kind != KindDecimal {
		return 0, 0
	}
	return v.scale, int32(v.num)
}

// Bytes are those of a string or of bytes, not copied; nil for other kinds.
func (v Value) Bytes() []byte { return v.data }

// Str is Bytes as a string.
func (v Value) Str() string { return string(v.data) }

// IsText reports whether the value is a string or bytes.
func (v Value) IsText() bool { return v.kind == KindString || v.kind == KindBytes }

// Len is the number of elements of an array, or of entries of a table; 0 for other kinds.
func (v Value) Len() int { return len(v.items) }

// At is an element of an array.
func (v Value) At(i int) Value { return v.items[i].Value }

// Table is the table that Nested took; nil for other kinds.
func (v Value) Table() Table {
	if v.kind != KindTable {
		return nil
	}
	return v.items
}

// Equal reports whether both are of one kind and have one value. NaN equals NaN.
func (v Value) Equal(o Value) bool {
	if v.kind != o.kind || v.scale != o.scale || !bytes.Equal(v.data, o.data) || !v.items.Equal(o.items) {
		return false
	}
	return v.num == o.num || v.isFloat() && math.IsNaN(v.Float()) && math.IsNaN(o.Float())
}

// Same compares as the headers exchange of AMQP does: numbers by what they are worth,
// whatever their width, and bytes as text.
func (v Value) Same(o Value) bool {
	switch {
	case v.IsText() || o.IsText():
		return v.IsText() && o.IsText() && bytes.Equal(v.data, o.data)
	case v.isNumber() && o.isNumber():
		return sameNumber(v, o)
	case v.kind != o.kind:
		return false
	case v.kind == KindArray, v.kind == KindTable:
		return slices.EqualFunc(v.items, o.items, func(a, b Header) bool { return a.Name == b.Name && a.Value.Same(b.Value) })
	}
	return v.Equal(o)
}

func (v Value) isFloat() bool { return v.kind == KindFloat32 || v.kind == KindFloat64 }

func (v Value) isNumber() bool {
	bits, _ := v.kind.width()
	return bits > 0 || v.isFloat()
}

func sameNumber(v, o Value) bool {
	if v.isFloat() || o.isFloat() {
		return v.approx() == o.approx()
	}
	a, ok := v.Int()
	b, ok2 := o.Int()
	if ok && ok2 {
		return a == b
	}
	return !ok && !ok2 && v.num == o.num
}

// approx is a number as a float.
func (v Value) approx() float64 {
	if n, ok := v.Int(); ok {
		return float64(n)
	}
	if v.isFloat() {
		return v.Float()
	}
	return float64(v.num)
}

// String is the value for people.
func (v Value) String() string {
	switch v.kind {
	case KindVoid:
		return "null"
	case KindBytes:
		return fmt.Sprintf("%x", v.data)
	default:
		return string(v.appendText(nil))
	}
}
