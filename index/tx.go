package index

import (
	"slices"

	"polylog/core"
)

// Tx is one write section. It reads its own writes. It is valid only inside the
// function given to Update.
type Tx struct {
	reader

	touched []*tail       // tails with a staged state
	spare   []*queueState // staged states to use again
	keys    kvMap         // staged pairs
	live    liveDelta
	meta    meta
	err     error // the first failed read: what was staged since is not to be trusted
}

func (tx *Tx) init(s *Store) {
	tx.reader = reader{s, txLayers{liveLayers{s}}}
	tx.live.others = make(map[uint64]int64)
}

// Update runs fn, which changes the state through tx. Readers see all its changes
// once Update has returned nil, and none when it returns an error, which is fn's or
// that of a read that failed, or says that a change would break the store's
// invariants. Errors of kinds NotFound, Exists, Invalid and OutOfRange that methods
// of tx return leave tx as it was, and it may go on.
func (s *Store) Update(fn func(tx *Tx) error) error {
	tx := &s.tx
	s.mu.RLock()
	closed := s.closed
	tx.meta = s.active.meta
	s.mu.RUnlock()
	if closed {
		return errClosed
	}
	err := fn(tx)
	if err == nil {
		err = tx.err
	}
	if err == nil {
		err = s.commit(tx)
	}
	if err != nil {
		s.rollback(tx)
	}
	return err
}

// SetApplied says that the state contains all entries up to i.
func (tx *Tx) SetApplied(i core.LogIndex) { tx.meta.applied = i }

// SetConfiguration keeps the raft configuration, whose entry is at index, for the
// next checkpoint.
func (tx *Tx) SetConfiguration(index core.LogIndex, conf []byte) {
	tx.meta.confIndex, tx.meta.conf = index, slices.Clone(conf)
}

// commit publishes what tx staged.
func (s *Store) commit(tx *Tx) error {
	tx.live.flush()
	for bucket, n := range tx.live.others {
		if have := s.live.get(bucket); have+n < 0 {
			return core.E(core.Corrupt, "live runs of log indexes from %d: %d counted, %d removed", bucket<<bucketBits, have, -n)
		}
	}
	a := s.active
	for bucket, n := range tx.live.others {
		n += s.live.get(bucket)
		s.live.set(bucket, n)
		a.buckets[bucket] = n
	}

	s.mu.Lock()
	for _, t := range tx.touched {
		for sn := range a.snaps {
			sn.keep(t)
		}
		a.bytes += t.cur.cost() - t.pub.cost()
		t.pub = *t.cur
		if t.pub.kind == absent {
			delete(a.tails, t.q)
		}
	}
	if tx.keys.Len() > 0 {
		a.publishKeys(&tx.keys)
	}
	a.meta = tx.meta
	s.mu.Unlock()

	s.applied.Store(uint64(tx.meta.applied))
	s.firstLive.Store(uint64(s.live.first()))
	s.overlayBytes.Store(a.bytes)
	tx.recycle()
	return nil
}

// rollback forgets what tx staged.
func (s *Store) rollback(tx *Tx) {
	s.mu.Lock()
	for _, t := range tx.touched {
		if t.pub.kind == absent {
			delete(s.active.tails, t.q)
		}
	}
	s.mu.Unlock()
	tx.recycle()
}

// maxSpare keeps an Update over very many queues from pinning memory for ever.
const maxSpare = 4096

func (tx *Tx) recycle() {
	for _, t := range tx.touched {
		if len(tx.spare) < maxSpare {
			t.cur.runs = nil
			tx.spare = append(tx.spare, t.cur)
		}
		t.cur = nil
	}
	clear(tx.touched)
	tx.touched = tx.touched[:0]
	if cap(tx.touched) > maxSpare {
		tx.touched = nil
	}
	tx.keys.Clear()
	tx.live.reset()
	tx.err = nil
}

// stage gives the staged state of q, made from the published one or from the layers
// below when the Update touches q for the first time. A queue that is nowhere has a
// state of kind absent.
func (tx *Tx) stage(q core.QueueID) (*queueState, error) {
	s := tx.s
	t := s.active.tails[q] // only this goroutine changes the map
	if t != nil && t.cur != nil {
		return t.cur, nil
	}
	var st *queueState
	if n := len(tx.spare); n > 0 {
		st, tx.spare = tx.spare[n-1], tx.spare[:n-1]
	} else {
		st = new(queueState)
	}
	if t != nil {
		*st = t.pub
	} else {
		if err := tx.loadLower(q, st); err != nil {
			return nil, err
		}
		t = &tail{q: q}
		s.mu.Lock()
		s.active.tails[q] = t
		s.mu.Unlock()
	}
	t.cur = st
	tx.touched = append(tx.touched, t)
	return st, nil
}

// loadLower makes st the state of q on top of the layers below the active overlay.
func (tx *Tx) loadLower(q core.QueueID, st *queueState) error {
	*st = queueState{}
	v, ok, err := tx.view(q, headOnly)
	if ok {
		st.onTopOf(v.headRecord)
	}
	return tx.fail(err)
}

// fail makes Update fail, also when the caller ignores err.
func (tx *Tx) fail(err error) error {
	if tx.err == nil {
		tx.err = err
	}
	return err
}

// stageLive is stage for a queue that must exist.
func (tx *Tx) stageLive(q core.QueueID) (*queueState, error) {
	st, err := tx.stage(q)
	if err != nil {
		return nil, err
	}
	if st.kind != live {
		return nil, notFound(q)
	}
	return st, nil
}

func notFound(q core.QueueID) error { return core.E(core.NotFound, "no queue %d", q) }
