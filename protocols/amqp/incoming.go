package amqp

import (
	"math"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// Headers that stand for a part of a message for which AMQP has no place; see
// docs/semantics.md.
const (
	headerKey      = "x-key"   // the key, where it is not the routing key
	headerValue    = "x-value" // void: the value is null
	headerTimeInMS = "timestamp_in_ms"
	headerDelay    = "x-delay"
	headerRetain   = "x-mqtt-retain"

	recordRetain = "mqtt-retain" // headerRetain as records have it
)

// Headers that have further routing keys; those of BCC are not delivered.
const (
	headerCC  = "CC"
	headerBCC = "BCC"
)

// incoming is a message that was published, on its way into the log. Its memory is used again for
// the connection's next one.
type incoming struct {
	message.Message
	keys []string // that it is routed by: routing key, CC, BCC
	now  int64    // ms
	key  []byte   // the memory of Key
}

// forget lets go of everything that the message aliases.
func (in *incoming) forget() {
	in.Message = message.Message{}
	clear(in.keys)
	in.keys = in.keys[:0]
}

// read takes over a basic.publish. It aliases body. delays says whether the exchange delays
// messages. now is in ms.
func (in *incoming) read(m *spec.BasicPublish, p *spec.Properties, body []byte, now int64, delays func() bool) error {
	if body == nil {
		body = []byte{} // an empty body is no null
	}
	in.Message = message.Message{
		Value: body, Time: now, Stamped: true, Exchange: m.Exchange, RoutingKey: m.RoutingKey,
		ContentType: p.ContentType, ContentEncoding: p.ContentEncoding, ReplyTo: p.ReplyTo, MessageID: p.MessageID,
		Type: p.Type, AppID: p.AppID, UserID: p.UserID, Priority: -1,
		Durable: p.DeliveryMode == 2, Transient: p.DeliveryMode == 1,
	}
	in.now = now
	in.keys = append(in.keys[:0], m.RoutingKey)
	if m.RoutingKey != "" {
		in.key = append(in.key[:0], m.RoutingKey...)
		in.Key = in.key
	}
	if p.Present&spec.HasCorrelationID != 0 {
		in.CorrelationID = []byte(p.CorrelationID)
	}
	if p.Present&spec.HasPriority != 0 {
		in.Priority = int(p.Priority)
	}
	if p.Present&spec.HasExpiration != 0 {
		ttl, wrong := parseExpiration(p.Expiration)
		if wrong != "" {
			return soft(spec.PreconditionFailed, "invalid expiration '%s': %s", p.Expiration, wrong)
		}
		in.ExpiresAt, in.TTL = now+ttl, ttl
	}
	for _, name := range [...]string{headerCC, headerBCC} {
		if err := in.route(p.Headers, name); err != nil {
			return err
		}
	}
	if p.Present&spec.HasTimestamp != 0 {
		in.stamp(p.Timestamp)
	}
	in.take(p.Headers, delays)
	if in.DeliverAt != 0 && in.ExpiresAt != 0 {
		in.ExpiresAt += in.DeliverAt - now // its time to live begins when it comes into a queue
	}
	return nil
}

// route adds the routing keys in a header.
func (in *incoming) route(headers message.Table, name string) error {
	v := argument(headers, name)
	if v == nil {
		return nil
	}
	if v.Kind() != message.KindArray {
		return soft(spec.PreconditionFailed, `invalid message: {unacceptable_type_in_header,"%s",%s}`, name, typeName(v.Kind()))
	}
	for i := range v.Len() {
		if k := v.At(i); k.Kind() == message.KindString {
			in.keys = append(in.keys, k.Str())
		}
	}
	return nil
}

// headerTimestamp keeps a timestamp that is none.
const headerTimestamp = "x-timestamp"

// stamp sets the publisher's time, in seconds. One that no clock shows stays a header.
func (in *incoming) stamp(seconds int64) {
	if seconds < 0 || seconds > math.MaxInt64/1000 {
		in.Headers = append(in.Headers, message.Header{Name: headerTimestamp, Value: message.Time(seconds)})
		return
	}
	in.Time, in.Stamped = seconds*1000, false
}

// take takes over the headers, but for those that stand for something else.
func (in *incoming) take(headers message.Table, delays func() bool) {
	for i := range headers {
		h := headers[i]
		switch h.Name {
		case headerBCC:
			continue
		case headerKey:
			if in.takeKey(h.Value) {
				continue
			}
		case headerValue:
			if h.Value.Kind() == message.KindVoid && len(in.Value) == 0 {
				in.Value = nil
				continue
			}
		case headerTimeInMS:
			// Its place is the record's time, unless that could not tell that it was there.
			ms, ok := h.Value.Int()
			if ok && !in.Stamped && h.Value.Kind() == message.KindInt64 && ms/1000*1000 == in.Time && ms > in.Time {
				in.Time = ms
				continue
			}
		case headerDelay:
			if ms, ok := h.Value.Int(); ok && 0 < ms && ms <= math.MaxUint32 && delays() {
				in.DeliverAt = in.now + ms
			}
		case headerRetain:
			h.Name = recordRetain
		}
		if in.Headers == nil {
			in.Headers = make(message.Table, 0, len(headers))
		}
		in.Headers = append(in.Headers, h)
	}
}

func (in *incoming) takeKey(v message.Value) bool {
	switch {
	case v.Kind() == message.KindVoid:
		in.Key = nil
	case v.IsText():
		in.Key = append([]byte{}, v.Bytes()...)
	default:
		return false
	}
	return true
}

// checkUser compares a message's user id with who is logged in.
func (c *conn) checkUser(p *spec.Properties) error {
	if p.Present&spec.HasUserID == 0 || p.UserID == c.principal.Name {
		return nil
	}
	if r := c.srv.router; r.HasUsers() && r.IsTagged(c.principal, router.TagImpersonator) {
		return nil
	}
	return soft(spec.PreconditionFailed, "user_id property set to '%s' but authenticated user was '%s'", p.UserID, c.principal.Name)
}
