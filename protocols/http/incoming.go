package httpd

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"polylog/core/message"
	"polylog/protocols/http/filter"
	"polylog/protocols/http/front"
)

// incoming is a message that a request wants to publish, or why it cannot be.
type incoming struct {
	message.Message
	partition int32 // -1: its key decides
	err       error
}

// messageJSON is a message in a request's JSON.
type messageJSON struct {
	Key         *string         `json:"key"`
	KeyBase64   *string         `json:"keyBase64"`
	Value       json.RawMessage `json:"value"`
	ValueBase64 *string         `json:"valueBase64"`
	Headers     headersJSON     `json:"headers"`
	Partition   *int32          `json:"partition"`
	RoutingKey  *string         `json:"routingKey"`

	Timestamp       *timeJSON `json:"timestamp"`
	Tag             string    `json:"tag"`
	ContentType     string    `json:"contentType"`
	ContentEncoding string    `json:"contentEncoding"`
	CorrelationID   string    `json:"correlationId"`
	ReplyTo         string    `json:"replyTo"`
	MessageID       string    `json:"messageId"`
	Type            string    `json:"type"`
	AppID           string    `json:"appId"`
	UserID          string    `json:"userId"`
	Priority        *int      `json:"priority"`
	TTLMs           *int64    `json:"ttlMs"`
	ExpiresAt       *timeJSON `json:"expiresAt"`
	DelayMs         *int64    `json:"delayMs"`
	DeliverAt       *timeJSON `json:"deliverAt"`
}

// timeJSON is a time in ms since the epoch: a number of them, or RFC 3339 in a string.
type timeJSON int64

// UnmarshalJSON reads either form.
func (t *timeJSON) UnmarshalJSON(b []byte) error {
	n, err := timeOf(strings.Trim(string(b), `"`))
	*t = timeJSON(n)
	return err
}

// timeOf reads ms since the epoch, or RFC 3339.
func timeOf(text string) (int64, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return n, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.UnixMilli() < 0 {
		return 0, fmt.Errorf("%.40q is neither milliseconds since 1970 nor a time as in RFC 3339", text)
	}
	return at.UnixMilli(), nil
}

// headersJSON are headers: an object, whose values are scalars or arrays of them, or an
// array of {"name", "value" | "valueBase64"}, which keeps any order.
type headersJSON []message.Header

// UnmarshalJSON reads either form.
func (h *headersJSON) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	switch first, err := d.Token(); {
	case err != nil:
		return err
	case first == nil:
		return nil
	case first == json.Delim('['):
		for d.More() {
			one := struct {
				Name        string  `json:"name"`
				Value       any     `json:"value"`
				ValueBase64 *string `json:"valueBase64"`
			}{}
			if err := d.Decode(&one); err != nil {
				return err
			}
			v, err := message.OfJSON(one.Value)
			if one.ValueBase64 != nil {
				var raw []byte
				raw, err = base64.StdEncoding.DecodeString(*one.ValueBase64)
				v = message.Bytes(raw)
			}
			if err != nil || one.Name == "" {
				return fmt.Errorf("header %.40q needs a name, and a scalar as its value or base64 as its valueBase64", one.Name)
			}
			*h = append(*h, message.Header{Name: one.Name, Value: v})
		}
		return nil
	case first != json.Delim('{'):
		return fmt.Errorf("headers are %.20v, want an object or an array", first)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var v any
		if err := d.Decode(&v); err != nil {
			return err
		}
		values, many := v.([]any)
		if !many {
			values = []any{v}
		}
		for _, one := range values {
			hv, err := message.OfJSON(one)
			if err != nil || name == "" {
				return fmt.Errorf("header %.40q needs a name and a scalar, or several in an array", name)
			}
			*h = append(*h, message.Header{Name: name.(string), Value: hv}) //nolint:forcetypeassert // an object's keys are strings
		}
	}
	return nil
}

// incoming is the message, at a time in ms.
func (j *messageJSON) incoming(now int64) incoming {
	m := incoming{partition: -1}
	m.Message = message.Message{
		Time: now, Priority: -1, Headers: message.Table(j.Headers),
		ContentType: j.ContentType, ContentEncoding: j.ContentEncoding, ReplyTo: j.ReplyTo, MessageID: j.MessageID,
		Type: j.Type, AppID: j.AppID, UserID: j.UserID,
	}
	if j.CorrelationID != "" {
		m.CorrelationID = []byte(j.CorrelationID)
	}
	if j.Tag != "" {
		m.Headers = append(m.Headers, message.Header{Name: filter.TagHeader, Value: message.String(j.Tag)})
	}
	if j.Partition != nil {
		if m.partition = *j.Partition; m.partition < 0 {
			m.err = invalid("partition %d", m.partition)
		}
	}
	if j.Timestamp != nil {
		m.Time = int64(*j.Timestamp)
	}
	if j.Priority != nil {
		m.setPriority(*j.Priority)
	}
	m.setTimes(now, j.TTLMs, (*int64)(j.ExpiresAt), j.DelayMs, (*int64)(j.DeliverAt))
	m.setKey(j.Key, j.KeyBase64)
	if j.RoutingKey != nil {
		m.RoutingKey = *j.RoutingKey
	}
	m.setValue(j.Value, j.ValueBase64)
	return m
}

