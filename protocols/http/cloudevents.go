package httpd

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"polylog/core/message"
	"polylog/protocols/http/front"
)

// CloudEvents 1.0 (the CNCF's specification and its HTTP binding). An event is stored as the
// Kafka binding has it, so that its SDKs read it there too: in binary mode the attributes are
// headers ce_… beside the data; in structured mode the value is the event's JSON, as it came.
const (
	eventsType = "application/cloudevents"
	eventType  = "application/cloudevents+json"
	batchType  = "application/cloudevents-batch+json"
)

// fromEvents reads one event, or a batch of them.
func fromEvents(ctx *fasthttp.RequestCtx, kind string, body []byte, now int64) ([]incoming, error) {
	switch kind {
	case batchType:
		var events []json.RawMessage
		if front.MoreThan(body, maxMessages, 1) {
			return nil, errMessages
		}
		if err := decodeJSON(body, &events); err != nil {
			return nil, err
		}
		if n := len(events); n == 0 || n > maxMessages {
			return nil, invalid("%d events, want 1 to %d", n, maxMessages)
		}
		ms := make([]incoming, len(events))
		for i, e := range events {
			ms[i] = fromHeaders(&ctx.Request.Header, now)
			ms[i].structured(e)
		}
		return ms, nil
	case eventType:
		m := fromHeaders(&ctx.Request.Header, now)
		m.structured(body)
		return []incoming{m}, nil
	}
	if strings.HasPrefix(kind, eventsType) {
		return nil, &problem{Status: 415, Code: "unsupported_event_format", Detail: "events are taken as " + eventType + ", as " + batchType + " and in binary mode"}
	}
	return []incoming{binaryEvent(ctx, body, now)}, nil
}

// binaryEvent is an event whose attributes are the request's headers ce-….
func binaryEvent(ctx *fasthttp.RequestCtx, body []byte, now int64) incoming {
	m := fromRaw(ctx, body, now)
	m.event(m.eventHeaders(&ctx.Request.Header))
	return m
}

// eventHeaders takes the request's headers ce-…, which are an event's attributes.
func (m *incoming) eventHeaders(h *fasthttp.RequestHeader) map[string]string {
	attributes := map[string]string{}
	for k, v := range h.All() {
		name, ok := strings.CutPrefix(strings.ToLower(string(k)), "ce-")
		if !ok {
			continue
		}
		value, ok := eventHeader(string(v))
		if !ok {
			m.fail("header ce-%.40s is not percent-encoded UTF-8", name)
		}
		attributes[name] = value
		m.Headers = append(m.Headers, message.Header{Name: "ce_" + name, Value: message.String(value)})
	}
	return attributes
}

// eventHeader is what a header's value stands for: HTTP binding, 3.1.3.2.
func eventHeader(v string) (string, bool) {
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
		v = v[1 : len(v)-1]
		v = strings.ReplaceAll(strings.ReplaceAll(v, `\"`, `"`), `\\`, `\`)
	}
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		if v[i] == '%' && i+2 < len(v) && front.HexDigit(v[i+1]) >= 0 && front.HexDigit(v[i+2]) >= 0 {
			b.WriteByte(byte(front.HexDigit(v[i+1])<<4 | front.HexDigit(v[i+2])))
			i += 2
			continue
		}
		b.WriteByte(v[i])
	}
	return b.String(), utf8.ValidString(b.String())
}

// structured takes an event's JSON.
func (m *incoming) structured(event []byte) {
	attributes := map[string]json.RawMessage{}
	if err := json.Unmarshal(event, &attributes); err != nil {
		m.fail("the event is not a JSON object")
		return
	}
	texts := map[string]string{}
	for _, name := range []string{"specversion", "id", "source", "type", "partitionkey"} {
		var text string
		if raw, ok := attributes[name]; ok && json.Unmarshal(raw, &text) != nil {
			m.fail("the event's %s is not a string", name)
		}
		texts[name] = text
	}
	m.event(texts)
	m.Value, m.ContentType = bytes.TrimSpace(event), eventType
}

// event checks what every event must have, and takes what has a place in a message.
func (m *incoming) event(attributes map[string]string) {
	if v := attributes["specversion"]; v != "1.0" {
		m.fail("the event's specversion is %.20q, want 1.0", v)
	}
	for _, name := range []string{"id", "source", "type"} {
		if attributes[name] == "" {
			m.fail("the event has no %s", name)
		}
	}
	if m.MessageID == "" {
		m.MessageID = attributes["id"]
	}
	if key := attributes["partitionkey"]; key != "" && m.Key == nil {
		m.setKey(&key, nil)
	}
}
