package state

import (
	"polylog/core"
	"polylog/core/message"
)

// Classic queues have priorities where they are declared with some. Quorum queues have them always, as
// RabbitMQ's do since 4.3.

const (
	quorumPriorities = 32
	quorumDefault    = 4 // of messages that say none
)

// priorityOf is a message's priority as the queue keeps it in Attributes.
func (a *ackQueue) priorityOf(r *core.Record) int {
	p := message.Priority(r)
	if a.queue.Kind != Quorum {
		return min(max(p, 0), a.limits.MaxPriority)
	}
	if p < 0 || p == quorumDefault {
		return 0
	}
	return min(p, quorumPriorities-1) + 1
}

// Ranked reports whether messages of the queue, with these limits, may go out of their order.
func (q *Queue) Ranked(l *QueueLimits) bool {
	return q.Special && (l.MaxPriority > 0 || q.Kind == Quorum)
}

// Rank is where a message of the queue goes: with a higher one before, with a lower one behind
// those of which nothing is known, which have 0.
func (q *Queue) Rank(a Attributes) int {
	if q.Kind != Quorum || a.Priority == 0 {
		return a.Priority
	}
	return a.Priority - 1 - quorumDefault
}
