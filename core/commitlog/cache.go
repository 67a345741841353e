package commitlog

import "polylog/core"

// entryOverhead is what an entry costs in the cache beside its bytes.
const entryOverhead = 80

// tailCache holds the newest entries, without gaps, up to a number of bytes. It is
// guarded by Log.mu.
type tailCache struct {
	ring  []Entry // len is a power of two, or 0
	first core.LogIndex
	count int
	bytes int64
	max   int64
}

func entryCost(e *Entry) int64 { return int64(cap(e.Data)) + int64(cap(e.Ext)) + entryOverhead }

func (c *tailCache) slot(i core.LogIndex) *Entry { return &c.ring[uint64(i)&uint64(len(c.ring)-1)] }

// get is the entry at i, or nil.
func (c *tailCache) get(i core.LogIndex) *Entry {
	if i < c.first || i >= c.first+core.LogIndex(c.count) {
		return nil
	}
	return c.slot(i)
}

// push adds the next entry and drops the oldest ones that no longer fit.
func (c *tailCache) push(e Entry) {
	cost := entryCost(&e)
	if cost > c.max {
		c.reset()
		return
	}
	if c.count == 0 {
		c.first = e.Index
	}
	for c.count > 0 && c.bytes+cost > c.max {
		c.drop()
	}
	if c.count == len(c.ring) {
		c.grow()
	}
	*c.slot(e.Index) = e
	c.count++
	c.bytes += cost
	if c.count == 1 {
		c.first = e.Index
	}
}

func (c *tailCache) drop() {
	s := c.slot(c.first)
	c.bytes -= entryCost(s)
	*s = Entry{}
	c.first++
	c.count--
}

func (c *tailCache) grow() {
	old := *c
	c.ring = make([]Entry, max(64, 2*len(c.ring)))
	for i := range core.LogIndex(c.count) {
		*c.slot(c.first + i) = *old.slot(c.first + i)
	}
}

// truncate drops the entries at from and after it.
func (c *tailCache) truncate(from core.LogIndex) {
	for c.count > 0 && c.first+core.LogIndex(c.count) > from {
		s := c.slot(c.first + core.LogIndex(c.count) - 1)
		c.bytes -= entryCost(s)
		*s = Entry{}
		c.count--
	}
}

func (c *tailCache) reset() { *c = tailCache{ring: c.ring, max: c.max}; clear(c.ring) }
