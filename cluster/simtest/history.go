package simtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"polylog/core"
	"polylog/router/state"
)

// queue is what is known of a partition. An append-only log shows its own order, so
// that its history is linearizable if each operation's result respects what had ended
// when it began: floor and seen.
type queue struct {
	id      core.QueueID
	floor   core.Offset            // the end, at least: what was acknowledged is below
	seen    core.Offset            // the end, at least: what was read is below
	trimmed core.Offset            // the start, at most: nobody has asked for more
	content map[core.Offset]record // as it was first read: it never changes
}

// record is the place of a record in its message.
type record struct {
	message string
	k       int
}

func (r record) text() []byte { return fmt.Appendf(nil, "%s/%d ", r.message, r.k) }

func parseRecord(b []byte) (r record, ok bool) {
	text, _, found := bytes.Cut(b, []byte(" "))
	id, k, whole := bytes.Cut(text, []byte("/"))
	_, err := fmt.Sscanf(string(k), "%d", &r.k)
	r.message = string(id)
	return r, found && whole && err == nil
}

// message is one batch that a client has sent, once or more often.
type message struct {
	id       string
	queue    *queue
	count    int
	producer int         // of an idempotent producer; -1: none
	floor    core.Offset // its queue's when it was first sent
	acked    bool
	refusal  error // it was not done, and nobody will try again
	offset   core.Offset
}

// group is what is known of a group's position.
type group struct {
	name  string
	queue *queue
	next  core.Offset
	acked core.Offset
	seen  core.Offset
	maybe map[core.Offset]bool // commits whose outcome is not known
}

func (w *world) newMessage(q *queue, count, producer int) *message {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := &message{id: fmt.Sprint("m", len(w.messages)), queue: q, count: count, producer: producer, floor: max(q.floor, q.seen)}
	w.messages = append(w.messages, m)
	return m
}

// ack takes note of an acknowledgement, unless the process that gave it is dead: then
// nobody has heard it.
func (w *world) ack(p *process, m *message, at core.Offset) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.dead.Load() {
		return false
	}
	if at < m.floor {
		w.failLocked("%s was appended at offset %d after offset %d had been given or read", m.id, at, m.floor-1)
	}
	m.acked, m.offset = true, at
	m.queue.floor = max(m.queue.floor, at+core.Offset(m.count))
	w.stats.Acked++
	return true
}

func (w *world) refused(m *message, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m.refusal = err
}

func (w *world) newGroup(name string, q *queue) *group {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := &group{name: name, queue: q, maybe: map[core.Offset]bool{}}
	w.groups = append(w.groups, g)
	return g
}

func (w *world) nextCommit(g *group) core.Offset {
	w.mu.Lock()
	defer w.mu.Unlock()
	g.next++
	return g.next
}

func (w *world) committed(p *process, g *group, at core.Offset) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.dead.Load() {
		g.maybe[at] = true
		return
	}
	g.acked = at
	w.stats.Acked++
}

func (w *world) maybeCommitted(g *group, at core.Offset) {
	w.mu.Lock()
	defer w.mu.Unlock()
	g.maybe[at] = true
}

// trimPoint is where a queue may be made to start: somewhere in what was acknowledged.
func (w *world) trimPoint(q *queue, rnd *rand.Rand) (core.Offset, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	room := int64(q.floor - q.trimmed)
	if room <= 0 {
		return 0, false
	}
	q.trimmed += 1 + core.Offset(rnd.Int64N(room))
	return q.trimmed, true
}

// known is what a read that begins now must show.
type known struct {
	end    core.Offset
	groups map[*group]core.Offset
}

func (w *world) known(q *queue) known {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := known{end: max(q.floor, q.seen), groups: map[*group]core.Offset{}}
	for _, g := range w.groups {
		if g.queue == q {
			k.groups[g] = max(g.acked, g.seen)
		}
	}
	return k
}

// look reads a queue at a node whose ReadIndex has just succeeded.
func (w *world) look(p *process, q *queue, k known, rnd *rand.Rand) {
	head, _, err := p.store.Queue(q.id)
	if err != nil {
		w.failUnlessDead(p, "read queue %d: %v", q.id, err)
		return
	}
	offsets := map[*group]core.Offset{}
	for g := range k.groups {
		o, _, err := state.ReadOffset(p.store, g.name, q.id)
		if err != nil {
			w.failUnlessDead(p, "read the position of group %s: %v", g.name, err)
			return
		}
		offsets[g] = o.Offset
	}
	from := head.Start
	if n := int64(head.End - head.Start); n > 0 {
		from += core.Offset(rnd.Int64N(n))
	}
	w.judgeRead(p, q, k, head.Start, head.End, offsets)
	records, err := p.readQueue(q.id, from, 10)
	if err != nil {
		// Retention may have overtaken the reader: then the start has moved on.
		if now, _, e := p.store.Queue(q.id); e == nil && now.Start <= from {
			w.failUnlessDead(p, "read queue %d from %d: %v", q.id, from, err)
		}
		return
	}
	w.compare(p, q, records)
}

