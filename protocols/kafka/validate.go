package kafka

import (
	"fmt"

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
// LogValidator: exactly one batch of format 2, whole and intact, of records in order. The
// records of a compressed batch are inflated for that as a stream (Server.inspect), and
// the batch is stored as it came. As in Kafka, the header's greatest time and its
// LogAppendTime bit are set right instead of refused.
type validator struct {
	topic *router.Topic
	zstd  bool  // the client's version of Produce knows it
	now   int64 // ms
	// inflates is set by validate when the batch must go through Server.inspect.
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
	v.inflates = v.codec != core.CodecNone || h.Codec() != core.CodecNone
	if !v.inflates {
		w := v.walking(&h)
		if err := w.walk(records[core.BatchHeaderLen:]); err != nil {
			return nil, err
		}
		v.stamp(records, w.maxTime)
	}
	return records, nil
}

// stamp sets a batch's time right, whose records go up to maxTime. Where the broker's
// clock counts the router does it.
func (v *validator) stamp(batch []byte, maxTime int64) {
	if !v.topic.Config.LogAppendTime {
		core.SetCreateTime(batch, maxTime)
	}
}

// header checks the fields of a batch's header.
func (v *validator) header(h *core.BatchHeader) error {
	switch {
	case h.BaseOffset != 0:
		return badRecord(codeInvalidRecord, "base offset is %d, want 0 from a producer", h.BaseOffset)
	case h.Count <= 0 || h.LastOffsetDelta != h.Count-1:
		return badRecord(codeInvalidRecord, "record count is %d, last offset delta %d", h.Count, h.LastOffsetDelta)
	case h.Attributes&^core.AttrKnown != 0:
		return badRecord(codeInvalidRecord, "batch attributes %04x, want none beyond %04x", uint16(h.Attributes), core.AttrKnown)
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