func (m *incoming) fail(format string, args ...any) {
	if m.err == nil {
		m.err = invalid(format, args...)
	}
}

func (m *incoming) setPriority(p int) {
	if p < 0 || p > math.MaxUint8 {
		m.fail("priority %d, want 0 to 255", p)
	}
	m.Priority = p
}

// setTimes sets when the message expires, and when it is to be delivered: either may be said
// from now on or as a time.
func (m *incoming) setTimes(now int64, ttl, expires, delay, deliver *int64) {
	one := func(what string, in, at *int64) int64 {
		switch {
		case in != nil && at != nil:
			m.fail("%s is given twice", what)
		case in != nil && (*in < 0 || *in > message.MaxAhead):
			m.fail("%s in %d ms, want 0 to %d", what, *in, int64(message.MaxAhead))
		case in != nil:
			return now + *in
		case at != nil && (*at < 1 || *at > now+message.MaxAhead):
			m.fail("%s is %d, want a time in ms up to %d", what, *at, now+message.MaxAhead)
		case at != nil:
			return *at
		}
		return 0
	}
	m.ExpiresAt = one("the time to live", ttl, expires)
	m.DeliverAt = one("the time of delivery", delay, deliver)
}

func (m *incoming) setKey(text, encoded *string) {
	switch {
	case text != nil && encoded != nil:
		m.fail("both key and keyBase64 are given")
	case text != nil:
		m.Key = []byte(*text)
	case encoded != nil:
		key, err := base64.StdEncoding.DecodeString(*encoded)
		if err != nil {
			m.fail("keyBase64: %v", err)
		}
		m.Key = append(make([]byte, 0, len(key)), key...) // empty is not null
	}
	m.RoutingKey = string(m.Key)
}

func (m *incoming) setValue(value json.RawMessage, encoded *string) {
	switch {
	case value != nil && encoded != nil:
		m.fail("both value and valueBase64 are given")
	case encoded != nil:
		v, err := base64.StdEncoding.DecodeString(*encoded)
		if err != nil {
			m.fail("valueBase64: %v", err)
		}
		m.Value = append(make([]byte, 0, len(v)), v...)
	case value == nil:
		m.fail("neither value nor valueBase64 is given; a value that is not there is null")
	case string(value) == "null":
	case value[0] == '"' && bytes.IndexByte(value, '\\') < 0 && utf8.Valid(value): // nothing to decode, as mostly
		m.Value = value[1 : len(value)-1]
	case value[0] == '"':
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			m.fail("value: %v", err)
		}
		m.Value = []byte(text)
	default: // as it came: digits and order of fields stay
		m.Value = value
		if m.ContentType == "" {
			m.ContentType = "application/json"
		}
	}
}

// maxMessages bounds the messages of one request.
const maxMessages = 10_000

var errMessages = invalid("more than %d in one request", maxMessages)

// fromJSON reads {"messages": [...]}.
func fromJSON(body []byte, now int64) ([]incoming, error) {
	batch := struct {
		Messages []messageJSON `json:"messages"`
	}{}
	if front.MoreThan(body, maxMessages, 2) {
		return nil, errMessages
	}
	if err := decodeJSON(body, &batch); err != nil {
		return nil, err
	}
	if n := len(batch.Messages); n == 0 || n > maxMessages {
		return nil, invalid("%d messages, want 1 to %d in the array \"messages\"", n, maxMessages)
	}
	ms := make([]incoming, len(batch.Messages))
	for i := range batch.Messages {
		ms[i] = batch.Messages[i].incoming(now)
	}
	return ms, nil
}

// fromNDJSON reads a message a line. A line that is no JSON is that message's failure.
func fromNDJSON(body []byte, now int64) (ms []incoming, err error) {
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if len(ms) == maxMessages {
			return nil, invalid("more than %d lines", maxMessages)
		}
		j := messageJSON{}
		if err := decodeJSON(line, &j); err != nil {
			ms = append(ms, incoming{err: err})
			continue
		}
		ms = append(ms, j.incoming(now))
	}
	if len(ms) == 0 {
		return nil, invalid("there is no line in the body")
	}
	return ms, nil
}

