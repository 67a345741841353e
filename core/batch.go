package core

import (
	"encoding/binary"
	"hash/crc32"
)

// A record batch is the storage form of messages: Kafka's RecordBatch v2 (Kafka
// documentation, section 5.3 "Record Batch"), uncompressed or as its producer
// compressed it. All numbers are big-endian:
//
//	 0             8           12            16        17
//	+-------------+-----------+-------------+---------+
//	| base offset | length of | leader      | magic=2 |
//	| i64         | rest, i32 | epoch, i32  | i8      |
//	+-------------+-----------+-------------+---------+
//	 17          21           23                27             35
//	+-----------+------------+-----------------+--------------+
//	| CRC32C of | attributes | last offset     | base time    |
//	| 21.., u32 | i16        | delta, i32      | ms, i64      |
//	+-----------+------------+-----------------+--------------+
//	 35           43            51               53             57      61
//	+------------+-------------+----------------+--------------+-------+---
//	| max time   | producer id | producer epoch | base         | count | records…
//	| ms, i64    | i64         | i16            | sequence i32 | i32   |
//	+------------+-------------+----------------+--------------+-------+---
//
// Only the first 16 bytes and the magic lie outside the CRC. We store a batch as it
// came and patch base offset and leader epoch on the way out.
const (
	// BatchHeaderLen is the length of a batch without records, in bytes.
	BatchHeaderLen = 61
	// BatchMagic is the only format that is stored.
	BatchMagic = 2
	// BatchPatchLen is how much of a batch's front may be rewritten without
	// touching the CRC, in bytes.
	BatchPatchLen = 16
	// batchLengthEnd is where the bytes counted by the length field begin.
	batchLengthEnd = 12
)

// Attribute bits of a batch.
const (
	AttrCompressionMask = 0x07
	AttrLogAppendTime   = 0x08
	AttrTransactional   = 0x10
	AttrControl         = 0x20
	AttrKnown           = AttrCompressionMask | AttrLogAppendTime | AttrTransactional | AttrControl // of producers
	// AttrVouched is the broker's own, since producers are refused with it: what the records say
	// about who published them was checked. Kafka has no meaning for the bit, and its clients pass it over.
	AttrVouched = 0x100
)

// NoProducer is the producer id, epoch and sequence of batches without one.
const NoProducer = -1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// BatchHeader is a batch's header, decoded.
type BatchHeader struct {
	BaseOffset      Offset
	Length          int32 // bytes after the length field
	LeaderEpoch     int32
	Magic           int8
	CRC             uint32
	Attributes      int16
	LastOffsetDelta int32
	BaseTime        int64 // ms
	MaxTime         int64 // ms
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32
}

// ParseBatchHeader decodes the header at the front of b. It checks that b is long
// enough for a header, nothing else.
func ParseBatchHeader(b []byte) (h BatchHeader, ok bool) {
	if len(b) < BatchHeaderLen {
		return h, false
	}
	be := binary.BigEndian
	return BatchHeader{
		BaseOffset:      Offset(be.Uint64(b[0:])),
		Length:          int32(be.Uint32(b[8:])),
		LeaderEpoch:     int32(be.Uint32(b[12:])),
		Magic:           int8(b[16]),
		CRC:             be.Uint32(b[17:]),
		Attributes:      int16(be.Uint16(b[21:])),
		LastOffsetDelta: int32(be.Uint32(b[23:])),
		BaseTime:        int64(be.Uint64(b[27:])),
		MaxTime:         int64(be.Uint64(b[35:])),
		ProducerID:      int64(be.Uint64(b[43:])),
		ProducerEpoch:   int16(be.Uint16(b[51:])),
		BaseSequence:    int32(be.Uint32(b[53:])),
		Count:           int32(be.Uint32(b[57:])),
	}, true
}

