package httpd

import (
	"encoding/json"
	"slices"
	"strconv"

	"polylog/core"
	"polylog/protocols/http/publish"
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
	body, err := appendResults(nil, results)
	if err != nil {
		return err
	}
	send(c.RequestCtx, status, "application/json", body)
	return nil
}

// appendResults appends {"results": [...]}. Those of stored messages, which are nearly all, are written here: reflection
// would cost as much as the rest of a small message's request.
func appendResults(b []byte, results []resultJSON) ([]byte, error) {
	b = append(slices.Grow(b, 16+80*len(results)), `{"results":[`...)
	for i := range results {
		if i > 0 {
			b = append(b, ',')
		}
		r := &results[i]
		if *r == (resultJSON{Status: 200, ID: r.ID, Partition: r.Partition, Offset: r.Offset}) && r.Partition != nil && r.Offset != nil {
			b = append(append(b, `{"status":200,"id":"`...), r.ID...) // digits and a dash
			b = strconv.AppendInt(append(b, `","partition":`...), int64(*r.Partition), 10)
			b = append(strconv.AppendInt(append(b, `,"offset":`...), int64(*r.Offset), 10), '}')
			continue
		}
		one, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		b = append(b, one...)
	}
	return append(b, "]}"...), nil
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
	d := publish.To(t)
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
	d := publish.Destination{Queues: []core.QueueID{q.ID}, MaxBytes: c.router.BrokerConfig().MessageMaxBytes}
	return c.publish(&d, ms)
}

// publish sends messages on their way, waits until all are committed, and answers.
func (c *call) publish(d *publish.Destination, ms []incoming) error {
	results := make([]resultJSON, len(ms))
	batches := c.batches(d, ms, results)
	batches.Send(c.ctx, c.router, c.principal)
	for _, b := range batches.All {
		report(b, results)
	}
	return c.answerEach(results)
}

// report writes what became of a batch's messages.
func report(b *publish.Batch, results []resultJSON) {
	offsets := make([]core.Offset, len(b.Messages))
	for i, at := range b.Messages {
		if b.Result.Err != nil {
			results[at] = failure(b.Result.Err)
			continue
		}
		offsets[i] = b.Result.Offset + core.Offset(i)
		results[at] = resultJSON{Status: 200, ID: messageID(b.Partition, offsets[i]), Partition: &b.Partition, Offset: &offsets[i]}
	}
}

// messageID names a message of a topic or queue.
func messageID(partition int32, o core.Offset) string {
	return strconv.Itoa(int(partition)) + "-" + strconv.FormatInt(int64(o), 10)
}

// batches spreads messages over partitions. What cannot be taken has its result at once.
func (c *call) batches(d *publish.Destination, ms []incoming, results []resultJSON) *publish.Batches {
	now := c.srv.opts.now()
	batches := d.NewBatches()
	for i := range ms {
		m := &ms[i]
		err := m.err
		if err == nil {
			err = c.vouch(m)
		}
		if err == nil {
			err = d.Check(m.partition, m.Key, m.Time, now)
		}
		if err != nil {
			results[i] = failure(err)
			continue
		}
		p := m.partition
		if p < 0 { // all that have no key of a request stay together
			p = d.Partition(m.Key, c.keyless())
		}
		batches.Add(i, p, sizeBound(m), m.AppendTo)
	}
	return batches
}

// vouch refuses a message under another user's id, and stands for the caller's own.
func (c *call) vouch(m *incoming) error {
	m.Vouched = c.principal.Vouches()
	return c.router.CheckUserID(c.principal, m.UserID)
}

// keyless chooses the partition of this request's messages without a key.
func (c *call) keyless() uint32 {
	if c.turn == 0 {
		c.turn = c.srv.turn.Add(1)
	}
	return c.turn
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
