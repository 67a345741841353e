package routertest

import (
	"context"
	"sync"
	"time"

	"polylog/core"
)

// cluster is what the nodes of one log share.
type cluster struct {
	clock func() time.Time

	mu      sync.Mutex // guards what follows and makes one applier of the callers
	applied *sync.Cond // on mu: a node has applied something
	entries []core.Entry
	term    core.Term
	trimmed core.LogIndex
	refuse  error
	loses   bool // the outcome of the next proposal
	nodes   []*Log
	leader  *Log          // nil: nobody leads
	changed chan struct{} // closed, and replaced, when leader changes
	open    map[*conversation]struct{}
	absent  map[string]core.Member // members that nobody runs
}

// conversation is an open stream.
type conversation struct {
	from, to *Log
	cancel   context.CancelFunc
}

func newCluster(clock func() time.Time) *cluster {
	c := &cluster{clock: clock, term: 1, open: map[*conversation]struct{}{}, absent: map[string]core.Member{}, changed: make(chan struct{})}
	c.applied = sync.NewCond(&c.mu)
	return c
}

// reachLocked is why a node cannot reach the leader, or nil.
func (c *cluster) reachLocked(from *Log) error {
	switch {
	case c.leader == nil:
		return core.E(core.NotLeader, "this node does not lead")
	case c.leader != from && (from.alone || c.leader.alone):
		return core.E(core.Unavailable, "the leader cannot be reached")
	}
	return nil
}

// proposeLocked has every node apply a command. The result is the leader's.
func (c *cluster) proposeLocked(from *Log, command core.Command) (core.Result, error) {
	if c.refuse != nil {
		return core.Result{}, c.refuse
	}
	if err := c.reachLocked(from); err != nil {
		return core.Result{}, err
	}
	if command.Term != 0 && (c.leader != from || c.term != command.Term) {
		return core.Result{}, core.E(core.NotLeader, "this node does not lead in term %d", command.Term)
	}
	data := core.AppendEntryHeader(make([]byte, 0, core.EntryHeaderLen+command.EncodedLen()), c.clock().UnixMilli())
	e := core.Entry{Index: core.LogIndex(len(c.entries) + 1), Term: c.term, Data: core.AppendCommand(data, &command)}
	c.entries = append(c.entries, e)
	leader := c.leader
	result := leader.state.Apply([]core.Entry{e})[0][0]
	leader.next++
	for _, l := range c.nodes {
		l.applyLocked()
	}
	if c.loses {
		c.loses = false
		return core.Result{}, core.E(core.Uncertain, "the leader was lost")
	}
	return result, nil
}

// applyLocked has the node apply what it has not yet.
func (l *Log) applyLocked() {
	for !l.held && int(l.next) <= len(l.entries) {
		l.state.Apply(l.entries[l.next-1 : l.next])
		l.next++
	}
	l.applied.Broadcast()
}

// Handle implements router.Log.
func (l *Log) Handle(service string, fn func(peer string, s core.Stream) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serve[service] = fn
}

// OpenStream implements router.Log.
func (l *Log) OpenStream(ctx context.Context, nodeID, service string) (core.Stream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var to *Log
	for _, o := range l.nodes {
		if o.id == nodeID {
			to = o
		}
	}
	switch {
	case to == nil:
		return nil, core.E(core.NotFound, "no node %q in this cluster", nodeID)
	case to != l && (to.alone || l.alone):
		return nil, core.E(core.Unavailable, "node %q cannot be reached", nodeID)
	}
	fn := to.serve[service]
	if fn == nil {
		fn = func(string, core.Stream) error {
			return core.E(core.Unavailable, "node %q does not serve %q", nodeID, service)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	near, serve := core.NewStreamPipe(ctx)
	v := &conversation{from: l, to: to, cancel: cancel}
	l.open[v] = struct{}{}
	to.streams.Go(func() {
		serve(func(far core.Stream) error { return fn(l.id, far) })
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, v)
	})
	return near, nil
}

// endStreamsLocked ends the streams of a node, in either direction.
func (c *cluster) endStreamsLocked(l *Log) {
	for v := range c.open {
		if v.from == l || v.to == l {
			v.cancel()
		}
	}
}
