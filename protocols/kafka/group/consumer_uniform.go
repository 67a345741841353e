package group

import (
	"cmp"
	"slices"
)

// sharing is a uniform assignment under way.
type sharing struct {
	targets map[*consumer]partitions
	free    []Partition               // nobody's yet, in order
	wants   map[Partition][]*consumer // who may have it
	alike   bool                      // all members want the same
}

// assignUniform shares the partitions of all topics so that members that want the same
// have the same number, give or take one, and takes away as few as it can.
func (g *consumers) assignUniform() {
	s := &sharing{targets: map[*consumer]partitions{}, wants: map[Partition][]*consumer{}, alike: true}
	had := map[Partition]*consumer{}
	for _, m := range g.members {
		s.targets[m] = partitions{}
		for p := range m.target {
			had[p] = m
		}
	}
	g.subscribers(func(t Topic, ms []*consumer) {
		s.alike = s.alike && len(ms) == len(g.members)
		for i := range t.Partitions {
			p := Partition{t.ID, i}
			s.wants[p] = ms
			if m := had[p]; m != nil && m.subscribes(t.Name) {
				s.targets[m][p] = 0
			} else {
				s.free = append(s.free, p)
			}
		}
	})
	if s.alike {
		s.share(g.members)
	} else {
		s.balance(g.members)
	}
	g.setTargets(s.targets)
}

// share gives all that want the same their part: those that have most keep one more
// where it does not come out even.
func (s *sharing) share(ms []*consumer) {
	if len(ms) == 0 {
		return
	}
	ms = slices.Clone(ms)
	slices.SortStableFunc(ms, func(a, b *consumer) int { return cmp.Compare(len(s.targets[b]), len(s.targets[a])) })
	total := len(s.free)
	for _, m := range ms {
		total += len(s.targets[m])
	}
	part := func(i int) int {
		if i < total%len(ms) {
			return total/len(ms) + 1
		}
		return total / len(ms)
	}
	for i, m := range ms {
		if has := s.targets[m]; len(has) > part(i) {
			for _, p := range has.sorted()[part(i):] {
				delete(has, p)
				s.free = append(s.free, p)
			}
		}
	}
	for i, m := range ms {
		for n := part(i) - len(s.targets[m]); n > 0; n-- {
			s.targets[m][s.free[0]] = 0
			s.free = s.free[1:]
		}
	}
}

// balance gives what is free to whoever wants it and has least, and then takes from those
// that have two more than another who wants the same partition. Each such move makes the
// sum of squares smaller: it ends.
func (s *sharing) balance(ms []*consumer) {
	least := func(ms []*consumer) *consumer {
		return slices.MinFunc(ms, func(a, b *consumer) int { return cmp.Compare(len(s.targets[a]), len(s.targets[b])) })
	}
	for _, p := range s.free {
		s.targets[least(s.wants[p])][p] = 0
	}
	for moved := true; moved; {
		moved = false
		lowest := len(s.targets[least(ms)])
		for _, m := range ms {
			if len(s.targets[m])-lowest < 2 {
				continue
			}
			for _, p := range slices.Backward(s.targets[m].sorted()) {
				if to := least(s.wants[p]); len(s.targets[m])-len(s.targets[to]) >= 2 {
					delete(s.targets[m], p)
					s.targets[to][p] = 0
					moved = true
				}
			}
		}
	}
}
