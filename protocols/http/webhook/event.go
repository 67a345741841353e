package webhook

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/http/subscription"
)

// origin is where a message is: a partition of a topic, or a queue.
type origin struct {
	namespace, topic, queue string // topic or queue
	unique                  string // tells it from others of its name, at other times
	partition               int
}

// idOf is the id of a message, as endpoints get it: the same with every attempt, for every
// subscription, on every node.
func (o *origin) idOf(offset core.Offset) string {
	h := sha256.New()
	h.Write([]byte(o.unique))
	h.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(o.partition)), uint64(offset)))
	return "msg_" + strings.ToLower(base32.HexEncoding.EncodeToString(h.Sum(nil)[:15]))
}

// source is the origin as CloudEvents name it.
func (o *origin) source() string {
	at := "/v1/"
	if o.namespace != core.DefaultNamespace {
		at += "namespaces/" + url.PathEscape(o.namespace) + "/"
	}
	if o.topic != "" {
		return at + "topics/" + url.PathEscape(o.topic)
	}
	return at + "queues/" + url.PathEscape(o.queue)
}

// Types of messages that are no CloudEvents, and of CloudEvents in JSON.
const (
	messageType = "polylog.message"
	eventType   = "application/cloudevents+json"
	eventPrefix = "ce_" // of headers: CloudEvents' Kafka binding, 3.2.3
)

// render is a message in the form that an endpoint wants: body and headers.
func render(format subscription.Format, id, source string, r *core.Record) ([]byte, http.Header) {
	m := message.Read(r)
	h := http.Header{}
	switch format {
	case subscription.Binary:
		e := eventOf(id, source, &m)
		for _, a := range e.attributes {
			h.Set("ce-"+a.name, percent(a.text()))
		}
		if e.contentType != "" {
			h.Set("Content-Type", e.contentType)
		}
		return e.data, h
	case subscription.Structured:
		h.Set("Content-Type", eventType+"; charset=utf-8")
		if isStructured(&m) {
			return m.Value, h
		}
		e := eventOf(id, source, &m)
		return e.structured(), h
	case subscription.Raw, "":
	}
	raw(&m, h)
	return m.Value, h
}

// raw sets the headers of a message that is sent as it is: those that publishing takes.
func raw(m *message.Message, h http.Header) {
	set := func(name, value string) {
		if value != "" && printable(value) {
			h.Set(name, value)
		}
	}
	h.Set("Content-Type", "application/octet-stream")
	set("Content-Type", m.ContentType)
	set("Content-Encoding", m.ContentEncoding)
	switch {
	case m.Key == nil:
	case printable(string(m.Key)) && len(m.Key) > 0:
		h.Set("X-Key", string(m.Key))
	default:
		h.Set("X-Key-Base64", base64.StdEncoding.EncodeToString(m.Key))
	}
	set("X-Type", m.Type)
	set("X-Message-Id", m.MessageID)
	set("X-Correlation-Id", string(m.CorrelationID))
	set("X-Reply-To", m.ReplyTo)
	set("X-App-Id", m.AppID)
	size, omitted := 0, 0
	for _, one := range m.Headers {
		text := one.Name + "=" + one.Value.String()
		if size += len(text); size > maxSentHeaders || !printable(text) {
			omitted++
			continue
		}
		h.Add("X-Header", text)
	}
	if omitted > 0 {
		h.Set("X-Headers-Omitted", "true")
	}
}

// maxSentHeaders bounds a message's own headers in a request, in bytes.
const maxSentHeaders = 8 << 10

// printable reports whether a text can be a header's value as it is.
func printable(s string) bool {
	return strings.TrimSpace(s) == s && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' })
}

// attribute is one of a CloudEvent; its value is text, unless raw has something in JSON.
type attribute struct {
	name, value string
	raw         json.RawMessage
}

func (a *attribute) text() string {
	if a.raw != nil {
		return string(a.raw)
	}
	return a.value
}

// event is a CloudEvent 1.0.
type event struct {
	attributes  []attribute
	contentType string
	data        []byte // nil: none
}

