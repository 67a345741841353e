package message

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// appendText appends v as the text that a record header has: text and bytes as they are,
// numbers in decimal, arrays and tables as JSON with bytes in base64.
func (v Value) appendText(dst []byte) []byte {
	switch v.kind {
	case KindVoid, kinds:
		return dst
	case KindString, KindBytes:
		return append(dst, v.data...)
	case KindArray, KindTable:
		return v.appendJSON(dst)
	case KindBool:
		return strconv.AppendBool(dst, v.num != 0)
	case KindFloat32:
		return strconv.AppendFloat(dst, v.Float(), 'g', -1, 32)
	case KindFloat64:
		return strconv.AppendFloat(dst, v.Float(), 'g', -1, 64)
	case KindDecimal:
		return appendDecimal(dst, v.scale, int64(v.num))
	case KindUint64:
		return strconv.AppendUint(dst, v.num, 10)
	default:
		return strconv.AppendInt(dst, int64(v.num), 10)
	}
}

func appendDecimal(dst []byte, scale uint8, unscaled int64) []byte {
	if unscaled < 0 {
		dst, unscaled = append(dst, '-'), -unscaled
	}
	digits := strconv.FormatInt(unscaled, 10)
	if scale == 0 {
		return append(dst, digits...)
	}
	if short := int(scale) + 1 - len(digits); short > 0 {
		digits = strings.Repeat("0", short) + digits
	}
	point := len(digits) - int(scale)
	dst = append(append(dst, digits[:point]...), '.')
	return append(dst, digits[point:]...)
}

func (v Value) appendJSON(dst []byte) []byte {
	switch v.kind { //nolint:exhaustive // the others are text as they are in headers
	case KindVoid:
		return append(dst, "null"...)
	case KindString:
		return appendQuoted(dst, string(v.data))
	case KindBytes:
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), v.data), '"')
	case KindArray:
		dst = append(dst, '[')
		for i := range v.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = v.items[i].Value.appendJSON(dst)
		}
		return append(dst, ']')
	case KindTable:
		dst = append(dst, '{')
		for i := range v.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendQuoted(dst, v.items[i].Name), ':')
			dst = v.items[i].Value.appendJSON(dst)
		}
		return append(dst, '}')
	}
	return v.appendText(dst)
}

func appendQuoted(dst []byte, s string) []byte {
	b, _ := json.Marshal(s) //nolint:errchkjson // of a string: never fails
	return append(dst, b...)
}

// hasJSON reports whether JSON can carry an array or table: names and strings have to be
// UTF-8, numbers finite.
func (v Value) hasJSON() bool {
	switch v.kind { //nolint:exhaustive // what JSON has always
	case KindString:
		return utf8.Valid(v.data)
	case KindFloat32, KindFloat64:
		f := v.Float()
		return !math.IsNaN(f) && !math.IsInf(f, 0)
	}
	for i := range v.items {
		if !utf8.ValidString(v.items[i].Name) || !v.items[i].Value.hasJSON() {
			return false
		}
	}
	return true
}

// parseNumber reads the text of a value that is neither text nor nested.
func parseNumber(k Kind, s string) (Value, bool) {
	var err error
	v := Value{kind: k}
	switch bits, signed := k.width(); {
	case k == KindBool:
		v.num = 1
		return Bool(s == "true"), s == "true" || s == "false"
	case k == KindFloat32 || k == KindFloat64:
		var f float64
		if k == KindFloat64 {
			f, err = strconv.ParseFloat(s, 64)
			return Float64(f), err == nil
		}
		f, err = strconv.ParseFloat(s, 32)
		return Float32(float32(f)), err == nil
	case k == KindDecimal:
		return parseDecimal(s)
	case bits == 0:
		return v, false
	case signed:
		var n int64
		n, err = strconv.ParseInt(s, 10, bits)
		v.num = uint64(n)
	default:
		v.num, err = strconv.ParseUint(s, 10, bits)
	}
	return v, err == nil
}

func parseDecimal(s string) (Value, bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	if len(fraction) > math.MaxUint8 {
		return Value{}, false
	}
	n, err := strconv.ParseInt(whole+fraction, 10, 32)
	return Decimal(uint8(len(fraction)), int32(n)), err == nil
}

// parseJSON reads what appendJSON wrote of a value of these types, and nothing else.
func parseJSON(text, types []byte) (Value, bool) {
	p := jsonParser{in: json.NewDecoder(strings.NewReader(string(text))), types: types}
	p.in.UseNumber()
	v, ok := p.value(MaxDepth)
	return v, ok && len(p.types) == 0 && int(p.in.InputOffset()) == len(text)
}

type jsonParser struct {
	in    *json.Decoder
	types []byte // of what is still to come
}

// letter takes a letter off the types; 0 at their end.
func (p *jsonParser) letter() byte {
	if len(p.types) == 0 {
		return 0
	}
	b := p.types[0]
	p.types = p.types[1:]
	return b
}

// delim takes a token, which is to be this one.
func (p *jsonParser) delim(want json.Delim) bool {
	t, err := p.in.Token()
	return err == nil && t == want
}

func (p *jsonParser) value(depth int) (Value, bool) {
	k, ok := kindOf(p.letter())
	switch {
	case !ok || depth == 0:
		return Value{}, false
	case k == KindArray:
		items, ok := p.items(depth, '[', ']')
		return Value{kind: k, items: items}, ok
	case k == KindTable:
		items, ok := p.items(depth, '{', '}')
		return Value{kind: k, items: items}, ok
	}
	t, err := p.in.Token()
	if err != nil {
		return Value{}, false
	}
	switch t := t.(type) {
	case nil:
		return Value{}, k == KindVoid
	case bool:
		return Bool(t), k == KindBool
	case json.Number:
		return parseNumber(k, t.String())
	case string:
		if k == KindString {
			return String(t), true
		}
		b, err := base64.StdEncoding.DecodeString(t)
		return Bytes(b), err == nil && k == KindBytes
	}
	return Value{}, false
}

// items reads the elements of an array, or the entries of a table.
func (p *jsonParser) items(depth int, open, shut json.Delim) (t Table, ok bool) {
	if !p.delim(open) || p.letter() != '(' {
		return nil, false
	}
	for len(p.types) > 0 && p.types[0] != ')' {
		var h Header
		if open == '{' {
			name, err := p.in.Token()
			if h.Name, ok = name.(string); err != nil || !ok {
				return nil, false
			}
		}
		if h.Value, ok = p.value(depth - 1); !ok {
			return nil, false
		}
		t = append(t, h)
	}
	return t, p.letter() == ')' && p.delim(shut)
}
