package ackset

import (
	"polylog/core"
	"polylog/core/wire"
)

// AppendTo appends the set's encoding, which depends on its content alone and not on
// how it came about. All numbers are uvarints:
//
//	+-------+-------+-------------------+--------+-------------------+--------+---
//	| floor | spans | gap to the floor  | length | gap to the span   | length | …
//	|       |       | - 1               | - 1    | before - 1        | - 1    |
//	+-------+-------+-------------------+--------+-------------------+--------+---
func (s *Set) AppendTo(dst []byte) []byte {
	n := 0
	for range s.Spans() {
		n++
	}
	dst = wire.AppendUvarint(dst, uint64(s.floor))
	dst = wire.AppendUvarint(dst, uint64(n))
	at := s.floor
	for sp := range s.Spans() {
		dst = wire.AppendUvarint(dst, uint64(sp.First-at-1))
		dst = wire.AppendUvarint(dst, uint64(sp.Len()-1))
		at = sp.End
	}
	return dst
}

// Bounds of what Read takes: more would be damage, and a bitmap of it a burden.
const (
	maxOffset = 1 << 62
	maxAbove  = 1 << 36
)

// Read takes a set off r. The error is r's own or of kind Corrupt; the set is then empty.
func Read(r *wire.Reader) (*Set, error) {
	s := New(core.Offset(min(r.Uvarint(), maxOffset)))
	at := uint64(s.floor)
	for range r.Count(2) {
		gap, length := r.Uvarint(), r.Uvarint()
		if r.Err() != nil {
			break
		}
		first := at + min(gap, maxOffset) + 1
		at = first + min(length, maxOffset) + 1
		if at > maxOffset || at-uint64(s.floor) > maxAbove {
			return new(Set), core.E(core.Corrupt, "settled offsets from %d to %d above a floor of %d", first, at, s.floor)
		}
		s.Add(core.Offset(first), core.Offset(at))
	}
	if r.Err() != nil {
		return new(Set), r.Err()
	}
	return s, nil
}
