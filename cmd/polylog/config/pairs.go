package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"polylog/router"
)

// Pairs are settings of the broker under Kafka's own names. In a file they
// are a mapping; on the command line and in the environment k=v, several of them
// separated by semicolons (a value may hold commas). Each source adds to the ones
// that it wins over.
type Pairs map[string]string

// UnmarshalText adds what text says to p.
func (p *Pairs) UnmarshalText(text []byte) error {
	next := *p
	for pair := range strings.SplitSeq(string(text), ";") {
		k, v, ok := strings.Cut(pair, "=")
		k = strings.TrimSpace(k)
		if !ok || k == "" {
			return fmt.Errorf("%q is not name=value", pair)
		}
		v = strings.TrimSpace(v)
		if err := checkPair(k, v); err != nil {
			return err
		}
		next = next.with(k, v)
	}
	*p = next
	return nil
}

// checkPair is nil for a setting that there is with a value that it can have.
func checkPair(k, v string) error {
	var names []string
	for _, known := range router.BrokerConfigKeys() {
		names = append(names, known.Name)
	}
	err := router.CheckBrokerConfig(k, v)
	if err != nil && !slices.Contains(names, k) {
		return fmt.Errorf("%w%s", err, suggest(k, names))
	}
	return err
}

// String is what UnmarshalText reads, in the order of the names.
func (p Pairs) String() string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(p)) {
		all = append(all, k+"="+p[k])
	}
	return strings.Join(all, ";")
}

// with is p and one more pair; p stays as it is.
func (p Pairs) with(k, v string) Pairs {
	next := maps.Clone(p)
	if next == nil {
		next = Pairs{}
	}
	next[k] = v
	return next
}
