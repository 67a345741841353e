package message

import (
	"slices"

	"polylog/core"
)

// These look at one part of a record and, but for values of arrays and tables, allocate
// nothing: the state machine asks them of every message. What they say is what Read says.

// ExpiresAt is when the message expires, in ms; 0: never.
func ExpiresAt(r *core.Record) int64 {
	at, _ := parseTime(lookFor(r, ExpiresAtHeader))
	return at
}

// DeliverAt is when the message is to be delivered, in ms; 0: at once.
func DeliverAt(r *core.Record) int64 {
	if at, ok := parseTime(lookFor(r, deliverAtHeader)); ok {
		return at
	}
	return delayed(r.Time, lookFor(r, delayHeader))
}

// Priority is the message's; -1: none.
func Priority(r *core.Record) int {
	p, _ := parsePriority(lookFor(r, priorityHeader))
	return p
}

// Exchange is where the message was published, not copied; empty for the default exchange.
func Exchange(r *core.Record) []byte { return lookFor(r, exchangeHeader) }

// RoutingKey is the one that the message was published with, not copied.
func RoutingKey(r *core.Record) []byte {
	if k := lookFor(r, routingKeyHeader); k != nil {
		return k
	}
	return r.Key
}

// HeaderOf is the first of the message's own headers with that name: none of its parts.
func HeaderOf(r *core.Record, name string) (Value, bool) {
	part := partNamed(name) != noPart
	i, typ := find(r.Headers, name, func(_ []byte, own bool) bool { return own || !part })
	if i < 0 {
		return Value{}, false
	}
	return decodeHeader(r.Headers[i].Value, typ), true
}

// lookFor is the header that has a part; nil where there is none.
func lookFor(r *core.Record, name string) []byte {
	i, _ := find(r.Headers, name, func(v []byte, own bool) bool { return !own && v != nil })
	if i < 0 {
		return nil
	}
	return r.Headers[i].Value
}

// find is the first header of that name that is wanted, and its type; -1 where there is
// none. It takes one walk, however many headers have the name.
func find(headers []core.RecordHeader, name string, want func(v []byte, own bool) bool) (int, []byte) {
	first := slices.IndexFunc(headers, func(h core.RecordHeader) bool { return h.Key == name })
	if first < 0 {
		return -1, nil
	}
	hints := findHints(headers)
	for i := range headers {
		if i == hints.at {
			continue
		}
		typ, own := hints.next()
		if i >= first && headers[i].Key == name && want(headers[i].Value, own) {
			return i, typ
		}
	}
	return -1, nil
}
