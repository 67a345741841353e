package simtest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"polylog/core"
	"polylog/router/state"
)

const (
	partitions = 3
	producers  = 3 // idempotent ones, which try again until they know
	appenders  = 2 // plain ones, which try once
	committers = 2
	readers    = 3
)

func within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

func (w *world) startClients(wg *sync.WaitGroup, stop <-chan struct{}) {
	stream := uint64(100)
	start := func(run func(*client), count int) {
		for i := range count {
			stream++
			c := &client{w: w, number: i, rnd: rand.New(rand.NewPCG(w.seed, stream)), stop: stop}
			wg.Go(func() { run(c) })
		}
	}
	start((*client).produce, producers)
	start((*client).append, appenders)
	start((*client).commit, committers)
	start((*client).read, readers)
	start((*client).trim, 1)
}

// client is somebody who uses the cluster through any node. Its choices come from the
// seed.
type client struct {
	w      *world
	number int
	rnd    *rand.Rand
	stop   <-chan struct{}
}

func (c *client) between(from, to time.Duration) time.Duration {
	return from + time.Duration(c.rnd.Int64N(int64(to-from)))
}

// think reports false when the client is to end.
func (c *client) think(from, to time.Duration) bool {
	if c.w.hopeless() {
		return false
	}
	select {
	case <-c.stop:
		return false
	case <-time.After(c.between(from, to)):
		return true
	}
}

// process is a process to ask, of any node that is up. It waits while clients are to be
// quiet.
func (c *client) process() *process {
	for !c.w.hopeless() {
		if p := c.w.nodes[c.rnd.IntN(len(c.w.nodes))].process(); p != nil && !c.w.quiet.Load() {
			return p
		}
		pause(50 * time.Millisecond)
	}
	return nil
}

func (c *client) queue() *queue {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	ids := make([]core.QueueID, 0, partitions)
	for i := range core.QueueID(1 << 10) {
		if _, ok := c.w.queues[i]; ok {
			ids = append(ids, i)
		}
	}
	return c.w.queues[ids[c.rnd.IntN(len(ids))]]
}

// propose has a process do a command. What a process that has died meanwhile says does
// not count: nobody has heard it.
func (c *client) propose(p *process, cmd core.Command) (core.Result, error) {
	ctx, cancel := within(c.between(time.Second, 8*time.Second))
	defer cancel()
	r, err := p.broker.Propose(ctx, cmd)
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if p.dead.Load() {
		return core.Result{}, core.E(core.Uncertain, "the process has died")
	}
	if core.KindOf(err) == core.Uncertain {
		c.w.stats.Uncertain++
	}
	return r, err
}

// batch makes one batch of the message: records that say which message they are of, and
// their place in it.
func (c *client) batch(m *message, p core.Producer) []byte {
	var bb core.BatchBuilder
	pad := bytes.Repeat([]byte{'.'}, c.rnd.IntN(1500))
	for k := range m.count {
		bb.Add(time.Now().UnixMilli(), nil, append(record{m.id, k}.text(), pad...))
	}
	b, err := bb.Build(nil, core.BatchOptions{Producer: p})
	if err != nil {
		panic(err)
	}
	return b
}

// produce is an idempotent producer: one message after the other, each sent until it is
// acknowledged.
func (c *client) produce() {
	q := c.queue()
	p := core.Producer{ID: int64(1000 + c.number)}
	for c.think(20*time.Millisecond, 200*time.Millisecond) {
		m := c.w.newMessage(q, 1+c.rnd.IntN(3), c.number)
		batch := c.batch(m, p)
		for acked := false; !acked; {
			to := c.process()
			if to == nil {
				return
			}
			r, err := c.propose(to, state.AppendCommand(q.id, batch))
			switch {
			case err != nil:
				pause(c.between(10*time.Millisecond, 300*time.Millisecond))
			case r.Err != nil:
				c.w.fail("producer %d, sequence %d: %v", p.ID, p.Sequence, r.Err)
				return
			default:
				acked = c.w.ack(to, m, r.Offset)
			}
		}
		p.Sequence += int32(m.count)
	}
}

// append sends each message once.
func (c *client) append() {
	for c.think(20*time.Millisecond, 200*time.Millisecond) {
		if to := c.process(); to != nil {
			c.appendAt(to)
		}
	}
}

// appendAt sends one message once, to a process.
func (c *client) appendAt(to *process) {
	q := c.queue()
	m := c.w.newMessage(q, 1+c.rnd.IntN(3), -1)
	r, err := c.propose(to, state.AppendCommand(q.id, c.batch(m, core.Nobody)))
	switch kind := core.KindOf(err); {
	case kind == core.Uncertain:
	case err != nil:
		c.w.refused(m, err)
	case r.Err != nil:
		c.w.fail("append of %s: %v", m.id, r.Err)
	default:
		c.w.ack(to, m, r.Offset)
	}
}

// commit is the one who commits a group's position: higher and higher.
func (c *client) commit() {
	q := c.queue()
	g := c.w.newGroup(fmt.Sprint("g", c.number), q)
	for c.think(50*time.Millisecond, 300*time.Millisecond) {
		to := c.process()
		if to == nil {
			return
		}
		at := c.w.nextCommit(g)
		cmd := state.CommitOffsets{Group: g.name, Offsets: []state.OffsetCommit{{Queue: q.id, Offset: at}}}
		r, err := c.propose(to, cmd.Command())
		switch {
		case err == nil && r.Err == nil && len(r.Body) == 1 && core.Kind(r.Body[0]) == core.OK:
			c.w.committed(to, g, at)
		case err == nil:
			c.w.fail("commit of group %s: %v %v", g.name, r, r.Body)
		case core.KindOf(err) == core.Uncertain:
			c.w.maybeCommitted(g, at)
		}
	}
}

// read reads what is up to date, at any node.
func (c *client) read() {
	for c.think(30*time.Millisecond, 300*time.Millisecond) {
		to := c.process()
		if to == nil {
			return
		}
		q := c.queue()
		known := c.w.known(q)
		ctx, cancel := within(c.between(time.Second, 8*time.Second))
		err := to.broker.ReadIndex(ctx)
		cancel()
		if err != nil {
			continue
		}
		c.w.look(to, q, known, c.rnd)
	}
}

// trim moves queues' starts and has nodes remove what that sets free, as retention does.
func (c *client) trim() {
	for c.think(500*time.Millisecond, 3*time.Second) {
		q := c.queue()
		to := c.process()
		if to == nil {
			return
		}
		before, ok := c.w.trimPoint(q, c.rnd)
		if ok {
			cmd := state.TrimQueues{Trims: []state.Trim{{Queue: q.id, Before: before}}}
			if r, err := c.propose(to, cmd.Command()); err == nil && r.Err != nil {
				c.w.fail("trim: %v", r.Err)
			}
		}
		for _, nd := range c.w.nodes {
			if p := nd.process(); p != nil && c.rnd.IntN(3) > 0 {
				if live := p.state.FirstLive(); live > 0 {
					p.broker.Trim(live - 1)
				}
			}
		}
	}
}
