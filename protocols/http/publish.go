package httpd

import (
	"strconv"
	"sync"

	"polylog/core"
	"polylog/router"
)

// resultJSON is what became of one message of a request.
type resultJSON struct {
	Status    int          `json:"status"`
	ID        string       `json:"id,omitempty"` // where it is
	Partition *int32       `json:"partition,omitempty"`
	Offset    *core.Offset `json:"offset,omitempty"`
	Queues    *int         `json:"queues,omitempty"` // that got it through an exchange
	Code      string       `json:"code,omitempty"`
	Detail    string       `json:"detail,omitempty"`
	Retryable bool         `json:"retryable,omitempty"`
}

// failure is the result of what was not done.
func failure(err error) resultJSON {
	p := problemOf(err)
	return resultJSON{Status: p.Status, Code: p.Code, Detail: p.Detail, Retryable: p.Retryable}
}

// answerEach answers a request that is about several things: 200 when all are done, 207 when
// some are, else the problem that the first one met.
func (c *call) answerEach(results []resultJSON) error {
	failed := 0
	for i := range results {
		if results[i].Status != 200 {
			failed++
		}
	}
	status := 200
	switch first := &results[0]; {
	case failed == len(results):
		return &problem{Status: first.Status, Code: first.Code, Detail: first.Detail, Retryable: first.Retryable, Results: results}
	case failed > 0:
		status = 207
	}
	return c.answer(status, struct {
		Results []resultJSON `json:"results"`
	}{results})
}

func publishToTopic(c *call) error {
	ms, err := c.messages()
	if err != nil {
		return err
	}
	t, err := c.topicToWrite(c.name("topic"))
	if err != nil {
		return err
	}
	d := destination{queues: t.Partitions, maxBytes: t.Config.MaxMessageBytes, codec: codecs[t.Config.CompressionType], topic: &t.Config}
	if key := string(c.Request.Header.Peek(idempotencyKey)); key != "" {
		return c.publishOnce(t, &d, key, ms)
	}
	return c.publish(&d, ms)
}

func publishToQueue(c *call) error {
	ms, err := c.messages()
	if err != nil {
		return err
	}
	if err := c.noIdempotencyKey(); err != nil {
		return err
	}
	q, err := c.queue(router.OpWrite)
	if err != nil {
		return err
	}
	d := destination{queues: []core.QueueID{q.ID}, maxBytes: c.router.BrokerConfig().MessageMaxBytes}
	return c.publish(&d, ms)
}

// codecs are those of compression.type under which the broker compresses.
var codecs = map[string]int{"gzip": core.CodecGzip, "snappy": core.CodecSnappy, "lz4": core.CodecLZ4, "zstd": core.CodecZstd}

// destination is where messages go: a topic's partitions, or one queue.
type destination struct {
	queues   []core.QueueID
	maxBytes int // of a batch
	codec    int
	topic    *router.TopicConfig // nil: a queue
}

// check is why a message cannot be taken, or nil.
func (d *destination) check(m *incoming, now int64) error {
	switch {
	case m.err != nil:
		return m.err
	case int(m.partition) >= len(d.queues):
		return core.E(core.NotFound, "there is no partition %d, only %d", m.partition, len(d.queues))
	case d.topic == nil:
		return nil
	case d.topic.Compact && m.Key == nil:
		return core.E(core.Invalid, "a compacted topic takes no message without a key")
	case !d.topic.LogAppendTime && (m.Time-now > d.topic.TimestampAfterMaxMS || now-m.Time > d.topic.TimestampBeforeMaxMS):
		return core.E(core.Invalid, "timestamp %d is too far from the broker's clock, which is at %d", m.Time, now)
	}
	return nil
}

// batch is what goes to one partition in one piece.
type batch struct {
	partition int32
	builder   core.BatchBuilder
	messages  []int // which of the request's
	result    router.PublishResult
}

