package index

import "polylog/core"

// Reader is what can be asked of the indexes. Store answers each call from the
// latest published state, Tx sees its own writes, Snapshot always the same state.
// Slices that it returns or passes to a function must not be changed.
type Reader interface {
	// Get is the value of key.
	Get(key []byte) (value []byte, ok bool, err error)
	// Scan calls fn for the pairs with start <= key < end, in order, until it
	// returns false. A nil end means no end. Keys and values are valid during the
	// call only.
	Scan(start, end []byte, fn func(key, value []byte) bool) error

	// Queue is the head of q; ok is false when there is no such queue.
	Queue(q core.QueueID) (h Head, ok bool, err error)
	// Runs appends up to limit live runs of q to dst, from the one that contains
	// from on, or from the first when from lies below it. The first one may begin
	// below Start. The error is of kind NotFound when there is no such queue.
	Runs(q core.QueueID, from core.Offset, limit int, dst []core.Run) ([]core.Run, error)
	// RunByTime is the first live run of q with a MaxTime of at least ms.
	RunByTime(q core.QueueID, ms int64) (r core.Run, ok bool, err error)
	// RunByIndex is the first live run of q whose log index is at least i.
	RunByIndex(q core.QueueID, i core.LogIndex) (r core.Run, ok bool, err error)
}

var (
	_ Reader = (*Store)(nil)
	_ Reader = (*Tx)(nil)
	_ Reader = (*Snapshot)(nil)
)

// layers says where a reader looks. All methods are called under Store.mu.
type layers interface {
	// top is the state of q in the active overlay; nil when the layers below decide.
	top(q core.QueueID) *queueState
	// keys are the maps of pairs, to be used while Store.mu is held.
	keys() keyMaps
	// stableKeys are the same, and do not change. Store.mu is held for writing.
	stableKeys() keyMaps
	// lower are the frozen overlay, which may be nil, and the base.
	lower() (*overlay, *base)
}

// keyMaps are what a Tx staged, the active overlay's keys and the frozen one's; nil
// where there are none.
type keyMaps [3]*kvMap

func (o *overlay) frozenKeys() *kvMap {
	if o == nil {
		return nil
	}
	return o.keys
}

// liveLayers is the latest published state.
type liveLayers struct{ s *Store }

func (l liveLayers) top(q core.QueueID) *queueState { return l.s.active.state(q) }
func (l liveLayers) lower() (*overlay, *base)       { return l.s.frozen, l.s.base }

func (l liveLayers) keys() keyMaps {
	return keyMaps{nil, l.s.active.keys, l.s.frozen.frozenKeys()}
}

func (l liveLayers) stableKeys() keyMaps {
	return keyMaps{nil, l.s.active.stableKeys(), l.s.frozen.frozenKeys()}
}

// txLayers is the writer's own view: what it staged, else what is published.
type txLayers struct{ liveLayers }

func (l txLayers) top(q core.QueueID) *queueState {
	if t := l.s.active.tails[q]; t != nil && t.cur != nil {
		if t.cur.kind == absent {
			return nil
		}
		return t.cur
	}
	return l.s.active.state(q)
}

func (l txLayers) keys() keyMaps {
	m := l.liveLayers.keys()
	m[0] = &l.s.tx.keys
	return m
}

// stableKeys of a Tx do not copy the overlay's: only this goroutine changes it, and
// not before the Update ends.
func (l txLayers) stableKeys() keyMaps {
	m := l.liveLayers.keys()
	m[0] = l.s.tx.keys.Copy()
	return m
}

// reader implements Reader on layers.
type reader struct {
	s *Store
	l layers
}

// queueView is one queue, captured: its state and, from bottom to top, where its
// live runs are. Runs in memory were captured by their slice header.
type queueView struct {
	headRecord
	base    *base // nil unless it holds live runs
	baseEnd core.Offset
	mid     []core.Run // of the frozen overlay
	top     []core.Run // of the active overlay
}

// release gives the base back; the view is of no use afterwards.
func (v *queueView) release() {
	if v.base != nil {
		v.base.release()
	}
}

// want says whether a view needs the runs.
type want bool

const (
	headOnly want = false
	withRuns want = true
)

// view captures q; ok is false when there is no such queue. The caller releases the
// view if it is ok.
func (r *reader) view(q core.QueueID, w want) (v queueView, ok bool, err error) {
	s := r.s
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return v, false, errClosed
	}
	frozen, b := r.l.lower()
	st := r.l.top(q)
	mid := frozen.state(q)
	kind := absent
	switch {
	case st != nil:
		kind = st.kind
		v.headRecord, v.top, v.baseEnd = st.headRecord, st.runs, st.below
		if v.first < st.below && mid != nil && mid.kind == live {
			v.mid, v.baseEnd = mid.runs, mid.below
		}
	case mid != nil:
		kind = mid.kind
		v.headRecord, v.mid, v.baseEnd = mid.headRecord, mid.runs, mid.below
	}
	if kind == absent || (kind == live && w == withRuns && v.first < v.baseEnd) {
		v.base = b.acquire()
	}
	s.mu.RUnlock()

	if kind != absent {
		return v, kind == live, nil
	}
	h, ok, err := v.base.head(q)
	v.headRecord, v.baseEnd = h, h.End
	if !ok || w == headOnly || v.first == v.baseEnd {
		v.release()
		v.base = nil
	}
	return v, ok, err
}

// runsView is a view with runs of a queue that must exist.
func (r *reader) runsView(q core.QueueID) (queueView, error) {
	v, ok, err := r.view(q, withRuns)
	if err == nil && !ok {
		err = notFound(q)
	}
	return v, err
}

// Queue implements Reader.
func (r *reader) Queue(q core.QueueID) (h Head, ok bool, err error) {
	v, ok, err := r.view(q, headOnly)
	return v.Head, ok, err
}
