package router

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"

	"polylog/core"
	"polylog/router/dispatch"
	"polylog/router/state"
)

// feed tells groups that their queue changed. A queue that no group here is of costs a
// look into a map, and nothing at all while there are no groups.
type feed struct {
	count atomic.Int64 // of groups
	wake  chan struct{}

	mu     sync.Mutex // guards what follows
	groups map[core.QueueID][]*hubGroup
	dirty  []core.QueueID
	// imposed is what transactions settled, which the groups do not know of yet.
	imposed  []state.Transacted
	imposing atomic.Int64 // how many those are; written with mu held
}

func (f *feed) init() {
	f.wake = make(chan struct{}, 1)
	f.groups = map[core.QueueID][]*hubGroup{}
}

func (f *feed) add(g *hubGroup) {
	f.count.Add(1) // first: a touch must not pass by a group that is there
	f.mu.Lock()
	defer f.mu.Unlock()
	f.groups[g.key.queue] = append(f.groups[g.key.queue], g)
}

func (f *feed) remove(g *hubGroup) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := g.key.queue
	i := slices.Index(f.groups[q], g)
	if i < 0 {
		return
	}
	f.count.Add(-1)
	if f.groups[q] = slices.Delete(f.groups[q], i, i+1); len(f.groups[q]) == 0 {
		delete(f.groups, q)
	}
}

// touched runs on the applier's goroutine.
func (f *feed) touched(qs []core.QueueID) {
	if f.count.Load() == 0 {
		return
	}
	f.mu.Lock()
	before := len(f.dirty)
	for _, q := range qs {
		if f.groups[q] != nil && (len(f.dirty) == 0 || f.dirty[len(f.dirty)-1] != q) {
			f.dirty = append(f.dirty, q)
		}
	}
	wake := before == 0 && len(f.dirty) > 0
	f.mu.Unlock()
	if wake {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

// transacted is told what transactions settled. It runs on the applier's goroutine, before
// anybody hears that they are committed: whatever a group is asked after that, it looks here
// first.
func (f *feed) transacted(ts []state.Transacted) {
	if f.count.Load() == 0 {
		return
	}
	f.mu.Lock()
	f.imposed = append(f.imposed, ts...)
	f.imposing.Store(int64(len(f.imposed)))
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// takeImposed takes out what transactions settled of a group.
func (f *feed) takeImposed(key groupKey) (ts []state.Transacted) {
	if f.imposing.Load() == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.imposed = slices.DeleteFunc(f.imposed, func(t state.Transacted) bool {
		own := groupKey{t.Queue, t.Group} == key
		if own {
			ts = append(ts, t)
		}
		return own
	})
	f.imposing.Store(int64(len(f.imposed)))
	return ts
}

// imposedGroups appends the groups of which transactions settled something, and forgets what
// is of groups that are not here.
func (f *feed) imposedGroups(groups []*hubGroup) []*hubGroup {
	if f.imposing.Load() == 0 {
		return groups
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.imposed = slices.DeleteFunc(f.imposed, func(t state.Transacted) bool {
		for _, g := range f.groups[t.Queue] {
			if g.key.group == t.Group {
				groups = append(groups, g)
				return false
			}
		}
		return true
	})
	f.imposing.Store(int64(len(f.imposed)))
	return groups
}

// run tells groups until ctx ends.
func (f *feed) run(ctx context.Context) {
	var groups []*hubGroup
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
		groups = f.imposedGroups(groups)
		for i, g := range groups {
			g.do(func(*dispatch.Group) {})
			groups[i] = nil
		}
		groups = groups[:0]
		f.mu.Lock()
		slices.Sort(f.dirty)
		for _, q := range slices.Compact(f.dirty) {
			groups = append(groups, f.groups[q]...)
		}
		f.dirty = f.dirty[:0]
		f.mu.Unlock()
		for i, g := range groups {
			g.grown()
			groups[i] = nil
		}
		groups = groups[:0]
	}
}

// dueTimers calls groups whose time has come. There is one timer for all.
type dueTimers struct {
	wake chan struct{}

	mu     sync.Mutex // guards what follows
	byTime *btree.BTreeG[dueTimer]
	of     map[*hubGroup]dueTimer
	serial uint64
}

type dueTimer struct {
	at     int64  // ms
	serial uint64 // tells apart those of one time
	group  *hubGroup
}

func (t *dueTimers) init() {
	t.wake = make(chan struct{}, 1)
	t.of = map[*hubGroup]dueTimer{}
	t.byTime = btree.NewBTreeGOptions(func(a, b dueTimer) bool {
		return a.at < b.at || a.at == b.at && a.serial < b.serial
	}, btree.Options{NoLocks: true})
}

// set calls a group at a time instead of at the one before; 0: not at all.
func (t *dueTimers) set(g *hubGroup, at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, ok := t.of[g]; ok {
		t.byTime.Delete(old)
		delete(t.of, g)
	}
	if at == 0 {
		return
	}
	t.serial++
	d := dueTimer{at, t.serial, g}
	t.byTime.Set(d)
	t.of[g] = d
	if first, _ := t.byTime.Min(); first == d {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// due takes out the groups whose time has come, and says when the next one's does.
func (t *dueTimers) due(now int64) (groups []*hubGroup, next int64, some bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		d, ok := t.byTime.Min()
		if !ok || d.at > now {
			return groups, d.at, ok
		}
		t.byTime.Delete(d)
		delete(t.of, d.group)
		groups = append(groups, d.group)
	}
}

// run calls groups until ctx ends. now is the time in ms.
func (t *dueTimers) run(ctx context.Context, now func() int64) {
	timer := time.NewTimer(longWait)
	defer timer.Stop()
	for {
		groups, next, some := t.due(now())
		for _, g := range groups {
			g.tick()
		}
		if len(groups) > 0 {
			continue
		}
		wait := longWait
		if some {
			wait = until(next, now())
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-timer.C:
		}
	}
}

// longWait is how long a timer waits at most.
const longWait = time.Hour

// until is how long it is from now to a time, both in ms, within 0 and longWait. A time may be
// so far away that no duration says it.
func until(at, now int64) time.Duration {
	return time.Duration(min(max(at-now, 0), longWait.Milliseconds())) * time.Millisecond
}
