package index

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"polylog/core"
	"polylog/core/wire"
)

// Checkpoint is a frozen overlay on its way into the base.
type Checkpoint struct {
	s      *Store
	frozen *overlay
	// Guarded by Store.writing.
	committed bool // Pebble has the batch; never commit it again, segments would double
	done      bool
	size      int // of the batch, in bytes
}

var _ core.Checkpoint = (*Checkpoint)(nil)

// Freeze makes the current state a checkpoint to be written. Only the goroutine that
// calls Update may call it. The error is of kind Conflict while another checkpoint
// is unfinished.
func (s *Store) Freeze() (*Checkpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.frozen != nil {
		return nil, core.E(core.Conflict, "a checkpoint at log index %d is unfinished", s.frozen.meta.applied)
	}
	s.frozen = s.active
	s.frozen.snaps = nil // it changes no more
	s.active = newOverlay(s.frozen.meta)
	s.overlayBytes.Store(0)
	return &Checkpoint{s: s, frozen: s.frozen}, nil
}

// Applied is the index of the last entry that the checkpoint contains.
func (c *Checkpoint) Applied() core.LogIndex { return c.frozen.meta.applied }

// Write stores the checkpoint; once it returns nil, a crash returns to it. On an
// error nothing has changed for readers, and Write may be called again.
func (c *Checkpoint) Write() error {
	s := c.s
	s.writing.Lock()
	defer s.writing.Unlock()
	if c.done {
		return nil
	}
	s.mu.RLock()
	closed := s.closed
	s.mu.RUnlock()
	if closed {
		return errClosed
	}
	select {
	case err := <-s.failed: // since the last Write
		return baseError("write a checkpoint", err)
	default:
	}
	if !c.committed {
		b, err := c.batch()
		if err != nil {
			return err
		}
		// There is no WAL to sync: the flush makes it durable.
		c.size = b.Len()
		err = b.Commit(pebble.NoSync)
		if err = errors.Join(err, b.Close()); err != nil {
			return baseError("write a checkpoint", err)
		}
		c.committed, s.unflushed = true, true
	}
	if err := s.flush(); err != nil {
		return err
	}
	s.unflushed = false
	c.install()
	s.releaseBatch(c.size)
	return nil
}

// releaseBatch makes Pebble let go of a batch of that size: when it is large, the
// array behind Pebble's queue of memtables refers to it until new ones pass through.
func (s *Store) releaseBatch(size int) {
	if size < largeBatch {
		return
	}
	for range 2 {
		if _, err := s.db.AsyncFlush(); err != nil {
			s.backgroundError(err)
		}
	}
}

// flush returns when all that was committed is on the disk, or with the first error
// that Pebble meets in the background: it would try again for ever.
func (s *Store) flush() error {
	flushed, err := s.db.AsyncFlush()
	if err != nil {
		return baseError("flush a checkpoint", err)
	}
	select {
	case <-flushed:
		return nil
	case err := <-s.failed:
		return baseError("flush a checkpoint", err)
	}
}

// install drops the frozen overlay and shows the base that contains it, in one step.
func (c *Checkpoint) install() {
	s := c.s
	next := s.newBase()
	s.mu.Lock()
	old := s.base
	s.base, s.frozen = next, nil
	s.mu.Unlock()
	s.durable.Store(uint64(c.frozen.meta.applied))
	c.done = true
	old.release()
}

// batch is everything that the frozen overlay changes in the base. Its keys are in
// order: Pebble sorts large batches, and finds sorted ones quickly.
func (c *Checkpoint) batch() (*pebble.Batch, error) {
	o := c.frozen
	tails := slices.SortedFunc(maps.Values(o.tails), func(a, b *tail) int { return cmp.Compare(a.q, b.q) })
	w := batchWriter{b: c.s.db.NewBatchWithSize(o.encodedSize())}
	for _, bucket := range slices.Sorted(maps.Keys(o.buckets)) {
		if n := o.buckets[bucket]; n == 0 {
			w.delete(bucketKey(bucket))
		} else {
			w.set(bucketKey(bucket), wire.AppendUvarint(nil, uint64(n)))
		}
	}
	for _, t := range tails {
		w.chunks(t.q, &t.pub)
	}
	for _, t := range tails {
		w.head(t.q, &t.pub)
	}
	o.keys.Scan(func(key string, value []byte) bool {
		if value == nil {
			w.delete(kvKey([]byte(key)))
		} else {
			w.set(kvKey([]byte(key)), value)
		}
		return w.err == nil
	})
	w.set([]byte{prefixMeta}, o.meta.appendTo(nil))
	if w.err != nil {
		return nil, baseError("prepare a checkpoint", errors.Join(w.err, w.b.Close()))
	}
	return w.b, nil
}

// encodedSize is about how large the batch will be: growing it would double it.
func (o *overlay) encodedSize() int {
	n := 4096 + 16*len(o.buckets)
	for _, t := range o.tails {
		n += 100 + 14*len(t.pub.runs)
	}
	o.keys.Scan(func(key string, value []byte) bool {
		n += 16 + len(key) + len(value)
		return true
	})
	return n
}

// batchWriter adds to a batch and remembers its first error.
type batchWriter struct {
	b     *pebble.Batch
	value []byte // scratch
	err   error
}

func (w *batchWriter) set(key, value []byte) {
	if w.err == nil {
		w.err = w.b.Set(key, value, nil)
	}
}

func (w *batchWriter) merge(key, value []byte) {
	if w.err == nil {
		w.err = w.b.Merge(key, value, nil)
	}
}

func (w *batchWriter) delete(key []byte) {
	if w.err == nil {
		w.err = w.b.Delete(key, nil)
	}
}

func (w *batchWriter) deleteRange(start, end []byte) {
	if w.err == nil {
		w.err = w.b.DeleteRange(start, end, nil)
	}
}

// chunks adds what st changes of the chunks of q.
func (w *batchWriter) chunks(q core.QueueID, st *queueState) {
	from, to := spanOf(st.lowerFirst), spanOf(st.first)
	switch {
	case st.wipe:
		w.deleteRange(chunkKey(q, 0), chunksEnd(q))
	case st.lower && from < to:
		w.deleteRange(chunkKey(q, from), chunkKey(q, to))
	}
	peak := st.lowerPeak
	for runs := st.runs; len(runs) > 0; {
		span := spanOf(runs[0].Offset)
		n := 1
		for n < len(runs) && n < segmentRuns && spanOf(runs[n].Offset) == span {
			n++
		}
		w.value, peak = appendSegment(w.value[:0], runs[:n], peak)
		w.merge(chunkKey(q, span), w.value)
		runs = runs[n:]
	}
}

// head adds the head of q.
func (w *batchWriter) head(q core.QueueID, st *queueState) {
	if st.kind == dropped {
		w.delete(headKey(q))
		return
	}
	w.value = st.appendTo(w.value[:0])
	w.set(headKey(q), w.value)
}