func isStructured(m *message.Message) bool {
	kind, _, _ := mime.ParseMediaType(m.ContentType)
	return kind == eventType
}

// eventOf is a message as an event: the one that it is, or one that is made of it.
func eventOf(id, source string, m *message.Message) event {
	if isStructured(m) {
		if e, ok := eventOfJSON(m.Value); ok {
			return e
		}
	}
	e := event{contentType: m.ContentType, data: m.Value}
	if _, ok := m.Headers.Get(eventPrefix + "specversion"); ok {
		for _, h := range m.Headers {
			if name, ok := strings.CutPrefix(h.Name, eventPrefix); ok && isAttribute(name) {
				e.attributes = append(e.attributes, attribute{name: name, value: h.Value.String()})
			}
		}
		return e
	}
	kind := m.Type
	if kind == "" {
		kind = messageType
	}
	e.attributes = []attribute{
		{name: "specversion", value: "1.0"},
		{name: "id", value: id},
		{name: "source", value: source},
		{name: "type", value: kind},
		{name: "time", value: time.UnixMilli(m.Time).UTC().Format(time.RFC3339Nano)},
	}
	if len(m.Key) > 0 && utf8.Valid(m.Key) {
		e.attributes = append(e.attributes, attribute{name: "partitionkey", value: string(m.Key)})
	}
	return e
}

// isAttribute reports whether a name can be an attribute's: CloudEvents 1.0, "Naming".
func isAttribute(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// eventOfJSON takes an event in structured mode apart.
func eventOfJSON(text []byte) (e event, ok bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return e, false
	}
	var data json.RawMessage
	for d.More() {
		name, err := d.Token()
		var raw json.RawMessage
		if err != nil || d.Decode(&raw) != nil {
			return e, false
		}
		a := attribute{name: name.(string)} //nolint:forcetypeassert // an object's keys are strings
		isText := json.Unmarshal(raw, &a.value) == nil
		switch {
		case a.name == "data":
			data = raw
		case a.name == "data_base64":
			if e.data, err = base64.StdEncoding.DecodeString(a.value); err != nil {
				return e, false
			}
		case a.name == "datacontenttype":
			e.contentType = a.value
		case !isAttribute(a.name) || bytes.Equal(raw, []byte("null")):
		default:
			if !isText {
				a.raw = raw
			}
			e.attributes = append(e.attributes, a)
		}
	}
	if data != nil {
		var text string
		if e.data = data; !isJSON(e.contentType) && json.Unmarshal(data, &text) == nil {
			e.data = []byte(text)
		}
		if e.contentType == "" {
			e.contentType = "application/json"
		}
	}
	return e, true
}

// isJSON reports whether data of a content type is JSON: CloudEvents' JSON format, 3.1. None
// means that it is.
func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return contentType == "" || err == nil && (strings.HasSuffix(kind, "/json") || strings.HasSuffix(kind, "+json"))
}

// structured is the event in CloudEvents' JSON format.
func (e *event) structured() []byte {
	b := []byte{'{'}
	add := func(name string, value []byte) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, quote(name)...), ':'), value...)
	}
	for _, a := range e.attributes {
		if a.raw != nil {
			add(a.name, a.raw)
		} else {
			add(a.name, quote(a.value))
		}
	}
	if e.contentType != "" {
		add("datacontenttype", quote(e.contentType))
	}
	switch {
	case e.data == nil:
	case e.contentType != "" && isJSON(e.contentType) && json.Valid(e.data):
		add("data", e.data)
	case utf8.Valid(e.data) && !isJSON(e.contentType):
		add("data", quote(string(e.data)))
	default:
		add("data_base64", quote(base64.StdEncoding.EncodeToString(e.data)))
	}
	return append(b, '}')
}

func quote(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // text always encodes
	}
	return b
}

// percent encodes the value of an attribute for a header: CloudEvents' HTTP binding, 3.1.3.2.
func percent(s string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' || c == '"' || c == '%' {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}
