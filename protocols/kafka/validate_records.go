package kafka

import (
	"encoding/binary"
	"fmt"
	"math"

	"polylog/core"
)

// walking checks the records of a batch: that they are h.Count, whole and in order, and
// their keys and times as far as the topic cares.
type walking struct {
	count         int32
	base          int64 // time of the batch
	after, before int64 // bounds of the records' times, inclusive
	compact       bool
	now           int64

	maxTime int64 // so far; at least -1, which means no time
	keyless []int32
}

// maxKeyless bounds how many records an answer names.
const maxKeyless = 1000

func (v *validator) walking(h *core.BatchHeader) walking {
	c := &v.topic.Config
	w := walking{count: h.Count, base: h.BaseTime, compact: c.Compact, now: v.now, maxTime: -1, after: math.MinInt64, before: math.MaxInt64}
	if !c.LogAppendTime {
		w.after = v.now - c.TimestampBeforeMaxMS
		if c.TimestampAfterMaxMS < math.MaxInt64-v.now {
			w.before = v.now + c.TimestampAfterMaxMS
		}
	}
	return w
}

// walk checks payload, which is all records.
func (w *walking) walk(payload []byte) error {
	for i := range w.count {
		n, at := varint(payload, 0)
		if at > len(payload) || n < minRecord || n > int64(len(payload)-at) {
			return w.malformed(i)
		}
		end := at + int(n)
		r, ok := splitRecord(payload[at:end])
		payload = payload[end:]
		if !ok {
			return w.malformed(i)
		}
		if err := w.record(i, &r); err != nil {
			return err
		}
	}
	if len(payload) > 0 {
		return w.tooMany()
	}
	return w.end()
}

// minRecord is the length of the shortest record: six fields of at least a byte.
const minRecord = 6

// record checks the next record.
func (w *walking) record(i int32, r *rawRecord) error {
	ms := w.base + r.age
	w.maxTime = max(w.maxTime, ms)
	switch {
	case r.delta != int64(i):
		return badRecord(codeInvalidRecord, "record %d of %d has offset delta %d", i, w.count, r.delta)
	case (ms < w.after || ms > w.before) && ms != -1:
		return &recordError{
			codeInvalidTimestamp,
			fmt.Sprintf("record %d has timestamp %d, want one from %d to %d, as the broker's clock is at %d", i, ms, w.after, w.before, w.now),
			[]int32{i},
		}
	case !r.hasKey && w.compact && len(w.keyless) < maxKeyless:
		w.keyless = append(w.keyless, i)
	}
	return nil
}

// end is the verdict after the last record.
func (w *walking) end() error {
	if w.keyless != nil {
		return &recordError{codeInvalidRecord, "compacted topic cannot accept a record without key", w.keyless}
	}
	return nil
}

func (w *walking) malformed(i int32) error {
	return badRecord(codeInvalidRecord, "record %d of %d is malformed or not there", i, w.count)
}

func (w *walking) tooMany() error {
	return badRecord(codeInvalidRecord, "bytes after the last of %d records", w.count)
}

// rawRecord is what walk wants to know of a record.
type rawRecord struct {
	age    int64 // ms after the batch's base time
	delta  int64 // after the batch's base offset
	hasKey bool
}

// splitRecord checks the structure of a record, without its length, to the last byte.
// It is on the path of every record, hence positions instead of slices: one beyond the
// end stays there, and is found out once.
func splitRecord(b []byte) (r rawRecord, ok bool) {
	var n, headers int64
	at := 1 // after the attributes
	r.age, at = varint(b, at)
	r.delta, at = varint(b, at)
	n, at = varint(b, at)
	r.hasKey = n >= 0
	at = skip(b, at, n)
	n, at = varint(b, at)
	at = skip(b, at, n)
	headers, at = varint(b, at)
	for ; headers > 0 && at < len(b); headers-- {
		if n, at = varint(b, at); n < 0 { // the key of a header is never null
			return r, false
		}
		at = skip(b, at, n)
		n, at = varint(b, at)
		at = skip(b, at, n)
	}
	return r, headers == 0 && at == len(b)
}

// skip is the position after n bytes from at on; n is -1 for null.
func skip(b []byte, at int, n int64) int {
	switch {
	case at > len(b) || n < -1 || n > int64(len(b)-at):
		return len(b) + 1
	case n < 0:
		return at
	default:
		return at + int(n)
	}
}

// varint is the zigzag varint at a position, and the position after it.
func varint(b []byte, at int) (int64, int) {
	if at < len(b) && b[at] < 0x80 { // most are this short
		return int64(b[at]>>1) ^ -int64(b[at]&1), at + 1
	}
	return longVarint(b, at)
}

func longVarint(b []byte, at int) (int64, int) {
	if at < len(b) {
		if v, n := binary.Varint(b[at:]); n > 0 {
			return v, at + n
		}
	}
	return 0, len(b) + 1
}
