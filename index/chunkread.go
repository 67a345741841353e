package index

import (
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"

	"polylog/core"
)

// chunks iterates over the chunks of q.
func (b *base) chunks(q core.QueueID) (*pebble.Iterator, error) {
	return b.iter(chunkKey(q, 0), chunksEnd(q))
}

// closeIter closes it and adds its error to err.
func closeIter(it *pebble.Iterator, err *error) {
	if cerr := it.Close(); cerr != nil && *err == nil {
		*err = baseError("read a queue", cerr)
	}
}

// runs calls fn for the runs of q that overlap [from, end), which the base must
// hold without a gap. more is false when fn said stop.
func (b *base) runs(q core.QueueID, from, end core.Offset, fn func(core.Run) bool) (more bool, err error) {
	it, err := b.chunks(q)
	if err != nil {
		return false, err
	}
	defer closeIter(it, &err)

	// The run that contains from belongs to the span of its own first offset, which
	// may be an earlier one than from's.
	ok := it.SeekLT(chunkKey(q, spanOf(from)+1))
	if ok {
		if s, _, err := nextSegment(it.Value()); err != nil {
			return false, err
		} else if s.first > from {
			ok = it.Prev()
		}
	}
	next := from
	more = true
	err = eachSegment(it, ok, func(s segment) (bool, error) {
		if s.end <= next {
			return true, nil
		}
		err := s.each(func(run core.Run) bool {
			if run.End() <= next {
				return true
			}
			if run.Offset > next {
				return false // a gap, reported below
			}
			more = fn(run)
			next = run.End()
			return more && next < end
		})
		return more && next < end && next == s.end, err
	})
	if err == nil && more && next < end {
		err = core.E(core.Corrupt, "queue %d: no run holds offset %d", q, next)
	}
	return more, err
}

// eachSegment calls fn for the segments from the iterator's position on, if ok says
// that there is one, until fn returns false.
func eachSegment(it *pebble.Iterator, ok bool, fn func(segment) (more bool, err error)) error {
	for ; ok; ok = it.Next() {
		for chunk := it.Value(); len(chunk) > 0; {
			s, rest, err := nextSegment(chunk)
			if err != nil {
				return err
			}
			if more, err := fn(s); err != nil || !more {
				return err
			}
			chunk = rest
		}
	}
	return baseError("read a queue", it.Error())
}

func spanOfKey(key []byte) (uint64, error) {
	if len(key) != 17 {
		return 0, core.E(core.Corrupt, "chunk key %x", key)
	}
	return binary.BigEndian.Uint64(key[9:]), nil
}
