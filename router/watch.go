package router

import (
	"sync"
	"sync/atomic"

	"polylog/core"
)

// watchShards spreads the waiters' locks.
const watchShards = 64

// watchers knows who waits for which queue. A queue that nobody waits for costs
// nothing here: no entry, no goroutine, no timer.
type watchers struct {
	count  atomic.Int64  // of watches, so that touching costs one load when it is 0
	burst  atomic.Uint64 // numbers the bursts of touches
	shards [watchShards]struct {
		sync.Mutex
		queues map[core.QueueID][]*watch // guarded by the mutex
	}
	found []*watch // the applier's, reused
}

// watch is one caller of Watch.
type watch struct {
	wake func()
	last uint64 // the last burst that woke it; the applier's
}

func (w *watchers) init() {
	for i := range w.shards {
		w.shards[i].queues = map[core.QueueID][]*watch{}
	}
}

// Watch has wake called whenever one of the queues grew, was trimmed or went, once
// per burst of changes, until stop is called. wake runs on the applier's goroutine
// and must not block; it may still be running, once, when stop returns.
//
// Look at the queues after Watch and before waiting: what changed in between does
// not wake again.
func (r *Router) Watch(qs []core.QueueID, wake func()) (stop func()) {
	w := &watch{wake: wake}
	r.watch.count.Add(1) // first: a touch must not pass by a watch that is there
	for _, q := range qs {
		s := &r.watch.shards[q%watchShards]
		s.Lock()
		s.queues[q] = append(s.queues[q], w)
		s.Unlock()
	}
	var once sync.Once
	return func() {
		once.Do(func() {
			r.watch.count.Add(-1)
			for _, q := range qs {
				r.watch.remove(q, w)
			}
		})
	}
}

func (w *watchers) remove(q core.QueueID, gone *watch) {
	s := &w.shards[q%watchShards]
	s.Lock()
	defer s.Unlock()
	ws := s.queues[q]
	for i := range ws {
		if ws[i] == gone {
			last := len(ws) - 1
			ws[i], ws[last] = ws[last], nil
			if ws = ws[:last]; last == 0 {
				delete(s.queues, q)
			} else {
				s.queues[q] = ws
			}
			return
		}
	}
}

// touched wakes whom the changed queues concern, each once.
func (w *watchers) touched(qs []core.QueueID) {
	if w.count.Load() == 0 {
		return
	}
	burst := w.burst.Add(1)
	for _, q := range qs {
		s := &w.shards[q%watchShards]
		s.Lock()
		for _, one := range s.queues[q] {
			if one.last != burst {
				one.last = burst
				w.found = append(w.found, one)
			}
		}
		s.Unlock()
	}
	for i, one := range w.found {
		one.wake()
		w.found[i] = nil
	}
	w.found = w.found[:0]
}