func (w *world) failUnlessDead(p *process, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !p.dead.Load() {
		w.failLocked("node "+p.id+": "+format, args...)
	}
}

func (w *world) judgeRead(p *process, q *queue, k known, start, end core.Offset, offsets map[*group]core.Offset) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.dead.Load() {
		return
	}
	w.stats.Reads++
	if end < k.end {
		w.failLocked("node %s: a read of queue %d ends at %d after %d was acknowledged or read", p.id, q.id, end, k.end)
	}
	if start > q.trimmed {
		w.failLocked("node %s: queue %d starts at %d, nobody wanted more than %d", p.id, q.id, start, q.trimmed)
	}
	q.seen = max(q.seen, end)
	for g, at := range offsets {
		switch {
		case at > g.next:
			w.failLocked("node %s: group %s is at %d, nobody has committed more than %d", p.id, g.name, at, g.next)
		case at < k.groups[g] && !g.maybe[at]:
			w.failLocked("node %s: group %s is at %d after %d was committed or read", p.id, g.name, at, k.groups[g])
		}
		g.seen = max(g.seen, at)
	}
}

// placed is a record as it was read.
type placed struct {
	offset core.Offset
	record
}

// readQueue reads up to limit runs from an offset on, which must be dense.
func (p *process) readQueue(q core.QueueID, from core.Offset, limit int) ([]placed, error) {
	if _, exists, err := p.store.Queue(q); err != nil || !exists { // before the first append
		return nil, err
	}
	runs, err := p.store.Runs(q, from, limit, nil)
	if err != nil {
		return nil, err
	}
	var all []placed
	for i, run := range runs {
		if i > 0 && run.Offset != runs[i-1].End() {
			return nil, core.E(core.Internal, "offset %d follows %d", run.Offset, runs[i-1].End()-1)
		}
		b, _, err := p.broker.ReadAt(run.Index, run.Pos, run.Len, nil)
		if err != nil {
			return nil, err
		}
		if h, ok := core.ParseBatchHeader(b); !ok || h.TotalLen() != len(b) || h.CRC != core.BatchCRC(b) {
			return nil, core.E(core.Corrupt, "the batch at offset %d, in entry %d, is damaged", run.Offset, run.Index)
		}
		at := run.Offset
		for r, err := range core.Records(b, len(b)) {
			if err != nil {
				return nil, err
			}
			rec, ok := parseRecord(r.Value)
			if !ok {
				return nil, core.E(core.Corrupt, "the record at offset %d is %.40q", at, r.Value)
			}
			all = append(all, placed{at, rec})
			at++
		}
		if at != run.End() {
			return nil, core.E(core.Internal, "run from %d to %d has %d records", run.Offset, run.End(), at-run.Offset)
		}
	}
	return all, nil
}

// compare compares records with what was read at their offsets before.
func (w *world) compare(p *process, q *queue, records []placed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.dead.Load() {
		return
	}
	for _, r := range records {
		was, ok := q.content[r.offset]
		switch {
		case !ok:
			q.content[r.offset] = r.record
		case was != r.record:
			w.failLocked("node %s: offset %d of queue %d is %v, it was %v", p.id, r.offset, q.id, r.record, was)
		}
	}
}

// judgeMessages compares what a queue holds in the end with what its clients were told.
func (w *world) judgeMessages(q *queue, start core.Offset, records []placed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	places := map[string][]placed{}
	for _, r := range records {
		places[r.message] = append(places[r.message], r)
	}
	last := map[int]core.Offset{}
	for _, m := range w.messages {
		if m.queue != q {
			continue
		}
		at := places[m.id]
		delete(places, m.id)
		whole := len(at) == m.count
		for k, r := range at {
			whole = whole && r.k == k && r.offset == at[0].offset+core.Offset(k)
		}
		switch {
		case m.acked && m.offset < start && len(at) < m.count: // trimmed
		case m.acked && (!whole || at[0].offset != m.offset):
			w.failLocked("%s of %d records was acknowledged at offset %d of queue %d, where it is not: it is at %v", m.id, m.count, m.offset, q.id, at)
		case m.refusal != nil && len(at) > 0:
			w.failLocked("%s was refused (%v) and is there: %v", m.id, m.refusal, at)
		case !m.acked && len(at) > 0 && !whole && at[0].offset > start:
			w.failLocked("%s of %d records is there in pieces or more than once: %v", m.id, m.count, at)
		}
		if m.producer >= 0 && len(at) > 0 {
			if before, ok := last[m.producer]; ok && at[0].offset <= before {
				w.failLocked("producer %d: %s at offset %d comes after offset %d", m.producer, m.id, at[0].offset, before)
			}
			last[m.producer] = at[len(at)-1].offset
		}
	}
	for id := range places {
		w.failLocked("queue %d holds %s, which nobody has sent there", q.id, id)
	}
}

// allQueues is every queue, in the order of their ids.
func (w *world) allQueues() []*queue {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*queue, 0, len(w.queues))
	for _, q := range w.queues {
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b *queue) int { return int(a.id) - int(b.id) })
	return all
}
