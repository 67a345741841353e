package manage

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
)

// object is a JSON object in an answer. Its keys come in order.
type object = map[string]any

// jsonOfTable is a table as JSON.
func jsonOfTable(t message.Table) object { return t.JSON(jsonOfScalar) }

func jsonOfScalar(v message.Value) any {
	switch v.Kind() { //nolint:exhaustive // the others are integers
	case message.KindVoid:
		return nil
	case message.KindBool:
		return v.Bool()
	case message.KindFloat32, message.KindFloat64, message.KindDecimal:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return v.String() // no number of JSON's
		}
		return json.Number(v.String())
	case message.KindString, message.KindBytes:
		if !utf8.Valid(v.Bytes()) {
			return v.Bytes() // base64
		}
		return v.Str()
	}
	if n, ok := v.Int(); ok {
		return n
	}
	return v.Uint()
}

// args are a table in JSON: an object, or an empty array, which is how some clients write an empty
// object.
type args message.Table

// UnmarshalJSON reads either.
func (a *args) UnmarshalJSON(b []byte) error {
	var v any
	if err := decode(b, &v); err != nil {
		return err
	}
	value, err := valueOf(v, message.MaxDepth)
	if err != nil {
		return err
	}
	switch {
	case value.Kind() == message.KindTable:
		*a = args(value.Table())
	case value.Kind() == message.KindVoid, value.Kind() == message.KindArray && value.Len() == 0:
	default:
		return fmt.Errorf("want an object")
	}
	return nil
}

// valueOf is a JSON value as AMQP has it: whole numbers are long, others double.
func valueOf(v any, depth int) (message.Value, error) {
	if depth == 0 {
		return message.Value{}, fmt.Errorf("it is nested too deep")
	}
	switch v := v.(type) {
	case []any:
		all := make([]message.Value, len(v))
		for i := range v {
			var err error
			if all[i], err = valueOf(v[i], depth-1); err != nil {
				return message.Value{}, err
			}
		}
		return message.Array(all...), nil
	case map[string]any:
		t := make(message.Table, 0, len(v))
		for name := range v {
			one, err := valueOf(v[name], depth-1)
			if err != nil {
				return message.Value{}, err
			}
			t = append(t, message.Header{Name: name, Value: one})
		}
		slices.SortFunc(t, func(a, b message.Header) int { return cmp.Compare(a.Name, b.Name) })
		return message.Nested(t), nil
	}
	return message.OfJSON(v)
}

// boolean is a truth value, which rabbitmqadmin sends as a string.
type boolean bool

// UnmarshalJSON reads either.
func (t *boolean) UnmarshalJSON(b []byte) error {
	switch string(bytes.Trim(b, `"`)) {
	case "true":
		*t = true
	case "false", "null", "":
		*t = false
	default:
		return fmt.Errorf("%.40s is neither true nor false", b)
	}
	return nil
}

// number is a whole number, which rabbitmqadmin sends as a string.
type number int64

// UnmarshalJSON reads either.
func (n *number) UnmarshalJSON(b []byte) error {
	v, err := json.Number(bytes.Trim(b, `"`)).Int64()
	if err != nil {
		return fmt.Errorf("%.40s is no whole number", b)
	}
	*n = number(v)
	return nil
}

// decode decodes a whole JSON text. Numbers keep their digits; what v has no place for is passed
// over, since clients send more than is used.
func decode(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("there is more after the end")
	}
	return nil
}

// maxDefinition bounds bodies that describe one thing, in bytes.
const maxDefinition = 256 << 10

// read reads the body, of limit bytes at most, into v, which is a pointer to a struct. An empty one leaves v as it is.
func (c *call) read(v any, limit int) error {
	b, err := c.budget.Body(c.ctx, c.RequestCtx, limit)
	if err != nil || len(bytes.TrimSpace(b)) == 0 {
		return err
	}
	if !json.Valid(b) {
		return badRequest("not_json")
	}
	if err := decode(b, v); err != nil {
		return badRequest("%v", err)
	}
	return nil
}

// short refuses names and texts that AMQP has no room for: cut, they would be others.
func short(texts ...string) error {
	for _, s := range texts {
		if len(s) > spec.MaxShortstr {
			return badRequest("%.40s… has %d bytes, at most %d are allowed", s, len(s), spec.MaxShortstr)
		}
	}
	return nil
}

// missing refuses a body without fields that it must have.
func missing(fields ...string) error {
	return badRequest("[{key_missing,%s}]", strings.Join(fields, "},{key_missing,"))
}
