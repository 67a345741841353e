package config

import (
	"strings"

	"polylog/protocols/mqtt"
)

// Rules map MQTT messages to topics, as mqtt.ParseRules reads them.
type Rules string

// UnmarshalText checks the rules.
func (r *Rules) UnmarshalText(text []byte) error {
	if _, err := mqtt.ParseRules(string(text)); err != nil {
		return err
	}
	*r = Rules(text)
	return nil
}

// String is what UnmarshalText reads.
func (r Rules) String() string { return string(r) }

// Filters are topic filters of MQTT, separated by semicolons.
type Filters string

// UnmarshalText checks the filters.
func (f *Filters) UnmarshalText(text []byte) error {
	for _, one := range Filters(text).Split() {
		if err := mqtt.CheckFilter(one); err != nil {
			return err
		}
	}
	*f = Filters(text)
	return nil
}

// Split is the filters one by one.
func (f Filters) Split() []string {
	if f == "" {
		return nil
	}
	return strings.Split(string(f), ";")
}

// String is what UnmarshalText reads.
func (f Filters) String() string { return string(f) }
