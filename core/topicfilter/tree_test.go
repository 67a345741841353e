package topicfilter

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestTreeIsAListOfFilters compares the tree with looking at each filter, while it grows, shrinks
// and grows again.
func TestTreeIsAListOfFilters(t *testing.T) {
	var levels []string
	for i := range 3 * maxFew {
		levels = append(levels, fmt.Sprint("l", i))
	}
	for name, c := range map[string]struct{ literal, wild []string }{
		"few levels":  {[]string{"a", "b", "", "$c"}, []string{"+", "#"}},
		"alike":       {[]string{"a", "ab", "abc", ""}, []string{"+", "#"}},
		"many levels": {levels, []string{"+", "+", "+", "#", "#", "#"}},
	} {
		t.Run(name, func(t *testing.T) { testTree(t, c.literal, append(c.wild, c.literal...)) })
	}
}

func testTree(t *testing.T, inName, inFilter []string) {
	rnd := rand.New(rand.NewPCG(1, 2))
	random := func(levels []string) string {
		s := make([]string, 1+rnd.IntN(5))
		for i := range s {
			s[i] = levels[rnd.IntN(len(levels))]
		}
		return strings.Join(s, "/")
	}
	type sub struct {
		filter string
		value  int
	}
	var tree Tree[int]
	var list []sub
	matched := 0
	for i := range 6_000 {
		shrinks := i/1000%2 == 1
		if f := random(inFilter); CheckFilter(f) == nil && (!shrinks || rnd.IntN(4) == 0) {
			tree.Add(f, i)
			list = append(list, sub{f, i})
		} else if len(list) > 0 && (shrinks || rnd.IntN(4) == 0) {
			n := rnd.IntN(len(list))
			if !tree.Remove(list[n].filter, list[n].value) {
				t.Fatalf("%q was not there", list[n].filter)
			}
			list = slices.Delete(list, n, n+1)
		}
		if f := random(inFilter); CheckFilter(f) == nil && tree.Remove(f, -1) || tree.Len() != len(list) {
			t.Fatalf("%d filters, want %d", tree.Len(), len(list))
		}
		name := random(inName)
		if CheckName(name) != nil {
			continue
		}
		first, ofFirst := firstLevel(name), false
		var got, want []int
		tree.Match(name, func(v int) { got = append(got, v) })
		for _, s := range list {
			if Match(s.filter, name) {
				want = append(want, s.value)
			}
			f := firstLevel(s.filter)
			ofFirst = ofFirst || f == first || f == "+" || f == "#"
		}
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Fatalf("%q: %v, want %v", name, got, want)
		}
		if tree.HasFirst(first) != ofFirst {
			t.Fatalf("a filter for the first level %q: %v, want %v", first, !ofFirst, ofFirst)
		}
		matched += len(got)
		if i%200 == 0 {
			checkBranches(t, &tree.root)
		}
	}
	if matched == 0 {
		t.Fatal("nothing ever matched")
	}
	for _, s := range list {
		tree.Remove(s.filter, s.value)
	}
	if !tree.root.empty() || tree.Len() != 0 {
		t.Fatalf("something is left: %+v", tree)
	}
}

// checkBranches fails where a node is not needed: filters neither part nor end there.
func checkBranches(t *testing.T, b *branches[int]) {
	t.Helper()
	nodes := append(slices.Clone(b.few), b.plus, b.all)
	for level, n := range b.many {
		if firstLevel(n.label) != level {
			t.Fatalf("%q is found by %q", n.label, level)
		}
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		switch {
		case n == nil:
		case n.below == nil && !n.has, n.below != nil && (n.below.empty() || !n.has && n.below.only() != nil):
			t.Fatalf("%q is nothing of its own", n.label)
		case n.below != nil:
			checkBranches(t, n.below)
		}
	}
}

// filters are n that devices subscribe to: half of them the commands of one device, half with
// wildcards, 16 sites.
func filters(n int) []string {
	all := make([]string, n)
	for i := range all {
		if all[i] = fmt.Sprintf("site%d/devices/%07d/commands", i%16, i); i%2 == 1 {
			all[i] = fmt.Sprintf("site%d/devices/%07d/+/value/#", i%16, i)
		}
	}
	return all
}

// BenchmarkMatch finds the one filter of many that a name matches, and says what memory each has.
func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("filters=%d", n), func(b *testing.B) {
			all := filters(n)
			before := heap()
			tree := new(Tree[[2]uint64])
			for i, f := range all {
				tree.Add(f, [2]uint64{uint64(i)})
			}
			each := float64(heap()-before) / float64(n)
			names := make([]string, n)
			for i, f := range all {
				names[i] = strings.NewReplacer("+", "x", "#", "y").Replace(f)
			}
			found, i := 0, 0
			for b.Loop() {
				tree.Match(names[i], func([2]uint64) { found++ })
				if i += 7919; i >= n {
					i %= n
				}
			}
			if found != b.N {
				b.Fatalf("%d found by %d", found, b.N)
			}
			b.ReportMetric(each, "heap-B/filter")
			runtime.KeepAlive(all)
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
