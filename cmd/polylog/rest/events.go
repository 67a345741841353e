package rest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// maxEvent bounds a line of a stream of events, in bytes.
const maxEvent = 64 << 20

// Events calls fn with the data of each server-sent event of a topic's stream, until the stream ends or fn fails. An
// event that says why the stream ends is the error, a *Problem; one that was cut off is left out.
func Events(r io.Reader, fn func(json.RawMessage) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	var kind string
	var data []byte
	for lines.Scan() {
		field, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		switch string(field) {
		case "event":
			kind = string(value)
		case "data":
			data = append(data[:0], value...)
		case "":
			if len(lines.Bytes()) > 0 || len(data) == 0 {
				break // a comment, or what ends one
			}
			if kind == "error" {
				p := &Problem{}
				if err := json.Unmarshal(data, p); err != nil {
					return fmt.Errorf("the stream ended: %s", data)
				}
				return p
			}
			if err := fn(data); err != nil {
				return err
			}
			kind, data = "", data[:0]
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
