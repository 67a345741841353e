package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"polylog/core"
	"polylog/router"
)

// recordError refuses a batch with Kafka's own code.
type recordError struct {
	code    int16
	msg     string
	records []int32 // the offending ones, counted from the batch's first, where known
}

func (e *recordError) Error() string { return e.msg }

func badRecord(code int16, format string, args ...any) error {
	return &recordError{code: code, msg: fmt.Sprintf(format, args...)}
}

// validator checks what a producer sent for one partition, by the rules of Kafka's own
// LogValidator: exactly one batch of format 2, whole and intact, of records in order.
// The records of a compressed batch are looked at only where the topic's configuration
// depends on them, because that means inflating them.
type validator struct {
	topic *router.Topic
	zstd  bool  // the client's version of Produce knows it
	now   int64 // ms
	// inflates is set by validate when the batch must go through srv.reencode.
	inflates bool
	codec    int // to store the batch in
}

// validate returns the batch, which is records, or a recordError.
func (v *validator) validate(records []byte) ([]byte, error) {
	h, ok := core.ParseBatchHeader(records)
	switch {
	case len(records) == 0:
		return nil, badRecord(codeInvalidRecord, "no record batch for the partition")
	case len(records) > 16 && records[16] != 2:
		return nil, badRecord(codeInvalidRecord, "record batch of magic %d, want 2", records[16])
	case !ok:
		return nil, badRecord(codeCorruptMessage, "record batch of %d bytes, want at least %d", len(records), core.BatchHeaderLen)
	case h.Length < core.BatchHeaderLen-12:
		return nil, badRecord(codeCorruptMessage, "record batch length %d is shorter than its header", h.Length)
	case h.TotalLen() > len(records):
		return nil, badRecord(codeInvalidRecord, "record batch of %d bytes is cut off at %d", h.TotalLen(), len(records))
	case h.TotalLen() < len(records):
		return nil, badRecord(codeInvalidRecord, "more than one record batch for the partition")
	case h.CRC != core.BatchCRC(records):
		return nil, badRecord(codeCorruptMessage, "record batch CRC is %08x, want %08x", h.CRC, core.BatchCRC(records))
	}
	if err := v.header(&h); err != nil {
		return nil, err
	}
	if size := len(records); size > v.topic.Config.MaxMessageBytes {
		return nil, badRecord(codeMessageTooLarge, "batch of %d bytes, topic %s takes at most %d", size, v.topic.Name, v.topic.Config.MaxMessageBytes)
	} else if size > v.topic.Config.SegmentBytes {
		return nil, badRecord(codeRecordListTooLarge, "batch of %d bytes, segments of topic %s hold %d", size, v.topic.Name, v.topic.Config.SegmentBytes)
	}
	v.codec = v.targetCodec(h.Codec())
	deep := v.topic.Config.Compact || !v.topic.Config.LogAppendTime && v.topic.Config.TimestampBeforeMaxMS != math.MaxInt64
	v.inflates = v.codec != h.Codec() || deep && h.Codec() != core.CodecNone
	if h.Codec() == core.CodecNone {
		if err := v.walk(&h, records[core.BatchHeaderLen:]); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// header checks the fields of a batch's header.
func (v *validator) header(h *core.BatchHeader) error {
	switch {
	case h.BaseOffset != 0:
		return badRecord(codeInvalidRecord, "base offset is %d, want 0 from a producer", h.BaseOffset)
	case h.Count <= 0 || h.LastOffsetDelta != h.Count-1:
		return badRecord(codeInvalidRecord, "record count is %d, last offset delta %d", h.Count, h.LastOffsetDelta)
	case h.Control():
		return badRecord(codeInvalidRecord, "producers cannot write control records")
	case h.Transactional():
		return badRecord(codeInvalidTxnState, "transactions are not supported")
	case h.HasProducer() && (h.ProducerID < 0 || h.ProducerEpoch < 0 || h.BaseSequence < 0):
		return badRecord(codeInvalidRecord, "producer %d has epoch %d and sequence %d", h.ProducerID, h.ProducerEpoch, h.BaseSequence)
	case h.Codec() > core.CodecZstd:
		return badRecord(codeUnsupportedCompressionType, "compression codec %d", h.Codec())
	case h.Codec() == core.CodecZstd && !v.zstd:
		return badRecord(codeUnsupportedCompressionType, "zstd needs Produce version %d or later", produceZstd)
	}
	return v.time(h.MaxTime)
}

// time checks a timestamp against the topic's bounds. -1 means that there is none.
func (v *validator) time(ms int64) error {
	c := &v.topic.Config
	switch {
	case c.LogAppendTime || ms == -1:
		return nil
	case ms > v.now && ms-v.now > c.TimestampAfterMaxMS:
		return badRecord(codeInvalidTimestamp, "timestamp %d is more than %d ms after the broker's clock", ms, c.TimestampAfterMaxMS)
	case ms < v.now && v.now-ms > c.TimestampBeforeMaxMS:
		return badRecord(codeInvalidTimestamp, "timestamp %d is more than %d ms before the broker's clock", ms, c.TimestampBeforeMaxMS)
	}
	return nil
}

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

// targetCodec is the codec to store a batch in that came in codec.
func (v *validator) targetCodec(codec int) int {
	switch v.topic.Config.CompressionType {
	case "uncompressed":
		return core.CodecNone
	case "gzip":
		return core.CodecGzip
	case "snappy":
		return core.CodecSnappy
	case "lz4":
		return core.CodecLZ4
	case "zstd":
		return core.CodecZstd
	default: // "producer"
		return codec
	}
}

// reencode does what needs a batch's inflated records: it checks them, and stores them
// in the topic's codec where that differs from the producer's. Few run at a time, since
// each may take core.MaxInflated bytes.
func (s *Server) reencode(ctx context.Context, v *validator, batch []byte) ([]byte, error) {
	select {
	case s.inflating <- struct{}{}:
		defer func() { <-s.inflating }()
	case <-ctx.Done():
		return nil, core.E(core.Closed, "connection closed")
	}
	h, _ := core.ParseBatchHeader(batch)
	if h.Codec() != core.CodecNone {
		payload, err := core.Decompress(h.Codec(), nil, batch[core.BatchHeaderLen:], core.MaxInflated)
		if err != nil {
			return nil, inflateError(err)
		}
		if err := v.walk(&h, payload); err != nil {
			return nil, err
		}
	}
	if v.codec == h.Codec() {
		return batch, nil
	}
	again, err := core.Recompress(nil, batch, v.codec, 0, core.MaxInflated)
	if err != nil {
		return nil, inflateError(err)
	}
	return again, nil
}

func inflateError(err error) error {
	if core.KindOf(err) == core.TooLarge {
		return badRecord(codeMessageTooLarge, "%s", err.Error())
	}
	return badRecord(codeCorruptMessage, "%s", err.Error())
}
