package router

import (
	"context"
	"errors"
	"time"

	"polylog/core"
	"polylog/index"
	"polylog/router/state"
)

// trimsAtOnce bounds what retention collects before it trims.
const trimsAtOnce = 1000

// retentionLoop drops what has expired, as long as this node leads: the effects are
// commands, so that every replica forgets the same at the same place in the log. Its
// own segments each node drops itself. It begins at once: a disk may have become full
// while the node was down.
func (r *Router) retentionLoop(ctx context.Context, every time.Duration) {
	var lastExpiry time.Time
	for wait := time.Duration(0); ; {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		b := r.BrokerConfig()
		if wait = every; wait == 0 {
			wait = time.Duration(b.RetentionCheckMS) * time.Millisecond
		}
		if !r.log.IsLeader() {
			r.trimLog()
			continue
		}
		if err := r.EnforceRetention(ctx); err != nil && ctx.Err() == nil {
			r.logger.Warn("retention was interrupted", "error", err)
		}
		if now := r.clock(); now.Sub(lastExpiry) >= time.Duration(b.OffsetsRetentionCheckMS)*time.Millisecond {
			lastExpiry = now
			if err := r.Expire(ctx); err != nil && ctx.Err() == nil {
				r.logger.Warn("expiry was interrupted", "error", err)
			}
		}
	}
}

// EnforceRetention trims every queue of a topic with cleanup.policy=delete by
// retention.ms and retention.bytes, batch by batch, and lets the log drop the
// segments that nobody refers to any more. Topics that only compact are left alone.
func (r *Router) EnforceRetention(ctx context.Context) error {
	now := r.now()
	var trims []state.Trim
	for _, t := range r.Topics("") {
		if !t.Config.Delete {
			continue
		}
		for _, q := range t.Partitions {
			before, err := r.retain(q, &t.Config, now)
			if core.KindOf(err) == core.NotFound {
				continue // deleted meanwhile
			}
			if err != nil {
				return err
			}
			if before > 0 {
				trims = append(trims, state.Trim{Queue: q, Before: before})
			}
			if len(trims) == trimsAtOnce {
				if err := r.proposeTrims(ctx, trims); err != nil {
					return err
				}
				trims = trims[:0]
			}
		}
	}
	if err := r.proposeTrims(ctx, trims); err != nil {
		return err
	}
	r.trimLog()
	return nil
}

func (r *Router) proposeTrims(ctx context.Context, trims []state.Trim) error {
	if len(trims) == 0 {
		return nil
	}
	_, err := r.trim(ctx, trims)
	if err == nil {
		r.met.retained.Add(float64(len(trims)))
	}
	return err
}

// trimLog lets the log drop the segments below the first entry that a queue refers
// to. The log itself keeps what a restart would still need.
func (r *Router) trimLog() {
	to := r.state.Applied()
	if live := r.state.Store().FirstLive(); live > 0 {
		to = min(to, live-1)
	}
	if to > 0 {
		r.log.Trim(to)
	}
}

// retain is the offset below which a queue's batches have expired; 0 when none has.
func (r *Router) retain(q core.QueueID, c *TopicConfig, now int64) (core.Offset, error) {
	head, err := r.Head(q)
	if err != nil || head.Start == head.End {
		return 0, err
	}
	before := core.Offset(0)
	if c.RetentionMS >= 0 {
		// Batches go in order, so the first one that is young enough keeps all
		// that come after it.
		run, ok, err := r.state.Store().RunByTime(q, now-c.RetentionMS)
		switch {
		case err != nil:
			return 0, err
		case !ok:
			return head.End, nil
		case run.Offset > head.Start:
			before = run.Offset
		}
	}
	if c.RetentionBytes >= 0 && head.Bytes > c.RetentionBytes {
		bySize, err := retainBytes(r.state.Store(), q, head, c.RetentionBytes)
		if err != nil {
			return 0, err
		}
		before = max(before, bySize)
	}
	return before, nil
}

// retainBytes is where a queue has to begin so that it is as short as it can be
// with at least keep bytes.
func retainBytes(r index.Reader, q core.QueueID, head Head, keep int64) (core.Offset, error) {
	from, bytes := head.Start, head.Bytes
	var buf [256]core.Run
	for {
		runs, err := r.Runs(q, from, len(buf), buf[:0])
		if err != nil {
			return 0, err
		}
		for _, run := range runs {
			if bytes-int64(run.Len) < keep {
				return run.Offset, nil
			}
			bytes -= int64(run.Len)
			from = run.End()
		}
		if len(runs) == 0 || from >= head.End {
			return head.End, nil
		}
	}
}

const (
	producersPerScan = 10_000
	groupsPerCommand = 100
)

// Expire forgets producers that were idle for producer.id.expiration.ms and the
// offsets of groups that have had no members, and committed nothing, for
// offsets.retention.minutes or up to an eighth more.
func (r *Router) Expire(ctx context.Context) error {
	return errors.Join(r.expireProducers(ctx), r.expireGroups(ctx))
}

func (r *Router) expireProducers(ctx context.Context) error {
	age := r.BrokerConfig().ProducerIDExpirationMS
	var from []byte
	for {
		refs, next, err := state.IdleProducers(r.state.Store(), r.now()-age, from, producersPerScan)
		if err != nil {
			return err
		}
		if len(refs) > 0 {
			cmd := state.Expire{ProducerAge: age, Producers: refs}
			if _, err := r.propose(ctx, cmd.Command()); err != nil {
				return err
			}
		}
		if next == nil {
			return nil
		}
		from = next
	}
}

func (r *Router) expireGroups(ctx context.Context) error {
	age := r.BrokerConfig().OffsetsRetentionMS
	groups, err := r.Groups()
	if err != nil {
		return err
	}
	var old []string
	for _, g := range groups {
		switch idle := r.now() - g.LastCommit; {
		case idle >= age/8 && r.groupActive(g.Name):
			// Members are known to this leader alone: if it fails, the next one must not
			// take the group for abandoned before they have joined again.
			cmd := state.CommitOffsets{Group: g.Name}
			if _, err := r.propose(ctx, cmd.Command()); err != nil {
				return err
			}
		case idle >= age+age/8:
			// It may have had members until just before the next note of that was due.
			old = append(old, g.Name)
		}
	}
	for len(old) > 0 {
		n := min(len(old), groupsPerCommand)
		cmd := state.Expire{OffsetAge: age + age/8, Groups: old[:n]}
		if _, err := r.propose(ctx, cmd.Command()); err != nil {
			return err
		}
		old = old[n:]
	}
	return nil
}
