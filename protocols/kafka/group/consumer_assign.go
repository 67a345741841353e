package group

import (
	"cmp"
	"slices"
	"strings"
)

// assignors make the target assignment of a group, by the name that members ask for.
var assignors = map[string]func(*consumers){
	defaultAssignor: (*consumers).assignUniform,
	"range":         (*consumers).assignRange,
}

const defaultAssignor = "uniform"

// assign makes the target.
func (g *consumers) assign() { assignors[g.assignor()](g) }

// assignor is the one that most members ask for.
func (g *consumers) assignor() string {
	votes := map[string]int{defaultAssignor: 0}
	best := defaultAssignor
	for _, m := range g.members {
		if votes[m.assignor]++; votes[m.assignor] > votes[best] {
			best = m.assignor
		}
	}
	return best
}

// subscribers are, by topic in the order of names, the members that want it.
func (g *consumers) subscribers(fn func(t Topic, ms []*consumer)) {
	names := make([]string, 0, len(g.topics))
	for n := range g.topics {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		var ms []*consumer
		for _, m := range g.members {
			if m.subscribes(n) {
				ms = append(ms, m)
			}
		}
		if len(ms) > 0 {
			fn(g.topics[n], ms)
		}
	}
}

// assignRange gives each subscriber of a topic consecutive partitions, the first ones one
// more where they cannot be shared evenly. Topics with the same number of partitions and
// the same subscribers are shared alike, as joins of streams need it.
func (g *consumers) assignRange() {
	targets := map[*consumer]partitions{}
	g.subscribers(func(t Topic, ms []*consumer) {
		slices.SortFunc(ms, func(a, b *consumer) int {
			return cmp.Or(strings.Compare(a.instance, b.instance), strings.Compare(a.id, b.id))
		})
		next, n := int32(0), int32(len(ms))
		for i, m := range ms {
			count := t.Partitions / n
			if int32(i) < t.Partitions%n {
				count++
			}
			for range count {
				put(targets, m, Partition{t.ID, next})
				next++
			}
		}
	})
	g.setTargets(targets)
}

func put(targets map[*consumer]partitions, m *consumer, p Partition) {
	if targets[m] == nil {
		targets[m] = partitions{}
	}
	targets[m][p] = 0
}

func (g *consumers) setTargets(targets map[*consumer]partitions) {
	for _, m := range g.members {
		if m.target = targets[m]; m.target == nil {
			m.target = partitions{}
		}
	}
}
