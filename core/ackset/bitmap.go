package ackset

import (
	"iter"
	"slices"
	"sort"

	"github.com/RoaringBitmap/roaring/v2"

	"polylog/core"
)

// bitmap is a set of offsets, as 32-bit Roaring bitmaps by the upper 31 bits. The
// library's own 64-bit form can neither find the next gap nor list ranges, without
// which a purge of millions would be looked at one by one.
type bitmap struct{ parts []part } // by high, none empty

type part struct {
	high uint32
	bits *roaring.Bitmap
}

const partBits = 32

func newBitmap(spans []Span) *bitmap {
	b := new(bitmap)
	for _, sp := range spans {
		b.add(sp.First, sp.End)
	}
	return b
}

func highOf(o core.Offset) uint32 { return uint32(uint64(o) >> partBits) }

// search is the first part that may have an offset from high on.
func (b *bitmap) search(high uint32) int {
	return sort.Search(len(b.parts), func(i int) bool { return b.parts[i].high >= high })
}

func (b *bitmap) contains(o core.Offset) bool {
	i := b.search(highOf(o))
	return i < len(b.parts) && b.parts[i].high == highOf(o) && b.parts[i].bits.Contains(uint32(o))
}

func (b *bitmap) count() int64 {
	n := uint64(0)
	for _, p := range b.parts {
		n += p.bits.GetCardinality()
	}
	return int64(n)
}

// add adds [first, end) and returns how many were new.
func (b *bitmap) add(first, end core.Offset) int64 {
	added := int64(0)
	for first < end {
		high := highOf(first)
		base := core.Offset(uint64(high) << partBits)
		to := min(end, base+1<<partBits)
		bits := b.part(high)
		if to == first+1 {
			if bits.CheckedAdd(uint32(first)) {
				added++
			}
		} else {
			before := bits.GetCardinality()
			bits.AddRange(uint64(first-base), uint64(to-base))
			added += int64(bits.GetCardinality() - before)
		}
		first = to
	}
	return added
}

func (b *bitmap) part(high uint32) *roaring.Bitmap {
	i := b.search(high)
	if i == len(b.parts) || b.parts[i].high != high {
		b.parts = slices.Insert(b.parts, i, part{high, roaring.New()})
	}
	return b.parts[i].bits
}

// nextAbsent is the first offset from o on that the set does not have. It goes by ranges: the
// library's NextAbsentValue (v2.30) stops at ends of words and containers whose next one begins
// with values that are there, and gives -1 where the last container is full to its end.
func (b *bitmap) nextAbsent(o core.Offset) core.Offset {
	for sp := range b.spans() {
		if sp.First > o {
			break
		}
		o = max(o, sp.End)
	}
	return o
}

// removeBelow takes out everything below floor.
func (b *bitmap) removeBelow(floor core.Offset) {
	i := b.search(highOf(floor))
	b.parts = slices.Delete(b.parts, 0, i)
	if len(b.parts) > 0 && b.parts[0].high == highOf(floor) {
		bits := b.parts[0].bits
		if bits.RemoveRange(0, uint64(uint32(floor))); bits.IsEmpty() {
			b.parts = slices.Delete(b.parts, 0, 1)
		}
	}
}

// spans are the ranges of the set, in order; those that meet at the end of a part are
// one.
func (b *bitmap) spans() iter.Seq[Span] {
	return func(yield func(Span) bool) {
		var last Span
		for _, p := range b.parts {
			base := core.Offset(uint64(p.high) << partBits)
			for first, end := range p.bits.Ranges() {
				sp := Span{base + core.Offset(first), base + core.Offset(end)}
				if sp.First == last.End && last.Len() > 0 {
					last.End = sp.End
					continue
				}
				if last.Len() > 0 && !yield(last) {
					return
				}
				last = sp
			}
		}
		if last.Len() > 0 {
			yield(last)
		}
	}
}

func (b *bitmap) clone() *bitmap {
	c := &bitmap{parts: slices.Clone(b.parts)}
	for i := range c.parts {
		c.parts[i].bits = c.parts[i].bits.Clone()
	}
	return c
}
