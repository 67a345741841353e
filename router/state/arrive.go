package state

import "polylog/core"

// arrive puts a message into a named queue. It is rejected where the queue is full and takes
// no more.
func (s *State) arrive(tx txn, c *cursor, q core.QueueID, p *passage) (rejected bool, err error) {
	run := p.run
	run.MaxTime = c.time // messages leave it singly, and age from their arrival
	return false, s.appendOne(tx, q, run)
}

// admits reports whether a queue would take so many messages more, of so many bytes.
func (s *State) admits(_ txn, _ *cursor, _ core.QueueID, _, _ int64) (bool, error) { return true, nil }
