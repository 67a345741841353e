package message

import (
	"math"
	"slices"
	"strconv"
	"sync"

	"polylog/core"
)

// Message is a message of any protocol.
type Message struct {
	Key, Value []byte // nil is null
	Time       int64  // ms
	// Stamped says that Time is the broker's own: the publisher gave none.
	Stamped bool
	// Exchange and RoutingKey are where it was published. Without a routing key of its own
	// a message has its key for it.
	Exchange, RoutingKey string

	ContentType, ContentEncoding string
	ReplyTo, MessageID           string
	Type, AppID, UserID          string
	Vouched                      bool   // UserID was checked to be its publisher's
	CorrelationID                []byte // nil: none
	ExpiresAt, DeliverAt         int64  // ms since the epoch; 0: none
	TTL                          int64  // ms; ExpiresAt as its publisher said it; 0: it said none, or 0
	Priority                     int    // -1: none
	// Durable and Transient are what the publisher said about surviving a restart, which
	// every message does; neither, if it said nothing.
	Durable, Transient bool
	Headers            Table
}

// MaxAhead bounds how far away the times may be at which clients of HTTP want a message delivered or
// dropped, in ms: ten years.
const MaxAhead = 10 * 366 * 24 * 3600 * 1000

// part is a part of a message that travels as a record header.
type part uint8

const (
	noPart part = iota
	partContentType
	partContentEncoding
	partCorrelationID
	partReplyTo
	partMessageID
	partExpiresAt
	partTTL
	partDeliverAt
	partDelay
	partPriority
	partType
	partAppID
	partUserID
	partDurable
	partExchange
	partRoutingKey
)

// The names of the parts that are looked for one by one.
const (
	ExpiresAtHeader  = "expires-at" // ms since the epoch, decimal
	UserIDHeader     = "user-id"
	ttlHeader        = "x-expiration"
	deliverAtHeader  = "deliver-at"
	delayHeader      = "delay"
	priorityHeader   = "priority"
	exchangeHeader   = "exchange"
	routingKeyHeader = "routing-key"
)

func partNamed(name string) part {
	switch name {
	case "content-type":
		return partContentType
	case "content-encoding":
		return partContentEncoding
	case "correlation-id":
		return partCorrelationID
	case "reply-to":
		return partReplyTo
	case "message-id":
		return partMessageID
	case ExpiresAtHeader:
		return partExpiresAt
	case ttlHeader:
		return partTTL
	case deliverAtHeader:
		return partDeliverAt
	case delayHeader:
		return partDelay
	case priorityHeader:
		return partPriority
	case "type":
		return partType
	case "app-id":
		return partAppID
	case UserIDHeader:
		return partUserID
	case "durable":
		return partDurable
	case exchangeHeader:
		return partExchange
	case routingKeyHeader:
		return partRoutingKey
	}
	return noPart
}

// AppendTo adds the message to a batch as one record.
func (m *Message) AppendTo(b *core.BatchBuilder) {
	w := recordWriters.Get().(*recordWriter)
	defer w.release()
	w.text("content-type", m.ContentType)
	w.text("content-encoding", m.ContentEncoding)
	if m.CorrelationID != nil {
		w.add("correlation-id", m.CorrelationID)
	}
	w.text("reply-to", m.ReplyTo)
	w.text("message-id", m.MessageID)
	w.number(ExpiresAtHeader, m.ExpiresAt, m.ExpiresAt != 0)
	w.number(ttlHeader, m.TTL, m.TTL != 0)
	w.number(deliverAtHeader, m.DeliverAt, m.DeliverAt != 0)
	w.number(priorityHeader, int64(m.Priority), m.Priority >= 0)
	w.text("type", m.Type)
	w.text("app-id", m.AppID)
	w.text(UserIDHeader, m.UserID)
	if m.Vouched && m.UserID != "" {
		b.Vouch()
	}
	switch {
	case m.Durable:
		w.text("durable", "true")
	case m.Transient:
		w.text("durable", "false")
	}
	w.text(exchangeHeader, m.Exchange)
	if m.RoutingKey != string(m.Key) {
		w.add(routingKeyHeader, []byte(m.RoutingKey))
	}
	w.table(m.Headers)
	b.Add(m.Time, m.Key, m.Value, w.headers...)
}

// Batch appends the message to dst as a batch of its own, of no producer.
func (m *Message) Batch(dst []byte) ([]byte, error) {
	b := builders.Get().(*core.BatchBuilder)
	defer func() {
		if b.Size() <= maxPooled {
			b.Reset()
			builders.Put(b)
		}
	}()
	m.AppendTo(b)
	o := core.BatchOptions{Producer: core.Nobody}
	if m.Stamped {
		o.Attributes = core.AttrLogAppendTime
	}
	return b.Build(dst, o)
}

// recordWriter gathers the headers of a record. It is pooled, as the builders of batches of one
// record are: there is one of each for every message that is published.
type recordWriter struct {
	headers []core.RecordHeader
	buf     []byte // the texts of values lie here
}

var (
	recordWriters = sync.Pool{New: func() any { return &recordWriter{headers: make([]core.RecordHeader, 0, 24)} }}
	builders      = sync.Pool{New: func() any { return new(core.BatchBuilder) }}
)

// What a pooled object keeps at most: bytes, and headers.
const (
	maxPooled        = 64 << 10
	maxPooledHeaders = 1 << 10
)

