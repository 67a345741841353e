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
		r, size := plainRecord(payload)
		if size == 0 {
			if r, size = sizedRecord(payload); size == 0 {
				return w.malformed(i)
			}
		}
		payload = payload[size:]
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

// plainRecord is sizedRecord for the records that nearly all producers send, at a
// fraction of its time: without headers, each number in one or two bytes, and at least
// plainAhead bytes in b. A size of 0 means that it is not one of these, right or wrong.
func plainRecord(b []byte) (r rawRecord, size int) {
	if len(b) < plainAhead {
		return r, 0
	}
	length, n := shortVarint(b[0], b[1])
	begin := n & 3 // the masks show the compiler that no index passes plainAhead
	age, n1 := shortVarint(b[begin+1], b[begin+2])
	at := begin + 1 + n1&3
	delta, n2 := shortVarint(b[at], b[at+1])
	at += n2 & 3
	key, n3 := shortVarint(b[at], b[at+1])
	at += n3&3 + max(key, 0)
	if (n|n1|n2|n3)&4 != 0 || key < -1 || at > len(b)-2 {
		return r, 0
	}
	value, n4 := shortVarint(b[at], b[at+1])
	at += n4 + max(value, 0)
	if n4 == 4 || value < -1 || at >= len(b) || b[at] != 0 || at+1 != begin+length {
		return r, 0
	}
	return rawRecord{age: int64(age), delta: int64(delta), hasKey: key >= 0}, at + 1
}

// plainAhead is how much of b plainRecord reads without looking.
const plainAhead = 16

// shortVarint is the zigzag varint that begins with the bytes x and y, and its length; 4
// when that is more than 2.
func shortVarint(x, y byte) (v, n int) {
	u := uint(x)
	switch {
	case x < 0x80:
		n = 1
	case y < 0x80:
		u, n = u&0x7f|uint(y)<<7, 2
	default:
		return 0, 4
	}
	return int(u>>1) ^ -int(u&1), n
}

// sizedRecord is the record at the front of b and its size with its length; 0 when it is
// malformed.
func sizedRecord(b []byte) (rawRecord, int) {
	n, at := varint(b, 0)
	if at > len(b) || n < minRecord || n > int64(len(b)-at) {
		return rawRecord{}, 0
	}
	end := at + int(n)
	r, ok := splitRecord(b[at:end])
	if !ok {
		return r, 0
	}
	return r, end
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
