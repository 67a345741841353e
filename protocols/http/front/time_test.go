package front

import (
	"encoding/json"
	"math"
	"testing"
)

// TestTime: what JSON cannot say is the nearest that it can.
func TestTime(t *testing.T) {
	for ms, want := range map[int64]string{
		0:                `"1970-01-01T00:00:00Z"`,
		1796049334124000: `"9999-12-31T23:59:59.999Z"`,
		math.MaxInt64:    `"9999-12-31T23:59:59.999Z"`,
		-62167219200000:  `"0000-01-01T00:00:00Z"`,
		-62167219200001:  `"0000-01-01T00:00:00Z"`,
		math.MinInt64:    `"0000-01-01T00:00:00Z"`,
	} {
		got, err := json.Marshal(Time(ms))
		if err != nil || string(got) != want {
			t.Errorf("%d: %s, %v; want %s", ms, got, err, want)
		}
	}
}
