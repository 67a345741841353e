package index

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"polylog/core"
)

// base is Pebble's content as of one checkpoint. The store holds a reference to
// the current one; readers take theirs under Store.mu and release it when done.
type base struct {
	snap  *pebble.Snapshot
	empty bool // nothing was ever written: answer without asking Pebble
	refs  atomic.Int64
	done  func() // called once, after the last release
}

func (b *base) acquire() *base {
	b.refs.Add(1)
	return b
}

func (b *base) release() {
	if b.refs.Add(-1) > 0 {
		return
	}
	// Closing a snapshot of an open store reports nothing that a reader could act on.
	_ = b.snap.Close()
	b.done()
}

// get copies the value of key.
func (b *base) get(key []byte) (value []byte, ok bool, err error) {
	if b.empty {
		return nil, false, nil
	}
	v, closer, err := b.snap.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, baseError("read the index", err)
	}
	value = append(make([]byte, 0, len(v)), v...)
	return value, true, baseError("read the index", closer.Close())
}

// head is the head of q.
func (b *base) head(q core.QueueID) (h headRecord, ok bool, err error) {
	v, ok, err := b.get(headKey(q))
	if !ok || err != nil {
		return h, false, err
	}
	if h, err = decodeHead(v); err != nil {
		return h, false, fmt.Errorf("queue %d: %w", q, err)
	}
	return h, true, nil
}

// iter iterates over [lower, upper).
func (b *base) iter(lower, upper []byte) (*pebble.Iterator, error) {
	it, err := b.snap.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, baseError("read the index", err)
	}
	return it, nil
}

// baseError gives Pebble's errors a kind and says what was attempted.
func baseError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case pebble.IsCorruptionError(err):
		return core.E(core.Corrupt, "%s: %v", what, err)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

const (
	// memTableSize can be small, since every checkpoint is one batch.
	memTableSize = 1 << 20
	// largeBatch is from where on Pebble does not copy a batch into a memtable but
	// flushes it as it is.
	largeBatch = memTableSize / 2
)

// openPebble opens the base. background receives errors of flushes and compactions.
func openPebble(o *Options, background func(error)) (*pebble.DB, error) {
	cache := pebble.NewCache(o.CacheBytes)
	defer cache.Unref()
	log := pebbleLogger{o.Logger, o.Fatal}
	po := &pebble.Options{
		Cache:  cache,
		FS:     o.FS,
		Logger: log,
		// Named, so that a newer library does not silently raise the format of
		// directories that an older binary may have to open again.
		FormatMajorVersion: pebble.FormatValueSeparation,
		DisableWAL:         true,
		MemTableSize:       memTableSize,
		// There is one batch at a time, of any size. Pebble would make the flush that
		// follows it wait until it is flushed, for ever when that fails.
		MemTableStopWritesThreshold: 1 << 20,
		MaxOpenFiles:                512,
		EventListener: &pebble.EventListener{
			BackgroundError: background,
			// The reader that hit it gets the error; the default ends the process.
			DataCorruption: func(info pebble.DataCorruptionInfo) { background(errors.New(info.String())) },
		},
	}
	for i := range po.Levels {
		po.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(o.Dir, po)
	if err != nil {
		return nil, baseError("open the index in "+o.Dir, err)
	}
	return db, nil
}

// loadBuckets reads the live-run counters.
func (b *base) loadBuckets(fn func(bucket uint64, runs int64)) error {
	it, err := b.iter([]byte{prefixBucket}, []byte{prefixBucket + 1})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		bucket, runs, err := decodeBucket(it.Key(), it.Value())
		if err != nil {
			return errors.Join(err, it.Close())
		}
		fn(bucket, runs)
	}
	return baseError("read the live-run counters", it.Close())
}

// loadMeta reads the meta record; ok is false when the base is empty.
func (b *base) loadMeta() (m meta, ok bool, err error) {
	v, ok, err := b.get([]byte{prefixMeta})
	if err != nil {
		return m, false, err
	}
	if ok {
		m, err = decodeMeta(v)
		return m, true, err
	}
	it, err := b.iter(nil, nil)
	if err != nil {
		return m, false, err
	}
	if it.First() {
		key := slices.Clone(it.Key())
		return m, false, errors.Join(core.E(core.Corrupt, "index without a meta record, first key %q", key), it.Close())
	}
	return m, false, baseError("read the index", it.Close())
}
