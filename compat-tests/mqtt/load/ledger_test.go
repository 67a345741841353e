package load

import (
	"strings"
	"testing"
)

// TestLedger: what is wrong is found, and nothing else.
func TestLedger(t *testing.T) {
	one, two := lineID{1, 0}, lineID{2, 0}
	type delivery struct {
		view   string
		line   lineID
		number int
	}
	for name, c := range map[string]struct {
		came    []delivery
		missing int
		wrong   string // what the first failure says; empty: none
	}{
		"all":                {[]delivery{{"own", one, 0}, {"own", one, 1}, {"own", two, 0}, {"own", two, 1}, {"shared", one, 1}, {"shared", two, 1}, {"shared", two, 0}, {"shared", one, 0}}, 0, ""},
		"nothing":            {nil, 8, ""},
		"QoS 1 again":        {[]delivery{{"own", one, 0}, {"own", one, 1}, {"own", one, 0}, {"own", one, 1}}, 6, ""},
		"QoS 2 again":        {[]delivery{{"own", two, 0}, {"own", two, 1}, {"own", two, 0}}, 6, "twice"},
		"QoS 2 shared again": {[]delivery{{"shared", two, 0}, {"shared", two, 0}}, 7, "twice"},
		"a gap":              {[]delivery{{"own", one, 1}}, 7, "after -1"},
		"out of order":       {[]delivery{{"own", two, 1}, {"own", two, 0}}, 6, "after"},
		"not sent":           {[]delivery{{"own", two, 2}}, 8, "nobody sent"},
		"nobody's":           {[]delivery{{"own", lineID{2, 7}, 0}}, 8, "nobody sent"},
	} {
		l := newLedger(map[string]bool{"own": false, "shared": true})
		for _, id := range []lineID{one, two} {
			for range 2 {
				l.ack(id, l.sent(id))
			}
		}
		for _, d := range c.came {
			l.deliver(d.view, "x", d.line, d.number)
		}
		n, wrong := l.Wrong()
		missing, _ := l.missing()
		if missing != c.missing || (n > 0) != (c.wrong != "") || n > 0 && !strings.Contains(wrong[0], c.wrong) {
			t.Errorf("%s: %d missing, %q; want %d, %q", name, missing, wrong, c.missing, c.wrong)
		}
	}
}
