// Package ledger is what the outside world knows of a broker's contents: which record is at which
// offset, learned from acknowledgements and from reads. Nothing in it may ever change, and what a
// producer was told must be there. It takes down each broken promise: a record that is lost, there
// twice, out of order, never sent, or at another offset than before.
package ledger

import (
	"fmt"
	"maps"
	"sync"
)

// Partition is one of a topic.
type Partition struct {
	Topic string
	Num   int32
}

func (p Partition) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Num) }

// Source says who told of a record; a set of them is a sum.
type Source uint8

// The sources.
const (
	Ack   Source = 1 << iota // the producer was told that it is there
	Group                    // a consumer group was shown it
	Read                     // it was read back
)

func (s Source) String() string {
	switch s {
	case Ack:
		return "acknowledgement"
	case Group:
		return "group"
	default:
		return "read"
	}
}

// Ledger may be used by many at a time.
type Ledger struct {
	Faults
	mu        sync.Mutex
	parts     map[Partition]*column
	sent      map[int64][]int32 // by producer and sequence: the number of the column that it was sent to
	committed map[Partition]int64
}

// column is one partition, by offset.
type column struct {
	num  int32
	ids  []ID // None where nobody has told yet
	told []Source
}

// New is a ledger that knows nothing.
func New() *Ledger {
	return &Ledger{parts: map[Partition]*column{}, sent: map[int64][]int32{}, committed: map[Partition]int64{}}
}

func (l *Ledger) column(p Partition) *column {
	c := l.parts[p]
	if c == nil {
		c = &column{num: int32(len(l.parts))}
		l.parts[p] = c
	}
	return c
}

// Sent takes down that a record is about to be sent. A producer's sequences go up by one from 0.
func (l *Ledger) Sent(p Partition, id ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sent[id.Producer()]
	if int64(len(s)) != id.Seq() {
		panic(fmt.Sprintf("ledger: record %v is sent after %d others of its producer", id, len(s)))
	}
	l.sent[id.Producer()] = append(s, l.column(p).num)
}

// Note takes what somebody was told: record id is at the offset.
func (l *Ledger) Note(p Partition, offset int64, id ID, by Source, who string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.column(p)
	if offset < 0 || offset > int64(len(c.ids))+1<<24 { // a wild number must not cost all memory
		l.Fail("%s: %v of record %v at offset %d of %s", who, by, id, offset, p)
		return
	}
	for int64(len(c.ids)) <= offset {
		c.ids = append(c.ids, None)
		c.told = append(c.told, 0)
	}
	if was := c.ids[offset]; was != None && was != id {
		l.Fail("%s: offset %d of %s is record %v; it was %v", who, offset, p, id, was)
		return
	}
	if s := l.sent[id.Producer()]; id.Seq() < 0 || id.Seq() >= int64(len(s)) || s[id.Seq()] != c.num {
		l.Fail("%s: offset %d of %s is record %v, which nobody sent there", who, offset, p, id)
		return
	}
	c.ids[offset] = id
	c.told[offset] |= by
}

// Commit takes an acknowledged group offset.
func (l *Ledger) Commit(p Partition, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.committed[p] = max(l.committed[p], offset)
}

// Ends are the lowest ends that the partitions may have now: behind all that was acknowledged or seen.
func (l *Ledger) Ends() map[Partition]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := map[Partition]int64{}
	for p, c := range l.parts {
		m[p] = int64(len(c.ids))
	}
	return m
}

// Commits is a copy of the acknowledged group offsets.
func (l *Ledger) Commits() map[Partition]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.committed)
}

// Acked is how many records were acknowledged.
func (l *Ledger) Acked() int64 {
	return l.count(func(_ Partition, s Source) bool { return s&Ack != 0 })
}

// Missing is how many records of the topic were acknowledged but not yet told of by the source.
func (l *Ledger) Missing(topic string, by Source) int64 {
	return l.count(func(p Partition, s Source) bool { return p.Topic == topic && s&Ack != 0 && s&by == 0 })
}

func (l *Ledger) count(which func(Partition, Source) bool) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n int64
	for p, c := range l.parts {
		for _, s := range c.told {
			if which(p, s) {
				n++
			}
		}
	}
	return n
}
