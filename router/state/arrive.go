package state

import (
	"math"
	"slices"

	"polylog/core"
	"polylog/core/message"
)

// How messages come into named queues: what a queue refuses, and what is kept beside the
// reference of a message that it takes.

// arrive puts a message into a named queue. It is rejected where the queue is full and takes
// no more.
func (s *State) arrive(tx txn, c *cursor, q core.QueueID, p *passage) (rejected bool, err error) {
	a, err := s.ackQueue(tx, q)
	if err != nil || a == nil || p.dead != nil && (p.dead.barred(a.queue.Name) || p.dead.refused && p.refusals.tooMany()) {
		return false, err
	}
	at := s.attributesOf(a, p)
	if full, err := s.full(tx, c, a, 1, at.Size); err != nil || full {
		if full && a.limits.Overflow == RejectPublishDLX {
			err = s.postRefused(tx, c, a, p)
		}
		return full, err
	}
	run := p.run
	run.MaxTime = c.time // messages leave it singly, and age from their arrival
	res := s.appendRun(tx, q, run)
	if res.Err != nil {
		return false, res.Err
	}
	if p.dead != nil {
		p.dead.taken = true
		tx.Set(historyKey(q, res.Offset), p.dead.history.encode())
		s.setDeaths(tx, a)
	}
	return false, s.arrived(tx, c, a, res.Offset, at)
}

// attributesOf is what a queue has to know of a message.
func (s *State) attributesOf(a *ackQueue, p *passage) Attributes {
	r := p.record()
	switch {
	case s.level < 3 || r == nil:
		return Attributes{}
	case p.dead != nil:
		at := a.attributesOf(r, p.dead.size)
		at.Expires = 0 // its time to live was that in the queue that it comes from
		return at
	case p.ripe:
		return a.attributesOf(r, p.size)
	}
	return a.attributesOf(r, int64(len(r.Value)))
}

// attributesOf is what the queue has use for of a record with a body of size bytes.
func (a *ackQueue) attributesOf(r *core.Record, size int64) Attributes {
	at := Attributes{Expires: max(message.ExpiresAt(r), 0), Priority: a.priorityOf(r)}
	if a.limits.HasMaxBytes {
		at.Size = size
	}
	return at
}

// full reports whether a queue that refuses messages when it is full has no room for so many
// more, of so many bytes. What is with consumers takes no room.
func (s *State) full(tx txn, c *cursor, a *ackQueue, messages, bytes int64) (bool, error) {
	l := &a.limits
	if l.Overflow == DropHead || !l.HasMaxLength && !l.HasMaxBytes {
		return false, nil
	}
	ready, weight, err := s.unsettledNow(tx, a)
	if err != nil {
		return false, err
	}
	if g := a.groups[""]; g != nil && g.aloftTerm == c.term {
		ready, weight = ready-g.aloft, weight-g.aloftBytes
	}
	return l.HasMaxLength && ready+messages > l.MaxLength || l.HasMaxBytes && weight+bytes > l.MaxBytes, nil
}

// unsettledNow counts what a queue's own group has not settled.
func (s *State) unsettledNow(tx txn, a *ackQueue) (messages, bytes int64, err error) {
	if _, err := s.ackGroups(tx, a.queue.ID); err != nil {
		return 0, 0, err
	}
	head, _, err := tx.Queue(a.queue.ID)
	g := a.groups[""]
	if err != nil || g == nil {
		return 0, 0, err
	}
	return int64(head.End-max(head.Start, g.acks.Floor())) - g.acks.Above(), g.bytes, nil
}

// arrived keeps what there is to know of a message that was put into a queue.
func (s *State) arrived(tx txn, c *cursor, a *ackQueue, o core.Offset, at Attributes) error {
	if at != (Attributes{}) {
		tx.Set(attributesKey(a.queue.ID, o), at.encode())
		s.setSpecial(tx, a)
	}
	l := &a.limits
	due := int64(math.MaxInt64)
	if l.HasTTL {
		due = c.time + l.TTL
	}
	if at.Expires > 0 {
		due = min(due, at.Expires)
	}
	if due != Never && !a.queue.GroupOnly {
		if err := s.headBefore(tx, a, due); err != nil {
			return err
		}
	}
	if !l.HasMaxLength && !l.HasMaxBytes {
		return nil
	}
	messages, bytes, err := s.unsettledNow(tx, a)
	if g := a.groups[""]; err == nil && g != nil {
		if at.Size > 0 {
			g.bytes, bytes = g.bytes+at.Size, bytes+at.Size
			s.ackChanged(ackKey{a.queue.ID, ""}, g)
		}
		if l.Overflow == DropHead && (l.HasMaxLength && messages > l.MaxLength || l.HasMaxBytes && bytes > l.MaxBytes) {
			s.overfull = append(s.overfull, a.queue.ID)
		}
	}
	return err
}

