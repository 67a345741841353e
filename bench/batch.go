package main

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

// makeBatch encodes one RecordBatch v2 of n records with values of the given size, uncompressed,
// without producer id, so that it may be sent any number of times.
//
//	baseOffset 8 | length 4 | leaderEpoch 4 | magic 1 | crc 4 | attributes 2 | lastOffsetDelta 4 |
//	firstTimestamp 8 | maxTimestamp 8 | producerId 8 | epoch 2 | baseSequence 4 | count 4 | records
func makeBatch(n, size int) []byte {
	b := make([]byte, 61, 61+n*(size+12))
	value := make([]byte, size)
	for i := range value { // varied, though nobody compresses it
		value[i] = byte('a' + i*7%26)
	}
	for i := range n {
		var r []byte
		r = append(r, 0)                     // attributes
		r = binary.AppendVarint(r, 0)        // timestamp delta
		r = binary.AppendVarint(r, int64(i)) // offset delta
		r = binary.AppendVarint(r, -1)       // no key
		r = binary.AppendVarint(r, int64(len(value)))
		r = append(r, value...)
		r = binary.AppendVarint(r, 0) // no headers
		b = binary.AppendVarint(b, int64(len(r)))
		b = append(b, r...)
	}
	now := uint64(time.Now().UnixMilli())
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	binary.BigEndian.PutUint32(b[23:], uint32(n-1))
	binary.BigEndian.PutUint64(b[27:], now)
	binary.BigEndian.PutUint64(b[35:], now)
	binary.BigEndian.PutUint64(b[43:], ^uint64(0))
	binary.BigEndian.PutUint16(b[51:], ^uint16(0))
	binary.BigEndian.PutUint32(b[53:], ^uint32(0))
	binary.BigEndian.PutUint32(b[57:], uint32(n))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// walkBatches calls f with each whole batch's first offset and record count; the last may be cut.
func walkBatches(records []byte, f func(base int64, count int)) {
	for len(records) >= 61 {
		size := 12 + int(binary.BigEndian.Uint32(records[8:]))
		if size > len(records) {
			return
		}
		f(int64(binary.BigEndian.Uint64(records)), int(binary.BigEndian.Uint32(records[23:]))+1)
		records = records[size:]
	}
}
