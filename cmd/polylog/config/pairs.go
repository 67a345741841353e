package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Pairs are settings that have names of their own, such as Kafka's. In a file they
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
		next = next.with(k, strings.TrimSpace(v))
	}
	*p = next
	return nil
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
