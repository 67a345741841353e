package mqtt

import (
	"encoding/base64"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/core/topicfilter"
)

// Names of the record headers that MQTT's parts of a message travel in (docs/semantics.md).
// The other protocols know the first ones; those with mqtt- are for MQTT's own subscribers.
const (
	headerContentType = "content-type"
	headerReplyTo     = "reply-to"
	headerCorrelation = "correlation-id"
	headerExpiresAt   = "expires-at" // ms since the epoch, decimal
	headerUserID      = "user-id"    // a user property of that name

	headerQoS           = "mqtt-qos"            // "0" or "2"; without it a message has QoS 1
	headerRetain        = "mqtt-retain"         // "1": published with the retain flag
	headerClient        = "mqtt-client"         // the publisher's client id, for no-local
	headerPayloadFormat = "mqtt-payload-format" // "1": the payload is UTF-8

	// userKey is the user property that has the record's key where it is not the topic name.
	userKey = "key"
	// binaryPrefix comes before the name of a user property whose value is base64, as the
	// header's is not UTF-8.
	binaryPrefix = "x-base64-"
)

var (
	qosValues = [3][]byte{[]byte("0"), []byte("1"), []byte("2")}
	flagOne   = []byte("1")
)

// appendRecord adds a PUBLISH, or a will, as a record; now is its time in ms. Nothing of pk is kept.
func appendRecord(b *core.BatchBuilder, now int64, to target, pk *packets.Packet, client []byte) {
	var room [16]core.RecordHeader
	hs := room[:0]
	p := &pk.Properties
	if p.ContentType != "" {
		hs = append(hs, core.RecordHeader{Key: headerContentType, Value: []byte(p.ContentType)})
	}
	if p.ResponseTopic != "" {
		hs = append(hs, core.RecordHeader{Key: headerReplyTo, Value: []byte(p.ResponseTopic)})
	}
	if p.CorrelationData != nil {
		hs = append(hs, core.RecordHeader{Key: headerCorrelation, Value: p.CorrelationData})
	}
	if p.MessageExpiryInterval > 0 {
		at := now + 1000*int64(p.MessageExpiryInterval)
		hs = append(hs, core.RecordHeader{Key: headerExpiresAt, Value: strconv.AppendInt(nil, at, 10)})
	}
	if q := pk.FixedHeader.Qos; q != 1 {
		hs = append(hs, core.RecordHeader{Key: headerQoS, Value: qosValues[q]})
	}
	if pk.FixedHeader.Retain {
		hs = append(hs, core.RecordHeader{Key: headerRetain, Value: flagOne})
	}
	if p.PayloadFormat == 1 {
		hs = append(hs, core.RecordHeader{Key: headerPayloadFormat, Value: flagOne})
	}
	hs = append(hs, core.RecordHeader{Key: headerClient, Value: client})
	for _, u := range p.User {
		if u.Key == userKey {
			to.key, to.keyed = u.Val, true
			continue
		}
		hs = append(hs, core.RecordHeader{Key: u.Key, Value: []byte(u.Val)})
	}
	var k []byte
	if to.keyed {
		k = []byte(to.key)
	}
	if topicfilter.Derive(to.topic, k) != pk.TopicName {
		hs = append(hs, core.RecordHeader{Key: topicfilter.TopicHeader, Value: []byte(pk.TopicName)})
	}
	payload := pk.Payload
	if payload == nil {
		payload = []byte{} // not null
	}
	b.Add(now, k, payload, hs...)
}

// message is a record on its way to subscribers.
type message struct {
	index core.LogIndex // of the log entry that it came with

	name      string
	payload   []byte
	qos       byte
	retain    bool // it was published with the flag
	client    []byte
	expiresAt int64  // ms since the epoch; 0: never
	props     []byte // properties of a PUBLISH, but expiry and subscription identifiers
}

// readRecord makes a record of a topic a message. It is false for one without an MQTT topic
// name, or with one that only the server may say.
func (m *message) readRecord(topic string, r *core.Record) bool {
	name, ok := topicfilter.Of(topic, r)
	if !ok || name[0] == '$' {
		return false
	}
	m.fill(name, r)
	return true
}

// fill makes m a record that is for this name.
func (m *message) fill(name string, r *core.Record) {
	*m = message{index: m.index, name: name, payload: r.Value, qos: 1, props: m.props[:0]}
	derived := true
	var user []byte
	var seen uint8 // the parts that were found; a second one is a user property
	first := func(bit uint8) bool {
		was := seen & bit
		seen |= bit
		return was == 0
	}
	for i := range r.Headers {
		h := &r.Headers[i]
		switch h.Key {
		case topicfilter.TopicHeader:
			derived = false
		case headerQoS:
			if len(h.Value) == 1 && h.Value[0] >= '0' && h.Value[0] <= '2' {
				m.qos = h.Value[0] - '0'
			}
		case headerRetain:
			m.retain = true
		case headerClient:
			m.client = h.Value
		case headerPayloadFormat:
			if first(1) {
				m.props = append(m.props, packets.PropPayloadFormat, 1)
			}
		case headerExpiresAt:
			if at, err := strconv.ParseInt(string(h.Value), 10, 64); err == nil && at > 0 && first(2) {
				m.expiresAt = at
			} else {
				user = appendUser(user, h.Key, h.Value)
			}
		case headerContentType:
			if isString(h.Value) && first(4) {
				m.props = appendString(append(m.props, packets.PropContentType), h.Value)
			} else {
				user = appendUser(user, h.Key, h.Value)
			}
		case headerReplyTo:
			if isString(h.Value) && topicfilter.CheckName(string(h.Value)) == nil && first(8) {
				m.props = appendString(append(m.props, packets.PropResponseTopic), h.Value)
			} else {
				user = appendUser(user, h.Key, h.Value)
			}
		case headerCorrelation:
			if h.Value != nil && len(h.Value) <= maxString && first(16) {
				m.props = appendString(append(m.props, packets.PropCorrelationData), h.Value)
			} else {
				user = appendUser(user, h.Key, h.Value)
			}
		default:
			user = appendUser(user, h.Key, h.Value)
		}
	}
	if !derived && r.Key != nil && string(r.Key) != name {
		m.props = appendUser(m.props, userKey, r.Key)
	}
	m.props = append(m.props, user...)
}

// maxString is the length of the longest string or binary data (section 1.5), in bytes.
const maxString = 65535

func isString(b []byte) bool {
	if len(b) > maxString || !utf8.Valid(b) {
		return false
	}
	return !slices.Contains(b, 0)
}

// appendUser appends a user property. A value that is no string becomes base64; what is too
// long for a property even so is cut by its client's maximum packet size or left out.
func appendUser(dst []byte, name string, value []byte) []byte {
	if !isString(value) {
		name, value = binaryPrefix+name, base64.StdEncoding.AppendEncode(nil, value)
	}
	if !isString([]byte(name)) || len(value) > maxString {
		return dst
	}
	dst = append(dst, packets.PropUser)
	dst = append(dst, byte(len(name)>>8), byte(len(name)))
	dst = append(dst, name...)
	return appendString(dst, value)
}

// expired reports whether the message is not to be delivered any more at a time in ms.
func (m *message) expired(now int64) bool { return m.expiresAt != 0 && m.expiresAt <= now }
