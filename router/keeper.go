package router

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"polylog/core"
	"polylog/index"
	"polylog/router/state"
)

// keeper sees to what becomes due, as long as this node leads. It proposes Ticks for timers
// that Apply fires alone, and publishes MQTT's messages that waited (mqtt_due.go). The timers of queues need a look at who consumes: for messages that
// expire in a queue that nobody uses it has the hub load the queue's group, which finds what
// is over; queues that were unused for long it deletes.
type keeper struct {
	r    *Router
	wake chan struct{}

	mu      sync.Mutex // guards what follows
	changed []core.QueueID
	long    []core.QueueID

	looking sync.Mutex // held by a look; guards what follows
	term    core.Term
	since   int64        // when the term began here, ms
	young   core.QueueID // queues from here on were declared since then
	tickAt  int64        // no timer for Ticks is due before
	// messageAt is that for MQTT's messages.
	messageAt int64
	// Timers of queues were seen up to here: a time, and an id of that time.
	seen    int64
	seenID  []byte
	waiting []core.QueueID // whose UnusedTimer waits for the end of the grace time
}

const (
	// timersAtOnce makes one Tick, and one round of timers of queues, a few milliseconds of
	// work.
	timersAtOnce = 500
	// useGrace is how long after an election no queue from before is taken for unused: its consumers are
	// on their way to the new leader.
	useGrace = 10 * time.Second
	// keeperRetry is the pause after a failure.
	keeperRetry = 100 * time.Millisecond
)

func (k *keeper) init(r *Router) {
	k.r = r
	k.wake = make(chan struct{}, 1)
}

func (k *keeper) kick() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// queueChanged has a queue looked at soon: something about it has changed. It does not block.
func (k *keeper) queueChanged(qs ...core.QueueID) {
	k.mu.Lock()
	k.changed = append(k.changed, qs...)
	k.mu.Unlock()
	k.kick()
}

// overfull is told of queues that are too long, on the applier's goroutine.
func (k *keeper) overfull(qs []core.QueueID) {
	k.mu.Lock()
	k.long = append(k.long, qs...)
	k.mu.Unlock()
	k.kick()
}

// run looks when something is due, until ctx ends.
func (k *keeper) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		elections := k.r.log.LeaderChanged()
		next, err := k.look(ctx)
		wait := time.Hour
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			k.r.logger.Debug("timers are looked at again", "error", err)
			wait = keeperRetry
		case next != math.MaxInt64:
			wait = min(wait, max(time.Duration(next-k.r.now())*time.Millisecond, 0))
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-elections:
		case <-timer.C:
		}
	}
}

// CheckTimers does what is due now, if this node leads: it is what happens by itself when the
// time comes.
func (r *Router) CheckTimers(ctx context.Context) error {
	_, err := r.keeper.look(ctx)
	return err
}

// look does what is due and says when the next look is: a time in ms.
func (k *keeper) look(ctx context.Context) (next int64, err error) {
	k.looking.Lock()
	defer k.looking.Unlock()
	k.mu.Lock()
	changed, long := k.changed, k.long
	k.changed, k.long = nil, nil
	k.mu.Unlock()
	if !k.r.log.IsLeader() {
		k.term = 0
		return math.MaxInt64, nil
	}
	if term := k.r.log.Term(); term != k.term {
		young, err := k.r.state.NextQueueID()
		if err != nil {
			return 0, err
		}
		k.term, k.since, k.young = term, k.r.now(), young
		k.tickAt, k.messageAt, k.seen, k.seenID, k.waiting = 0, 0, 0, nil, nil
	}
	slices.Sort(long)
	for _, q := range slices.Compact(long) {
		if err := k.r.hub.look(q); err != nil {
			return 0, err
		}
	}
	if err := k.ticks(ctx); err != nil {
		return 0, err
	}
	next, err = k.messages(ctx)
	if err != nil {
		return 0, err
	}
	next = min(next, k.tickAt)
	if over := k.since + useGrace.Milliseconds(); len(k.waiting) > 0 {
		if k.r.now() >= over {
			changed = append(changed, k.waiting...)
			k.waiting = nil
		} else {
			next = min(next, over)
		}
	}
	for _, q := range changed {
		if err := k.check(ctx, q); err != nil {
			k.queueChanged(q)
			return 0, err
		}
	}
	queues, err := k.queues(ctx)
	return min(next, queues), err
}

