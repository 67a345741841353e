package state

import (
	"polylog/core"
)

// Whoever appends to a topic, bindings of the topic's exchange get its records, and so does
// whatever else has a tap on it. A topic without taps costs a look.

// topicTap gets the records of topics.
type topicTap interface {
	// has reports whether it wants records of t.
	has(t *Topic) bool
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

// tapBatch gives the records of a batch, which lies at ref, to the topic's taps. A batch that
// cannot be read stays what it is, a batch of the topic.
func (s *State) tapBatch(tx txn, c *cursor, t *Topic, h *core.BatchHeader, batch []byte, ref core.Ref) error {
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
		if err := s.tapExchange(tx, c, t, p); err != nil {
			return err
		}
		if err := s.tapRecord(tx, c, t, p); err != nil {
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
