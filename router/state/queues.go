package state

import (
	"github.com/tidwall/btree"

	"polylog/core"
)

// queueRange is the queues from first up to, not including, end. A topic's queues
// get consecutive ids when it is created, and again whenever it gets more, so a few
// ranges say what 100,000 partitions are.
type queueRange struct{ first, end core.QueueID }

func (r queueRange) len() int { return int(r.end - r.first) }

// rangesOf calls fn for the ranges that qs are made of, and the place in qs of each.
func rangesOf(qs []core.QueueID, fn func(r queueRange, at int)) {
	for at := 0; at < len(qs); {
		r := queueRange{qs[at], qs[at] + 1}
		n := 1
		for at+n < len(qs) && qs[at+n] == r.end {
			r.end++
			n++
		}
		fn(r, at)
		at += n
	}
}

// partition is a queue's place.
type partition struct {
	topic  *Topic
	number int32
}

// queueMap finds the partition that a queue is.
type queueMap struct {
	spans btree.Map[core.QueueID, span] // by their last queue
	count int                           // of queues
}

// span is a range of queues that are consecutive partitions of a topic.
type span struct {
	first  core.QueueID
	topic  *Topic
	number int32 // of the first
}

// find is where q belongs.
func (m *queueMap) find(q core.QueueID) (p partition, ok bool) {
	m.spans.Ascend(q, func(_ core.QueueID, s span) bool {
		if ok = s.first <= q; ok {
			p = partition{s.topic, s.number + int32(q-s.first)}
		}
		return false
	})
	return p, ok
}

func (m *queueMap) add(t *Topic) {
	rangesOf(t.Queues, func(r queueRange, at int) {
		m.spans.Set(r.end-1, span{r.first, t, int32(at)})
	})
	m.count += len(t.Queues)
}

func (m *queueMap) remove(t *Topic) {
	rangesOf(t.Queues, func(r queueRange, _ int) { m.spans.Delete(r.end - 1) })
	m.count -= len(t.Queues)
}
