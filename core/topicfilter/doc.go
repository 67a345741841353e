// Package topicfilter has MQTT's topic names and filters (MQTT 5, section 4.7): what is
// legal, what matches what, a tree that finds all filters that match a name, and the name
// that a record of any protocol has for MQTT's subscribers.
//
// Names are compared byte for byte. Levels may be empty: "a", "/a" and "a/" are three names.
package topicfilter

import (
	"strings"
	"unicode/utf8"

	"polylog/core"
)

// MaxLen is the length of the longest name or filter, in bytes.
const MaxLen = 65535

// MaxLevels bounds the levels of names and filters, so that matching is bounded.
const MaxLevels = 128

// CheckName is nil for a legal topic name. Otherwise its kind is core.Invalid.
func CheckName(name string) error {
	if err := check("topic name", name); err != nil {
		return err
	}
	if i := strings.IndexAny(name, "+#"); i >= 0 {
		return core.E(core.Invalid, "topic name %.80q has the wildcard %q", name, name[i])
	}
	return nil
}

// CheckFilter is nil for a legal filter. Otherwise its kind is core.Invalid.
func CheckFilter(filter string) error {
	if err := check("topic filter", filter); err != nil {
		return err
	}
	for rest, more := filter, true; more; {
		var level string
		level, rest, more = Cut(rest)
		switch {
		case level == "#" && more:
			return core.E(core.Invalid, "topic filter %.80q has levels after #", filter)
		case len(level) > 1 && strings.ContainsAny(level, "+#"):
			return core.E(core.Invalid, "topic filter %.80q has a wildcard that is not a level of its own", filter)
		}
	}
	return nil
}

func check(what, s string) error {
	switch {
	case s == "":
		return core.E(core.Invalid, "%s is empty", what)
	case len(s) > MaxLen:
		return core.E(core.Invalid, "%s has %d bytes, at most %d are allowed", what, len(s), MaxLen)
	case strings.Count(s, "/") >= MaxLevels:
		return core.E(core.Invalid, "%s has %d levels, at most %d are allowed", what, strings.Count(s, "/")+1, MaxLevels)
	case !utf8.ValidString(s):
		return core.E(core.Invalid, "%s %.80q is not UTF-8", what, s)
	case strings.IndexByte(s, 0) >= 0:
		return core.E(core.Invalid, "%s %.80q has a null character", what, s)
	}
	return nil
}

// Cut takes the first level off s; more says whether others follow.
func Cut(s string) (level, rest string, more bool) { return strings.Cut(s, "/") }

// Match reports whether a legal filter matches a legal name (section 4.7.1 and 4.7.2).
func Match(filter, name string) bool {
	if name[0] == '$' && (filter[0] == '+' || filter[0] == '#') {
		return false
	}
	for {
		f, restF, moreF := Cut(filter)
		if f == "#" {
			return true
		}
		n, restN, moreN := Cut(name)
		switch {
		case f != "+" && f != n:
			return false
		case !moreN:
			return !moreF || restF == "#" // "a/#" matches "a"
		case !moreF:
			return false
		}
		filter, name = restF, restN
	}
}
