package amqp

import (
	"fmt"
	"math/big"
	"strconv"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
)

// typeName is a field type as RabbitMQ's texts have it.
func typeName(k message.Kind) string {
	switch k {
	case message.KindVoid:
		return "void"
	case message.KindBool:
		return "bool"
	case message.KindInt8:
		return "byte"
	case message.KindUint8:
		return "unsignedbyte"
	case message.KindInt16:
		return "short"
	case message.KindUint16:
		return "unsignedshort"
	case message.KindInt32:
		return "signedint"
	case message.KindUint32:
		return "unsignedint"
	case message.KindInt64, message.KindUint64:
		return "long"
	case message.KindFloat32:
		return "float"
	case message.KindFloat64:
		return "double"
	case message.KindDecimal:
		return "decimal"
	case message.KindString:
		return "longstr"
	case message.KindBytes:
		return "binary"
	case message.KindTime:
		return "timestamp"
	case message.KindArray:
		return "array"
	case message.KindTable:
		return "table"
	default:
		return "unknown"
	}
}

// typeClass is what has to be equal for two values to be compared by value.
func typeClass(k message.Kind) string {
	switch k { //nolint:exhaustive // the others are a class of their own
	case message.KindInt8, message.KindUint8, message.KindInt16, message.KindUint16, message.KindInt32,
		message.KindUint32, message.KindInt64, message.KindUint64, message.KindDecimal:
		return "int"
	case message.KindFloat32, message.KindFloat64:
		return "float"
	}
	return typeName(k)
}

// plainText is a value as RabbitMQ's texts have it.
func plainText(v message.Value) string { return v.String() }

// equivalent compares an argument of what exists with that of a declaration, either of which
// may be absent. thing is what they belong to.
func equivalent(name, thing string, current, received *message.Value) error {
	switch {
	case current == nil && received == nil:
		return nil
	case current == nil || received == nil:
		return inequivalent(name, thing, typedText(received), typedText(current))
	case typeClass(current.Kind()) == typeClass(received.Kind()) && current.Same(*received):
		return nil
	}
	return inequivalent(name, thing, "'"+plainText(*received)+"'", "'"+plainText(*current)+"'")
}

func typedText(v *message.Value) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprintf("the value '%s' of type '%s'", plainText(*v), typeName(v.Kind()))
}

func inequivalent(name, thing, received, current string) error {
	return soft(spec.PreconditionFailed, "inequivalent arg '%s' for %s: received %s but current is %s", name, thing, received, current)
}

// sameField compares a property of what exists with that of a declaration.
func sameField[T comparable](name, thing string, current, received T) error {
	if current == received {
		return nil
	}
	return inequivalent(name, thing, fmt.Sprintf("'%v'", received), fmt.Sprintf("'%v'", current))
}

// argument is a pointer to a value of a table; nil when it is not there.
func argument(t message.Table, name string) *message.Value {
	v, ok := t.Get(name)
	if !ok {
		return nil
	}
	return &v
}

// The checks of arguments return what is wrong, in the words of RabbitMQ, which are Erlang's
// terms; "" when nothing is.

// maxExpiry is the longest time that expires anything: 10 years, in ms.
const maxExpiry = 315_360_000_000

func wrongInt(v message.Value) string {
	if typeClass(v.Kind()) != "int" || v.Kind() == message.KindDecimal {
		return strconv.Quote("expected integer, got " + typeName(v.Kind()))
	}
	return ""
}

func wrongNonNegative(v message.Value) string {
	if wrong := wrongInt(v); wrong != "" {
		return wrong
	}
	if n, ok := v.Int(); ok && n < 0 {
		return fmt.Sprintf("{value_negative,%d}", n)
	}
	return ""
}

func wrongExpiry(v message.Value) string {
	if wrong := wrongNonNegative(v); wrong != "" {
		return wrong
	}
	return wrongDuration(intOf(v))
}

func wrongDuration(n int64) string {
	switch {
	case n < 0:
		return fmt.Sprintf("{value_negative,%d}", n)
	case n > maxExpiry:
		return fmt.Sprintf("{value_too_large,%d}", n)
	}
	return ""
}

func wrongPositive(v message.Value) string {
	if wrong := wrongNonNegative(v); wrong != "" {
		return wrong
	}
	if intOf(v) == 0 {
		return "{value_zero,0}"
	}
	return ""
}

func wrongBool(v message.Value) string { return wrongType(v, message.KindBool) }

func wrongText(v message.Value) string { return wrongType(v, message.KindString) }

func wrongType(v message.Value, want message.Kind) string {
	if v.Kind() != want {
		return "{unacceptable_type," + typeName(v.Kind()) + "}"
	}
	return ""
}

// wrongChoice is for text that has to be one of a few.
func wrongChoice(v message.Value, wrong string, choices ...string) string {
	if w := wrongText(v); w != "" {
		return w
	}
	for _, c := range choices {
		if v.Str() == c {
			return ""
		}
	}
	return wrong
}

// intOf is the number of an integer; the greatest one for what is beyond.
func intOf(v message.Value) int64 {
	n, ok := v.Int()
	if !ok && v.Uint() > 0 {
		return 1<<63 - 1
	}
	return n
}

// parseExpiration reads a message's expiration in ms, as Erlang's string:to_integer does.
func parseExpiration(s string) (ms int64, wrong string) {
	end := 0
	if end < len(s) && (s[end] == '-' || s[end] == '+') {
		end++
	}
	digits := end
	for end < len(s) && '0' <= s[end] && s[end] <= '9' {
		end++
	}
	switch {
	case end == digits:
		return 0, "no_integer"
	case end < len(s):
		return 0, "{leftover_string," + strconv.Quote(s[end:]) + "}"
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		whole, _ := new(big.Int).SetString(s, 10)
		if whole.Sign() < 0 {
			return 0, "{value_negative," + whole.String() + "}"
		}
		return 0, "{value_too_large," + whole.String() + "}"
	}
	return n, wrongDuration(n)
}
