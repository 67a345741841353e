package router

import (
	"slices"
	"strconv"
	"strings"

	"polylog/core"
)

// ConfigType is the type of a configuration value. The numbers are those of
// Kafka's DescribeConfigs response.
type ConfigType uint8

// The types.
const (
	TypeBoolean ConfigType = iota + 1
	TypeString
	TypeInt
	TypeShort
	TypeLong
	TypeDouble
	TypeList
	TypeClass
	TypePassword
)

var typeNames = [...]string{
	TypeBoolean: "boolean", TypeString: "string", TypeInt: "int", TypeShort: "short", TypeLong: "long",
	TypeDouble: "double", TypeList: "list", TypeClass: "class", TypePassword: "password",
}

// String is Kafka's word for the type.
func (t ConfigType) String() string { return typeNames[t] }

// ConfigSource says where a value comes from. The numbers are those of Kafka's
// DescribeConfigs response.
type ConfigSource uint8

// The sources, from the strongest to the weakest.
const (
	SourceTopic         ConfigSource = 1
	SourceDynamicBroker ConfigSource = 3 // set at run time, for the whole cluster
	SourceStatic        ConfigSource = 4 // the node's own configuration
	SourceDefault       ConfigSource = 5
)

// ConfigKey describes one configuration key.
type ConfigKey struct {
	Name    string
	Type    ConfigType
	Default string
	Doc     string
	// Synonyms are the broker keys that give a topic key its default, the
	// strongest first, each with what its value is multiplied by.
	Synonyms []Synonym
	// ReadOnly keys can be seen but not set at run time; in the node's own
	// configuration they can only be said to be what they are, unless Static.
	ReadOnly bool
	// Static keys are ReadOnly, but the node's own configuration may set them.
	Static bool
	// Instead is what to use in place of a ReadOnly key.
	Instead string
	// Unset means that Default is no value at all: Kafka's null.
	Unset bool

	check func(string) error
}

// Synonym is another key for the same thing in another unit.
type Synonym struct {
	Name  string
	Scale int64 // 60000 for a key in minutes behind one in ms; 1 for the same unit
}

// ConfigChange is one step of an incremental change.
type ConfigChange struct {
	Key   string
	Op    ConfigOp
	Value string
}

// ConfigOp is what a ConfigChange does. The numbers are those of Kafka's
// IncrementalAlterConfigs request.
type ConfigOp uint8

// The operations.
const (
	ConfigSet      ConfigOp = iota
	ConfigDelete            // back to the default
	ConfigAppend            // add to a list
	ConfigSubtract          // remove from a list
)

// ConfigEntry is a key with the value that holds and how it came about.
type ConfigEntry struct {
	Key    *ConfigKey
	Value  string
	Source ConfigSource
	// Unset means that there is no value: Kafka's null.
	Unset bool
	// Candidates are all values that were considered, the strongest first.
	Candidates []ConfigValue
}

// ConfigValue is a value that some source gives.
type ConfigValue struct {
	Name   string
	Value  string
	Source ConfigSource
}

// checkValue is nil for a value that the key accepts.
func (k *ConfigKey) checkValue(v string) error {
	if err := k.checkType(v); err != nil {
		return err
	}
	if k.check == nil {
		return nil
	}
	if err := k.check(strings.TrimSpace(v)); err != nil {
		return core.E(core.Invalid, "invalid value %q for configuration %s: %s", v, k.Name, err.Error())
	}
	return nil
}

func (k *ConfigKey) checkType(v string) error {
	var err error
	s := strings.TrimSpace(v)
	switch k.Type {
	case TypeBoolean:
		if !strings.EqualFold(s, "true") && !strings.EqualFold(s, "false") {
			return core.E(core.Invalid, "invalid value %q for configuration %s: want true or false", v, k.Name)
		}
	case TypeInt:
		_, err = strconv.ParseInt(s, 10, 32)
	case TypeShort:
		_, err = strconv.ParseInt(s, 10, 16)
	case TypeLong:
		_, err = strconv.ParseInt(s, 10, 64)
	case TypeDouble:
		_, err = strconv.ParseFloat(s, 64)
	case TypeString, TypeList, TypeClass, TypePassword:
	}
	if err != nil {
		return core.E(core.Invalid, "invalid value %q for configuration %s: not a number of type %s", v, k.Name, k.Type)
	}
	return nil
}

// The checks. They see the value trimmed and of the right type.

func atLeast(n int64) func(string) error {
	return func(s string) error {
		if v, _ := strconv.ParseInt(s, 10, 64); v < n {
			return core.E(core.Invalid, "value must be at least %d", n)
		}
		return nil
	}
}

func between(low, high float64) func(string) error {
	return func(s string) error {
		if v, _ := strconv.ParseFloat(s, 64); !(v >= low && v <= high) {
			return core.E(core.Invalid, "value must be between %g and %g", low, high)
		}
		return nil
	}
}

func oneOf(words ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(words, s) {
			return core.E(core.Invalid, "value must be one of %s", strings.Join(words, ", "))
		}
		return nil
	}
}

func listOf(words ...string) func(string) error {
	return func(s string) error {
		seen := map[string]bool{}
		for _, w := range splitList(s) {
			if !slices.Contains(words, w) {
				return core.E(core.Invalid, "values must be of %s", strings.Join(words, ", "))
			}
			if seen[w] {
				return core.E(core.Invalid, "%s occurs twice", w)
			}
			seen[w] = true
		}
		return nil
	}
}

// splitList takes a list value apart; an empty one has no items.
func splitList(s string) []string {
	var items []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// change applies c to a value that is now.
func (k *ConfigKey) change(now string, c ConfigChange) (string, error) {
	switch c.Op {
	case ConfigSet:
		return c.Value, nil
	case ConfigAppend, ConfigSubtract:
		if k.Type != TypeList {
			return "", core.E(core.Invalid, "configuration %s is no list: cannot append to or subtract from it", k.Name)
		}
		items := splitList(now)
		for _, v := range splitList(c.Value) {
			i := slices.Index(items, v)
			switch {
			case c.Op == ConfigAppend && i < 0:
				items = append(items, v)
			case c.Op == ConfigSubtract && i >= 0:
				items = slices.Delete(items, i, i+1)
			}
		}
		return strings.Join(items, ","), nil
	case ConfigDelete:
	}
	return "", core.E(core.Invalid, "unknown operation %d on configuration %s", c.Op, k.Name)
}
