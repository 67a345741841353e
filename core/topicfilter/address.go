package topicfilter

import (
	"strings"

	"polylog/core"
)

// TopicHeader names the record header that has a message's MQTT topic, where it is not what
// Derive makes of the record.
const TopicHeader = "mqtt-topic"

// Derive is the MQTT topic name that a key gives a record of a topic: the key itself where
// it lies below the topic's name, as that of MQTT's own messages does, else the key below
// the topic's name; and that name alone without a key.
func Derive(topic string, key []byte) string {
	if len(key) == 0 {
		return topic
	}
	if below(topic, key) {
		return string(key)
	}
	return topic + "/" + string(key)
}

// below reports whether a key is the topic's name or begins with it as its first level.
func below(topic string, key []byte) bool {
	return len(key) >= len(topic) && string(key[:len(topic)]) == topic &&
		(len(key) == len(topic) || key[len(topic)] == '/')
}

// Of is the MQTT topic name of a record. It is false for a record that can have none: its
// key has a wildcard, is not UTF-8 or is too long.
func Of(topic string, r *core.Record) (string, bool) {
	name := ""
	for i := range r.Headers {
		if r.Headers[i].Key == TopicHeader {
			name = string(r.Headers[i].Value)
			break
		}
	}
	if name == "" {
		name = Derive(topic, r.Key)
	}
	return name, CheckName(name) == nil
}

// QoSHeader names the record header that has a message's quality of service, where it is not
// 1: "0" or "2".
const QoSHeader = "mqtt-qos"

// LiveOnly reports whether a record was published with QoS 0: those who are not there do not
// get it.
func LiveOnly(r *core.Record) bool {
	for i := range r.Headers {
		if r.Headers[i].Key == QoSHeader {
			return string(r.Headers[i].Value) == "0"
		}
	}
	return false
}

// Said is the MQTT topic name that a record says itself, whatever topic it is in: its key,
// unless it has another one in a header.
func Said(r *core.Record) string {
	for i := range r.Headers {
		if r.Headers[i].Key == TopicHeader && len(r.Headers[i].Value) > 0 {
			return string(r.Headers[i].Value)
		}
	}
	return string(r.Key)
}

// FirstLevel is the first level of a name.
func FirstLevel(name string) string {
	level, _, _ := strings.Cut(name, "/")
	return level
}
