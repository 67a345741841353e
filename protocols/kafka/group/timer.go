package group

import (
	"container/heap"
	"time"
)

// timer is a deadline of a member or a group.
type timer struct {
	fire func(now time.Time) // what to do then

	due  time.Time // when it fires; zero: never
	key  time.Time // its place in the heap, <= due: moving a deadline on is free
	slot int       // index in the heap + 1; 0: not in it
}

// timers is all deadlines of all groups.
type timers []*timer

// set makes t fire at due, instead of when it would have.
func (ts *timers) set(t *timer, due time.Time) {
	t.due = due
	switch {
	case t.slot == 0:
		t.key = due
		heap.Push(ts, t)
	case due.Before(t.key):
		t.key = due
		heap.Fix(ts, t.slot-1)
	}
}

// stop makes t not fire.
func (ts *timers) stop(t *timer) {
	t.due = time.Time{}
	if t.slot > 0 {
		heap.Remove(ts, t.slot-1)
	}
}

// next is the time before which nothing fires.
func (ts timers) next() (time.Time, bool) {
	if len(ts) == 0 {
		return time.Time{}, false
	}
	return ts[0].key, true
}

// expired takes out a timer that is due at now, or returns nil.
func (ts *timers) expired(now time.Time) *timer {
	for len(*ts) > 0 && !(*ts)[0].key.After(now) {
		t := (*ts)[0]
		if t.due.After(now) {
			t.key = t.due
			heap.Fix(ts, 0)
			continue
		}
		ts.stop(t)
		return t
	}
	return nil
}

// Len is part of heap.Interface, as are the methods below.
func (ts timers) Len() int           { return len(ts) }
func (ts timers) Less(i, j int) bool { return ts[i].key.Before(ts[j].key) }

func (ts timers) Swap(i, j int) {
	ts[i], ts[j] = ts[j], ts[i]
	ts[i].slot, ts[j].slot = i+1, j+1
}

// Push is part of heap.Interface.
func (ts *timers) Push(x any) {
	t := x.(*timer)
	*ts = append(*ts, t)
	t.slot = len(*ts)
}

// Pop is part of heap.Interface.
func (ts *timers) Pop() any {
	n := len(*ts) - 1
	t := (*ts)[n]
	(*ts)[n] = nil
	*ts = (*ts)[:n]
	t.slot = 0
	return t
}
