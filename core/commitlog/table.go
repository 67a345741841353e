package commitlog

import (
	"encoding/binary"
	"hash/crc32"

	"polylog/core"
)

// A sealed segment's position table, in a file of its own. Numbers are big-endian:
//
//	 0             8          12        16       24          32       36
//	+-------------+----------+---------+--------+-----------+--------+--------+
//	| "plogtab\0" | version, | entries,| base,  | term      | end of | sum,   |
//	|             | u32      | u32     | u64    | before,u64| frames,| u32    |
//	|             |          |         |        |           | u32    |        |
//	+-------------+----------+---------+--------+-----------+--------+--------+
//	 40        44    48
//	+---------+-----+--------------------------+----------------------+--------+
//	| terms,  | 0   | terms × (first index u64,| entries × offset of  | CRC32C |
//	| u32     |     | term u64)                | the frame, u32       | of all |
//	+---------+-----+--------------------------+----------------------+--------+
//
// sum is the segment's checksum: the CRC32C of the header's first 36 bytes and of
// every frame header in order. These contain the checksums of the bodies, so it
// changes with any byte of the segment, and costs 32 bytes an entry to compute.
const (
	tableMagic     = "plogtab\x00"
	tableVersion   = 1
	tableHeaderLen = 48
)

// termStart says that term begins with the entry at index.
type termStart struct {
	index core.LogIndex
	term  core.Term
}

type table struct {
	segmentHeader
	end   uint32
	sum   uint32
	terms []termStart
	pos   []uint32
}

// positionsAt is where the offsets begin in the file.
func (t *table) positionsAt() int64 { return tableHeaderLen + 16*int64(len(t.terms)) }

func (t *table) encode() []byte {
	be := binary.BigEndian
	b := make([]byte, 0, int(t.positionsAt())+4*len(t.pos)+4)
	b = append(b, tableMagic...)
	b = be.AppendUint32(b, tableVersion)
	b = be.AppendUint32(b, uint32(len(t.pos)))
	b = be.AppendUint64(b, uint64(t.base))
	b = be.AppendUint64(b, uint64(t.prevTerm))
	b = be.AppendUint32(b, t.end)
	b = be.AppendUint32(b, t.sum)
	b = be.AppendUint32(b, uint32(len(t.terms)))
	b = be.AppendUint32(b, 0)
	for _, s := range t.terms {
		b = be.AppendUint64(b, uint64(s.index))
		b = be.AppendUint64(b, uint64(s.term))
	}
	for _, p := range t.pos {
		b = be.AppendUint32(b, p)
	}
	return be.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// parseTable decodes a table file.
func parseTable(b []byte, name string) (*table, error) {
	be := binary.BigEndian
	switch {
	case len(b) < tableHeaderLen+4 || string(b[:8]) != tableMagic:
		return nil, core.E(core.Corrupt, "%s: not a position table", name)
	case be.Uint32(b[8:]) != tableVersion:
		return nil, core.E(core.Unsupported, "%s: format version %d, this binary knows %d", name, be.Uint32(b[8:]), tableVersion)
	case crc32.Checksum(b[:len(b)-4], castagnoli) != be.Uint32(b[len(b)-4:]):
		return nil, core.E(core.Corrupt, "%s: the table fails its checksum", name)
	}
	count, terms := int64(be.Uint32(b[12:])), int64(be.Uint32(b[40:]))
	if want := tableHeaderLen + 16*terms + 4*count + 4; want != int64(len(b)) {
		return nil, core.E(core.Corrupt, "%s: %d bytes, want %d", name, len(b), want)
	}
	t := &table{
		segmentHeader: segmentHeader{base: core.LogIndex(be.Uint64(b[16:])), prevTerm: core.Term(be.Uint64(b[24:]))},
		end:           be.Uint32(b[32:]),
		sum:           be.Uint32(b[36:]),
		terms:         make([]termStart, terms),
		pos:           make([]uint32, count),
	}
	b = b[tableHeaderLen:]
	for i := range t.terms {
		t.terms[i] = termStart{index: core.LogIndex(be.Uint64(b)), term: core.Term(be.Uint64(b[8:]))}
		b = b[16:]
	}
	for i := range t.pos {
		t.pos[i] = be.Uint32(b[4*i:])
	}
	return t, nil
}