// refusals bound what one published message can lead to where full queues make dead letters
// of what they refuse: each queue makes one, and all letters together go to so many queues.
type refusals struct {
	by       map[core.QueueID]struct{}
	arrivals int // of letters
}

const maxRefusedArrivals = 10_000

// tooMany counts the arrival of a letter that a refusal led to.
func (r *refusals) tooMany() bool {
	r.arrivals++
	return r.arrivals > maxRefusedArrivals
}

// postRefused makes a dead letter of a message that the queue refuses.
func (s *State) postRefused(tx txn, c *cursor, a *ackQueue, p *passage) error {
	r := p.record()
	if r == nil || !a.limits.HasDeadLetter {
		return nil
	}
	if p.refusals == nil {
		p.refusals = &refusals{by: map[core.QueueID]struct{}{}}
	}
	if _, again := p.refusals.by[a.queue.ID]; again {
		return nil
	}
	p.refusals.by[a.queue.ID] = struct{}{}
	head, _, err := tx.Queue(a.queue.ID)
	if err != nil {
		return err
	}
	letter, h := LetterOf(head.End, r), History{}
	if p.ripe {
		letter.Size = p.size
	}
	if p.dead != nil {
		if h = p.dead.history; len(h.Deaths) >= maxDeaths {
			return nil // from one full queue to the next: enough
		}
		letter.Size = p.dead.size
	}
	h.Deaths = slices.Clone(h.Deaths)
	_, err = s.postLetter(tx, c, a, head.End, DeathMaxLen, p.run, &letter, h, p.refusals)
	return err
}

// appendNamed appends a batch to a named queue: each record is a message.
func (s *State) appendNamed(tx txn, c *cursor, a *ackQueue, h *core.BatchHeader, batch []byte, run core.Run) core.Result {
	ats := make([]Attributes, run.Count)
	bytes := int64(0)
	if s.level >= 3 && h.Codec() == core.CodecNone {
		for r, err := range core.Records(batch, len(batch)) {
			if i := r.Offset - h.BaseOffset; err == nil && i >= 0 && i < core.Offset(len(ats)) {
				ats[i] = a.attributesOf(&r, int64(len(r.Value)))
				bytes += ats[i].Size
			}
		}
	}
	full, err := s.full(tx, c, a, int64(run.Count), bytes)
	switch {
	case err != nil:
		return s.storeResult(err)
	case full:
		return refused(core.Limit, "queue %s is full", a.queue.Name)
	}
	head, _, err := tx.Queue(a.queue.ID)
	if err != nil {
		return s.storeResult(err)
	}
	var res core.Result
	if h.HasProducer() {
		res = s.appendSequenced(tx, c, a.queue.ID, h, run)
	} else {
		res = s.appendRun(tx, a.queue.ID, run)
	}
	if res.Err != nil || s.level < 3 || res.Offset < head.End { // it came a second time
		return res
	}
	for i, at := range ats {
		if err := s.arrived(tx, c, a, res.Offset+core.Offset(i), at); err != nil {
			return s.storeResult(err)
		}
	}
	return res
}

// OnOverfull sets what is told, on the applier's goroutine, which queues are longer than they
// may be: the leader is to drop what is too much. It must not block nor keep the slice.
func (s *State) OnOverfull(fn func([]core.QueueID)) { s.onOverfull.Store(&fn) }

func (s *State) publishOverfull() {
	if fn := s.onOverfull.Load(); fn != nil && len(s.overfull) > 0 {
		(*fn)(s.overfull)
	}
	if s.overfull = s.overfull[:0]; cap(s.overfull) > maxTouched {
		s.overfull = nil
	}
}

// admits reports whether a queue would take so many messages more, of so many bytes.
func (s *State) admits(tx txn, c *cursor, q core.QueueID, messages, bytes int64) (bool, error) {
	a, err := s.ackQueue(tx, q)
	if err != nil || a == nil {
		return true, err
	}
	full, err := s.full(tx, c, a, messages, bytes)
	return !full, err
}
