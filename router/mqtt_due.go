package router

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"

	"polylog/core"
	"polylog/core/message"
	"polylog/index"
	"polylog/router/state"
)

// Wills and publishes that were put off are published by the leader when their time comes
// (router/state/mqtt_will.go): as new records, with the time that they have then.

// dueAtOnce bounds the messages that are on their way at a time.
const dueAtOnce = 256

// messages publishes what is due, and says when the next one is.
func (k *keeper) messages(ctx context.Context) (next int64, err error) {
	timers := k.r.state.MQTTDue()
	k.messageAt = min(k.messageAt, timers.Lowered())
	for k.messageAt <= k.r.now() {
		due, err := timers.Scan(k.r.state.Store(), 0, nil, math.MaxInt64, dueAtOnce, nil)
		if err != nil {
			return 0, err
		}
		k.messageAt = math.MaxInt64
		var out []chan error
		for _, t := range due {
			if t.Due > k.r.now() {
				k.messageAt = t.Due
				break
			}
			done := make(chan error, 1)
			out = append(out, done)
			k.r.publishDue(t, done)
		}
		if len(out) == dueAtOnce {
			k.messageAt = 0
		}
		if err := k.await(ctx, out); err != nil {
			k.messageAt = 0
			return 0, err
		}
	}
	return k.messageAt, nil
}

// await waits for what is on its way. The first error after which it is still due is returned.
func (k *keeper) await(ctx context.Context, out []chan error) (failed error) {
	for _, done := range out {
		var err error
		select {
		case err = <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
		switch core.KindOf(err) {
		case core.OK:
			k.r.met.messagesDue.Inc()
		case core.Conflict: // it was taken back, or somebody else has published it
		case core.Unavailable, core.NotLeader, core.Uncertain, core.Internal, core.Corrupt, core.Unsupported:
			failed = err
		default: // Apply has given it up: the topic is gone, or takes less than it did
			k.r.met.messagesLost.Inc()
			k.r.logger.Warn("a will or a delayed message of mqtt cannot be published", "error", err)
		}
	}
	return failed
}

// publishDue proposes a message whose timer is due. done gets what became of it.
func (r *Router) publishDue(t index.Timer, done chan<- error) {
	w, err := state.ReadMQTTDue(r.state.Store(), t.ID)
	if err == nil && w == nil {
		err = core.E(core.Conflict, "it is gone")
	}
	var batch []byte
	if err == nil {
		batch, err = dueBatch(w, r.now())
	}
	if err != nil {
		done <- err
		return
	}
	if refusal := r.authorizeDue(w); refusal != nil {
		c := state.PublishDue{ID: t.ID, Due: t.Due} // it is given up
		r.log.ProposeAsync(c.Command(), func(res core.Result, err error) {
			if err == nil && res.Err != nil && res.Err.Kind != core.Invalid {
				err = res.Err
			}
			done <- cmp.Or(err, refusal)
		})
		return
	}
	if st, _, ok := r.state.TopicOfQueue(w.Queue); ok && r.view(st).Config.LogAppendTime {
		core.SetLogAppendTime(batch, r.now())
	}
	cmd := state.PublishDue{ID: t.ID, Due: t.Due, Batch: batch}
	c := cmd.Command()
	c.CheckedLen, c.CheckedCRC = core.BatchChecked(batch)
	r.log.ProposeAsync(c, func(res core.Result, err error) {
		if err == nil && res.Err != nil {
			err = res.Err
		}
		done <- err
	})
}

// authorizeDue checks that whose will it is may still publish it.
func (r *Router) authorizeDue(w *state.MQTTWill) error {
	st, _, ok := r.state.TopicOfQueue(w.Queue)
	if w.User == "" || !ok {
		return nil
	}
	p := Principal{Name: w.User}
	if u := r.state.User(w.User); u != nil {
		p.login = u.Login
	}
	return r.authorizeTopic(p, OpWrite, st.Name, st.Internal)
}

// publishEarlierWill publishes a will that is due and that the leader may not have come to yet, and
// waits for that. Where it fails the leader does it.
func (r *Router) publishEarlierWill(ctx context.Context, number uint64) {
	t, ok, err := r.state.MQTTDueTimer(number)
	if err == nil && ok {
		done := make(chan error, 1)
		r.publishDue(t, done)
		select {
		case err = <-done:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	switch {
	case err == nil && ok:
		r.met.messagesDue.Inc()
	case err != nil && core.KindOf(err) != core.Conflict:
		r.logger.Debug("a will of mqtt is left to the leader", "error", err)
	}
}

// dueBatch is a message's record as of now, in ms: its expiry counts from here (MQTT 5, section
// 3.1.3.2.4).
func dueBatch(w *state.MQTTWill, now int64) ([]byte, error) {
	var rec core.Record
	if err := core.FirstRecord(w.Batch, &rec); err != nil {
		return nil, core.E(core.Corrupt, "mqtt message: %v", err)
	}
	hs := rec.Headers
	if w.Expiry > 0 {
		at := strconv.AppendInt(nil, now+1000*int64(w.Expiry), 10)
		hs = append(slices.Clip(hs), core.RecordHeader{Key: message.ExpiresAtHeader, Value: at})
	}
	var b core.BatchBuilder
	if rec.Vouched {
		b.Vouch()
	}
	b.Add(now, rec.Key, rec.Value, hs...)
	return b.Build(nil, core.BatchOptions{Producer: core.Nobody})
}
