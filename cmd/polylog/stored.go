package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"polylog/cmd/polylog/rest"
)

// stored is a message as the HTTP interface shows it.
type stored struct {
	ID          string         `json:"id"`
	Partition   int            `json:"partition"`
	Offset      int64          `json:"offset"`
	Timestamp   time.Time      `json:"timestamp"`
	Key         *string        `json:"key"`
	KeyBase64   string         `json:"keyBase64"`
	Value       *string        `json:"value"`
	ValueBase64 *string        `json:"valueBase64"`
	ValueBytes  int            `json:"valueBytes"` // where it was cut
	Headers     []storedHeader `json:"headers"`
	ContentType string         `json:"contentType"`
	MessageID   string         `json:"messageId"`
	Deaths      []death        `json:"deaths"`
}

type storedHeader struct {
	Name        string          `json:"name"`
	Value       json.RawMessage `json:"value"`
	ValueBase64 string          `json:"valueBase64"`
}

// death is one time that a message was given up.
type death struct {
	Queue  string    `json:"queue"`
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
}

// text is a header's value as text.
func (h *storedHeader) text() string {
	var s string
	switch {
	case h.ValueBase64 != "":
		return "base64:" + h.ValueBase64
	case json.Unmarshal(h.Value, &s) == nil:
		return s
	}
	return string(h.Value)
}

// header is the value of the first header of a name; "" where there is none.
func (m *stored) header(name string) string {
	for i := range m.Headers {
		if m.Headers[i].Name == name {
			return m.Headers[i].text()
		}
	}
	return ""
}

// keyText is the key in one line: "-" where there is none.
func (m *stored) keyText() string {
	switch {
	case m.Key != nil:
		return cell(*m.Key, 40)
	case m.KeyBase64 != "":
		return "base64:" + cell(m.KeyBase64, 40)
	}
	return "-"
}

// valueText is the beginning of the value in one line, up to limit characters.
func (m *stored) valueText(limit int) string {
	switch {
	case m.Value != nil:
		return cell(*m.Value, limit)
	case m.ValueBase64 != nil:
		return "base64:" + cell(*m.ValueBase64, limit)
	}
	return "null"
}

// bytes is the value; nil where it is null.
func (m *stored) bytes() ([]byte, error) {
	switch {
	case m.Value != nil:
		return []byte(*m.Value), nil
	case m.ValueBase64 != nil:
		return base64.StdEncoding.DecodeString(*m.ValueBase64)
	}
	return nil, nil
}

// cell is the beginning of a text as a cell of a table has it.
func cell(text string, limit int) string {
	n := 0
	for i := range text {
		if n++; n > limit {
			return strings.ReplaceAll(text[:i], "\t", " ") + "…"
		}
	}
	return strings.ReplaceAll(text, "\t", " ")
}

// shownBytes is how much of a value a table needs, in bytes.
const shownBytes = 400

// messageTable shows messages a row each.
func messageTable(w io.Writer, all []stored) {
	row(w, "ID\tTIME\tKEY\tVALUE")
	for i := range all {
		m := &all[i]
		row(w, m.ID, m.Timestamp.Format(time.RFC3339), m.keyText(), m.valueText(80))
	}
}

// showMessages shows up to limit messages of a page-wise list: as a table, or in JSON a message a
// line, whole and as they come.
func (a *apiFlags) showMessages(ctx context.Context, c *rest.Client, path string, q url.Values, limit int, table func(io.Writer, []stored)) error {
	if a.output == "json" {
		return c.Each(ctx, path, q, "messages", limit, a.line)
	}
	q.Set("maxValueBytes", fmt.Sprint(shownBytes))
	var all []stored
	err := c.Each(ctx, path, q, "messages", limit, func(one json.RawMessage) error {
		var m stored
		if err := json.Unmarshal(one, &m); err != nil {
			return err
		}
		all = append(all, m)
		return nil
	})
	if err != nil {
		return err
	}
	return a.show(nil, func(w io.Writer) { table(w, all) })
}

// line writes JSON as a line.
func (a *apiFlags) line(one json.RawMessage) error {
	_, err := fmt.Fprintf(a.process.out, "%s\n", one)
	return err
}
