package commitlog

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"polylog/core"
)

// A segment file begins with one page; frames follow it without gaps. Numbers are
// big-endian:
//
//	 0             8            12     16             24              32
//	+-------------+------------+------+--------------+---------------+---------+----
//	| "plogseg\0" | version,   | 0    | base: first  | term of the   | CRC32C  | 0…
//	|             | u32        |      | index, u64   | entry before, | of 0..32|
//	|             |            |      |              | u64           |         |
//	+-------------+------------+------+--------------+---------------+---------+----
//	 512                        mark (active segment only)
//	+--------------+---------------------+---------+----
//	| durable, u32 | boot id, 16 bytes   | CRC32C  | 0…
//	|              |                     | of 0..20|
//	+--------------+---------------------+---------+----
//	 4096  first frame
//
// The mark is recovery's evidence, see judge.go. It is zeroed when the segment is
// sealed, so that sealed segments are equal on every replica. It has a sector of its
// own: it is overwritten in place.
const (
	segmentMagic   = "plogseg\x00"
	segmentVersion = 1
	markAt         = 512
	markLen        = 24
	headerLen      = 4096
)

type segmentHeader struct {
	base     core.LogIndex
	prevTerm core.Term
}

// page is the first page of a segment, with m as its mark, or none when m is nil.
func (h segmentHeader) page(m *mark) []byte {
	b := make([]byte, 0, headerLen)
	b = append(b, segmentMagic...)
	b = binary.BigEndian.AppendUint32(b, segmentVersion)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(h.base))
	b = binary.BigEndian.AppendUint64(b, uint64(h.prevTerm))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	b = b[:headerLen]
	if m != nil {
		m.put(b[markAt:], seedOf(h.base))
	}
	return b
}

// parseSegmentHeader decodes a segment's first page.
func parseSegmentHeader(b []byte, name string) (segmentHeader, error) {
	be := binary.BigEndian
	switch {
	case len(b) < headerLen:
		return segmentHeader{}, core.E(core.Corrupt, "%s: %d bytes, shorter than a segment's header", name, len(b))
	case string(b[:8]) != segmentMagic:
		return segmentHeader{}, core.E(core.Corrupt, "%s: offset 0: not a segment file", name)
	case be.Uint32(b[8:]) != segmentVersion:
		return segmentHeader{}, core.E(core.Unsupported, "%s: format version %d, this binary knows %d", name, be.Uint32(b[8:]), segmentVersion)
	case be.Uint32(b[32:]) != crc32.Checksum(b[:32], castagnoli):
		return segmentHeader{}, core.E(core.Corrupt, "%s: offset 0: the header fails its checksum", name)
	}
	return segmentHeader{
		base:     core.LogIndex(be.Uint64(b[16:])),
		prevTerm: core.Term(be.Uint64(b[24:])),
	}, nil
}

// bootID names a run of the operating system; the zero value means not known.
type bootID [16]byte

// mark says what is known to be on the disk.
type mark struct {
	durable uint32 // everything before this offset was synced before this mark was written
	boot    bootID // the run of the operating system that wrote it
}

func (m *mark) put(b []byte, seed uint32) {
	binary.BigEndian.PutUint32(b, m.durable)
	copy(b[4:20], m.boot[:])
	binary.BigEndian.PutUint32(b[20:], crc32.Update(seed, castagnoli, b[:20]))
}

// parseMark decodes the mark in a segment's first page; ok is false without one.
func parseMark(page []byte, seed uint32) (m mark, ok bool) {
	b := page[markAt : markAt+markLen]
	if bytes.Count(b, []byte{0}) == markLen || binary.BigEndian.Uint32(b[20:]) != crc32.Update(seed, castagnoli, b[:20]) {
		return m, false
	}
	m.durable = binary.BigEndian.Uint32(b)
	copy(m.boot[:], b[4:])
	return m, true
}
