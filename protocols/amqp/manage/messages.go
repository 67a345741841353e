package manage

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"unicode/utf8"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
)

// publishJSON is a request to publish.
type publishJSON struct {
	Properties json.RawMessage `json:"properties"`
	RoutingKey *string         `json:"routing_key"`
	Payload    *string         `json:"payload"`
	Encoding   *string         `json:"payload_encoding"`
}

// propertiesJSON are a message's properties. In answers those that are not there are left out.
type propertiesJSON struct {
	ContentType     string  `json:"content_type,omitempty"`
	ContentEncoding string  `json:"content_encoding,omitempty"`
	Headers         args    `json:"headers,omitempty"`
	DeliveryMode    *number `json:"delivery_mode,omitempty"`
	Priority        *number `json:"priority,omitempty"`
	CorrelationID   *string `json:"correlation_id,omitempty"`
	ReplyTo         string  `json:"reply_to,omitempty"`
	Expiration      *string `json:"expiration,omitempty"`
	MessageID       string  `json:"message_id,omitempty"`
	Timestamp       *number `json:"timestamp,omitempty"`
	Type            string  `json:"type,omitempty"`
	UserID          string  `json:"user_id,omitempty"`
	AppID           string  `json:"app_id,omitempty"`
}

// MarshalJSON shows them as an object.
func (a args) MarshalJSON() ([]byte, error) { return json.Marshal(jsonOfTable(message.Table(a))) }

// properties are what the request says, which an empty array may say too.
func (j *publishJSON) properties() (p spec.Properties, err error) {
	var in propertiesJSON
	if string(j.Properties) != "[]" {
		if err := decode(j.Properties, &in); err != nil {
			return p, badRequest("properties: %v", err)
		}
	}
	octet := func(name string, n *number, dst *uint8, flag spec.PropertyFlags) {
		switch {
		case n == nil:
		case *n < 0 || *n > math.MaxUint8:
			err = badRequest("%s is %d, want 0 to 255", name, *n)
		default:
			*dst = uint8(*n)
			p.Present |= flag
		}
	}
	octet("delivery_mode", in.DeliveryMode, &p.DeliveryMode, spec.HasDeliveryMode)
	octet("priority", in.Priority, &p.Priority, spec.HasPriority)

	text := func(s, dst *string, flag spec.PropertyFlags) {
		if s != nil {
			*dst = *s
			p.Present |= flag
		}
	}
	text(in.CorrelationID, &p.CorrelationID, spec.HasCorrelationID)
	text(in.Expiration, &p.Expiration, spec.HasExpiration)
	if in.Timestamp != nil {
		p.Timestamp = int64(*in.Timestamp)
		p.Present |= spec.HasTimestamp
	}
	p.ContentType, p.ContentEncoding, p.Headers, p.ReplyTo = in.ContentType, in.ContentEncoding, message.Table(in.Headers), in.ReplyTo
	p.MessageID, p.Type, p.UserID, p.AppID = in.MessageID, in.Type, in.UserID, in.AppID
	return p, cmp.Or(err, short(p.ContentType, p.ContentEncoding, p.CorrelationID, p.ReplyTo, p.Expiration, p.MessageID, p.Type, p.UserID, p.AppID))
}

// payload is the message's body.
func (j *publishJSON) payload() ([]byte, error) {
	switch *j.Encoding {
	case "string":
		return []byte(*j.Payload), nil
	case "base64":
		b, err := base64.StdEncoding.DecodeString(*j.Payload)
		if err != nil {
			return nil, badRequest("payload: %v", err)
		}
		return b, nil
	}
	return nil, badRequest("unsupported_encoding: %.40s, want string or base64", *j.Encoding)
}

