package kafka

import (
	"context"
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
	done, err := s.inflate(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
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
