package router

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"polylog/core"
)

// TailSpec says what a tail is fed with.
type TailSpec struct {
	// Topics says whose records are wanted; nil: all topics'. It is asked by Take, once
	// for each topic that grew, and so may change its mind.
	Topics func(*Topic) bool
	// Wake is called when there may be something to take, maybe for nothing. It runs on
	// the applier's goroutine and must not block. Wait works without it.
	Wake func()
}

// Tail is this node's apply stream: what was appended to topics from its beginning on, in
// the order of the log, as soon as this node has applied it, be it leader or follower.
//
// Nothing is copied for it and nothing waits for it. What it has not handed out yet stays
// where it is, in the log and its indexes: a reader that falls behind costs one number for
// each queue that grew meanwhile, and misses only what retention has removed by then.
type Tail struct {
	r      *Router
	spec   TailSpec
	signal chan struct{}

	// Of the caller of Take.
	at     core.LogIndex // everything up to it was handed out, or was there before
	upTo   core.LogIndex // what cursors lead to
	queues tailQueues
	picked []tailRun

	mu      sync.Mutex // guards what follows
	dirty   map[core.QueueID]struct{}
	applied core.LogIndex // what dirty is of
}

// Appended is a batch that was appended to a partition of a topic.
type Appended struct {
	Topic     *Topic
	Partition int32
	Index     core.LogIndex
	Batch
}

// TailBatches collects what Take finds; the zero value is ready.
type TailBatches struct {
	Items   []Appended
	batches Batches
}

// Release gives buffers back and empties b for its next use; the items' data must not be
// touched afterwards.
func (b *TailBatches) Release() {
	clear(b.Items)
	b.Items = b.Items[:0]
	b.batches.Release()
}

// tails are the tails of a node. Its lock is taken before a tail's.
type tails struct {
	count atomic.Int64 // so that appending costs one load when there is none

	mu  sync.Mutex
	all map[*Tail]struct{} // guarded by mu
}

// Tail begins a tail at what this node has applied now. Close it.
func (r *Router) Tail(spec TailSpec) *Tail {
	t := &Tail{r: r, spec: spec, signal: make(chan struct{}, 1), dirty: map[core.QueueID]struct{}{}}
	ts := &r.tails
	ts.count.Add(1) // first: what is applied from now on must not pass by
	ts.mu.Lock()
	ts.all[t] = struct{}{}
	ts.mu.Unlock()
	t.at = r.state.Applied()
	return t
}

// Applied is the index of the last log entry that this node has applied.
func (r *Router) Applied() core.LogIndex { return r.state.Applied() }

