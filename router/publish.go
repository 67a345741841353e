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
	r.publish(p, nil, q, batch, false, state.AppendCommand, done)
}

// PublishChecked is Publish for a batch whose CRC the caller has just computed over these
// very bytes, to compare or to set it: the log derives its own checksum from it. seq, where it is
// not nil, has the batch fail with what was published before it in the same sequence.
func (r *Router) PublishChecked(p Principal, seq *core.Sequence, q core.QueueID, batch []byte, done func(PublishResult)) {
	r.publish(p, seq, q, batch, true, state.AppendCommand, done)
}

// PublishHere is PublishChecked for a client that itself brings what was refused to whoever leads, in
// its order: this node does it as the leader of a term, or nobody. Forwarded, a batch would come before an
// earlier one of the same producer that was refused here. Error kind NotLeader, besides.
func (r *Router) PublishHere(p Principal, term core.Term, q core.QueueID, batch []byte, done func(PublishResult)) {
	here := func(q core.QueueID, batch []byte) core.Command {
		c := state.AppendCommand(q, batch)
		c.Term = term
		return c
	}
	r.publish(p, nil, q, batch, true, here, done)
}

// publish is Publish by a command that has the batch for its payload.
func (r *Router) publish(p Principal, seq *core.Sequence, q core.QueueID, batch []byte, checked bool, command func(core.QueueID, []byte) core.Command, done func(PublishResult)) {
	refuse := func(err error) {
		r.met.refused(err)
		done(PublishResult{Offset: -1, Start: -1, AppendTime: -1, Err: err})
	}
	limits, err := r.publishLimits(p, q)
	if err != nil {
		refuse(err)
		return
	}
	if len(batch) > limits.maxBytes {
		refuse(core.E(core.TooLarge, "batch of %d bytes, %s takes at most %d", len(batch), limits.what, limits.maxBytes))
		return
	}
	h, ok := core.ParseBatchHeader(batch)
	if !ok || h.TotalLen() != len(batch) {
		refuse(core.E(core.Invalid, "not one whole record batch: %d bytes", len(batch)))
		return
	}
	began := r.clock()
	appendTime := int64(-1)
	if limits.appendTime {
		appendTime = began.UnixMilli()
		core.SetLogAppendTime(batch, appendTime)
	}
	c := command(q, batch)
	c.Sequence = seq
	if err := r.state.Supports(c.Code); err != nil {
		refuse(err)
		return
	}
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

// publishLimits are a destination's limits for batches.
type publishLimits struct {
	what       destination
	maxBytes   int
	appendTime bool // it stamps records itself
}

// destination is a topic or a queue, as errors name it.
type destination struct {
	kind string
	name core.Name
}

func (d destination) String() string { return d.kind + " " + d.name.String() }

// publishLimits finds where q belongs, and checks that p may publish there.
func (r *Router) publishLimits(p Principal, q core.QueueID) (publishLimits, error) {
	if st, _, ok := r.state.TopicOfQueue(q); ok {
		t := r.view(st)
		return publishLimits{destination{"topic", t.Name}, t.Config.MaxMessageBytes, t.Config.LogAppendTime},
			r.authorizeTopic(p, OpWrite, t.Name, t.Internal)
	}
	def, err := r.queueDef(q)
	switch {
	case err != nil:
		return publishLimits{}, err
	case def == nil:
		return publishLimits{}, core.E(core.NotFound, "queue %d does not exist", q)
	}
	return publishLimits{destination{"queue", def.Name}, r.BrokerConfig().MessageMaxBytes, false},
		r.auth.Authorize(p, OpWrite, queueResource(def.Name))
}
