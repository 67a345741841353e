package group

import (
	"strings"
	"testing"
)

// TestPatterns holds that a pattern matches whole names, and that what takes much memory is refused
// before it is compiled.
func TestPatterns(t *testing.T) {
	for _, tc := range []struct {
		text, match, other string
	}{
		{"a", "a", "ab"},
		{"a|b.*", "bc", "ac"},
		{"", "", "a"},
		{strings.Repeat("a|", maxPattern/2-1) + "b", "b", "ab"},
		{"(?i)topic-[0-9]{1,9}", "TOPIC-7", "topic-"},
	} {
		p, err := CompilePattern(tc.text)
		if err != nil {
			t.Fatalf("%.20q: %v", tc.text, err)
		}
		if tc.match != "" && !p.Match(tc.match) || p.Match(tc.other) {
			t.Errorf("%.20q: %s %v, %s %v", tc.text, tc.match, p.Match(tc.match), tc.other, p.Match(tc.other))
		}
		if p.Text() != tc.text {
			t.Errorf("%.20q became %.20q", tc.text, p.Text())
		}
	}
	for _, text := range []string{
		"[", "a)|(b", "(" + strings.Repeat("a", 100) + "){900}", `\pL{1000}`, strings.Repeat(`\pL`, 100), strings.Repeat("a", maxPattern+1),
	} {
		if _, err := CompilePattern(text); err == nil {
			t.Errorf("%.20q is taken", text)
		}
	}
}
