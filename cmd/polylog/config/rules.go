package config

import "polylog/protocols/mqtt"

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
