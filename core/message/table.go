package message

import (
	"slices"

	"polylog/core/wire"
)

// Table is a list of headers or arguments. The order counts, and a name may be there more
// than once.
type Table []Header

// Get is the first value of that name.
func (t Table) Get(name string) (Value, bool) {
	for i := range t {
		if t[i].Name == name {
			return t[i].Value, true
		}
	}
	return Value{}, false
}

// Without is the table without the headers of that name: itself where there are none.
func (t Table) Without(name string) Table {
	if _, ok := t.Get(name); !ok {
		return t
	}
	return slices.DeleteFunc(slices.Clone(t), func(h Header) bool { return h.Name == name })
}

// Equal reports whether both have the same names and values in the same order.
func (t Table) Equal(o Table) bool {
	return slices.EqualFunc(t, o, func(a, b Header) bool { return a.Name == b.Name && a.Value.Equal(b.Value) })
}

// MaxDepth is how deep arrays and tables may be nested.
const MaxDepth = 64

// AppendTable appends t for commands and values of the KV space: count uvarint; for each
// header its name and its value.
func AppendTable(dst []byte, t Table) []byte {
	dst = wire.AppendUvarint(dst, uint64(len(t)))
	for i := range t {
		dst = appendValue(wire.AppendString(dst, t[i].Name), t[i].Value)
	}
	return dst
}

// appendValue appends: kind byte; then bool, integers and time varint, floats their bits as
// u64, decimal scale byte and unscaled varint, string and bytes with their length, array
// count uvarint and values, table as AppendTable.
func appendValue(dst []byte, v Value) []byte {
	dst = append(dst, byte(v.kind))
	switch v.kind {
	case KindVoid, kinds:
	case KindFloat32, KindFloat64:
		dst = wire.AppendUint64(dst, v.num)
	case KindDecimal:
		dst = wire.AppendVarint(append(dst, v.scale), int64(v.num))
	case KindString, KindBytes:
		dst = wire.AppendBytes(dst, v.data)
	case KindArray:
		dst = wire.AppendUvarint(dst, uint64(len(v.items)))
		for i := range v.items {
			dst = appendValue(dst, v.items[i].Value)
		}
	case KindTable:
		dst = AppendTable(dst, v.items)
	default:
		dst = wire.AppendVarint(dst, int64(v.num))
	}
	return dst
}

// ReadTable reads what AppendTable wrote. What is malformed is r's error.
func ReadTable(r *wire.Reader) Table { return readTable(r, MaxDepth) }

func readTable(r *wire.Reader, depth int) Table {
	n := r.Count(2)
	if n == 0 {
		return nil
	}
	t := make(Table, 0, min(n, 64))
	for ; n > 0 && r.Err() == nil; n-- {
		t = append(t, Header{r.String(), readValue(r, depth)})
	}
	return t
}

func readValue(r *wire.Reader, depth int) Value {
	v := Value{kind: Kind(r.Byte())}
	if v.kind >= kinds || depth == 0 && (v.kind == KindArray || v.kind == KindTable) {
		r.Take(-1) // makes it fail
		return Value{}
	}
	switch v.kind {
	case KindVoid, kinds:
	case KindBool:
		v.num = uint64(r.Varint()) & 1
	case KindFloat32:
		v.num = r.Uint64() & 0xffffffff
	case KindFloat64:
		v.num = r.Uint64()
	case KindDecimal:
		v.scale = r.Byte()
		v.num = uint64(int64(int32(r.Varint())))
	case KindString, KindBytes:
		v.data = slices.Clone(r.Bytes())
	case KindArray:
		n := r.Count(1)
		for ; n > 0 && r.Err() == nil; n-- {
			v.items = append(v.items, Header{Value: readValue(r, depth-1)})
		}
	case KindTable:
		v.items = readTable(r, depth-1)
	default:
		v.num = fit(v.kind, uint64(r.Varint()))
	}
	return v
}
