package httpd

import (
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/http/front"
	"polylog/router"
)

// outgoingJSON is a message in answers: the form that messageJSON takes, and where it is.
type outgoingJSON struct {
	ID        string      `json:"id"`
	Partition int32       `json:"partition"`
	Offset    core.Offset `json:"offset"`
	Timestamp time.Time   `json:"timestamp"`

	Key         *string      `json:"key,omitempty"`
	KeyBase64   string       `json:"keyBase64,omitempty"`
	Value       *string      `json:"value,omitempty"` // text as it is; neither of the two: null
	ValueBase64 *string      `json:"valueBase64,omitempty"`
	Truncated   int          `json:"valueBytes,omitempty"` // how long the value is, where less of it is here
	Headers     []headerJSON `json:"headers,omitempty"`

	ContentType     string     `json:"contentType,omitempty"`
	ContentEncoding string     `json:"contentEncoding,omitempty"`
	CorrelationID   string     `json:"correlationId,omitempty"`
	ReplyTo         string     `json:"replyTo,omitempty"`
	MessageID       string     `json:"messageId,omitempty"`
	Type            string     `json:"type,omitempty"`
	AppID           string     `json:"appId,omitempty"`
	UserID          string     `json:"userId,omitempty"`
	Exchange        string     `json:"exchange,omitempty"`
	RoutingKey      string     `json:"routingKey,omitempty"` // where it is not the key
	Priority        *int       `json:"priority,omitempty"`
	ExpiresAt       *time.Time `json:"expiresAt,omitempty"`
	DeliverAt       *time.Time `json:"deliverAt,omitempty"`

	Deaths []deathJSON `json:"deaths,omitempty"` // why a dead letter is here, the oldest first
}

// deathJSON is one time that a message was given up.
type deathJSON struct {
	Queue  string      `json:"queue"`
	Offset core.Offset `json:"offset"`
	Reason string      `json:"reason"`
	Time   time.Time   `json:"time"`
}

// deathReasons are why messages die, by router.Death's numbers.
var deathReasons = [...]string{1: "rejected", 2: "delivery_limit"}

func reasonOf(d router.Death) string {
	if int(d.Reason) < len(deathReasons) {
		return deathReasons[d.Reason]
	}
	return "other"
}

func jsonOfDeaths(ds []router.Death) (all []deathJSON) {
	for _, d := range ds {
		all = append(all, deathJSON{d.Queue.Name, d.Offset, reasonOf(d), front.Time(d.Time)})
	}
	return all
}

// headerJSON is a header in answers. Bytes that are no UTF-8 are in valueBase64.
type headerJSON struct {
	Name        string  `json:"name"`
	Value       any     `json:"value"` // null: Kafka's null
	ValueBase64 *string `json:"valueBase64,omitempty"`
}

// outgoing is a record in JSON. A value longer than limit bytes is cut; 0 means all of it.
func outgoing(partition int32, r *core.Record, limit int) outgoingJSON {
	m := message.Read(r)
	j := outgoingJSON{
		ID: messageID(partition, r.Offset), Partition: partition, Offset: r.Offset, Timestamp: front.Time(m.Time),
		ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, ReplyTo: m.ReplyTo, MessageID: m.MessageID,
		CorrelationID: string(m.CorrelationID), Type: m.Type, AppID: m.AppID, UserID: m.UserID,
		Exchange: m.Exchange, RoutingKey: m.RoutingKey, ExpiresAt: timeOrNil(m.ExpiresAt), DeliverAt: timeOrNil(m.DeliverAt),
	}
	if j.RoutingKey == string(m.Key) {
		j.RoutingKey = ""
	}
	if m.Priority >= 0 {
		j.Priority = &m.Priority
	}
	if m.Key != nil {
		var encoded *string
		if j.Key, encoded = textOrBase64(m.Key); encoded != nil {
			j.KeyBase64 = *encoded
		}
	}
	if v := m.Value; v != nil {
		if limit > 0 && len(v) > limit {
			j.Truncated = len(v)
			v = v[:limit]
		}
		j.Value, j.ValueBase64 = textOrBase64(v)
	}
	for _, h := range m.Headers {
		j.Headers = append(j.Headers, jsonOfHeader(h))
	}
	return j
}

func timeOrNil(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	return new(front.Time(ms))
}

// textOrBase64 is b as text, where it is UTF-8, else in base64.
func textOrBase64(b []byte) (text, encoded *string) {
	if utf8.Valid(b) {
		return new(string(b)), nil
	}
	return nil, new(base64.StdEncoding.EncodeToString(b))
}

func jsonOfHeader(h message.Header) headerJSON {
	j := headerJSON{Name: h.Name}
	if h.Value.IsText() {
		text, encoded := textOrBase64(h.Value.Bytes())
		if text != nil {
			j.Value = *text
		}
		j.ValueBase64 = encoded
		return j
	}
	j.Value = h.Value.JSON(jsonOfScalar)
	return j
}

// jsonOfScalar is a typed value in JSON, as near as that comes.
func jsonOfScalar(v message.Value) any {
	switch v.Kind() { //nolint:exhaustive // the others are below
	case message.KindVoid:
		return nil
	case message.KindBool:
		return v.Bool()
	case message.KindTime:
		seconds, _ := v.Int()
		return time.Unix(seconds, 0).UTC()
	case message.KindFloat32, message.KindFloat64:
		if b, err := json.Marshal(v.Float()); err == nil {
			return json.RawMessage(b)
		}
		return v.String() // NaN and the infinities
	case message.KindUint64:
		return v.Uint()
	}
	if n, ok := v.Int(); ok {
		return n
	}
	return v.String()
}
