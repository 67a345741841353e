package router

import (
	"context"
	"time"

	"polylog/core"
	"polylog/router/state"
)

// QueueBatch is a batch for a queue.
type QueueBatch = state.QueueBatch

// MaxOnceKey bounds keys of PublishOnce, in bytes, with what is put before them.
const MaxOnceKey = state.MaxOnceKey

// PublishOnce appends batches to partitions of a topic, all or none, unless that was done
// under this key within the window before: then it says what became of it then, and replayed is
// true. offsets are those of the batches' first records. digest is of what the caller means:
// another one under the same key is refused.
//
// Batches are whole and of no producer, and belong to the router. Error kinds: those of
// Publish, and Conflict.
func (r *Router) PublishOnce(ctx context.Context, p Principal, t *Topic, key string, digest [16]byte, window time.Duration, batches []QueueBatch) (offsets []core.Offset, replayed bool, err error) {
	if err := r.authorizeTopic(p, OpWrite, t.Name, t.Internal); err != nil {
		return nil, false, err
	}
	total := 0
	for _, b := range batches {
		if total += len(b.Data); len(b.Data) > t.Config.MaxMessageBytes {
			return nil, false, core.E(core.TooLarge, "batch of %d bytes, topic %s takes at most %d", len(b.Data), t.Name, t.Config.MaxMessageBytes)
		}
		if t.Config.LogAppendTime {
			core.SetLogAppendTime(b.Data, r.now())
		}
	}
	if limit := r.BrokerConfig().MessageMaxBytes; total > limit {
		return nil, false, core.E(core.TooLarge, "%d bytes in one step, at most message.max.bytes, %d, are allowed", total, limit)
	}
	cmd := state.PublishOnce{Key: p.Name + "/" + t.ID.String() + "/" + key, Digest: digest, Window: window.Milliseconds(), Batches: batches}
	res, err := r.propose(ctx, cmd.Command())
	if err != nil {
		r.met.refused(err)
		return nil, false, err
	}
	once, err := state.DecodeOnce(res.Body)
	return once.Offsets, once.Replayed, err
}
