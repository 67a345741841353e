package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ID names a record for good: the producer in the upper bits, its sequence below.
type ID int64

// None is no record.
const None ID = -1

// NewID names a producer's record.
func NewID(producer, seq int64) ID { return ID(producer<<40 | seq) }

// Producer is whose record it is.
func (id ID) Producer() int64 { return int64(id) >> 40 }

// Seq is the record's place among those of its producer.
func (id ID) Seq() int64 { return int64(id) & (1<<40 - 1) }

func (id ID) String() string { return fmt.Sprintf("%d/%d", id.Producer(), id.Seq()) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// head is the length of a value before its body:
//
//	0       8         12
//	┌───────┬─────────┬───────────────┐
//	│ id    │ CRC-32C │ body          │  the CRC is that of id and body
//	└───────┴─────────┴───────────────┘
const head = 12

// Value is a record's value with a body of n bytes, which are the same for the same id.
func Value(id ID, n int) []byte {
	b := make([]byte, head+n)
	binary.BigEndian.PutUint64(b, uint64(id))
	x := uint64(id) | 1
	for i := head; i < len(b); i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	binary.BigEndian.PutUint32(b[8:], sum(b))
	return b
}

// Parse finds the id in a value that is as it was sent.
func Parse(value []byte) (ID, error) {
	if len(value) < head {
		return None, fmt.Errorf("a value of %d bytes", len(value))
	}
	if binary.BigEndian.Uint32(value[8:]) != sum(value) {
		return None, errors.New("a value whose checksum is wrong")
	}
	return ID(binary.BigEndian.Uint64(value)), nil
}

func sum(value []byte) uint32 {
	return crc32.Update(crc32.Checksum(value[:8], castagnoli), castagnoli, value[head:])
}
