package amqp

import (
	"bytes"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// streamConsumer reads a topic for a client. What the client settles, in whatever way, is room
// for more; nothing of it is kept. It reads on the writer's goroutine.
type streamConsumer struct {
	turn
	share
	ch     *channel
	tag    string
	topic  *router.Topic
	filter streamFilter

	// As the client asked for it.
	prefetch  int
	arguments message.Table

	unwatch func() // may be called more than once

	// Guarded by channel.mu.
	credit  int  // how many deliveries there may be before the client settles some
	started bool // consume-ok was sent
	ended   bool // no more deliveries

	// The writer's own.
	parts   []streamPart
	turnOf  int            // the part that is read next
	pending []streamRecord // read and not delivered
	batches router.Batches // that hold them
}

// streamPart is a partition.
type streamPart struct {
	queue  core.QueueID
	number int32
	next   core.Offset // to be read
	from   core.Offset // what the client asked for, which may be behind the end: it gets nothing below
}

// streamRecord is a message on its way.
type streamRecord struct {
	core.Record
	partition int32
}

// streamRead bounds what is read from a partition at a time, in bytes.
const streamRead = 128 << 10

// feed implements source.
func (k *streamConsumer) feed() {
	for k.ch.conn.hasRoom() {
		if len(k.pending) == 0 && !k.read() {
			return // what comes later wakes us
		}
		if !k.deliver() {
			return // there is no credit, or it has ended: settle wakes us
		}
	}
	k.ch.conn.ready(k)
}

// read reads what comes next in one of the partitions. It is false when there is nothing.
func (k *streamConsumer) read() bool {
	if !k.wanted() {
		return false
	}
	for range k.parts {
		p := &k.parts[k.turnOf]
		k.turnOf = (k.turnOf + 1) % len(k.parts)
		if err := k.readPart(p); err != nil {
			k.over(err)
			return false
		}
		if len(k.pending) > 0 {
			return true
		}
	}
	return false
}

// wanted reports whether there may be deliveries.
func (k *streamConsumer) wanted() bool {
	k.ch.mu.Lock()
	defer k.ch.mu.Unlock()
	return k.started && !k.ended && k.credit > 0
}

// readPart reads on in a partition until there is a message that is wanted, or no more.
func (k *streamConsumer) readPart(p *streamPart) error {
	for {
		k.batches.Release()
		k.pending = k.pending[:0]
		h, err := k.ch.conn.srv.router.Read(p.queue, p.next, router.ReadOptions{MaxBytes: streamRead, AtLeastOne: true}, &k.batches)
		switch {
		case core.KindOf(err) == core.OutOfRange && p.next < h.Start:
			p.next = h.Start // retention was faster
			continue
		case err != nil:
			return err
		case len(k.batches.Items) == 0:
			return nil
		}
		for i := range k.batches.Items {
			if err := k.readBatch(p, &k.batches.Items[i]); err != nil {
				return err
			}
		}
		if len(k.pending) > 0 {
			return nil
		}
	}
}

func (k *streamConsumer) readBatch(p *streamPart, b *router.Batch) error {
	h, _ := core.ParseBatchHeader(b.Data) // checked by Read
	end := b.Offset + core.Offset(h.LastOffsetDelta) + 1
	if h.Control() {
		p.next = max(p.next, end)
		return nil
	}
	for r, err := range core.Records(b.Data, core.MaxInflated) {
		if err != nil {
			return err
		}
		if r.Offset += b.Offset - h.BaseOffset; r.Offset >= max(p.next, p.from) && k.filter.matches(&r) {
			k.pending = append(k.pending, streamRecord{r, p.number})
		}
	}
	p.next = max(p.next, end)
	return nil
}

// deliver sends what was read, for as long as there is room and credit. It is false when there
// is no credit.
func (k *streamConsumer) deliver() bool {
	ch := k.ch
	var out outgoing
	for len(k.pending) > 0 && ch.conn.hasRoom() {
		r := &k.pending[0]
		out.read(&router.Delivery{Record: r.Record}, router.Stream, ch.conn.srv.now(), ch.conn.srv.router.HasUsers())
		out.set("x-stream-offset", message.Int(message.KindInt64, int64(r.Offset)))
		if len(k.parts) > 1 {
			out.set("x-stream-partition", message.Int(message.KindInt32, int64(r.partition)))
		}
		if len(out.body) >= largeBody {
			out.body = bytes.Clone(out.body) // it is sent after the batches are released
		}
		ch.mu.Lock()
		if k.ended || k.credit == 0 {
			ch.mu.Unlock()
			return false
		}
		k.credit--
		ch.sendContent(&spec.BasicDeliver{
			ConsumerTag: k.tag, DeliveryTag: ch.holdLocked(k, router.Receipt{Offset: r.Offset}, false, ch.conn.srv.now()),
			Exchange: out.exchange, RoutingKey: out.routingKey,
		}, &out.props, out.body)
		ch.mu.Unlock()
		k.pending = k.pending[1:]
	}
	return true
}

// over is for the end of deliveries that nobody here asked for.
func (k *streamConsumer) over(err error) {
	ch := k.ch
	ch.mu.Lock()
	mine := !k.ended && ch.streams[k.tag] == k
	k.ended = true
	if mine {
		delete(ch.streams, k.tag)
		k.done = true
	}
	ch.mu.Unlock()
	if !mine {
		return
	}
	if core.KindOf(err) != core.NotFound {
		ch.conn.log.Error("amqp consumer ended", "stream", k.topic.Name.String(), "consumer", k.tag, "err", err)
	}
	if ch.conn.caps.consumerCancelNotify {
		ch.send(&spec.BasicCancel{ConsumerTag: k.tag, NoWait: true})
	}
	ch.closeIdle(k)
}

// settle implements holder: it makes room.
func (k *streamConsumer) settle(_ router.Outcome, rs []router.Receipt, done func()) {
	if done != nil {
		defer done()
	}
	k.ch.mu.Lock()
	k.credit += len(rs)
	k.ch.mu.Unlock()
	k.ch.conn.ready(k)
}

// close implements holder.
func (k *streamConsumer) close() {
	k.ch.mu.Lock()
	k.ended = true
	k.ch.mu.Unlock()
	k.unwatch()
}
