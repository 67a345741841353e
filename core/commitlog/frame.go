package commitlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"polylog/core"
)

// Entry is one entry of the log. Type and Ext are raft's and opaque here.
type Entry struct {
	Index core.LogIndex
	Term  core.Term
	Type  uint8
	Data  []byte
	Ext   []byte

	// Summed says that Sum is the CRC32C of Data, so that Append need not compute it. A
	// wrong one makes a damaged frame.
	Summed bool
	Sum    uint32
}

// bodyCRC is the checksum of e's frame's body.
func (e *Entry) bodyCRC(seed uint32) uint32 {
	var crc uint32
	if e.Summed {
		crc = core.CombineCRC(seed, e.Sum, len(e.Data))
		if checkSums && crc != crc32.Update(seed, castagnoli, e.Data) {
			panic(fmt.Sprintf("entry %d: %08x is not the checksum of its %d bytes", e.Index, e.Sum, len(e.Data)))
		}
	} else {
		crc = crc32.Update(seed, castagnoli, e.Data)
	}
	return crc32.Update(crc, castagnoli, e.Ext)
}

// A frame holds one entry. Numbers are big-endian:
//
//	 0          4          8          12      14     15   16        24
//	+----------+----------+----------+-------+------+----+---------+--------+
//	| CRC32C   | CRC32C   | data     | ext   | type | 0  | index   | term   |
//	| of 4..32 | of body  | len, u32 | len,  | u8   |    | u64     | u64    |
//	|          |          |          | u16   |      |    |         |        |
//	+----------+----------+----------+-------+------+----+---------+--------+
//	 32
//	+------ body ---------+----------------------------+
//	| data       | ext    | zeros up to a multiple of 8|
//	+------------+--------+----------------------------+
//
// Both checksums start from the segment's seed, so that frames which an earlier use
// of the file left behind never validate. The header's own checksum makes its
// lengths trustworthy when the body is damaged, and covers the body's checksum.
const (
	frameHeaderLen = 32
	frameAlign     = 8
)

// Limits of an entry, in bytes.
const (
	MaxDataLen = 256 << 20
	MaxExtLen  = 1<<16 - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seedOf is where the checksums of the segment that begins at base start from.
func seedOf(base core.LogIndex) uint32 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(base))
	return crc32.Checksum(b[:], castagnoli)
}

// frameLen is the length of a frame, in bytes.
func frameLen(data, ext int) int64 {
	return (frameHeaderLen + int64(data) + int64(ext) + frameAlign - 1) &^ (frameAlign - 1)
}

// padLen is the number of zeros that end a frame.
func padLen(data, ext int) int { return -(data + ext) & (frameAlign - 1) }

type frameHeader struct {
	bodyCRC uint32
	dataLen uint32
	extLen  uint16
	typ     uint8
	index   core.LogIndex
	term    core.Term
}

// len is the length of the whole frame.
func (h *frameHeader) len() int64 { return frameLen(int(h.dataLen), int(h.extLen)) }

// appendFrameHeader appends the header of e's frame.
func appendFrameHeader(dst []byte, seed uint32, e *Entry) []byte {
	be, at := binary.BigEndian, len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = be.AppendUint32(dst, e.bodyCRC(seed))
	dst = be.AppendUint32(dst, uint32(len(e.Data)))
	dst = be.AppendUint16(dst, uint16(len(e.Ext)))
	dst = append(dst, e.Type, 0)
	dst = be.AppendUint64(dst, uint64(e.Index))
	dst = be.AppendUint64(dst, uint64(e.Term))
	be.PutUint32(dst[at:], crc32.Update(seed, castagnoli, dst[at+4:]))
	return dst
}

// parseFrameHeader decodes the header at the front of b, which holds at least
// frameHeaderLen bytes. ok is false when it is not a frame of the seed's segment.
func parseFrameHeader(b []byte, seed uint32) (h frameHeader, ok bool) {
	b = b[:frameHeaderLen]
	be := binary.BigEndian
	if b[15] != 0 || be.Uint32(b) != crc32.Update(seed, castagnoli, b[4:]) {
		return h, false
	}
	h = frameHeader{
		bodyCRC: be.Uint32(b[4:]),
		dataLen: be.Uint32(b[8:]),
		extLen:  be.Uint16(b[12:]),
		typ:     b[14],
		index:   core.LogIndex(be.Uint64(b[16:])),
		term:    core.Term(be.Uint64(b[24:])),
	}
	return h, h.dataLen <= MaxDataLen
}
