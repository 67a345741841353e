package kafka

import (
	"errors"
	"fmt"
	"testing"

	"polylog/core"
)

// TestKindCodes holds the table of kinds, and that none is forgotten.
func TestKindCodes(t *testing.T) {
	want := map[core.Kind]int16{
		core.OK: 0, core.Internal: -1, core.Invalid: 42, core.NotFound: 3, core.Exists: 36, core.OutOfRange: 1,
		core.TooLarge: 10, core.Corrupt: 2, core.Denied: 29, core.NotLeader: 6, core.Unavailable: 6, core.Uncertain: 7,
		core.Conflict: 42, core.Fenced: 47, core.OutOfSequence: 45, core.DuplicateSeq: 46, core.UnknownProducer: 45,
		core.Limit: 44, core.Unsupported: 35, core.Closed: 6,
	}
	for k := core.OK; k <= core.Closed; k++ {
		code, ok := kindCodes[k]
		if !ok || code != want[k] {
			t.Errorf("%s: code %d (known: %v), want %d", k.Error(), code, ok, want[k])
		}
	}
	if got := code(fmt.Errorf("wrapped: %w", core.E(core.Fenced, "old"))); got != codeInvalidProducerEpoch {
		t.Errorf("wrapped error: code %d", got)
	}
	if got := code(errors.New("foreign")); got != codeUnknownServerError {
		t.Errorf("error without kind: code %d", got)
	}
	if code(nil) != codeNone || message(nil) != nil {
		t.Error("no error has a code or a message")
	}
}
