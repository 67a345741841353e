package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"polylog/compat/amqp/probe"
)

// intention is a difference on purpose: what Polylog answers, and the reason, by its name in reasons.
type intention struct {
	ours, reason string
}

// reasons are why Polylog answers otherwise than RabbitMQ 3.10. docs/amqp-differences.md has them for
// users.
var reasons = map[string]string{
	"identity":    "what the broker says of itself",
	"says why":    "RabbitMQ 3.10 drops the connection without a word, or says nothing; Polylog closes it with a code and a text",
	"malformed":   "what cannot be decoded is 501 FRAME_ERROR, where RabbitMQ 3.10 has 541 INTERNAL_ERROR or other words",
	"bounded":     "a bound that RabbitMQ 3.10 does not have",
	"closes":      "after close-ok Polylog closes the connection at once",
	"lenient":     "Polylog takes what RabbitMQ 3.10 refuses or trips over",
	"like 4.x":    "as RabbitMQ 4.x does",
	"right":       "the right value of a known defect",
	"extension":   "an exchange type that RabbitMQ has as a plugin of its own",
	"one queue":   "classic, quorum and stream are one implementation",
	"tie":         "RabbitMQ 3.10 gives no order there",
	"one form":    "what AMQP has two names for comes back by the one that clients agree on",
	"limit":       "a delivery limit of 0 counts as 1",
	"all at once": "transactions are atomic over all their queues",
}

// readIntended reads the differences on purpose: outcomes as Polylog has them, each with a first line
// `because REASON`.
func readIntended(file string) (map[string]intention, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	outcomes, err := probe.Read(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	m := map[string]intention{}
	for _, o := range outcomes {
		because, ours, _ := strings.Cut(o.Text, "\n")
		reason, ok := strings.CutPrefix(because, "because ")
		if !ok || reasons[reason] == "" {
			return nil, fmt.Errorf("%s: %s has no reason that is known: %q", file, o.Name, because)
		}
		if _, twice := m[o.Name]; twice {
			return nil, fmt.Errorf("%s: %s is there twice", file, o.Name)
		}
		m[o.Name] = intention{ours: ours, reason: reason}
	}
	return m, nil
}

// intend adds what differs to the file, in the place of what was there for those probes, and leaves the
// file in the probes' order.
func intend(file, reason string, theirs, ours []probe.Outcome, old map[string]intention) error {
	if reasons[reason] == "" {
		return fmt.Errorf("there is no reason %q", reason)
	}
	for _, got := range ours {
		if want, ok := probe.Named(theirs, got.Name); ok && want.Text != got.Text {
			old[got.Name] = intention{ours: got.Text, reason: reason}
		}
	}
	var all []probe.Outcome
	for _, p := range probe.All() {
		if i, ok := old[p.Name]; ok {
			all = append(all, probe.Outcome{Name: p.Name, Text: "because " + i.reason + "\n" + i.ours})
			delete(old, p.Name)
		}
	}
	if len(old) > 0 {
		return fmt.Errorf("%s: no such probes: %v", file, slices.Collect(maps.Keys(old)))
	}
	return os.WriteFile(file, []byte(probe.Record(all)), 0o644)
}