// publish sends messages on their way, waits until all are committed, and answers.
func (c *call) publish(d *destination, ms []incoming) error {
	results := make([]resultJSON, len(ms))
	batches := c.batches(d, ms, results)
	if late := c.send(d, batches); late {
		for _, b := range batches {
			if b.result.Err == nil && b.result.Offset < 0 {
				b.result.Err = core.E(core.Uncertain, "it was not confirmed in %s: it may be stored, or not", callTimeout)
			}
		}
	}
	for _, b := range batches {
		b.report(results)
	}
	return c.answerEach(results)
}

// report writes what became of a batch's messages.
func (b *batch) report(results []resultJSON) {
	for i, at := range b.messages {
		if b.result.Err != nil {
			results[at] = failure(b.result.Err)
			continue
		}
		offset := b.result.Offset + core.Offset(i)
		results[at] = resultJSON{Status: 200, ID: messageID(b.partition, offset), Partition: &b.partition, Offset: &offset}
	}
}

// messageID names a message of a topic or queue.
func messageID(partition int32, o core.Offset) string {
	return strconv.Itoa(int(partition)) + "-" + strconv.FormatInt(int64(o), 10)
}

// batches spreads messages over partitions. What cannot be taken has its result at once.
func (c *call) batches(d *destination, ms []incoming, results []resultJSON) (all []*batch) {
	now := c.srv.opts.now()
	open := make(map[int32]*batch, min(len(ms), len(d.queues)))
	for i := range ms {
		m := &ms[i]
		if err := d.check(m, now); err != nil {
			results[i] = failure(err)
			continue
		}
		p := m.partition
		switch {
		case p >= 0:
		case m.Key != nil:
			p = int32(core.PartitionOf(m.Key, len(d.queues)))
		default: // all that have no key of a request stay together
			p = c.keyless(len(d.queues))
		}
		b := open[p]
		if b == nil || b.builder.Size()+sizeBound(m) > d.maxBytes {
			b = &batch{partition: p, result: router.PublishResult{Offset: -1}}
			all, open[p] = append(all, b), b
		}
		m.AppendTo(&b.builder)
		b.messages = append(b.messages, i)
	}
	return all
}

// keyless is the partition of this request's messages without a key.
func (c *call) keyless(partitions int) int32 {
	if c.turn == 0 {
		c.turn = c.srv.turn.Add(1)
	}
	return int32(c.turn % uint32(partitions))
}

// sizeBound is an upper bound of what a message takes in a batch, in bytes.
func sizeBound(m *incoming) int {
	n := 512 + len(m.Key) + len(m.Value) + len(m.ContentType) + len(m.ContentEncoding) + len(m.ReplyTo) + len(m.MessageID) +
		len(m.Type) + len(m.AppID) + len(m.UserID) + len(m.CorrelationID)
	for i := range m.Headers {
		n += 48 + len(m.Headers[i].Name) + len(m.Headers[i].Value.Bytes())
	}
	return n
}

// send publishes batches and waits; late is true when the wait was given up.
func (c *call) send(d *destination, batches []*batch) (late bool) {
	var mu sync.Mutex // guards the batches' results, left and late
	left := len(batches)
	all := make(chan struct{})
	done := func(b *batch, r router.PublishResult) {
		mu.Lock()
		defer mu.Unlock()
		if !late {
			b.result = r
		}
		if left--; left == 0 {
			close(all)
		}
	}
	for _, b := range batches {
		data, err := b.builder.Build(nil, core.BatchOptions{Codec: d.codec, Producer: core.Nobody})
		if err != nil {
			done(b, router.PublishResult{Offset: -1, Err: err})
			continue
		}
		c.router.PublishChecked(c.principal, nil, d.queues[b.partition], data, func(r router.PublishResult) { done(b, r) })
	}
	if len(batches) == 0 {
		return false
	}
	select {
	case <-all:
		return false
	case <-c.ctx.Done():
		mu.Lock()
		defer mu.Unlock()
		late = left > 0
		return late
	}
}
