package state

import (
	"math"

	"polylog/core"
	"polylog/core/ackset"
	"polylog/core/wire"
	"polylog/index"
)

// A queue has at most one timer for each of two things that may become due. The leader looks
// at them, since both depend on what is with consumers.

// QueueTimer is what a timer of a queue is for. The numbers are on disk.
type QueueTimer byte

// The timers of queues.
const (
	// HeadTimer is for the message at the head, whose time may be over then. It may come too
	// early, and is set anew then: with each message that goes it would else have to move.
	HeadTimer QueueTimer = 'h'
	// UnusedTimer is for the queue, which is to be deleted then unless somebody consumes.
	UnusedTimer QueueTimer = 'u'
)

// Never is a time that does not come.
const Never = math.MaxInt64

// ReadExpiry is when the message at an offset of a queue with these limits expires, in ms, or
// Never; and when it was put there.
func ReadExpiry(r index.Reader, q *Queue, l *QueueLimits, o core.Offset) (due, since int64, err error) {
	runs, err := r.Runs(q.ID, o, 1, nil)
	if err != nil || len(runs) == 0 || runs[0].Offset > o {
		return Never, 0, err
	}
	due, since = Never, runs[0].MaxTime
	if l.HasTTL {
		due = since + l.TTL
	}
	if q.Special {
		a, err := ReadAttributes(r, q.ID, o)
		if err != nil {
			return Never, 0, err
		}
		if a.Expires > 0 {
			due = min(due, a.Expires)
		}
	}
	return due, since, nil
}

// expires reports whether messages of the queue may expire.
func (a *ackQueue) expires() bool { return a.limits.HasTTL || a.queue.Special }

// headTimer is when the queue's head timer is due; Never when it has none.
func (s *State) headTimer(tx txn, a *ackQueue) (int64, error) {
	if a.headKnown {
		return a.head, nil
	}
	due, ok, err := s.queueTimers.Due(tx, queueTimerID(HeadTimer, a.queue.ID))
	if err != nil {
		return 0, err
	}
	if !ok {
		due = Never
	}
	a.head, a.headKnown = due, true
	return due, nil
}

// setHeadTimer sets the head timer, or removes it where due is Never.
func (s *State) setHeadTimer(tx txn, a *ackQueue, due int64) (err error) {
	a.head, a.headKnown = due, true
	if due == Never {
		_, err = s.queueTimers.Cancel(tx, queueTimerID(HeadTimer, a.queue.ID))
		return err
	}
	return s.queueTimers.Set(tx, queueTimerID(HeadTimer, a.queue.ID), due, nil)
}

// QueueTimer is when a timer of a queue is due; false where it has none.
func (s *State) QueueTimer(kind QueueTimer, q core.QueueID) (due int64, ok bool, err error) {
	return s.queueTimers.Due(s.store, queueTimerID(kind, q))
}

// headBefore sees to it that the head timer is not later than due.
func (s *State) headBefore(tx txn, a *ackQueue, due int64) error {
	is, err := s.headTimer(tx, a)
	if err != nil || is <= due {
		return err
	}
	return s.setHeadTimer(tx, a, due)
}

// renewHead sets the head timer where there is none that is still to come. What is at the
// head may be with a consumer: then the timer is an old one, and the leader knows better.
func (s *State) renewHead(tx txn, c *cursor, a *ackQueue) error {
	if a.queue == nil || a.groups[""] == nil || !a.expires() {
		return nil
	}
	is, err := s.headTimer(tx, a)
	if err != nil || is != Never && is > c.time {
		return err
	}
	due, err := s.headExpiry(tx, a)
	if err != nil || due == is {
		return err
	}
	return s.setHeadTimer(tx, a, due)
}

// headWindow is how many messages of a queue with priorities are looked at for the heads of
// its priorities.
const headWindow = 256

