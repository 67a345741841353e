package amqp

import (
	"slices"
	"strconv"
	"unicode/utf8"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// outgoing is a message on its way to a client.
type outgoing struct {
	props                spec.Properties
	exchange, routingKey string
	body                 []byte
}

// read makes a delivery of a queue of a kind into a message, with a user id that was checked, if there
// are users who could claim another's. now is in ms.
func (out *outgoing) read(d *router.Delivery, kind router.QueueKind, now int64, users bool) {
	m := message.Read(&d.Record)
	if users {
		m.DropClaim()
	}
	dead := len(d.Deaths) > 0
	*out = outgoing{exchange: m.Exchange, routingKey: m.RoutingKey, body: m.Value}
	if len(d.RoutingKeys) > 0 {
		out.exchange, out.routingKey = d.Exchange, d.RoutingKeys[0]
	}
	p := &out.props
	p.Headers = headersOf(&m)
	out.fill(&m)
	if m.ExpiresAt != 0 && !dead {
		p.Expiration = strconv.FormatInt(max(m.ExpiresAt-now, 0), 10)
	}
	if dead {
		out.setDeaths(d, &m)
	}
	if len(d.RoutingKeys) == 1 { // it was given another one: those in CC do not hold any more
		p.Headers = p.Headers.Without(headerCC)
	}
	if kind == router.Quorum && d.Attempts > 0 {
		out.set("x-delivery-count", message.Int(message.KindInt64, int64(d.Attempts)))
	}
	out.exchange = out.short("exchange", out.exchange)
	out.routingKey = out.short("routing-key", out.routingKey)
}

// fill sets what belongs to the message itself, wherever it was.
func (out *outgoing) fill(m *message.Message) {
	p := &out.props
	p.ContentType = out.short("content-type", m.ContentType)
	p.ContentEncoding = out.short("content-encoding", m.ContentEncoding)
	p.ReplyTo = out.short("reply-to", m.ReplyTo)
	p.MessageID = out.short("message-id", m.MessageID)
	p.Type = out.short("type", m.Type)
	p.AppID = out.short("app-id", m.AppID)
	p.UserID = out.short("user-id", m.UserID)
	if m.CorrelationID != nil {
		p.Present |= spec.HasCorrelationID
		p.CorrelationID = out.short("correlation-id", string(m.CorrelationID))
	}
	if m.Priority >= 0 {
		p.Present |= spec.HasPriority
		p.Priority = uint8(m.Priority)
	}
	switch {
	case m.Durable:
		p.DeliveryMode = 2
	case m.Transient:
		p.DeliveryMode = 1
	}
	if !m.Stamped && m.Time >= 0 {
		p.Present |= spec.HasTimestamp
		p.Timestamp = m.Time / 1000
		if m.Time%1000 != 0 {
			out.set(headerTimeInMS, message.Int(message.KindInt64, m.Time))
		}
	}
	if v := argument(p.Headers, headerTimestamp); v != nil && v.Kind() == message.KindTime {
		p.Present |= spec.HasTimestamp
		p.Timestamp, _ = v.Int()
		p.Headers = p.Headers.Without(headerTimestamp)
	}
	if m.Value == nil {
		out.set(headerValue, message.Void())
	}
	if string(m.Key) != m.RoutingKey || m.Key != nil && len(m.Key) == 0 {
		out.set(headerKey, keyValue(m.Key))
	}
	if v := argument(p.Headers, headerDelay); v != nil && m.DeliverAt != 0 {
		if ms, ok := v.Int(); ok { // as RabbitMQ's plug-in says that it was waited for
			out.set(headerDelay, message.Int(v.Kind(), -ms))
		}
	}
	if len(p.Headers) > 0 {
		p.Present |= spec.HasHeaders
	}
}

func keyValue(key []byte) message.Value {
	switch {
	case key == nil:
		return message.Void()
	case utf8.Valid(key):
		return message.Text(key)
	}
	return message.Bytes(key)
}

// set sets a header. The table is the message's own.
func (out *outgoing) set(name string, v message.Value) {
	p := &out.props
	for i := range p.Headers {
		if p.Headers[i].Name == name {
			p.Headers[i].Value = v
			return
		}
	}
	p.Headers = append(p.Headers, message.Header{Name: name, Value: v})
	p.Present |= spec.HasHeaders
}

// short is s where a short string has to do. What is longer goes to a header whole.
func (out *outgoing) short(name, s string) string {
	if len(s) <= spec.MaxShortstr {
		return s
	}
	v := message.String(s)
	if !utf8.ValidString(s) {
		v = message.Bytes([]byte(s))
	}
	out.set("x-"+name, v)
	return spec.Cut(s)
}

// headersOf are a message's headers as AMQP can have them: no name twice, none too long.
func headersOf(m *message.Message) message.Table {
	t := m.Headers
	if !slices.ContainsFunc(t, func(h message.Header) bool { return h.Name == recordRetain || len(h.Name) > spec.MaxShortstr }) && !repeats(t) {
		return t
	}
	out := make(message.Table, 0, len(t))
	count := make(map[string]int, len(t))
	for _, h := range t {
		if h.Name == recordRetain {
			h.Name = headerRetain
		}
		h.Name = freeName(h.Name, count)
		out = append(out, h)
	}
	return out
}

// repeats reports whether a name is there twice.
func repeats(t message.Table) bool {
	if len(t) > 16 {
		seen := make(map[string]struct{}, len(t))
		for i := range t {
			seen[t[i].Name] = struct{}{}
		}
		return len(seen) < len(t)
	}
	for i := range t {
		for j := range i {
			if t[i].Name == t[j].Name {
				return true
			}
		}
	}
	return false
}

// freeName is a name that fits and was not given yet: name itself, or x-name-2 and so on.
// count is how often each was asked for.
func freeName(name string, count map[string]int) string {
	count[name]++
	if len(name) <= spec.MaxShortstr && count[name] == 1 {
		return name
	}
	const room = len("x--") + 10 // for a number
	front := name
	for len(front) > spec.MaxShortstr-room {
		_, n := utf8.DecodeLastRuneInString(front)
		front = front[:len(front)-n]
	}
	for n := count[name]; ; n++ {
		if free := "x-" + front + "-" + strconv.Itoa(n); count[free] == 0 {
			count[free], count[name] = 1, n
			return free
		}
	}
}
