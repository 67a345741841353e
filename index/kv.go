package index

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/tidwall/btree"
)

// The key-value space: an ordered map, for whatever router/state keeps in it.
//
//	base: 'k' | key → value

// Set stores value under key, which must not be empty. Both are copied.
func (tx *Tx) Set(key, value []byte) {
	tx.put(string(key), append(make([]byte, 0, len(value)), value...))
}

// Delete removes key, if it is there.
func (tx *Tx) Delete(key []byte) { tx.put(string(key), nil) }

// put stages a pair or a tombstone. A tombstone stays until the checkpoint, since a
// layer below may have the key.
func (tx *Tx) put(key string, value []byte) {
	if key == "" {
		panic("index: empty key")
	}
	tx.keys.Set(key, value)
}

// publishKeys makes the staged pairs visible. The caller holds Store.mu.
func (o *overlay) publishKeys(staged *kvMap) {
	staged.Scan(func(key string, value []byte) bool {
		o.bytes += pairBytes(key, value)
		if old, replaced := o.keys.Set(key, value); replaced {
			o.bytes -= pairBytes(key, old)
		}
		return true
	})
	o.stable = nil
}

// Get implements Reader.
func (r *reader) Get(key []byte) (value []byte, ok bool, err error) {
	s, k := r.s, string(key)
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return nil, false, errClosed
	}
	maps := r.l.keys()
	for _, m := range maps {
		if m == nil {
			continue
		}
		if value, ok = m.Get(k); ok {
			s.mu.RUnlock()
			return value, value != nil, nil
		}
	}
	_, b := r.l.lower()
	b.acquire()
	s.mu.RUnlock()
	defer b.release()
	return b.get(kvKey(key))
}

// Scan implements Reader.
func (r *reader) Scan(start, end []byte, fn func(key, value []byte) bool) (err error) {
	s := r.s
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	maps := r.l.stableKeys()
	_, b := r.l.lower()
	b.acquire()
	s.mu.Unlock()
	defer b.release()
	upper := []byte{prefixKV + 1}
	if end != nil {
		upper = kvKey(end)
	}
	it, err := b.iter(kvKey(start), upper)
	if err != nil {
		return err
	}
	defer closeIter(it, &err)
	return scan(it, maps, start, end, fn)
}

// scan merges maps, the uppermost first, and the base.
func scan(it *pebble.Iterator, maps keyMaps, start, end []byte, fn func(key, value []byte) bool) error {
	var cursors [len(maps)]mapCursor
	for i, m := range maps {
		cursors[i] = newMapCursor(m, start, end)
	}
	inBase := it.First()
	for {
		// The least key; where several maps have it, the uppermost one's counts.
		at := &cursors[0]
		for i := range cursors {
			if c := &cursors[i]; c.ok && (!at.ok || c.key < at.key) {
				at = c
			}
		}
		switch {
		case inBase && (!at.ok || string(it.Key()[1:]) < at.key):
			if !fn(it.Key()[1:], it.Value()) {
				return nil
			}
			inBase = it.Next()
			continue
		case !at.ok:
			return baseError("scan the key-value space", it.Error())
		case inBase && string(it.Key()[1:]) == at.key:
			inBase = it.Next()
		}
		key, value := at.key, at.value
		for i := range cursors {
			if c := &cursors[i]; c.ok && c.key == key {
				c.next()
			}
		}
		if value != nil && !fn([]byte(key), value) {
			return nil
		}
	}
}

// mapCursor walks over [start, end) of a map, tombstones included.
type mapCursor struct {
	it    btree.MapIter[string, []byte]
	end   []byte
	key   string
	value []byte
	ok    bool // key and value are those of a pair
}

func newMapCursor(m *kvMap, start, end []byte) mapCursor {
	if m == nil {
		return mapCursor{}
	}
	c := mapCursor{it: m.Iter(), end: end}
	c.set(c.it.Seek(string(start)))
	return c
}

func (c *mapCursor) next() { c.set(c.it.Next()) }

func (c *mapCursor) set(ok bool) {
	if c.ok = ok; !ok {
		return
	}
	c.key, c.value = c.it.Key(), c.it.Value()
	c.ok = c.end == nil || c.key < string(c.end)
}