// headExpiry is when the first message that is not settled expires; with priorities, the
// first one of some of them. What is with consumers counts.
func (s *State) headExpiry(tx txn, a *ackQueue) (int64, error) {
	head, _, err := tx.Queue(a.queue.ID)
	if err != nil {
		return 0, err
	}
	acks := &a.groups[""].acks
	o := acks.NextUnsettled(head.Start)
	if o >= head.End {
		return Never, nil
	}
	due, _, err := ReadExpiry(tx, a.queue, &a.limits, o)
	if err != nil || !a.queue.Ranked(&a.limits) {
		return due, err
	}
	seen := [maxMaxPriority + 1]bool{}
	left := headWindow
	acks.Unsettled(o, head.End, func(sp ackset.Span) {
		for o := sp.First; o < sp.End && left > 0 && err == nil; o++ {
			left--
			var at Attributes
			if at, err = ReadAttributes(tx, a.queue.ID, o); err != nil || seen[at.Priority] {
				continue
			}
			seen[at.Priority] = true
			var d int64
			d, _, err = ReadExpiry(tx, a.queue, &a.limits, o)
			due = min(due, d)
		}
	})
	return due, err
}

// used starts the time anew after which a queue that nobody uses is deleted.
func (s *State) used(tx txn, c *cursor, q *Queue) error {
	expires := q.Effective().Expires
	if expires == 0 || q.AutoDelete { // whose timer is that of its last consumer
		return nil
	}
	return s.queueTimers.Set(tx, queueTimerID(UnusedTimer, q.ID), c.time+expires, nil)
}

// Use is what a Settle says about the consumers of a queue.
type Use uint8

// The uses.
const (
	NoUse    Use = iota // nothing
	UseBegan            // it has a consumer now
	UseEnded            // it has none any more
	uses
)

// use keeps what a leader says about a queue's consumers. A queue that is deleted with its
// last consumer has a timer that is due from its first one on: whoever leads then, it is found.
func (s *State) use(tx txn, c *cursor, a *ackQueue, u Use) error {
	switch {
	case a.queue == nil || u == NoUse:
	case u == UseEnded:
		return s.used(tx, c, a.queue)
	case a.queue.AutoDelete:
		return s.queueTimers.Set(tx, queueTimerID(UnusedTimer, a.queue.ID), c.time, nil)
	}
	return nil
}

// cancelQueueTimers removes the timers of a queue that goes.
func (s *State) cancelQueueTimers(tx txn, q core.QueueID) error {
	for _, kind := range [...]QueueTimer{HeadTimer, UnusedTimer} {
		if _, err := s.queueTimers.Cancel(tx, queueTimerID(kind, q)); err != nil {
			return err
		}
	}
	return nil
}

// DeleteUnused deletes a queue that nobody consumes, because the time of its UnusedTimer has
// come, unless that timer was moved: somebody used the queue meanwhile (Conflict).
type DeleteUnused struct {
	Queue core.QueueID
	Due   int64 // of the timer, ms
}

// Command encodes: queue uvarint, due varint.
func (c *DeleteUnused) Command() core.Command {
	return core.Command{Code: CodeDeleteUnused, Head: wire.AppendVarint(wire.AppendUvarint(nil, uint64(c.Queue)), c.Due)}
}

func decodeDeleteUnused(body []byte) (c DeleteUnused, err error) {
	r := wire.NewReader(body)
	c = DeleteUnused{core.QueueID(r.Uvarint()), r.Varint()}
	return c, r.Close()
}

func (s *State) deleteUnused(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeDeleteUnused(body)
	if err != nil {
		return invalid("delete unused queue", err)
	}
	a, err := s.ackGroups(tx, cmd.Queue)
	switch {
	case err != nil:
		return s.storeResult(err)
	case a == nil || a.queue == nil:
		return refused(core.NotFound, "no queue %d", cmd.Queue)
	}
	due, ok, err := s.queueTimers.Due(tx, queueTimerID(UnusedTimer, cmd.Queue))
	switch {
	case err != nil:
		return s.storeResult(err)
	case !ok || due != cmd.Due || due > c.time:
		return refused(core.Conflict, "queue %s was used meanwhile", a.queue.Name)
	case a.limits.Expires == 0 && !a.queue.AutoDelete: // a policy said so, and is gone
		if _, err := s.queueTimers.Cancel(tx, queueTimerID(UnusedTimer, cmd.Queue)); err != nil {
			return s.storeResult(err)
		}
		return refused(core.Conflict, "queue %s does not expire any more", a.queue.Name)
	}
	if err := s.removeQueue(tx, a); err != nil {
		return s.storeResult(err)
	}
	return core.Result{}
}
