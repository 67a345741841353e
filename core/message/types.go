package message

import (
	"slices"
	"strings"
	"unicode/utf8"

	"polylog/core"
	"polylog/core/wire"
)

// typesHeader tells the types of the headers before it. Its grammar:
//
//	types = one for each header: [ "h" ] ( "-" | type )
//	type  = letter | "A(" type… ")" | "F(" type… ")" | "w"
//
// "w" is an array or table that JSON has no form for: its header has it as appendValue writes
// it.
const typesHeader = "x-types"

// letters are those of the kinds, AMQP's where it has them.
const letters = "VtbBsuIilLfdDSxTAF"

const (
	plainType  = '-' // text that is UTF-8, bytes that are not, void
	ownMark    = 'h' // the header is no part of the message, though it has the name of one
	binaryType = 'w'
)

func kindOf(letter byte) (Kind, bool) {
	i := strings.IndexByte(letters, letter)
	return Kind(i), i >= 0
}

// appendHeaderType appends the type that a header of value v has in x-types.
func appendHeaderType(dst []byte, v Value) []byte {
	switch {
	case v.kind == KindVoid, v.IsText() && utf8.Valid(v.data) == (v.kind == KindString):
		return append(dst, plainType)
	case v.items != nil && !v.hasJSON():
		return append(dst, binaryType)
	}
	return appendType(dst, v)
}

func appendType(dst []byte, v Value) []byte {
	dst = append(dst, letters[v.kind])
	if v.kind != KindArray && v.kind != KindTable {
		return dst
	}
	dst = append(dst, '(')
	for i := range v.items {
		dst = appendType(dst, v.items[i].Value)
	}
	return append(dst, ')')
}

// cutType takes the first type off x-types: without the mark, which own stands for. It is
// false for what is no type.
func cutType(types []byte) (typ []byte, own bool, rest []byte, ok bool) {
	if own = len(types) > 0 && types[0] == ownMark; own {
		types = types[1:]
	}
	if len(types) == 0 {
		return nil, own, nil, false
	}
	if types[0] == plainType || types[0] == binaryType {
		return types[:1], own, types[1:], true
	}
	depth := 0
	for i, b := range types {
		switch b {
		case ')':
			depth--
		case '(':
			depth++
		default:
			k, ok := kindOf(b)
			if !ok {
				return nil, own, nil, false
			}
			if k == KindArray || k == KindTable {
				continue // its parentheses follow
			}
		}
		if depth <= 0 {
			return types[:i+1], own, types[i+1:], depth == 0
		}
	}
	return nil, own, nil, false
}

// hints are the types of a record's headers.
type hints struct {
	at    int    // where x-types is; -1: nowhere
	types []byte // of the headers that are still to come
}

// findHints looks for the last x-types, which counts only if it fits the headers before it.
func findHints(headers []core.RecordHeader) hints {
	for i, h := range slices.Backward(headers) {
		if h.Key != typesHeader {
			continue
		}
		rest, ok := h.Value, true
		for range i {
			if _, _, rest, ok = cutType(rest); !ok {
				break
			}
		}
		if ok && len(rest) == 0 {
			return hints{i, h.Value}
		}
		break
	}
	return hints{at: -1}
}

// next is the type of the next header.
func (h *hints) next() (typ []byte, own bool) {
	if len(h.types) == 0 {
		return nil, false
	}
	typ, own, h.types, _ = cutType(h.types)
	return typ, own
}

// decodeHeader is the value of a header of this type. What does not fit it is plain.
func decodeHeader(b, typ []byte) Value {
	if b != nil && len(typ) > 0 && typ[0] != plainType {
		if v, ok := decodeTyped(b, typ); ok {
			return v
		}
	}
	switch {
	case b == nil:
		return Value{}
	case utf8.Valid(b):
		return Text(b)
	}
	return Bytes(b)
}

func decodeTyped(b, typ []byte) (Value, bool) {
	if typ[0] == binaryType {
		r := wire.NewReader(b)
		v := readValue(&r, MaxDepth)
		return v, r.Close() == nil && v.items != nil
	}
	switch k, _ := kindOf(typ[0]); k {
	case KindString:
		return Text(b), true
	case KindBytes:
		return Bytes(b), true
	case KindArray, KindTable:
		return parseJSON(b, typ)
	default:
		return parseNumber(k, string(b))
	}
}
