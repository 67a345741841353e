package main

import (
	"fmt"
	"maps"
	"sync"
)

// recordID names a record for good: the producer in the upper bits, its sequence below.
type recordID int64

const none recordID = -1

func newID(producer, seq int64) recordID { return recordID(producer<<40 | seq) }
func (id recordID) producer() int64      { return int64(id) >> 40 }
func (id recordID) seq() int64           { return int64(id) & (1<<40 - 1) }
func (id recordID) String() string       { return fmt.Sprintf("%d/%d", id.producer(), id.seq()) }

// ledger is what the outside world knows of the broker's contents: which record is at which
// offset, learned from acknowledgements and from reads. Nothing in it may ever change.
type ledger struct {
	mu        sync.Mutex
	parts     map[partition]*column
	committed map[partition]int64 // acknowledged group offsets
	wrong     []string
}

type partition struct {
	topic string
	num   int32
}

func (p partition) String() string { return fmt.Sprintf("%s-%d", p.topic, p.num) }

type column struct {
	ids   []recordID // by offset; none where nobody has told yet
	acked []bool     // by offset: a producer was told that it is there
}

func newLedger() *ledger {
	return &ledger{parts: map[partition]*column{}, committed: map[partition]int64{}}
}

// note takes what somebody was told: record id is at the offset.
func (l *ledger) note(p partition, offset int64, id recordID, acked bool, who string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.parts[p]
	if c == nil {
		c = &column{}
		l.parts[p] = c
	}
	for int64(len(c.ids)) <= offset {
		c.ids = append(c.ids, none)
		c.acked = append(c.acked, false)
	}
	if was := c.ids[offset]; was != none && was != id {
		l.wrongLocked("%s: offset %d of %s is record %v; it was %v", who, offset, p, id, was)
		return
	}
	c.ids[offset] = id
	c.acked[offset] = c.acked[offset] || acked
}

// commit takes an acknowledged group offset.
func (l *ledger) commit(p partition, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.committed[p] = max(l.committed[p], offset)
}

// fail records something that must not be.
func (l *ledger) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrongLocked(format, args...)
}

func (l *ledger) wrongLocked(format string, args ...any) {
	if len(l.wrong) < 20 { // one broken promise is enough; a thousand lines of it are not
		l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
	}
}

// faults are the broken promises so far.
func (l *ledger) faults() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.wrong...)
}

// ends are the lowest ends that the partitions may have now: behind what was acknowledged or seen.
func (l *ledger) ends() map[partition]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := map[partition]int64{}
	for p, c := range l.parts {
		m[p] = int64(len(c.ids))
	}
	return m
}

// commits is a copy of the acknowledged group offsets.
func (l *ledger) commits() map[partition]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.committed)
}

// acked is how many records were acknowledged.
func (l *ledger) acked() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n int64
	for _, c := range l.parts {
		for _, a := range c.acked {
			if a {
				n++
			}
		}
	}
	return n
}
