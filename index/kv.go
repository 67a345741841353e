package index

import "github.com/tidwall/btree"

// The key-value space: an ordered map, for whatever router/state keeps in it.
//
//	base: 'k' | key → value

// Set stores value under key, which must not be empty. Both are copied.
func (tx *Tx) Set(key, value []byte) {
	tx.put(string(key), append(make([]byte, 0, len(value)), value...))
}

// Delete removes key, if it is there.
func (tx *Tx) Delete(key []byte) { tx.put(string(key), nil) }

// put stores a pair or a tombstone, which stays until the checkpoint, since a layer
// below may have the key.
func (tx *Tx) put(key string, value []byte) {
	if key == "" {
		panic("index: empty key")
	}
	tx.keysStaged = true
	tx.keysBytes += pairBytes(key, value)
	if old, replaced := tx.s.active.stagedKeys.Set(key, value); replaced {
		tx.keysBytes -= pairBytes(key, old)
	}
}

// kvView is the key-value space, captured.
type kvView struct {
	top, mid *kvMap // mid may be nil
	base     *base  // to be released
}

// kvView captures the key-value space. With stable set, what the caller does to it
// while reading does not show.
func (r *reader) kvView(stable bool) (v kvView, err error) {
	s := r.s
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return v, errClosed
	}
	frozen, b := r.l.lower()
	v.top = r.l.keys(stable)
	if frozen != nil {
		v.mid = frozen.keys
	}
	v.base = b.acquire()
	return v, nil
}

// Get implements Reader.
func (r *reader) Get(key []byte) (value []byte, ok bool, err error) {
	v, err := r.kvView(false)
	if err != nil {
		return nil, false, err
	}
	defer v.base.release()
	k := string(key)
	if value, ok = v.top.Get(k); ok {
		return value, value != nil, nil
	}
	if v.mid != nil {
		if value, ok = v.mid.Get(k); ok {
			return value, value != nil, nil
		}
	}
	return v.base.get(kvKey(key))
}

// Scan implements Reader.
func (r *reader) Scan(start, end []byte, fn func(key, value []byte) bool) (err error) {
	v, err := r.kvView(true)
	if err != nil {
		return err
	}
	defer v.base.release()
	upper := []byte{prefixKV + 1}
	if end != nil {
		upper = kvKey(end)
	}
	it, err := v.base.iter(kvKey(start), upper)
	if err != nil {
		return err
	}
	defer closeIter(it, &err)

	top, mid := newMapCursor(v.top, start, end), newMapCursor(v.mid, start, end)
	inBase := it.First()
	for {
		// The least key of the two maps; where both have it, the upper one's counts.
		at, other := &top, &mid
		if mid.ok && (!top.ok || mid.key < top.key) {
			at, other = &mid, &top
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
		if other.ok && other.key == key {
			other.next()
		}
		at.next()
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
