package index

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync/atomic"

	"polylog/core"
	"polylog/core/wire"
)

// Timers is a time index: an ordered set of timers in a range of the key-value space, any
// number of them, for any time. A timer has an id, when it is due, and a value:
//
//	prefix 0 | due u64 | id → value
//	prefix 1 | id           → due u64
//
// What is in memory is what the overlay has of it: the timers that were set lately. Changing
// methods belong to the goroutine that calls Update.
type Timers struct {
	prefix []byte
	// low is a key below which there is no timer: keys that were removed stay in the way of
	// a scan until the next checkpoint, so none may begin below it.
	low []byte
	// lowered is the earliest time that a timer was set for since Published was last called,
	// and published since Lowered was.
	lowered   int64
	published atomic.Int64
}

// Timer is a timer that is due at a time, in ms. Times before the epoch count as the epoch.
type Timer struct {
	Due   int64
	ID    []byte
	Value []byte
}

const (
	timersByDue = 0
	timersByID  = 1
)

// NewTimers are those below a prefix, which nothing else may use.
func NewTimers(prefix ...byte) *Timers {
	t := &Timers{prefix: prefix, lowered: math.MaxInt64}
	t.published.Store(math.MaxInt64)
	return t
}

func (t *Timers) byDue(due int64, id []byte) []byte {
	k := append(append(make([]byte, 0, len(t.prefix)+9+len(id)), t.prefix...), timersByDue)
	return append(binary.BigEndian.AppendUint64(k, uint64(max(due, 0))), id...)
}

func (t *Timers) byID(id []byte) []byte {
	k := append(append(make([]byte, 0, len(t.prefix)+1+len(id)), t.prefix...), timersByID)
	return append(k, id...)
}

// end is the key after all timers that are due up to now.
func (t *Timers) end(now int64) []byte {
	if now == math.MaxInt64 {
		return append(append([]byte(nil), t.prefix...), timersByID)
	}
	return t.byDue(now+1, nil)
}

// Set sets a timer; one of that id is moved, and gets the value. Both are copied.
func (t *Timers) Set(tx *Tx, id []byte, due int64, value []byte) error {
	due = max(due, 0)
	old, ok, err := t.Due(tx, id)
	if err != nil {
		return err
	}
	if ok && old != due {
		tx.Delete(t.byDue(old, id))
	}
	if !ok || old != due {
		tx.Set(t.byID(id), wire.AppendUint64(nil, uint64(due)))
	}
	k := t.byDue(due, id)
	tx.Set(k, value)
	if bytes.Compare(k, t.low) < 0 {
		t.low = k
	}
	t.lowered = min(t.lowered, due)
	return nil
}

// Cancel removes a timer; false when there is none of that id.
func (t *Timers) Cancel(tx *Tx, id []byte) (bool, error) {
	due, ok, err := t.Due(tx, id)
	if err != nil || !ok {
		return false, err
	}
	tx.Delete(t.byDue(due, id))
	tx.Delete(t.byID(id))
	return true, nil
}

// Due is when a timer is due; false when there is none of that id.
func (t *Timers) Due(r Reader, id []byte) (due int64, ok bool, err error) {
	v, ok, err := r.Get(t.byID(id))
	if err != nil || !ok {
		return 0, false, err
	}
	if len(v) != 8 {
		return 0, false, core.E(core.Corrupt, "timer %x: %d bytes, want 8", id, len(v))
	}
	return int64(binary.BigEndian.Uint64(v)), true, nil
}

// Value is the value of a timer; false when there is none of that id.
func (t *Timers) Value(r Reader, id []byte) (value []byte, ok bool, err error) {
	due, ok, err := t.Due(r, id)
	if err != nil || !ok {
		return nil, false, err
	}
	return r.Get(t.byDue(due, id))
}

// Take removes up to limit of the timers that are due at now, the earliest first, and appends
// them to dst.
func (t *Timers) Take(tx *Tx, now int64, limit int, dst []Timer) ([]Timer, error) {
	start := t.low
	if start == nil {
		start = t.byDue(0, nil)
	}
	taken := len(dst)
	dst, err := t.scan(tx, start, t.end(now), limit, dst)
	if err != nil {
		return dst, err
	}
	for _, d := range dst[taken:] {
		tx.Delete(t.byDue(d.Due, d.ID))
		tx.Delete(t.byID(d.ID))
	}
	if len(dst)-taken < limit {
		t.low = t.end(now)
	} else {
		t.low = t.byDue(dst[len(dst)-1].Due, dst[len(dst)-1].ID)
	}
	return dst, nil
}

// Scan appends to dst up to limit timers that are due from one time up to, and including,
// another, the earliest first. Timers of the time from have ids above after.
func (t *Timers) Scan(r Reader, from int64, after []byte, to int64, limit int, dst []Timer) ([]Timer, error) {
	start := t.byDue(from, after)
	if after != nil {
		start = append(start, 0)
	}
	return t.scan(r, start, t.end(to), limit, dst)
}

func (t *Timers) scan(r Reader, start, end []byte, limit int, dst []Timer) ([]Timer, error) {
	if limit <= 0 || bytes.Compare(start, end) >= 0 {
		return dst, nil
	}
	head := len(t.prefix) + 1
	var bad error
	err := r.Scan(start, end, func(k, v []byte) bool {
		if len(k) < head+8 {
			bad = core.E(core.Corrupt, "timer key %x", k)
			return false
		}
		due := int64(binary.BigEndian.Uint64(k[head:]))
		dst = append(dst, Timer{due, bytes.Clone(k[head+8:]), bytes.Clone(v)})
		limit--
		return limit > 0
	})
	if err != nil {
		return dst, err
	}
	return dst, bad
}

// Publish is to be called when what was set is visible to readers. It reports whether any
// timer was.
func (t *Timers) Publish() bool {
	if t.lowered == math.MaxInt64 {
		return false
	}
	for {
		was := t.published.Load()
		if was <= t.lowered || t.published.CompareAndSwap(was, t.lowered) {
			break
		}
	}
	t.lowered = math.MaxInt64
	return true
}

// Lowered is the earliest time that a timer was set for since the last call, in ms;
// math.MaxInt64 when none was. It may be called from anywhere, by one goroutine.
func (t *Timers) Lowered() int64 { return t.published.Swap(math.MaxInt64) }

// Hold keeps a log entry as a run of a queue would, until Unhold: something else refers to it.
func (tx *Tx) Hold(i core.LogIndex) { tx.live.add(i, 1) }

// Unhold takes back one Hold.
func (tx *Tx) Unhold(i core.LogIndex) { tx.live.add(i, -1) }
