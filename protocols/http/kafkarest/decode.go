package kafkarest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
)

// decodeJSON decodes a whole JSON text. What is no JSON is refused with 400, and fields that v
// does not have with 422, as by the original.
func decodeJSON(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return nil
		}
		return badJSON("there is more after the end", d.InputOffset())
	}
	return decodingError(err, len(b))
}

// decodingError is why n bytes could not be decoded.
func decodingError(err error, n int) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return badJSON(syntax.Error(), syntax.Offset)
	}
	if typed, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return badJSON(typed.Field+" cannot be a "+typed.Value, typed.Offset)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return badJSON("it ends in the middle", int64(n))
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return unprocessed("Unrecognized field: " + strings.Trim(name, `"`))
	}
	if isRefusal(err) {
		return err
	}
	return &refusal{400, "Bad Request: " + strings.TrimPrefix(err.Error(), "json: ")}
}

func badJSON(why string, at int64) error {
	return &refusal{400, "Bad Request: Error processing JSON: " + why + ", at byte " + strconv.FormatInt(at, 10)}
}
