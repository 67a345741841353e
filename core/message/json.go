package message

import (
	"encoding/json"

	"polylog/core"
)

// OfJSON is a JSON scalar, as encoding/json decodes it with UseNumber, as a header's value: whole numbers
// are of 64 bits, others double. Anything else is an error of kind Invalid.
func OfJSON(v any) (Value, error) {
	switch v := v.(type) {
	case nil:
		return Void(), nil
	case string:
		return String(v), nil
	case bool:
		return Bool(v), nil
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return Int(KindInt64, n), nil
		}
		f, err := v.Float64()
		if err != nil {
			return Value{}, core.E(core.Invalid, "%.40s is no number that fits", v)
		}
		return Float64(f), nil
	}
	return Value{}, core.E(core.Invalid, "%T is no scalar", v)
}

// JSON is a value for encoding/json, with what scalar makes of what is neither an array nor a table.
func (v Value) JSON(scalar func(Value) any) any {
	switch v.Kind() { //nolint:exhaustive // the others are scalars
	case KindArray:
		all := make([]any, v.Len())
		for i := range all {
			all[i] = v.At(i).JSON(scalar)
		}
		return all
	case KindTable:
		return v.Table().JSON(scalar)
	}
	return scalar(v)
}

// JSON is a table for encoding/json. Of a name that is there twice the last one counts.
func (t Table) JSON(scalar func(Value) any) map[string]any {
	o := make(map[string]any, len(t))
	for i := range t {
		o[t[i].Name] = t[i].Value.JSON(scalar)
	}
	return o
}
