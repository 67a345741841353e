package core

import (
	"bufio"
	"encoding/binary"
	"errors"
	"iter"
)

// RecordTime is where a record of a batch is, and from when.
type RecordTime struct {
	Offset Offset // the batch's base offset plus the record's delta
	Time   int64  // ms; of the batch where it says LogAppendTime
}

// RecordTimes is Records for a look at times alone: it inflates a batch as far as it is
// read, and keeps no more of it than a buffer. Only a block of snappy has to be whole. What follows the times of a record is not checked.
func RecordTimes(batch []byte, limit int) iter.Seq2[RecordTime, error] {
	return func(yield func(RecordTime, error) bool) {
		h, ok := ParseBatchHeader(batch)
		if !ok {
			yield(RecordTime{}, E(Corrupt, "batch of %d bytes, want at least %d", len(batch), BatchHeaderLen))
			return
		}
		src, err := Inflate(h.Codec(), batch[BatchHeaderLen:], limit)
		if err != nil {
			yield(RecordTime{}, err)
			return
		}
		defer src.Close()
		in := bufio.NewReader(src)
		for i := range h.Count {
			r, err := nextTime(in, &h)
			if err != nil && KindOf(err) != TooLarge {
				err = E(Corrupt, "record %d of a batch: %v", i, err)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

var errRecordLength = errors.New("length does not fit")

// nextTime reads the times of a record and skips the rest of it.
func nextTime(in *bufio.Reader, h *BatchHeader) (r RecordTime, err error) {
	n, err := binary.ReadVarint(in)
	if err != nil {
		return r, err
	}
	if n < 1 || n > MaxInflated {
		return r, errRecordLength
	}
	// The attributes and two deltas take 21 bytes at most.
	head, err := in.Peek(int(min(n, 21)))
	if err != nil {
		return r, err
	}
	time, b, ok := varint(head[1:])
	if !ok {
		return r, errRecordLength
	}
	offset, _, ok := varint(b)
	if !ok {
		return r, errRecordLength
	}
	r = RecordTime{h.BaseOffset + Offset(offset), h.BaseTime + time}
	if h.Attributes&AttrLogAppendTime != 0 {
		r.Time = h.MaxTime
	}
	_, err = in.Discard(int(n))
	return r, err
}
