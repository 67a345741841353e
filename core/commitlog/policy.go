package commitlog

import "polylog/core"

// FlushPolicy says when appended entries are forced to the disk.
type FlushPolicy uint8

// The policies. Only FlushSync keeps every acknowledged entry through a power cut.
const (
	FlushSync     FlushPolicy = iota // before Append returns
	FlushInterval                    // in the background, every Options.FlushInterval
	FlushOS                          // when the operating system likes, and when a segment is sealed
)

var policyTexts = [...]string{FlushSync: "sync", FlushInterval: "interval", FlushOS: "os"}

// String is the policy's name in configuration.
func (p FlushPolicy) String() string {
	if int(p) < len(policyTexts) {
		return policyTexts[p]
	}
	return "unknown"
}

// ParseFlushPolicy reads what String wrote.
func ParseFlushPolicy(s string) (FlushPolicy, error) {
	for i, t := range policyTexts {
		if s == t {
			return FlushPolicy(i), nil
		}
	}
	return 0, core.E(core.Invalid, "flush policy %q, want sync, interval or os", s)
}
