// Package ackset keeps which offsets of a light queue are settled: all below a floor,
// and a set above it. What is settled in order costs a number; what is settled out of
// order costs a sorted slice of spans while they are few and a Roaring bitmap when they
// are many. It does no I/O and is not safe for concurrent use.
package ackset

import (
	"iter"
	"slices"
	"sort"

	"polylog/core"
)

// Span is the offsets [First, End).
type Span struct{ First, End core.Offset }

// Len is how many offsets the span has.
func (s Span) Len() int64 { return int64(s.End - s.First) }

// maxSpans is where a bitmap takes over from the slice: until there a linear insertion
// is fast, and 16 bytes a span are less than a bitmap's containers.
const maxSpans = 64

// Set is the settled offsets. The zero value is empty.
type Set struct {
	floor core.Offset
	// Above the floor, in one of two forms. Spans are sorted, not empty, with a gap
	// before each one: floor < spans[0].First, spans[i].End < spans[i+1].First.
	spans []Span
	bits  *bitmap // nil unless there were more than maxSpans
}

// New is a set that has everything below floor.
func New(floor core.Offset) *Set { return &Set{floor: floor} }

// Floor is the first offset that is not settled.
func (s *Set) Floor() core.Offset { return s.floor }

// Above is how many offsets above the floor are settled.
func (s *Set) Above() int64 {
	if s.bits != nil {
		return s.bits.count()
	}
	n := int64(0)
	for _, sp := range s.spans {
		n += sp.Len()
	}
	return n
}

// Contains reports whether o is settled.
func (s *Set) Contains(o core.Offset) bool {
	switch {
	case o < s.floor:
		return true
	case s.bits != nil:
		return s.bits.contains(o)
	}
	i := s.search(o)
	return i < len(s.spans) && s.spans[i].First <= o
}

// search is the first span that ends after o.
func (s *Set) search(o core.Offset) int {
	return sort.Search(len(s.spans), func(i int) bool { return s.spans[i].End > o })
}

// NextUnsettled is the first offset from o on that is not settled.
func (s *Set) NextUnsettled(o core.Offset) core.Offset {
	o = max(o, s.floor)
	if s.bits != nil {
		return s.bits.nextAbsent(o)
	}
	if i := s.search(o); i < len(s.spans) && s.spans[i].First <= o {
		return s.spans[i].End
	}
	return o
}

// Add settles [first, end) and returns how many of those offsets were not settled.
func (s *Set) Add(first, end core.Offset) int64 {
	first = max(first, s.floor)
	if first >= end {
		return 0
	}
	if s.bits != nil {
		added := s.bits.add(first, end)
		if first == s.floor {
			s.floor = s.bits.nextAbsent(end)
			s.bits.removeBelow(s.floor)
			if s.bits.count() == 0 {
				s.bits = nil
			}
		}
		return added
	}
	return s.addSpan(Span{first, end})
}

// addSpan adds to the slice. It merges with the spans that touch it.
func (s *Set) addSpan(sp Span) int64 {
	i := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].End >= sp.First })
	j, added := i, sp.Len()
	for ; j < len(s.spans) && s.spans[j].First <= sp.End; j++ {
		old := s.spans[j]
		added -= max(int64(min(old.End, sp.End)-max(old.First, sp.First)), 0)
		sp = Span{min(sp.First, old.First), max(sp.End, old.End)}
	}
	switch {
	case sp.First == s.floor:
		s.floor = sp.End
		s.spans = slices.Delete(s.spans, i, j)
		if len(s.spans) == 0 {
			s.spans = nil
		}
	case i < j:
		s.spans[i] = sp
		s.spans = slices.Delete(s.spans, i+1, j)
	default:
		s.spans = slices.Insert(s.spans, i, sp)
	}
	if len(s.spans) > maxSpans {
		s.bits = newBitmap(s.spans)
		s.spans = nil
	}
	return added
}

// Spans are the settled spans above the floor, in order.
func (s *Set) Spans() iter.Seq[Span] {
	if s.bits != nil {
		return s.bits.spans()
	}
	return slices.Values(s.spans)
}

// Unsettled calls fn for the spans in [first, end) that are not settled, in order.
func (s *Set) Unsettled(first, end core.Offset, fn func(Span)) {
	first = max(first, s.floor)
	for sp := range s.Spans() {
		if sp.First >= end {
			break
		}
		if first < sp.First {
			fn(Span{first, sp.First})
		}
		first = max(first, sp.End)
	}
	if first < end {
		fn(Span{first, end})
	}
}

// Clone is a copy that shares nothing.
func (s *Set) Clone() *Set {
	c := &Set{floor: s.floor, spans: slices.Clone(s.spans)}
	if s.bits != nil {
		c.bits = s.bits.clone()
	}
	return c
}

// Compact goes back to the slice when few spans are left, as after a checkpoint: the
// form says nothing of the content.
func (s *Set) Compact() {
	if s.bits == nil {
		return
	}
	var few []Span
	for sp := range s.bits.spans() {
		if len(few) == maxSpans/2 {
			return
		}
		few = append(few, sp)
	}
	s.spans, s.bits = few, nil
}