// publish answers when the message is in the log, and says whether a queue was for it.
func publish(c *call) (any, error) {
	var j publishJSON
	if err := c.read(&j, c.front.MaxBody()); err != nil {
		return nil, err
	}
	var lacks []string
	for _, f := range []struct {
		name string
		is   bool
	}{{"properties", j.Properties != nil}, {"routing_key", j.RoutingKey != nil}, {"payload", j.Payload != nil}, {"payload_encoding", j.Encoding != nil}} {
		if !f.is {
			lacks = append(lacks, f.name)
		}
	}
	if len(lacks) > 0 {
		return nil, missing(lacks...)
	}
	if err := short(*j.RoutingKey); err != nil {
		return nil, err
	}
	p, err := j.properties()
	if err != nil {
		return nil, err
	}
	body, err := j.payload()
	if err != nil {
		return nil, err
	}
	if _, err := c.namespace(); err != nil {
		return nil, err
	}
	routed := false
	err = c.as(c.params.Get("vhost"), func(k *client) (err error) {
		routed, err = k.publishConfirmed(&spec.BasicPublish{Exchange: exchangeName(c.params.Get("exchange")), RoutingKey: *j.RoutingKey, Mandatory: true}, &p, body)
		return err
	})
	if e, ok := errors.AsType[*amqpError](err); ok && e.code != spec.AccessRefused { // what fails is the request, not the path
		return nil, badRequest("%s", e.Error())
	}
	if err != nil {
		return nil, err
	}
	return object{"routed": routed}, nil
}

// publishConfirmed publishes a message and waits until it is stored. It is false where no queue was
// for it, or one is full and did not take it.
func (k *client) publishConfirmed(m *spec.BasicPublish, p *spec.Properties, body []byte) (bool, error) {
	if _, err := ask[*spec.ConfirmSelectOk](k, 1, &spec.ConfirmSelect{}); err != nil {
		return false, err
	}
	if err := k.publish(m, p, body); err != nil {
		return false, err
	}
	returned := false
	for {
		answer, err := k.method()
		if err != nil {
			return false, err
		}
		switch answer.(type) {
		case *spec.BasicReturn:
			returned = true
			if _, err := k.content(); err != nil {
				return false, err
			}
		case *spec.BasicAck:
			return !returned, nil
		case *spec.BasicNack:
			return false, nil
		}
	}
}

// getJSON is a request for messages.
type getJSON struct {
	Count    *number `json:"count"`
	AckMode  string  `json:"ackmode"`
	Encoding string  `json:"encoding"`
	Truncate *number `json:"truncate"`
}

// Bounds of what one request gets: messages, and their bytes, beyond which it ends early.
const (
	maxGet      = 10_000
	maxGetBytes = 32 << 20
)

// errBusy is for a message that the memory of other calls leaves no room for.
var errBusy = core.E(core.Unavailable, "the messages of other requests fill the memory for them")