// touched notes which queues grew, on the applier's goroutine.
func (ts *tails) touched(qs []core.QueueID, applied core.LogIndex) {
	if ts.count.Load() == 0 {
		return
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for t := range ts.all {
		t.touched(qs, applied)
	}
}

func (t *Tail) touched(qs []core.QueueID, applied core.LogIndex) {
	t.mu.Lock()
	idle := len(t.dirty) == 0
	for _, q := range qs {
		t.dirty[q] = struct{}{}
	}
	t.applied = applied
	t.mu.Unlock()
	if idle {
		t.wake()
	}
}

func (t *Tail) wake() {
	select {
	case t.signal <- struct{}{}:
	default:
	}
	if t.spec.Wake != nil {
		t.spec.Wake()
	}
}

// Close ends the tail: whoever waits for it is told so. It may be called again.
func (t *Tail) Close() {
	ts := &t.r.tails
	ts.mu.Lock()
	_, there := ts.all[t]
	delete(ts.all, t)
	ts.mu.Unlock()
	if there {
		ts.count.Add(-1)
		close(t.signal)
	}
}

// Wait returns when there may be something to take. Error kinds: Closed, or Unavailable
// when ctx ends.
func (t *Tail) Wait(ctx context.Context) error {
	select {
	case _, ok := <-t.signal:
		if !ok {
			return core.E(core.Closed, "the tail was closed")
		}
		return nil
	case <-ctx.Done():
		return core.E(core.Unavailable, "nothing was appended: %v", context.Cause(ctx))
	}
}

// Take appends to dst what comes next, up to maxBytes, or one batch where that alone is
// larger. Without an error and without a batch there is nothing now. One goroutine may take
// at a time.
//
// Where a batch cannot be read the error is of kind Corrupt, or Unavailable where the store
// is closed; nothing is passed over, so that Take can be called again: another node may
// repair the log meanwhile. Skip gives up on it.
func (t *Tail) Take(dst *TailBatches, maxBytes int) error {
	for {
		if t.queues.Len() == 0 && len(t.picked) == 0 {
			if more, err := t.look(); err != nil || !more {
				return err
			}
			continue
		}
		before := len(dst.Items)
		if err := t.pick(maxBytes); err != nil {
			return err
		}
		err := t.read(dst)
		t.drop(len(dst.Items) - before)
		if err != nil || len(dst.Items) > before {
			return err
		}
	}
}

// Skip passes over the batch that the last Take could not read.
func (t *Tail) Skip() {
	if len(t.picked) > 0 {
		t.drop(1)
	}
}

// look begins a round: what grew since the last one. It is false when there was nothing.
func (t *Tail) look() (bool, error) {
	t.at = max(t.at, t.upTo)
	t.mu.Lock()
	dirty := t.dirty
	t.dirty, t.upTo = make(map[core.QueueID]struct{}, min(len(dirty), maxDirtyHint)), max(t.applied, t.at)
	t.mu.Unlock()
	if len(dirty) == 0 {
		return false, nil
	}
	wanted := map[*Topic]bool{}
	chunk := max(minTailRuns, min(runsPerLook, maxTailRuns/len(dirty)))
	for q := range dirty {
		topic, partition, ok := t.r.TopicOfQueue(q)
		if !ok {
			continue // deleted, or no topic's
		}
		want, asked := wanted[topic]
		if !asked {
			want = t.spec.Topics == nil || t.spec.Topics(topic)
			wanted[topic] = want
		}
		if !want {
			continue
		}
		c := &tailQueue{queue: q, topic: topic, partition: partition, chunk: chunk}
		first, ok, err := t.r.state.Store().RunByIndex(q, t.at+1)
		if err == nil && ok {
			c.runs, err = c.next(t, first.Offset)
		}
		if err != nil && core.KindOf(err) != core.NotFound {
			t.again(dirty)
			return false, err
		}
		if len(c.runs) > 0 {
			t.queues = append(t.queues, c)
		}
	}
	heap.Init(&t.queues)
	return true, nil
}

// Bounds of what a round keeps in memory: of the runs that it knows beforehand, and of the
// room that the next round's queues get at once.
const (
	minTailRuns  = 4
	maxTailRuns  = 1 << 14
	maxDirtyHint = 1 << 10
)

// again has the next round look at these queues too.
func (t *Tail) again(dirty map[core.QueueID]struct{}) {
	t.queues = t.queues[:0]
	t.upTo = t.at
	t.mu.Lock()
	defer t.mu.Unlock()
	for q := range dirty {
		t.dirty[q] = struct{}{}
	}
}

// tailRun is a run on its way out.
type tailRun struct {
	core.Run
	of *tailQueue
}

// pick takes the runs that come next off the queues, beside those that are left from a Take
// that failed.
func (t *Tail) pick(maxBytes int) error {
	size := 0
	for i := range t.picked {
		size += int(t.picked[i].Len)
	}
	for len(t.picked) < runsPerLook && t.queues.Len() > 0 {
		c := t.queues[0]
		run, rest := c.runs[0], c.runs[1:]
		if size += int(run.Len); size > maxBytes && len(t.picked) > 0 {
			return nil
		}
		if len(rest) == 0 {
			var err error
			if rest, err = c.next(t, run.End()); err != nil {
				if len(t.picked) > 0 {
					return nil // it is met again
				}
				return err
			}
		}
		t.picked = append(t.picked, tailRun{run, c})
		if c.runs = rest; len(rest) > 0 {
			heap.Fix(&t.queues, 0)
		} else {
			heap.Pop(&t.queues)
		}
	}
	return nil
}

// read reads what was picked, as far as it can. What retention has removed it takes out.
func (t *Tail) read(dst *TailBatches) error {
	runs := make([]core.Run, len(t.picked))
	for i := range t.picked {
		runs[i] = t.picked[i].Run
	}
	for done := 0; done < len(t.picked); {
		n := stretch(runs)
		had := len(dst.batches.Items)
		err := t.r.readStretch(runs[:n], &dst.batches)
		if core.KindOf(err) == core.NotFound { // with the whole entry
			t.picked = append(t.picked[:done], t.picked[done+n:]...)
			runs = runs[n:]
			continue
		}
		for i, b := range dst.batches.Items[had:] {
			p := &t.picked[done+i]
			dst.Items = append(dst.Items, Appended{p.of.topic, p.of.partition, p.Index, b})
		}
		if err != nil {
			return err
		}
		done, runs = done+n, runs[n:]
	}
	return nil
}

// drop forgets the first n that were picked.
func (t *Tail) drop(n int) {
	rest := copy(t.picked, t.picked[n:])
	clear(t.picked[rest:])
	t.picked = t.picked[:rest]
}

// tailQueue is a queue of which a round has runs to hand out.
type tailQueue struct {
	queue     core.QueueID
	topic     *Topic
	partition int32
	chunk     int
	runs      []core.Run // the next ones; not empty while it is in tailQueues
}

// next are the runs from an offset on that belong to the round; none when the queue is gone.
func (c *tailQueue) next(t *Tail, from core.Offset) ([]core.Run, error) {
	runs, err := t.r.state.Store().Runs(c.queue, from, c.chunk, nil)
	if err != nil {
		if core.KindOf(err) == core.NotFound {
			err = nil
		}
		return nil, err
	}
	i := slices.IndexFunc(runs, func(run core.Run) bool { return run.Index > t.upTo })
	if i >= 0 {
		runs = runs[:i]
	}
	return runs, nil
}

// tailQueues is a heap by the place of the first run in the log.
type tailQueues []*tailQueue

// Len implements heap.Interface.
func (q tailQueues) Len() int { return len(q) }

// Less implements heap.Interface.
func (q tailQueues) Less(i, j int) bool {
	a, b := &q[i].runs[0], &q[j].runs[0]
	return a.Index < b.Index || a.Index == b.Index && a.Pos < b.Pos
}

// Swap implements heap.Interface.
func (q tailQueues) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *tailQueues) Push(x any) { *q = append(*q, x.(*tailQueue)) }

// Pop implements heap.Interface.
func (q *tailQueues) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}
