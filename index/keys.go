package index

import (
	"encoding/binary"

	"polylog/core"
)

// The key space. Every key starts with one byte that says whose it is; numbers are
// big-endian so that keys sort by them:
//
//	'b' | bucket u64               live-run counter of 64 log indexes (live.go)
//	'c' | queue u64 | span u64     chunk of a queue's runs (chunk.go)
//	'h' | queue u64                head of a queue (head.go)
//	'k' | key                      key-value pair (kv.go)
//	'm'                            applied index and configuration (meta.go)
//
// Reserved: 'i' key index, 't' time index, 'x' transaction index.
const (
	prefixBucket = 'b'
	prefixChunk  = 'c'
	prefixHead   = 'h'
	prefixKV     = 'k'
	prefixMeta   = 'm'
)

func bucketKey(bucket uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixBucket}, bucket)
}

func headKey(q core.QueueID) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixHead}, uint64(q))
}

func chunkKey(q core.QueueID, span uint64) []byte {
	k := make([]byte, 1, 17)
	k[0] = prefixChunk
	k = binary.BigEndian.AppendUint64(k, uint64(q))
	return binary.BigEndian.AppendUint64(k, span)
}

// chunksEnd is the first key after all possible chunks of q.
func chunksEnd(q core.QueueID) []byte {
	if q+1 == 0 {
		return []byte{prefixChunk + 1}
	}
	return chunkKey(q+1, 0)[:9]
}

func kvKey(key []byte) []byte {
	return append(append(make([]byte, 0, 1+len(key)), prefixKV), key...)
}

// spanOf is the number of the chunk that a run at off belongs to.
func spanOf(off core.Offset) uint64 { return uint64(off) >> spanBits }

func queueOfHeadKey(key []byte) (core.QueueID, error) {
	if len(key) != 9 {
		return 0, core.E(core.Corrupt, "queue head key %x", key)
	}
	return core.QueueID(binary.BigEndian.Uint64(key[1:])), nil
}
