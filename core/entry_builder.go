package core

import (
	"bytes"
	"hash/crc32"
)

const (
	// gatherLen is up to what length bytes are gathered instead of being a part.
	gatherLen = 512
	// leastChecked is the least Command.CheckedLen whose checksum is used: combining
	// checksums costs as much as computing one of some 16 KiB.
	leastChecked = 64 << 10
)

// EntryBuilder puts entries' data together: AppendEntryHeader and AppendCommand into
// memory that need not be cleared first, with the data's checksum when it can be had
// without a pass over all of it. The zero value is ready, and may be used again and again.
type EntryBuilder struct {
	gather []byte // headers and what is short
	taken  int    // how much of gather is in parts
	parts  [][]byte
	summed int    // how many of parts are in sum; 0: no checksum so far
	sum    uint32 // CRC32C
}

// Begin starts an entry.
func (b *EntryBuilder) Begin(timeMillis int64) {
	clear(b.parts) // which end with their commands
	*b = EntryBuilder{gather: AppendEntryHeader(b.gather[:0], timeMillis), parts: b.parts[:0]}
}

// Add adds a command, whose bytes must not change before Finish.
func (b *EntryBuilder) Add(c *Command) {
	b.gather = appendCommandHeader(b.gather, c)
	b.put(c.Head)
	if c.CheckedLen < leastChecked {
		b.put(c.Payload)
		return
	}
	cut := len(c.Payload) - c.CheckedLen
	b.put(c.Payload[:cut])
	b.sumParts()
	b.parts = append(b.parts, c.Payload[cut:])
	b.sum = CombineCRC(b.sum, c.CheckedCRC, c.CheckedLen)
	b.summed++
}

func (b *EntryBuilder) put(data []byte) {
	if len(data) <= gatherLen {
		b.gather = append(b.gather, data...)
		return
	}
	b.cutGather()
	b.parts = append(b.parts, data)
}

// cutGather makes a part of what was gathered since the last cut.
func (b *EntryBuilder) cutGather() {
	if b.taken < len(b.gather) {
		b.parts = append(b.parts, b.gather[b.taken:])
		b.taken = len(b.gather)
	}
}

// sumParts takes everything so far into sum.
func (b *EntryBuilder) sumParts() {
	b.cutGather()
	for ; b.summed < len(b.parts); b.summed++ {
		b.sum = crc32.Update(b.sum, castagnoli, b.parts[b.summed])
	}
}

// Finish gives the entry's data, in new memory. summed says whether sum is its CRC32C,
// which is so when most of it was checked by those who proposed it.
func (b *EntryBuilder) Finish() (data []byte, sum uint32, summed bool) {
	if b.summed > 0 {
		b.sumParts()
	}
	b.cutGather()
	data = bytes.Join(b.parts, nil) // does not clear what it is about to fill
	clear(b.parts)
	return data, b.sum, b.summed > 0
}
