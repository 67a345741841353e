package router

import (
	"math"
	"testing"
	"time"
)

func TestUntil(t *testing.T) {
	for _, tc := range []struct {
		at, now int64
		want    time.Duration
	}{
		{1000, 400, 600 * time.Millisecond},
		{400, 1000, 0},
		{1 << 50, 0, longWait},
		{math.MaxInt64, 1_700_000_000_000, longWait}, // in ns it would be a time that has passed
	} {
		if got := until(tc.at, tc.now); got != tc.want {
			t.Errorf("from %d to %d: %s, want %s", tc.now, tc.at, got, tc.want)
		}
	}
}
