package amqp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"strings"
	"sync"

	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// Direct reply-to (https://www.rabbitmq.com/docs/direct-reply-to): a client consumes from a
// queue that is none, and whoever answers its questions publishes to the address that they
// carry. Answers go from connection to connection, past the log: they are lost with either of
// them, as in RabbitMQ, and when the client does not read.
const (
	replyQueue  = "amq.rabbitmq.reply-to"
	replyPrefix = replyQueue + "."
)

// isReplyQueue reports whether a queue's name stands for direct reply-to.
func isReplyQueue(name string) bool {
	return name == replyQueue || strings.HasPrefix(name, replyPrefix)
}

// replies are the consumers of answers on this node.
type replies struct {
	mu        sync.RWMutex // guards what follows
	byAddress map[string]*replyConsumer
}

// replyConsumer is the consumer of a channel's answers.
type replyConsumer struct {
	ch      *channel
	tag     string
	address string // nobody can guess it
}

func (r *replies) add(k *replyConsumer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byAddress == nil {
		r.byAddress = map[string]*replyConsumer{}
	}
	r.byAddress[k.address] = k
}

func (r *replies) remove(k *replyConsumer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byAddress, k.address)
}

// find is the consumer with an address; nil where there is none.
func (r *replies) find(address string) *replyConsumer {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byAddress[address]
}

// consumeReplies is basic.consume of the queue that is none.
func (ch *channel) consumeReplies(m *spec.BasicConsume) error {
	switch {
	case !m.NoAck:
		return soft(spec.PreconditionFailed, "reply consumer cannot acknowledge")
	case ch.replyConsumer() != nil:
		return soft(spec.PreconditionFailed, "reply consumer already set")
	}
	tag := cmp.Or(m.ConsumerTag, serverNamed("amq.ctag-"))
	k := &replyConsumer{ch: ch, tag: tag, address: replyPrefix + ch.conn.srv.opts.NodeID + "." + rand.Text()}
	ch.mu.Lock()
	alive := !ch.over
	if alive {
		ch.replies = k
	}
	ch.mu.Unlock()
	if !alive {
		return nil
	}
	ch.reply(m.NoWait, &spec.BasicConsumeOk{ConsumerTag: tag})
	ch.conn.srv.replies.add(k)
	return nil
}

// replyConsumer is the consumer of answers; nil where there is none.
func (ch *channel) replyConsumer() *replyConsumer {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.replies
}

// cancelReplies ends the consumer of answers, if it has the tag.
func (ch *channel) cancelReplies(tag string) {
	ch.mu.Lock()
	k := ch.replies
	is := k != nil && k.tag == tag
	if is {
		ch.replies = nil
	}
	ch.mu.Unlock()
	if is {
		ch.conn.srv.replies.remove(k)
	}
}

// setReplyTo puts the address of the channel's consumer into a question.
func (ch *channel) setReplyTo(p *spec.Properties) error {
	if p.ReplyTo != replyQueue {
		return nil
	}
	k := ch.replyConsumer()
	if k == nil {
		return soft(spec.PreconditionFailed, "fast reply consumer does not exist")
	}
	p.ReplyTo = k.address
	return nil
}

// publishReply sends an answer. For whoever wants to know, there is no queue that it was
// routed to (https://www.rabbitmq.com/docs/direct-reply-to#limitations).
func (ch *channel) publishReply(m *spec.BasicPublish, p *spec.Properties, body []byte) {
	seq := ch.confirms.number()
	props, copied := *p, bytes.Clone(body)
	ch.conn.srv.reply(m.RoutingKey, &props, copied)
	if m.Mandatory {
		ch.sendContent(&spec.BasicReturn{
			ReplyCode: uint16(spec.NoRoute), ReplyText: spec.NoRoute.String(), RoutingKey: m.RoutingKey,
		}, &props, copied)
	}
	if seq != 0 {
		ch.confirms.settle(seq, true)
	}
}

// deliver queues an answer for the client, unless it has not read many.
func (k *replyConsumer) deliver(p *spec.Properties, body []byte) {
	ch := k.ch
	if ch.conn.out.size.Load() > maxQueued {
		ch.conn.srv.metrics.repliesLost.Add(1)
		return
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.replies != k {
		return // it was cancelled just now
	}
	ch.sendContent(&spec.BasicDeliver{
		ConsumerTag: k.tag, DeliveryTag: ch.holdLocked(nil, router.Receipt{}, true, 0), RoutingKey: k.address,
	}, p, body)
}

// declaredReplies answers a declaration of the queue that is none, or of an address.
func (ch *channel) declaredReplies(ctx context.Context, m *spec.QueueDeclare) error {
	if m.Queue != replyQueue && !ch.conn.srv.awaits(ctx, m.Queue) {
		return ch.conn.noQueue(m.Queue)
	}
	ch.reply(m.NoWait, &spec.QueueDeclareOk{Queue: m.Queue, ConsumerCount: 1})
	return nil
}
