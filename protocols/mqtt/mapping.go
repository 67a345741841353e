package mqtt

import (
	"strconv"
	"strings"

	"polylog/core"
	"polylog/core/topicfilter"
	"polylog/router"
)

// Rule maps MQTT topic names to a topic of the log.
type Rule struct {
	Filter string // of the names that it is for
	Topic  string
	Level  int // the level of the name that is the record's key, from 1; 0: the whole name; NoKey
}

// NoKey as Rule.Level gives records no key.
const NoKey = -1

// ParseRules reads rules of the form filter=topic or filter=topic:key, separated by
// semicolons; key is "name" (the whole MQTT topic name), "none", or the number of a level,
// from 1. The first rule whose filter matches a name holds.
func ParseRules(text string) ([]Rule, error) {
	var rules []Rule
	for one := range strings.SplitSeq(text, ";") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		r, err := parseRule(one)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func parseRule(text string) (r Rule, err error) {
	i := strings.LastIndexByte(text, '=')
	if i < 0 {
		return r, core.E(core.Invalid, "%q is not filter=topic", text)
	}
	r.Filter = strings.TrimSpace(text[:i])
	topic, key, keyed := strings.Cut(strings.TrimSpace(text[i+1:]), ":")
	r.Topic = topic
	if err := topicfilter.CheckFilter(r.Filter); err != nil {
		return r, err
	}
	if err := router.CheckTopicName(r.Topic); err != nil {
		return r, err
	}
	switch {
	case !keyed || key == "name":
	case key == "none":
		r.Level = NoKey
	default:
		if r.Level, err = strconv.Atoi(key); err != nil || r.Level < 1 || r.Level > topicfilter.MaxLevels {
			return r, core.E(core.Invalid, "%q: the key is %q, want name, none or the number of a level", text, key)
		}
	}
	return r, nil
}

// mapping says where messages go.
type mapping struct {
	rules    []Rule
	fallback string // topic of names whose first level is no legal topic name
}

// place is the topic and the record key of an MQTT topic name.
func (m *mapping) place(name string) (topic, key string, keyed bool) {
	for i := range m.rules {
		r := &m.rules[i]
		if !topicfilter.Match(r.Filter, name) {
			continue
		}
		switch r.Level {
		case 0:
			return r.Topic, name, true
		case NoKey:
			return r.Topic, "", false
		default:
			key, keyed := level(name, r.Level)
			return r.Topic, key, keyed
		}
	}
	topic = topicfilter.FirstLevel(name)
	if router.CheckTopicName(topic) != nil {
		topic = m.fallback
	}
	return topic, name, true
}

// level is level n of a name, from 1.
func level(name string, n int) (string, bool) {
	rest, more := name, true
	var l string
	for ; n > 0; n-- {
		if !more {
			return "", false
		}
		l, rest, more = topicfilter.Cut(rest)
	}
	return l, true
}

// CheckFilter says what is wrong with a topic filter.
func CheckFilter(filter string) error { return topicfilter.CheckFilter(filter) }
