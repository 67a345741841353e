package webhook

import (
	"cmp"
	"slices"

	"polylog/core"
)

// line is what an endpoint can send, in the order in which it came. In ordered mode messages of
// a key go one at a time, in the order of their offsets: while one is under way, or was put
// off, those behind it wait, and only those.
type line struct {
	ordered bool
	items   []*item           // that can go; not in ordered mode
	queues  map[string]*keyed // by key, in ordered mode
	ready   []*keyed          // whose first one can go
}

// keyed are the messages of one key.
type keyed struct {
	key    string
	items  []*item       // by offset
	absent []core.Offset // put off, in order
	flying bool          // one is under way
	queued bool          // it is in ready
}

func (l *line) reset() { *l = line{ordered: l.ordered} }

func (l *line) empty() bool { return len(l.items) == 0 && len(l.ready) == 0 }

func (l *line) of(key string) *keyed {
	if l.queues == nil {
		l.queues = map[string]*keyed{}
	}
	k := l.queues[key]
	if k == nil {
		k = &keyed{key: key}
		l.queues[key] = k
	}
	return k
}

// add takes a message.
func (l *line) add(it *item) {
	if !l.ordered {
		l.items = append(l.items, it)
		return
	}
	k := l.of(it.key)
	at, _ := slices.BinarySearchFunc(k.items, it.Offset, func(it *item, o core.Offset) int { return cmp.Compare(it.Offset, o) })
	k.items = slices.Insert(k.items, at, it)
	l.see(k)
}

// take is the next message to send; the line is not empty.
func (l *line) take() *item {
	if !l.ordered {
		it := l.items[0]
		l.items[0] = nil
		l.items = l.items[1:]
		return it
	}
	k := l.ready[0]
	l.ready = l.ready[1:]
	k.queued, k.flying = false, true
	it := k.items[0]
	k.items[0] = nil
	k.items = k.items[1:]
	l.seeAll(k)
	return it
}

// seeAll drops a key that nothing is known of any more.
func (l *line) seeAll(k *keyed) {
	if len(k.items) == 0 && len(k.absent) == 0 && !k.flying {
		delete(l.queues, k.key)
	}
}

// finished says that a message that was under way needs no more sending.
func (l *line) finished(it *item) {
	if l.ordered {
		k := l.of(it.key)
		k.flying = false
		l.see(k)
	}
}

// putOff says that a message that was under way comes back later.
func (l *line) putOff(it *item) {
	if l.ordered {
		l.of(it.key).flying = false
		l.absent(it.key, it.Offset)
	}
}

// absent says that a message will come back.
func (l *line) absent(key string, o core.Offset) {
	k := l.of(key)
	if at, there := slices.BinarySearch(k.absent, o); !there {
		k.absent = slices.Insert(k.absent, at, o)
	}
	l.see(k)
}

// returned says that one that was put off is back, or is gone.
func (l *line) returned(key string, o core.Offset) {
	k := l.of(key)
	if at, there := slices.BinarySearch(k.absent, o); there {
		k.absent = slices.Delete(k.absent, at, at+1)
	}
	l.see(k)
}

// see finds out whether a key's first message can go.
func (l *line) see(k *keyed) {
	can := !k.flying && len(k.items) > 0 && (len(k.absent) == 0 || k.items[0].Offset < k.absent[0])
	switch {
	case can && !k.queued:
		k.queued = true
		l.ready = append(l.ready, k)
	case !can && k.queued:
		k.queued = false
		l.ready = slices.DeleteFunc(l.ready, func(o *keyed) bool { return o == k })
	}
	l.seeAll(k)
}
