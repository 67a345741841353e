package main

import (
	"maps"
	"strings"
	"testing"
)

// TestVerdict: what is wrong is found, and nothing else.
func TestVerdict(t *testing.T) {
	good := map[string]int{}
	for n := 1; n <= 2; n++ {
		for _, kind := range kinds {
			good[topic(kind, n)] = 1
		}
	}
	for name, c := range map[string]struct {
		change func(came map[string]int)
		want   string // empty: nothing is wrong
	}{
		"all":        {func(map[string]int) {}, ""},
		"lost":       {func(came map[string]int) { delete(came, "survive/late/2") }, "survive/late/2 came 0 times"},
		"twice":      {func(came map[string]int) { came["survive/exactly/1"]++ }, "survive/exactly/1 came 2 times"},
		"too early":  {func(came map[string]int) { came["survive/notyet/2"]++ }, "survive/notyet/2 came"},
		"taken back": {func(came map[string]int) { came["survive/polite/1"]++ }, "survive/polite/1 came"},
	} {
		came := maps.Clone(good)
		c.change(came)
		if got := strings.Join(verdict(2, came), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
