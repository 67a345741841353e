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
// event that says why the stream ends is the error, a *Problem.
func Events(r io.Reader, fn func(json.RawMessage) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	kind := ""
	for lines.Scan() {
		field, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		switch string(field) {
		case "":
			kind = ""
		case "event":
			kind = string(value)
		case "data":
			if kind == "error" {
				p := &Problem{}
				if err := json.Unmarshal(value, p); err != nil {
					return fmt.Errorf("the stream ended: %s", value)
				}
				return p
			}
			if err := fn(value); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