// release gives the writer back. Nothing may alias its headers or their values any more.
func (w *recordWriter) release() {
	clear(w.headers)
	w.headers = w.headers[:0]
	if w.buf = w.buf[:0]; cap(w.buf) <= maxPooled && cap(w.headers) <= maxPooledHeaders {
		recordWriters.Put(w)
	}
}

func (w *recordWriter) add(name string, value []byte) {
	w.headers = append(w.headers, core.RecordHeader{Key: name, Value: value})
}

func (w *recordWriter) text(name, s string) {
	if s != "" {
		at := len(w.buf)
		w.buf = append(w.buf, s...)
		w.add(name, w.since(at))
	}
}

func (w *recordWriter) number(name string, n int64, there bool) {
	if there {
		at := len(w.buf)
		w.buf = strconv.AppendInt(w.buf, n, 10)
		w.add(name, w.since(at))
	}
}

// since is what was written to buf from at on. It stays where it is when buf grows.
func (w *recordWriter) since(at int) []byte {
	if at == len(w.buf) {
		return []byte{} // not nil, which is null
	}
	return w.buf[at:len(w.buf):len(w.buf)]
}

// table adds the message's own headers, and the types of all where one has any.
func (w *recordWriter) table(t Table) {
	if len(t) == 0 {
		return
	}
	types := make([]byte, len(w.headers), len(w.headers)+len(t)+8)
	for i := range types {
		types[i] = plainType
	}
	typed := false
	for _, h := range t {
		if h.Name == typesHeader || partNamed(h.Name) != noPart {
			types, typed = append(types, ownMark), true
		}
		n := len(types)
		types = appendHeaderType(types, h.Value)
		typed = typed || types[n] != plainType
		switch {
		case h.Value.kind == KindVoid:
			w.add(h.Name, nil)
			continue
		case types[n] == binaryType:
			w.add(h.Name, appendValue(nil, h.Value))
			continue
		}
		at := len(w.buf)
		w.buf = h.Value.appendText(w.buf)
		w.add(h.Name, w.since(at))
	}
	if typed {
		w.add(typesHeader, types)
	}
}

// Read is the message that a record of any protocol's is. It aliases the record.
func Read(r *core.Record) Message {
	m := Message{
		Key: r.Key, Value: r.Value, Time: r.Time, Stamped: r.Stamped, RoutingKey: string(r.Key), Priority: -1,
		Vouched: r.Vouched,
	}
	hints := findHints(r.Headers)
	var seen uint32 // bits of parts
	for i, h := range r.Headers {
		if i == hints.at {
			continue
		}
		typ, own := hints.next()
		if p := partNamed(h.Key); p != noPart && !own && h.Value != nil && seen&(1<<p) == 0 {
			seen |= 1 << p
			if m.setPart(p, h.Value) {
				continue
			}
		}
		if m.Headers == nil {
			m.Headers = make(Table, 0, len(r.Headers)-i)
		}
		m.Headers = append(m.Headers, Header{h.Key, decodeHeader(h.Value, typ)})
	}
	return m
}

// DropClaim makes a user id that nobody has checked a header like any other.
func (m *Message) DropClaim() {
	if m.UserID == "" || m.Vouched {
		return
	}
	m.Headers = append(slices.Clip(m.Headers), Header{UserIDHeader, String(m.UserID)})
	m.UserID = ""
}

// setPart takes a part out of its header. It is false for a value that the part cannot
// have: then it is a header like any other.
func (m *Message) setPart(p part, v []byte) bool {
	ok := true
	switch p {
	case partContentType:
		m.ContentType = string(v)
	case partContentEncoding:
		m.ContentEncoding = string(v)
	case partCorrelationID:
		m.CorrelationID = v
	case partReplyTo:
		m.ReplyTo = string(v)
	case partMessageID:
		m.MessageID = string(v)
	case partType:
		m.Type = string(v)
	case partAppID:
		m.AppID = string(v)
	case partUserID:
		m.UserID = string(v)
	case partExchange:
		m.Exchange = string(v)
	case partRoutingKey:
		m.RoutingKey = string(v)
	case partDurable:
		m.Durable, m.Transient = string(v) == "true", string(v) == "false"
		ok = m.Durable || m.Transient
	case partPriority:
		m.Priority, ok = parsePriority(v)
	case partExpiresAt:
		m.ExpiresAt, ok = parseTime(v)
	case partTTL:
		m.TTL, ok = parseTime(v)
	case partDeliverAt:
		var at int64
		if at, ok = parseTime(v); ok {
			m.DeliverAt = at
		}
	case partDelay:
		at := delayed(m.Time, v)
		if ok = at != 0; ok && m.DeliverAt == 0 {
			m.DeliverAt = at
		}
	case noPart:
		ok = false
	}
	return ok
}

// parsePriority reads a priority of 0 to 255; -1 and false for anything else.
func parsePriority(b []byte) (int, bool) {
	if len(b) == 0 {
		return -1, false // as of most messages: without the cost of an error
	}
	n, err := strconv.ParseUint(string(b), 10, 8)
	if err != nil {
		return -1, false
	}
	return int(n), true
}

// parseTime reads a time or duration in ms, which is above 0; 0 and false for anything else.
func parseTime(b []byte) (int64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || n <= 0 {
		return 0, false
	}
	return n, true
}

// delayed is a delay, in ms, from a time on; 0 for what is none.
func delayed(from int64, b []byte) int64 {
	n, ok := parseTime(b)
	if !ok || from < 0 || n > math.MaxInt64-from {
		return 0
	}
	return from + n
}