// fromRaw is the body as one message, whose other parts are in the request's headers.
func fromRaw(ctx *fasthttp.RequestCtx, body []byte, now int64) incoming {
	m := fromHeaders(&ctx.Request.Header, now)
	m.Value = body
	m.ContentType = string(ctx.Request.Header.ContentType())
	m.ContentEncoding = string(ctx.Request.Header.ContentEncoding())
	return m
}

// fromHeaders is a message but for its value, of headers such as X-Key.
func fromHeaders(h *fasthttp.RequestHeader, now int64) incoming {
	m := incoming{partition: -1}
	m.Time, m.Priority = now, -1
	if !hasX(h) {
		return m // as most; looking for each would take longer than all the rest
	}
	m.MessageID, m.ReplyTo = string(h.Peek("X-Message-Id")), string(h.Peek("X-Reply-To"))
	m.Type, m.AppID, m.UserID = string(h.Peek("X-Type")), string(h.Peek("X-App-Id")), string(h.Peek("X-User-Id"))
	text := func(name string) *string {
		if v := h.Peek(name); v != nil {
			return new(string(v))
		}
		return nil
	}
	m.setKey(text("X-Key"), text("X-Key-Base64"))
	if v := h.Peek("X-Routing-Key"); v != nil {
		m.RoutingKey = string(v)
	}
	if v := h.Peek("X-Correlation-Id"); len(v) > 0 {
		m.CorrelationID = bytes.Clone(v)
	}
	number := func(name string) *int64 {
		v := h.Peek(name)
		if v == nil {
			return nil
		}
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil {
			m.fail("%s: %.40q is not a whole number", name, v)
		}
		return &n
	}
	at := func(name string) *int64 {
		v := h.Peek(name)
		if v == nil {
			return nil
		}
		n, err := timeOf(string(v))
		if err != nil {
			m.fail("%s: %v", name, err)
		}
		return &n
	}
	m.setTimes(now, number("X-Ttl-Ms"), at("X-Expires-At"), number("X-Delay-Ms"), at("X-Deliver-At"))
	if p := number("X-Priority"); p != nil {
		m.setPriority(int(min(max(*p, -1), math.MaxInt32)))
	}
	if p := number("X-Partition"); p != nil {
		if *p < 0 || *p > math.MaxInt32 {
			m.fail("X-Partition: %d", *p)
		} else {
			m.partition = int32(*p)
		}
	}
	if t := at("X-Timestamp"); t != nil {
		m.Time = *t
	}
	for _, one := range h.PeekAll("X-Header") {
		name, value, ok := strings.Cut(string(one), "=")
		if !ok || name == "" || !utf8.ValidString(name) {
			m.fail("X-Header: %.40q is not name=value", one)
		}
		m.Headers = append(m.Headers, message.Header{Name: name, Value: message.String(value)})
	}
	if tag := h.Peek("X-Tag"); len(tag) > 0 {
		m.Headers = append(m.Headers, message.Header{Name: filter.TagHeader, Value: message.String(string(tag))})
	}
	return m
}

// hasX reports whether there is a header that begins with X-.
func hasX(h *fasthttp.RequestHeader) bool {
	for name := range h.All() {
		if bytes.HasPrefix(name, []byte("X-")) {
			return true
		}
	}
	return false
}

// messages are those of the body, which is read by its content type.
func (c *call) messages() ([]incoming, error) {
	raw, err := c.flag("raw")
	if err != nil {
		return nil, err
	}
	if err := c.onlyQuery("raw"); err != nil {
		return nil, err
	}
	body, err := c.body(c.srv.front.MaxBody())
	if err != nil {
		return nil, err
	}
	if len(c.Request.Header.Peek(idempotencyKey)) > 0 {
		c.digest = sha256.Sum256(body)
	}
	now := c.srv.opts.now()
	kind, _, _ := strings.Cut(strings.ToLower(string(c.Request.Header.ContentType())), ";")
	switch kind = strings.TrimSpace(kind); {
	case raw:
		return []incoming{fromRaw(c.RequestCtx, body, now)}, nil
	case strings.HasPrefix(kind, eventsType) || len(c.Request.Header.Peek("Ce-Specversion")) > 0:
		return fromEvents(c.RequestCtx, kind, body, now)
	case kind == "application/json":
		return fromJSON(body, now)
	case kind == "application/x-ndjson" || kind == "application/jsonl":
		return fromNDJSON(body, now)
	}
	return []incoming{fromRaw(c.RequestCtx, body, now)}, nil
}