// AppendTo appends the header's wire form.
func (h *BatchHeader) AppendTo(dst []byte) []byte {
	be := binary.BigEndian
	dst = be.AppendUint64(dst, uint64(h.BaseOffset))
	dst = be.AppendUint32(dst, uint32(h.Length))
	dst = be.AppendUint32(dst, uint32(h.LeaderEpoch))
	dst = append(dst, byte(h.Magic))
	dst = be.AppendUint32(dst, h.CRC)
	dst = be.AppendUint16(dst, uint16(h.Attributes))
	dst = be.AppendUint32(dst, uint32(h.LastOffsetDelta))
	dst = be.AppendUint64(dst, uint64(h.BaseTime))
	dst = be.AppendUint64(dst, uint64(h.MaxTime))
	dst = be.AppendUint64(dst, uint64(h.ProducerID))
	dst = be.AppendUint16(dst, uint16(h.ProducerEpoch))
	dst = be.AppendUint32(dst, uint32(h.BaseSequence))
	return be.AppendUint32(dst, uint32(h.Count))
}

// TotalLen is the length of the whole batch in bytes.
func (h *BatchHeader) TotalLen() int { return batchLengthEnd + int(h.Length) }

// Codec is the number of the compression codec: 0 none, 1 gzip, 2 snappy, 3 lz4,
// 4 zstd; others are invalid.
func (h *BatchHeader) Codec() int { return int(h.Attributes & AttrCompressionMask) }

// Transactional reports whether the batch belongs to a transaction.
func (h *BatchHeader) Transactional() bool { return h.Attributes&AttrTransactional != 0 }

// Control reports whether the batch holds control records.
func (h *BatchHeader) Control() bool { return h.Attributes&AttrControl != 0 }

// HasProducer reports whether an idempotent or transactional producer wrote it.
func (h *BatchHeader) HasProducer() bool { return h.ProducerID != NoProducer }

// LastSequence is the sequence of the batch's last record; sequences wrap from
// 2147483647 to 0.
func (h *BatchHeader) LastSequence() int32 { return AddSequence(h.BaseSequence, h.LastOffsetDelta) }

// AddSequence is seq+n in Kafka's wrapping arithmetic, for n >= 0.
func AddSequence(seq, n int32) int32 { return int32((int64(seq) + int64(n)) & 0x7fffffff) }

// BatchCRC computes the checksum of a whole batch, which must be at least
// BatchHeaderLen long.
func BatchCRC(b []byte) uint32 { return crc32.Checksum(b[21:], castagnoli) }

// SetBatchCRC writes the checksum of a whole batch that was changed into its header.
func SetBatchCRC(b []byte) { binary.BigEndian.PutUint32(b[17:], BatchCRC(b)) }

// BatchChecked is the length of what a whole batch's CRC covers, which is its end, and
// the CRC in its header.
func BatchChecked(b []byte) (length int, crc uint32) {
	return len(b) - 21, binary.BigEndian.Uint32(b[17:])
}

// SetCreateTime rewrites a whole batch in place as Kafka does for topics with
// message.timestamp.type=CreateTime, where it is not so already: without the attribute
// bit, and with the greatest time of its records.
func SetCreateTime(b []byte, ms int64) {
	be := binary.BigEndian
	attributes := be.Uint16(b[21:])
	if attributes&AttrLogAppendTime == 0 && int64(be.Uint64(b[35:])) == ms {
		return
	}
	be.PutUint16(b[21:], attributes&^AttrLogAppendTime)
	be.PutUint64(b[35:], uint64(ms))
	SetBatchCRC(b)
}

// SetLogAppendTime rewrites a whole batch in place as Kafka does for topics with
// message.timestamp.type=LogAppendTime: the attribute bit, the max time, the CRC.
func SetLogAppendTime(b []byte, ms int64) {
	be := binary.BigEndian
	be.PutUint16(b[21:], be.Uint16(b[21:])|AttrLogAppendTime)
	be.PutUint64(b[35:], uint64(ms))
	SetBatchCRC(b)
}
