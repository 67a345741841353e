package kafkarest

import (
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"

	"polylog/core"
)

// decodeData is a key or value as it is stored: nil where it is JSON's null, or not there.
func decodeData(f format, what string, data json.RawMessage) ([]byte, error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	if f == asJSON {
		return data, nil // as it came: digits and order of fields stay
	}
	var s string
	if data[0] != '"' || json.Unmarshal(data, &s) != nil {
		if f == asText {
			return nil, &refusal{400, "Bad Request: " + what + " is not a string."}
		}
		return nil, &refusal{400, "Bad Request: " + what + " is not a base64 string."}
	}
	if f == asText {
		return []byte(s), nil
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, &refusal{400, "Bad Request: " + what + " is not a valid base64 string."}
	}
	if b == nil {
		b = []byte{} // empty is not null
	}
	return b, nil
}

// appendData appends a key or value as JSON. What is no JSON has none in format json.
func appendData(dst []byte, f format, b []byte) (_ []byte, ok bool) {
	switch {
	case b == nil:
		return append(dst, "null"...), true
	case f == asJSON:
		if !json.Valid(b) || !utf8.Valid(b) {
			return dst, false
		}
		return append(dst, b...), true
	}
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"'), true
}

// headerJSON is a header of a record, whose value is in base64; null stays null. Version 3 says
// name, and the other proxy for version 2, Strimzi's bridge, which has headers there, says key.
type headerJSON struct {
	Name  *string `json:"name,omitempty"`
	Key   *string `json:"key,omitempty"`
	Value *string `json:"value"`
}

// decodeHeaders are headers as they are stored.
func decodeHeaders(hs []headerJSON) ([]core.RecordHeader, error) {
	if len(hs) == 0 {
		return nil, nil
	}
	all := make([]core.RecordHeader, len(hs))
	for i, h := range hs {
		switch {
		case (h.Name == nil) == (h.Key == nil):
			return nil, &refusal{400, "Bad Request: a header needs a name."}
		case h.Name != nil:
			all[i].Key = *h.Name
		default:
			all[i].Key = *h.Key
		}
		if h.Value == nil {
			continue
		}
		b, err := base64.StdEncoding.DecodeString(*h.Value)
		if err != nil {
			return nil, &refusal{400, "Bad Request: the value of header " + all[i].Key + " is not a valid base64 string."}
		}
		all[i].Value = append([]byte{}, b...)
	}
	return all, nil
}

// recordSize is an upper bound of what a record takes in a batch, in bytes.
func recordSize(key, value []byte, hs []core.RecordHeader) int {
	n := 64 + len(key) + len(value)
	for _, h := range hs {
		n += 16 + len(h.Key) + len(h.Value)
	}
	return n
}
