package load

import (
	"strings"
	"testing"
)

// TestLedger: what is wrong is found, and nothing else.
func TestLedger(t *testing.T) {
	m := func(n int) Message { return Message{Key: "k", N: n} }
	ids := []string{"a", "b", "c"}
	take := func(l *Ledger, sub string, n int) {
		l.Came(sub, ids[n], m(n))
		l.Done(sub, m(n))
	}
	for name, c := range map[string]struct {
		history func(l *Ledger)
		want    string // empty: nothing is wrong
	}{
		"all": {func(l *Ledger) {
			for n := range 3 {
				take(l, "ordered", n)
				take(l, "any", 2-n)
			}
		}, ""},
		"again": {func(l *Ledger) {
			for n := range 3 {
				take(l, "ordered", n)
				take(l, "ordered", 0)
				take(l, "any", n)
				l.Came("any", ids[n], m(n))
			}
		}, ""},
		"refused, then taken": {func(l *Ledger) {
			l.Came("ordered", "a", m(0))
			for n := range 3 {
				take(l, "ordered", n)
				take(l, "any", n)
			}
		}, ""},
		"lost": {func(l *Ledger) {
			for n := range 3 {
				take(l, "ordered", n)
			}
			take(l, "any", 0)
			take(l, "any", 2)
		}, "any: {k 1} is lost"},
		"never taken": {func(l *Ledger) {
			for n := range 3 {
				take(l, "ordered", n)
				l.Came("any", ids[n], m(n))
			}
		}, "any: {k 0} is lost; any: {k 1} is lost; any: {k 2} is lost"},
		"another id": {func(l *Ledger) {
			for n := range 3 {
				take(l, "ordered", n)
				take(l, "any", n)
			}
			l.Came("any", "d", m(1))
		}, "any: {k 1} has the ids b and d"},
		"one id for two": {func(l *Ledger) {
			for n := range 3 {
				take(l, "ordered", n)
				l.Came("any", ids[min(n, 1)], m(n))
				l.Done("any", m(n))
			}
		}, "any: id b is that of {k 1} and of {k 2}"},
		"out of order": {func(l *Ledger) {
			for _, n := range []int{0, 2, 1} {
				take(l, "ordered", n)
				take(l, "any", n)
			}
		}, "ordered: {k 2} comes before number 1 of its key is done"},
		"before the one that failed": {func(l *Ledger) {
			take(l, "ordered", 0)
			l.Came("ordered", "b", m(1))
			take(l, "ordered", 2)
			take(l, "ordered", 1)
			for n := range 3 {
				take(l, "any", n)
			}
		}, "ordered: {k 2} comes before number 1 of its key is done"},
		"nobody's": {func(l *Ledger) {
			for n := range 3 {
				take(l, "ordered", n)
				take(l, "any", n)
			}
			l.Came("any", "d", m(3))
			l.Came("other", "a", m(0))
		}, `any: {k 3} was never published; {k 0} came to "other", which nobody made`},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLedger(map[string]bool{"ordered": true, "any": false})
			for range 3 {
				l.Next("k")
			}
			c.history(l)
			l.End()
			if _, wrong := l.Wrong(); strings.Join(wrong, "; ") != c.want {
				t.Errorf("%q, want %q", wrong, c.want)
			}
		})
	}
}
