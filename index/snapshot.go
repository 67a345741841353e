package index

import (
	"slices"

	"polylog/core"
)

// Snapshot is a Reader of one state, however much is updated meanwhile. It costs
// the writer a copy of the head of each queue that it changes first, and holds
// Pebble's old versions, so it should be closed soon.
type Snapshot struct {
	reader

	active *overlay
	frozen *overlay // nil when there was none
	base   *base
	kv     *kvMap
	meta   meta
	closed bool // guarded by Store.mu

	// saved has the states, at the time of the Snapshot, of the queues that changed
	// in active since. Guarded by Store.mu.
	saved map[core.QueueID]queueState
}

// Snapshot captures the latest published state. It must be closed. The error is of
// kind Closed when the store is.
func (s *Store) Snapshot() (*Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	sn := &Snapshot{
		active: s.active, frozen: s.frozen, base: s.base.acquire(), kv: s.active.stableKeys(), meta: s.active.meta,
		saved: make(map[core.QueueID]queueState),
	}
	sn.reader = reader{s, snapshotLayers{sn}}
	s.active.snaps[sn] = struct{}{}
	return sn, nil
}

// keep saves the published state of t, which is about to change. The caller holds
// Store.mu.
func (sn *Snapshot) keep(t *tail) {
	if _, ok := sn.saved[t.q]; !ok {
		sn.saved[t.q] = t.pub
	}
}

// Applied is the index of the last entry that the state contains.
func (sn *Snapshot) Applied() core.LogIndex { return sn.meta.applied }

// Close gives up the snapshot, which must no longer be in use. It may be called
// twice.
func (sn *Snapshot) Close() {
	s := sn.s
	s.mu.Lock()
	if sn.closed {
		s.mu.Unlock()
		return
	}
	sn.closed = true
	delete(sn.active.snaps, sn)
	s.mu.Unlock()
	sn.base.release()
}

// snapshotLayers is the state that a Snapshot captured.
type snapshotLayers struct{ sn *Snapshot }

func (l snapshotLayers) top(q core.QueueID) *queueState {
	if st, ok := l.sn.saved[q]; ok {
		if st.kind == absent {
			return nil
		}
		return &st
	}
	return l.sn.active.state(q)
}

func (l snapshotLayers) keys() keyMaps            { return keyMaps{nil, l.sn.kv, l.sn.frozen.frozenKeys()} }
func (l snapshotLayers) stableKeys() keyMaps      { return l.keys() }
func (l snapshotLayers) lower() (*overlay, *base) { return l.sn.frozen, l.sn.base }

// Queues calls fn for the queues in the order of their ids until it returns false.
func (sn *Snapshot) Queues(fn func(q core.QueueID, h Head) bool) (err error) {
	changed := sn.changedQueues()
	it, err := sn.base.iter([]byte{prefixHead}, []byte{prefixHead + 1})
	if err != nil {
		return err
	}
	defer closeIter(it, &err)
	inBase := it.First()
	for inBase || len(changed) > 0 {
		if inBase {
			q, err := queueOfHeadKey(it.Key())
			if err != nil {
				return err
			}
			if len(changed) == 0 || q < changed[0] {
				h, err := decodeHead(it.Value())
				if err != nil {
					return err
				}
				if !fn(q, h.Head) {
					return nil
				}
				inBase = it.Next()
				continue
			}
			if q == changed[0] {
				inBase = it.Next()
			}
		}
		h, ok, err := sn.Queue(changed[0])
		if err != nil {
			return err
		}
		if ok && !fn(changed[0], h) {
			return nil
		}
		changed = changed[1:]
	}
	return baseError("read the queues", it.Error())
}

// changedQueues are the ids that the overlays know something of, in order.
func (sn *Snapshot) changedQueues() []core.QueueID {
	s := sn.s
	var ids []core.QueueID
	s.mu.RLock()
	for q := range sn.active.tails {
		ids = append(ids, q)
	}
	for q := range sn.saved {
		ids = append(ids, q) // may be gone from tails
	}
	s.mu.RUnlock()
	if sn.frozen != nil {
		for q := range sn.frozen.tails {
			ids = append(ids, q)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
