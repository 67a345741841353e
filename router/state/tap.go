package state

import (
	"errors"

	"polylog/core"
)

// Whoever appends to a topic, bindings of the topic's exchange get its records, and so does
// whatever else has a tap on it. A topic without taps costs a look.

// topicTap gets the records of topics.
type topicTap interface {
	// has reports whether it wants records of t.
	has(t *Topic) bool
	// count is how many places a record of t would go to, and most a bound of that.
	count(t *Topic, p *passage) int
	most(t *Topic) int
	// route gets a record of t, with its place in the log.
	route(tx txn, c *cursor, t *Topic, p *passage) error
}

// endBefore is where q ends before an append, where t, which it is a partition of, has taps;
// else -1. A batch that came a second time is not appended again, and is known by that.
func (s *State) endBefore(tx txn, t *Topic, q core.QueueID) (core.Offset, error) {
	if t == nil || !s.tapped(t) {
		return -1, nil
	}
	head, _, err := tx.Queue(q)
	return head.End, err
}

func (s *State) tapped(t *Topic) bool {
	if len(s.routing.taps) > 0 {
		if x := s.routing.taps[t.Queues[0]]; x != nil && x.bindings > 0 {
			return true
		}
	}
	for _, tap := range s.taps {
		if tap.has(t) {
			return true
		}
	}
	return false
}

// maxTapWork bounds what the taps make of one batch, in records and in places that they go
// to: a few tenths of a second in which nothing else is applied.
const maxTapWork = 200_000

// tapTooMuch refuses a batch of so many records to so many queues that it would hold up
// everybody. Producers are to send smaller ones, which clients of Kafka do by themselves.
func (s *State) tapTooMuch(c *cursor, t *Topic, h *core.BatchHeader, batch []byte) *core.Error {
	x, most := s.routing.taps[t.Queues[0]], 1
	if x != nil {
		most += x.bindings
	}
	for _, tap := range s.taps {
		if tap.has(t) {
			most += tap.most(t)
		}
	}
	if int64(h.Count)*int64(most) <= maxTapWork {
		return nil
	}
	work := 0
	err := s.eachTapped(c, h, batch, core.Ref{Index: c.index}, func(p *passage) error {
		work++
		if x != nil {
			d := s.matchTap(c, t, x, p)
			work += d.len()
			s.routing.match.drop(d)
		}
		for _, tap := range s.taps {
			if tap.has(t) {
				work += tap.count(t, p)
			}
		}
		if work > maxTapWork {
			return core.E(core.TooLarge, "a batch of %d records is too much for the queues that take from topic %s: more than %d deliveries", h.Count, t.Name, maxTapWork)
		}
		return nil
	})
	var e *core.Error
	errors.As(err, &e)
	return e
}

// tapBatch gives the records of a batch, which lies at ref, to the topic's taps.
func (s *State) tapBatch(tx txn, c *cursor, t *Topic, h *core.BatchHeader, batch []byte, ref core.Ref) error {
	return s.eachTapped(c, h, batch, ref, func(p *passage) error {
		if err := s.tapExchange(tx, c, t, p); err != nil {
			return err
		}
		return s.tapRecord(tx, c, t, p)
	})
}

// eachTapped calls fn with each record of a batch, which lies at ref. A batch that cannot be
// read stays what it is, a batch of the topic.
func (s *State) eachTapped(c *cursor, h *core.BatchHeader, batch []byte, ref core.Ref, fn func(*passage) error) error {
	if h.Control() {
		return nil
	}
	p := &s.tapping
	for r, err := range core.Records(batch, core.MaxInflated) {
		if err != nil {
			return nil
		}
		ref.First, ref.Count = uint32(r.Offset-h.BaseOffset), 1
		p.setRecord(core.Run{MaxTime: c.time, Ref: ref}, &r)
		p.keys = append(p.keys[:0], r.Key)
		if err := fn(p); err != nil {
			return err
		}
	}
	return nil
}

// tapExchange routes a record by the bindings of the topic's exchange.
func (s *State) tapExchange(tx txn, c *cursor, t *Topic, p *passage) error {
	x := s.routing.taps[t.Queues[0]]
	if x == nil || x.bindings == 0 || len(p.keys[0]) > MaxKey {
		return nil
	}
	d := s.matchTap(c, t, x, p)
	others := d
	others.topics++
	_, err := s.deliver(tx, c, p, others)
	s.routing.match.drop(d)
	return err
}

// tapRecord gives a record to the taps that are not bindings.
func (s *State) tapRecord(tx txn, c *cursor, t *Topic, p *passage) error {
	for _, tap := range s.taps {
		if tap.has(t) {
			if err := tap.route(tx, c, t, p); err != nil {
				return err
			}
		}
	}
	return nil
}
