package amqp

import (
	"context"
	"sync"

	"polylog/core"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// channelState is what the handlers keep for a channel. What is not guarded is the reader's
// own, where the handlers run; deliveries are made on the writer's goroutine, and what became
// of publishes is told on the log's.
type channelState struct {
	lastQueue string       // the one that was declared last; "": none
	prefetch  int          // of consumers to come; 0: no bound; written under mu
	tx        *transaction // nil unless the channel is transactional; written under mu
	confirms  confirms
	settling  settling

	mu        sync.Mutex // guards what follows
	consumers map[string]*consumer
	getters   map[core.QueueID]*getter
	holders   map[holder]struct{} // all that may hold deliveries
	streams   map[string]*streamConsumer
	replies   *replyConsumer // written by the reader and at the end; nil: there is none
	unacked   unacked
	// mixedTimeouts says that holders have had different timeouts.
	mixedTimeouts bool
	lastTag       uint64
	kept          int            // bytes of memory that its transaction has
	over          bool           // the channel has ended
	left          []core.QueueID // queues that may have gone with its consumers
}

// beginState is called when the channel was opened, on the reader's goroutine.
func (ch *channel) beginState() {
	ch.confirms.ch = ch
	ch.settling.ch = ch
}

// endState is called once, when the channel ends for whatever reason, on any goroutine. What
// was not acknowledged goes back to where it came from.
func (ch *channel) endState() {
	ch.mu.Lock()
	ch.over = true
	holders, replies := ch.holders, ch.replies
	ch.holders, ch.consumers, ch.streams, ch.getters, ch.unacked, ch.replies = nil, nil, nil, nil, unacked{}, nil
	ch.mu.Unlock()
	ch.letGo()
	if replies != nil {
		ch.conn.srv.replies.remove(replies)
	}
	ch.settling.flush()
	var left []core.QueueID
	for h := range holders {
		h.close()
		if k, ok := h.(*consumer); ok && k.queue.AutoDelete {
			left = append(left, k.queue.ID)
		}
	}
	ch.mu.Lock()
	ch.left = left
	ch.mu.Unlock()
}

// connState is what the handlers keep for a connection: the reader's own.
type connState struct {
	lease *router.Lease // that owns the exclusive queues; nil: there are none
}

// beginState is called when the connection was opened, on the reader's goroutine.
func (c *conn) beginState(context.Context) error { return nil }

// endState is called once, after the channels have ended, if the connection was opened. ctx
// is not cancelled with the connection.
func (c *conn) endState(ctx context.Context) {
	if c.lease == nil {
		return
	}
	if err := c.srv.router.EndOwner(ctx, c.lease); err != nil {
		// The lease ends with this node at the latest.
		c.log.Warn("amqp exclusive queues stay until this node ends", "name", c.name, "err", err)
	}
	c.lease = nil
}

// own makes the connection an owner of queues.
func (c *conn) own(ctx context.Context) error {
	if c.lease != nil {
		return nil
	}
	l, err := c.srv.router.AcquireLease(ctx, c.name, true)
	if err != nil {
		return err
	}
	c.lease = l
	l.WhenLost(func() { // its queues are gone, and it can own no others
		c.close(hard(spec.ConnectionForced, "the exclusive queues were deleted: the leader had not reached this node for too long"))
	})
	return nil
}

// now is the time in ms.
func (s *Server) now() int64 { return s.opts.Clock().UnixMilli() }
