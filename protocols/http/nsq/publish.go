package nsq

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/http/publish"
)

// pub publishes the body as one message.
func pub(c *call) error {
	body, err := c.budget.Body(c.ctx, c.RequestCtx, c.front.MaxBody())
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return errEmpty
	}
	args, err := c.args()
	if err != nil {
		return err
	}
	topic, err := topicArg(args)
	if err != nil {
		return err
	}
	var deliverAt int64
	if args.Has("defer") {
		delay, err := strconv.ParseInt(args.Get("defer"), 10, 64)
		if err != nil || delay < 0 || delay > message.MaxAhead {
			return errDefer
		}
		if delay > 0 {
			deliverAt = c.now() + delay
		}
	}
	return c.publish(topic, [][]byte{body}, deliverAt)
}

// mpub publishes the lines of the body, or what it frames.
func mpub(c *call) error {
	args, err := c.args()
	if err != nil {
		return err
	}
	topic, err := topicArg(args)
	if err != nil {
		return err
	}
	body, err := c.budget.Body(c.ctx, c.RequestCtx, c.front.MaxBody())
	if err != nil {
		return err
	}
	split := lines
	if args.Has("binary") {
		if how := args.Get("binary"); how != "false" && how != "0" { // whatever else it says
			split = frames
		}
	}
	messages, err := split(body)
	if err != nil {
		return err
	}
	return c.publish(topic, messages, 0)
}

// maxMessages bounds the messages of a body: each costs memory beside what it says. nsqd has no such bound.
const maxMessages = 100_000

var errMessages = errBodyTooBig.because("more than " + strconv.Itoa(maxMessages) + " messages")

// lines are those of a body, without the empty ones.
func lines(body []byte) (all [][]byte, err error) {
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		switch {
		case len(line) == 0:
			continue
		case len(all) == maxMessages:
			return nil, errMessages
		}
		all = append(all, line)
	}
	return all, nil
}

// frames are the messages of a binary body (big-endian), and what is behind them means nothing:
//
//	 0        4        8           8+n
//	+--------+--------+-----------+--------+---
//	| count  | n, i32 | message   | n, i32 | …
//	| i32    |        | n bytes   |        |
//	+--------+--------+-----------+--------+---
func frames(body []byte) (all [][]byte, err error) {
	count, body, ok := frameNumber(body)
	switch {
	case !ok:
		return nil, errBody
	case count > maxMessages:
		return nil, errMessages
	}
	for ; count > 0; count-- {
		var n uint32
		if n, body, ok = frameNumber(body); !ok || int64(n) > int64(len(body)) {
			return nil, errMessage
		}
		all, body = append(all, body[:n]), body[n:]
	}
	return all, nil
}

// frameNumber reads a number that is more than 0.
func frameNumber(b []byte) (n uint32, rest []byte, ok bool) {
	if len(b) < 4 {
		return 0, nil, false
	}
	n = binary.BigEndian.Uint32(b)
	return n, b[4:], n > 0 && n <= math.MaxInt32
}

// publish stores messages, all in one partition, so that they keep their order. What is too large is refused
// before anything is stored.
func (c *call) publish(topic core.Name, messages [][]byte, deliverAt int64) error {
	t, err := publish.FindOrCreate(c.ctx, c.router, c.principal, topic)
	if core.KindOf(err) == core.Invalid { // it collides with another topic's name
		return errTopicName.because(err.Error())
	}
	if err != nil {
		return err
	}
	d := publish.To(t)
	now := c.now()
	partition := d.Partition(nil, c.turn.Add(1))
	if err := d.Check(partition, nil, now, now); err != nil {
		return err
	}
	bs := d.NewBatches()
	for i, body := range messages {
		if recordBound(body) > d.MaxBytes-core.BatchHeaderLen {
			return errMessageTooBig.because("messages of this topic have less than " + strconv.Itoa(d.MaxBytes) + " bytes")
		}
		m := message.Message{Time: now, Value: body, Priority: -1, DeliverAt: deliverAt}
		bs.Add(i, partition, recordBound(body), m.AppendTo)
	}
	bs.Send(c.ctx, c.router, c.principal)
	for _, b := range bs.All {
		if err := b.Result.Err; core.KindOf(err) == core.TooLarge {
			return errMessageTooBig.because(err.Error())
		} else if err != nil {
			return err
		}
	}
	return c.answerOK()
}

// recordBound is an upper bound of what a message takes in a batch, in bytes: its own, and a header
// that says when it is to be delivered.
func recordBound(body []byte) int { return 128 + len(body) }
