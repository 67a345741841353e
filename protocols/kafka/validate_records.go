package kafka

import (
	"encoding/binary"
	"math"

	"polylog/core"
)

// walk checks that payload is h.Count records, whole and in order, and their keys and
// times as far as the topic cares.
func (v *validator) walk(h *core.BatchHeader, payload []byte) error {
	var keyless []int32
	bounded := v.topic.Config.TimestampBeforeMaxMS != math.MaxInt64
	for i := range h.Count {
		n, at := varint(payload, 0)
		if at > len(payload) || n < 6 || n > int64(len(payload)-at) { // six fields of at least a byte
			return badRecord(codeInvalidRecord, "record %d of %d is malformed", i, h.Count)
		}
		end := at + int(n)
		r, ok := splitRecord(payload[at:end])
		payload = payload[end:]
		switch {
		case !ok:
			return badRecord(codeInvalidRecord, "record %d of %d is malformed", i, h.Count)
		case r.delta != int64(i):
			return badRecord(codeInvalidRecord, "record %d of %d has offset delta %d", i, h.Count, r.delta)
		case !r.hasKey && v.topic.Config.Compact:
			keyless = append(keyless, i)
		}
		if bounded {
			if err := v.time(h.BaseTime + r.age); err != nil {
				return err
			}
		}
	}
	if len(payload) > 0 {
		return badRecord(codeInvalidRecord, "%d bytes after the last of %d records", len(payload), h.Count)
	}
	if keyless != nil {
		return &recordError{codeInvalidRecord, "compacted topic cannot accept a record without key", keyless}
	}
	return nil
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
