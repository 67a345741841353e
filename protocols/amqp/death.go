package amqp

import (
	"strconv"

	"polylog/core/message"
	"polylog/router"
)

// setDeaths adds the headers of a dead letter: x-death, one table for each queue and reason,
// the newest first, and those of the first and the last death.
func (out *outgoing) setDeaths(d *router.Delivery, m *message.Message) {
	first, last := &d.Deaths[0], &d.Deaths[len(d.Deaths)-1]
	for i := range d.Deaths {
		if d.Deaths[i].First { // which is not the oldest, where it came again
			first = &d.Deaths[i]
		}
	}
	tables := make([]message.Value, 0, len(d.Deaths))
	for i := len(d.Deaths) - 1; i >= 0; i-- {
		tables = append(tables, deathTable(&d.Deaths[i], first == &d.Deaths[i], m))
	}
	out.set("x-death", message.Array(tables...))
	out.setDeath("x-first-death-", first)
	out.setDeath("x-last-death-", last)
}

func (out *outgoing) setDeath(prefix string, d *router.Death) {
	out.set(prefix+"exchange", message.String(d.Exchange))
	out.set(prefix+"queue", message.String(d.Queue.Name))
	out.set(prefix+"reason", message.String(reasonText(d.Reason)))
}

// deathTable is an entry of x-death. The first death is the one that took the expiration.
func deathTable(d *router.Death, first bool, m *message.Message) message.Value {
	keys := make([]message.Value, len(d.Keys))
	for i, k := range d.Keys {
		keys[i] = message.String(k)
	}
	t := message.Table{
		{Name: "count", Value: message.Int(message.KindInt64, int64(d.Count))},
		{Name: "reason", Value: message.String(reasonText(d.Reason))},
		{Name: "queue", Value: message.String(d.Queue.Name)},
		{Name: "time", Value: message.Time(d.Time / 1000)},
		{Name: "exchange", Value: message.String(d.Exchange)},
		{Name: "routing-keys", Value: message.Array(keys...)},
	}
	if first && m.ExpiresAt != 0 {
		t = append(t, message.Header{Name: "original-expiration", Value: message.String(strconv.FormatInt(originalTTL(m), 10))})
	}
	return message.Nested(t)
}

// originalTTL is how long a message that could expire had, in ms.
func originalTTL(m *message.Message) int64 {
	if m.TTL == 0 && m.Stamped {
		return max(m.ExpiresAt-m.Time, 0)
	}
	return m.TTL
}

// reasonText is why a message died, in RabbitMQ's words.
func reasonText(r router.DeathReason) string {
	switch r {
	case router.DeathRejected:
		return "rejected"
	case router.DeathLimit:
		return "delivery_limit"
	case router.DeathExpired:
		return "expired"
	case router.DeathMaxLen:
		return "maxlen"
	default:
		return "unknown"
	}
}
