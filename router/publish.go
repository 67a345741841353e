package router

import (
	"polylog/core"
	"polylog/router/state"
)

// PublishResult is the outcome of a publish.
type PublishResult struct {
	Offset     core.Offset // of the batch's first record
	Start      core.Offset // the queue's start offset
	AppendTime int64       // ms, on topics that stamp records themselves; else -1
	Err        error
}

// Publish appends one record batch to a queue. done is called once, maybe before
// Publish returns, and must not block; with calls for one queue it runs in the
// order of their offsets.
//
// batch is one whole, validated RecordBatch v2. It belongs to the router until
// done, and on topics with message.timestamp.type=LogAppendTime its time and CRC are
// rewritten in place.
//
// Error kinds: NotFound, Denied, TooLarge (max.message.bytes), OutOfSequence,
// DuplicateSeq, Fenced (idempotent producers), Invalid, Unavailable, NotLeader,
// Uncertain.
func (r *Router) Publish(p Principal, q core.QueueID, batch []byte, done func(PublishResult)) {
	r.publish(p, q, batch, false, done)
}

// PublishChecked is Publish for a batch whose CRC the caller has just computed over these
// very bytes, to compare or to set it: the log derives its own checksum from it.
func (r *Router) PublishChecked(p Principal, q core.QueueID, batch []byte, done func(PublishResult)) {
	r.publish(p, q, batch, true, done)
}

func (r *Router) publish(p Principal, q core.QueueID, batch []byte, checked bool, done func(PublishResult)) {
	refuse := func(err error) {
		r.met.refused(err)
		done(PublishResult{Offset: -1, Start: -1, AppendTime: -1, Err: err})
	}
	st, _, ok := r.state.TopicOfQueue(q)
	if !ok {
		refuse(core.E(core.NotFound, "queue %d does not exist", q))
		return
	}
	t := r.view(st)
	if err := r.auth.Authorize(p, OpWrite, topicResource(t.Name)); err != nil {
		refuse(err)
		return
	}
	if len(batch) > t.Config.MaxMessageBytes {
		refuse(core.E(core.TooLarge, "batch of %d bytes, topic %s takes at most %d", len(batch), t.Name, t.Config.MaxMessageBytes))
		return
	}
	h, ok := core.ParseBatchHeader(batch)
	if !ok || h.TotalLen() != len(batch) {
		refuse(core.E(core.Invalid, "not one whole record batch: %d bytes", len(batch)))
		return
	}
	began := r.clock()
	appendTime := int64(-1)
	if t.Config.LogAppendTime {
		appendTime = began.UnixMilli()
		core.SetLogAppendTime(batch, appendTime)
	}
	c := state.AppendCommand(q, batch)
	if checked {
		c.CheckedLen, c.CheckedCRC = core.BatchChecked(batch)
	}
	r.log.ProposeAsync(c, func(res core.Result, err error) {
		if err == nil && res.Err != nil {
			err = res.Err
		}
		if err != nil {
			refuse(err)
			return
		}
		r.met.published(int(h.Count), len(batch), r.clock().Sub(began))
		done(PublishResult{Offset: res.Offset, Start: res.Start, AppendTime: appendTime})
	})
}
