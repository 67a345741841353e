package kafka

import (
	"container/list"
	"context"
	"slices"
	"sync"
)

// budget shares the memory for requests among the connections. A frame takes its part as
// its bytes arrive, never for a length that it only announces. That alone could end with
// every frame half read and no memory for the rest of any; hence a step is granted only
// if afterwards some order remains in which all frames can be completed (the banker's
// algorithm). A frame read in one step needs no such look: it gives back all that it
// takes.
type budget struct {
	size int64

	mu      sync.Mutex // guards what follows, and the fields of holds
	free    int64      // 0 <= free <= size
	partial []*hold    // frames that hold something and want more, now or later
	waiting list.List  // of *hold, the longest waiting first
}

// hold is what one request has of a budget.
type hold struct {
	budget *budget
	held   int64
	need   int64 // still to take, 0 when the frame is here
	want   int64 // of a waiting one: its next step, at most need
	ready  chan struct{}
}

func newBudget(size int64) *budget { return &budget{size: size, free: size} }

// hold starts a request that will take n bytes, or everything when n is more than that.
func (b *budget) hold(n int64) hold { return hold{budget: b, need: min(n, b.size)} }

// take waits for the next n bytes of the hold's need; 0 or more than the need means all
// that is left of it.
func (h *hold) take(ctx context.Context, n int64) error {
	if n <= 0 || n > h.need {
		n = h.need
	}
	b := h.budget
	b.mu.Lock()
	h.want = n
	if b.waiting.Len() == 0 && b.grantableLocked(h) && b.free >= n {
		b.grantLocked(h)
		b.mu.Unlock()
		return nil
	}
	h.ready = make(chan struct{})
	ready := h.ready
	e := b.waiting.PushBack(h)
	b.serveLocked()
	b.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-ready: // granted at the last moment: release gives it back
	default:
		b.waiting.Remove(e)
		b.serveLocked() // those behind it may fit
	}
	return ctx.Err()
}

// release gives back everything. The hold needs nothing any more.
func (h *hold) release() {
	b := h.budget
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += h.held
	b.dropLocked(h)
	h.held, h.need = 0, 0
	b.serveLocked()
}

// serveLocked grants what can be granted in the order of waiting. It stops at a step for
// which there is not enough memory, or small ones would starve it; one that is refused
// for the sake of frames already begun does not hold up the others.
func (b *budget) serveLocked() {
	for e := b.waiting.Front(); e != nil; {
		h := e.Value.(*hold)
		next := e.Next()
		if b.free < h.want {
			return
		}
		if b.grantableLocked(h) {
			b.waiting.Remove(e)
			b.grantLocked(h)
			close(h.ready)
		}
		e = next
	}
}

func (b *budget) grantLocked(h *hold) {
	b.free -= h.want
	if h.held == 0 && h.want < h.need {
		b.partial = append(b.partial, h)
	}
	h.held += h.want
	h.need -= h.want
	if h.need == 0 {
		b.dropLocked(h)
	}
}

func (b *budget) dropLocked(h *hold) {
	if i := slices.Index(b.partial, h); i >= 0 {
		b.partial = slices.Delete(b.partial, i, i+1)
	}
}

// grantableLocked reports whether all begun frames can still be completed, one after the
// other, once h has what it wants. Whole frames are on their way out.
func (b *budget) grantableLocked(h *hold) bool {
	if h.want == h.need {
		return true // it can be completed first
	}
	type frame struct{ held, need int64 }
	frames := make([]frame, 0, len(b.partial)+1)
	frames = append(frames, frame{h.held + h.want, h.need - h.want})
	for _, p := range b.partial {
		if p != h {
			frames = append(frames, frame{p.held, p.need})
		}
	}
	slices.SortFunc(frames, func(x, y frame) int { return int(x.need - y.need) })
	available := b.size
	for _, f := range frames {
		available -= f.held
	}
	for _, f := range frames {
		if f.need > available {
			return false
		}
		available += f.held
	}
	return true
}

// idle reports whether everything was given back.
func (b *budget) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.free == b.size && len(b.partial) == 0 && b.waiting.Len() == 0
}

// tryTake takes the whole need if that is possible at once.
func (h *hold) tryTake() bool {
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting.Len() > 0 || b.free < h.need {
		return false
	}
	h.want = h.need
	b.grantLocked(h)
	return true
}