// ticks fires what Apply fires, until nothing of it is due.
func (k *keeper) ticks(ctx context.Context) error {
	timers := k.r.state.Timers()
	k.tickAt = min(k.tickAt, timers.Lowered())
	for k.tickAt <= k.r.now() {
		first, err := timers.Scan(k.r.state.Store(), 0, nil, math.MaxInt64, 1, nil)
		if err != nil {
			return err
		}
		k.tickAt = math.MaxInt64
		if len(first) > 0 {
			k.tickAt = first[0].Due
		}
		if k.tickAt > k.r.now() {
			return nil
		}
		cmd := state.Tick{Work: timersAtOnce}
		res, err := k.r.propose(ctx, cmd.Command())
		if err != nil {
			k.tickAt = 0
			return err
		}
		n, err := state.DecodeCount(res.Body)
		if err != nil {
			return err
		}
		k.r.met.timersFired.Add(float64(n))
	}
	return nil
}

// queues looks at the timers of queues that have become due, and says when the next one does.
func (k *keeper) queues(ctx context.Context) (next int64, err error) {
	timers := k.r.state.QueueTimers()
	if low := timers.Lowered(); low < k.seen {
		k.seen, k.seenID = low, nil
	}
	for {
		now := k.r.now()
		due, err := timers.Scan(k.r.state.Store(), k.seen, k.seenID, math.MaxInt64, timersAtOnce, nil)
		if err != nil {
			return 0, err
		}
		for _, t := range due {
			if t.Due > now {
				return t.Due, nil
			}
			if err := k.due(ctx, t); err != nil {
				return 0, err
			}
			k.seen, k.seenID = t.Due, t.ID
		}
		if len(due) < timersAtOnce {
			return math.MaxInt64, nil
		}
	}
}

// due looks at a timer of a queue that has become due.
func (k *keeper) due(ctx context.Context, t index.Timer) error {
	kind, q, err := state.DecodeQueueTimer(t.ID)
	if err != nil {
		return err
	}
	if kind == state.HeadTimer {
		return k.r.hub.look(q)
	}
	if q < k.young && k.r.now() < k.since+useGrace.Milliseconds() {
		k.waiting = append(k.waiting, q)
		return nil
	}
	return k.deleteUnused(ctx, q, t.Due)
}

// check looks at a queue whose timers may have become due unnoticed.
func (k *keeper) check(ctx context.Context, q core.QueueID) error {
	for _, kind := range [...]state.QueueTimer{state.UnusedTimer, state.HeadTimer} {
		due, ok, err := k.r.state.QueueTimer(kind, q)
		switch {
		case err != nil:
			return err
		case !ok || due > k.r.now():
			continue
		case kind == state.HeadTimer:
			err = k.r.hub.look(q)
		default:
			err = k.deleteUnused(ctx, q, due)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deleteUnused deletes a queue, unless somebody consumes it.
func (k *keeper) deleteUnused(ctx context.Context, q core.QueueID, due int64) error {
	if k.r.hub.consumed(q) {
		return nil // its last consumer has it looked at again
	}
	cmd := state.DeleteUnused{Queue: q, Due: due}
	_, err := k.r.propose(ctx, cmd.Command())
	if kind := core.KindOf(err); kind == core.NotFound || kind == core.Conflict {
		return nil
	}
	if err == nil {
		k.r.met.queuesExpired.Inc()
	}
	return err
}
