package dispatch

import (
	"math"

	"github.com/tidwall/btree"

	"polylog/core"
)

// waiting is a message that waits in another place than the fresh ones, which wait in the
// order of their offsets above the floor: it came back, or it has a priority.
type waiting struct {
	priority int // or ahead
	// at is the fresh offset that it goes before, and seq tells apart those of one place.
	at     core.Offset
	seq    uint64
	offset core.Offset
	back   bool // it came back
}

// ahead is above every priority: of what came back and goes ahead of all.
const ahead = math.MaxInt

func (w waiting) less(o waiting) bool {
	switch {
	case w.priority != o.priority:
		return w.priority > o.priority
	case w.at != o.at:
		return w.at < o.at
	case w.seq != o.seq:
		return w.seq < o.seq
	}
	return w.offset < o.offset
}

// waitingSet is the messages that wait elsewhere, in the order in which they go, and by
// offset.
type waitingSet struct {
	order *btree.BTreeG[waiting]
	by    map[core.Offset]waiting
}

func (s *waitingSet) add(w waiting) {
	if s.order == nil {
		s.order = btree.NewBTreeGOptions(waiting.less, btree.Options{NoLocks: true})
		s.by = map[core.Offset]waiting{}
	}
	s.order.Set(w)
	s.by[w.offset] = w
}

func (s *waitingSet) remove(o core.Offset) bool {
	w, ok := s.by[o]
	if ok {
		s.order.Delete(w)
		delete(s.by, o)
	}
	return ok
}

func (s *waitingSet) has(o core.Offset) bool {
	_, ok := s.by[o]
	return ok
}

// first is the first one of all.
func (s *waitingSet) first() (waiting, bool) {
	if s.order == nil {
		return waiting{}, false
	}
	return s.order.Min()
}

// firstOf is the first one of a priority.
func (s *waitingSet) firstOf(priority int) (first waiting, ok bool) {
	if s.order == nil {
		return first, false
	}
	s.order.Ascend(waiting{priority: priority, at: -1}, func(w waiting) bool {
		first, ok = w, w.priority == priority
		return false
	})
	return first, ok
}

// below is the highest priority below one that somebody has; false when nobody has.
func (s *waitingSet) below(priority int) (int, bool) {
	var found waiting
	ok := false
	if s.order != nil {
		s.order.Ascend(waiting{priority: priority - 1, at: -1}, func(w waiting) bool {
			found, ok = w, true
			return false
		})
	}
	return found.priority, ok
}