// get takes messages off a queue and gives them back, or not, as the mode says.
func get(c *call) (any, error) {
	var j getJSON
	if err := c.read(&j, maxDefinition); err != nil {
		return nil, err
	}
	if j.Count == nil || j.AckMode == "" || j.Encoding == "" {
		return nil, badRequest("count, ackmode and encoding have to be said")
	}
	if *j.Count < 1 || *j.Count > maxGet {
		return nil, badRequest("count is %d, want 1 to %d", *j.Count, maxGet)
	}
	if j.Encoding != "auto" && j.Encoding != "base64" {
		return nil, badRequest("unsupported_encoding: %.40s, want auto or base64", j.Encoding)
	}
	settle, ok := ackModes[j.AckMode]
	if !ok {
		return nil, badRequest("ackmode is %.40s, want ack_requeue_true, ack_requeue_false, reject_requeue_true or reject_requeue_false", j.AckMode)
	}
	if _, err := c.namespace(); err != nil {
		return nil, err
	}
	all := []object{}
	err := c.as(c.params.Get("vhost"), func(k *client) error {
		var tags []uint64
		for bytes := 0; len(all) < int(*j.Count) && bytes < maxGetBytes; {
			ok, some, body, err := k.get(c.params.Get("queue"))
			if err != nil {
				return err
			}
			if !some {
				break
			}
			if !c.budget.Take(int64(3 * body.size())) { // as it came, in JSON, and in the answer
				if len(all) == 0 {
					return errBusy
				}
				break // it goes back with the connection
			}
			bytes += body.size()
			tags = append(tags, ok.DeliveryTag)
			all = append(all, body.json(ok, &j))
		}
		return settle(k, tags)
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// ackModes say what becomes of messages that were looked at.
var ackModes = map[string]func(k *client, tags []uint64) error{
	"ack_requeue_true": func(k *client, tags []uint64) error {
		if len(tags) == 0 {
			return nil
		}
		return k.send(1, &spec.BasicNack{DeliveryTag: tags[len(tags)-1], Multiple: true, Requeue: true})
	},
	"ack_requeue_false": func(k *client, tags []uint64) error {
		if len(tags) == 0 {
			return nil
		}
		return k.send(1, &spec.BasicAck{DeliveryTag: tags[len(tags)-1], Multiple: true})
	},
	"reject_requeue_true": func(k *client, tags []uint64) error { return k.rejectEach(tags, true) },
	"reject_requeue_false": func(k *client, tags []uint64) error {
		return k.rejectEach(tags, false)
	},
}

func (k *client) rejectEach(tags []uint64, requeue bool) error {
	for _, tag := range tags {
		if err := k.send(1, &spec.BasicReject{DeliveryTag: tag, Requeue: requeue}); err != nil {
			return err
		}
	}
	return nil
}

// gotten is a message that was taken off a queue.
type gotten struct {
	props   spec.Properties
	headed  int // bytes of the properties on the wire
	payload []byte
}

// size is the message's bytes.
func (g *gotten) size() int { return g.headed + len(g.payload) }

func (k *client) get(queue string) (ok *spec.BasicGetOk, some bool, g gotten, err error) {
	if err := k.send(1, &spec.BasicGet{Queue: queue}); err != nil {
		return nil, false, g, err
	}
	m, err := k.method()
	if err != nil {
		return nil, false, g, err
	}
	if ok, some = m.(*spec.BasicGetOk); !some {
		return nil, false, g, nil
	}
	g, err = k.content()
	return ok, true, g, err
}

func (g *gotten) json(ok *spec.BasicGetOk, j *getJSON) object {
	o := object{
		"payload_bytes": len(g.payload), "redelivered": ok.Redelivered, "exchange": ok.Exchange, "routing_key": ok.RoutingKey,
		"message_count": int64(ok.MessageCount), "properties": g.properties(),
	}
	payload := g.payload
	if j.Truncate != nil && *j.Truncate >= 0 && int64(len(payload)) > int64(*j.Truncate) {
		payload = payload[:*j.Truncate]
	}
	if j.Encoding == "auto" && utf8.Valid(payload) {
		o["payload"], o["payload_encoding"] = string(payload), "string"
	} else {
		o["payload"], o["payload_encoding"] = base64.StdEncoding.EncodeToString(payload), "base64"
	}
	return o
}

// properties are those that the message has; none is an empty array, as in RabbitMQ.
func (g *gotten) properties() any {
	p := &g.props
	if p.Present == 0 {
		return []any{}
	}
	out := propertiesJSON{
		ContentType: p.ContentType, ContentEncoding: p.ContentEncoding, Headers: args(p.Headers), ReplyTo: p.ReplyTo,
		MessageID: p.MessageID, Type: p.Type, UserID: p.UserID, AppID: p.AppID,
	}
	if p.Present&spec.HasDeliveryMode != 0 {
		out.DeliveryMode = new(number(p.DeliveryMode))
	}
	if p.Present&spec.HasPriority != 0 {
		out.Priority = new(number(p.Priority))
	}
	if p.Present&spec.HasCorrelationID != 0 {
		out.CorrelationID = &p.CorrelationID
	}
	if p.Present&spec.HasExpiration != 0 {
		out.Expiration = &p.Expiration
	}
	if p.Present&spec.HasTimestamp != 0 {
		out.Timestamp = new(number(p.Timestamp))
	}
	return out
}
