package router

import (
	"sync"

	"polylog/core"
	"polylog/router/dispatch"
	"polylog/router/state"
)

// hubGroup is one group that is in use. After each input it makes what deliveries there
// are to make and hands them to the sessions.
type hubGroup struct {
	h   *hub
	key groupKey

	mu        sync.Mutex // guards what follows
	g         *dispatch.Group
	dead      bool // dropped: another one may be in its place
	leaving   bool // nobody uses it, and that is being proposed
	end       core.Offset
	due       int64 // when the timers call tick; 0: not at all
	consumers map[dispatch.ConsumerID]*hubConsumer
}

// hubConsumer is a consumer of a group.
type hubConsumer struct {
	session   *hubSession
	id        uint64 // the node's
	countLost bool   // what it holds when it is lost has failed
	leased    bool   // what it holds stays its own until the leases end
	out       []handed
}

// load takes the group from the replicated state, once. It is false where the group was
// dropped.
func (g *hubGroup) load() (alive bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead || g.g != nil {
		return !g.dead, nil
	}
	g.h.feed.add(g) // first, so that nothing that is appended meanwhile is missed
	acks, err := g.h.r.state.Acks(g.key.queue, g.key.group)
	if err != nil {
		g.dropLocked()
		return false, err
	}
	start := dispatch.Start{
		Settled: acks.Settled, Begin: acks.Start, End: acks.End, Mark: acks.Mark, SingleActive: acks.SingleActive,
		Limits: dispatch.NoLimits,
		Failed: make([]dispatch.Failed, len(acks.Failed)),
	}
	start.Failures = acks.DeliveryLimit
	for i, f := range acks.Failed {
		start.Failed[i] = dispatch.Failed(f)
	}
	g.g, g.end = dispatch.New(start), acks.End
	g.consumers = map[dispatch.ConsumerID]*hubConsumer{}
	return true, nil
}

// dropLocked takes the group out of everything.
func (g *hubGroup) dropLocked() {
	g.dead = true
	g.h.feed.remove(g)
	g.h.timers.set(g, 0)
	g.h.forget(g)
}

// kill drops the group without a word to its consumers.
func (g *hubGroup) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.dead {
		g.dropLocked()
	}
}

// do gives the group an input.
func (g *hubGroup) do(input func(*dispatch.Group)) (done bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead {
		return false
	}
	g.imposeLocked()
	input(g.g)
	g.pumpLocked()
	return true
}

func (g *hubGroup) attach(s *hubSession, m *toHub, id dispatch.ConsumerID) (alive bool, err error) {
	a := &m.attach
	alive = g.do(func(d *dispatch.Group) {
		err = d.Attach(dispatch.Consumer{
			ID: id, Priority: a.priority, Prefetch: a.prefetch, Credit: a.credit, Lease: a.leaseMS,
			Exclusive: a.exclusive, NoAck: a.noAck,
		})
		if err == nil {
			g.consumers[id] = &hubConsumer{session: s, id: m.consumer, countLost: a.countLost, leased: a.leaseMS > 0}
			s.out(fromHub{kind: hubAttached, consumer: m.consumer})
		}
	})
	return alive, err
}

// detach removes a consumer that has gone or was lost.
func (g *hubGroup) detach(id dispatch.ConsumerID) {
	g.do(func(d *dispatch.Group) {
		c := g.consumers[id]
		delete(g.consumers, id)
		if c.leased {
			d.Cancel(id)
			return
		}
		g.failedLocked(d.Detach(id, c.countLost, nil))
	})
}

// failedLocked proposes that deliveries failed, and that it counts.
func (g *hubGroup) failedLocked(failed []dispatch.Failure) {
	for _, f := range failed {
		g.h.settler.add(g, func(p *pendingSettle) { p.fail(f.Offset, true, 0, f.Await) })
	}
}

// settle does what a consumer says of deliveries, and answers when it is committed. It is
// false, without an answer, where the group is dropped, as are the requests below.
func (g *hubGroup) settle(m *toHub, answer func(fromHub)) bool {
	kinds := make([]core.Kind, len(m.receipts))
	due := int64(0)
	if m.n > 0 {
		due = g.h.r.now() + m.n
	}
	waiting := false
	alive := g.do(func(d *dispatch.Group) {
		for i, r := range m.receipts {
			switch verdict := d.Settle(r.Offset, r.Serial, m.outcome, due); verdict {
			case dispatch.Stale:
				kinds[i] = core.Conflict
			case dispatch.Handled:
			case dispatch.Propose, dispatch.Await:
				waiting = true
				g.h.settler.add(g, func(p *pendingSettle) { p.outcome(r.Offset, m.outcome, due, verdict == dispatch.Await) })
			}
		}
		if waiting && m.request != 0 {
			g.h.settler.add(g, func(p *pendingSettle) {
				p.told = append(p.told, func(err error) { answer(fromHub{err: err, kinds: kinds}) })
			})
		}
	})
	if alive && !waiting {
		answer(fromHub{kinds: kinds})
	}
	return alive
}

func (g *hubGroup) extend(m *toHub, answer func(fromHub)) bool {
	kinds := make([]core.Kind, len(m.receipts))
	until := g.h.r.now() + m.n
	alive := g.do(func(d *dispatch.Group) {
		for i, r := range m.receipts {
			if !d.Extend(r.Offset, r.Serial, until) {
				kinds[i] = core.Conflict
			}
		}
	})
	if alive {
		answer(fromHub{kinds: kinds})
	}
	return alive
}

// purge settles what is with nobody; the answer's count of ready messages is what it was.
func (g *hubGroup) purge(answer func(fromHub)) bool {
	var counts QueueCounts
	return g.do(func(d *dispatch.Group) {
		spans := d.Purge(nil)
		for _, sp := range spans {
			counts.Ready += sp.Len()
		}
		g.h.settler.add(g, func(p *pendingSettle) {
			p.Done = append(p.Done, spans...)
			p.told = append(p.told, func(err error) { answer(fromHub{err: err, counts: counts}) })
		})
	})
}

func (g *hubGroup) count(answer func(fromHub)) bool {
	var c QueueCounts
	alive := g.do(func(d *dispatch.Group) {
		c.Ready, c.Unsettled, c.Delayed = d.Counts()
		c.Consumers = d.Consumers()
	})
	if alive {
		answer(fromHub{counts: c})
	}
	return alive
}

// pumpLocked makes the deliveries that can be made, and sees to what follows from the
// group's state.
func (g *hubGroup) pumpLocked() {
	now := g.h.r.now()
	var served []*hubConsumer
	var done []core.Offset
	for {
		d, ok := g.g.Next(now, g.h.serial.Add(1))
		if !ok {
			break
		}
		if d.NoAck {
			done = append(done, d.Offset)
		}
		c := g.consumers[d.Consumer]
		if len(c.out) == 0 {
			served = append(served, c)
		}
		c.out = append(c.out, handed{Receipt{d.Offset, d.Serial}, d.Attempts, d.Redelivered})
		g.h.r.met.delivered(d.Redelivered)
	}
	for _, c := range served {
		c.session.out(fromHub{kind: hubDeliver, consumer: c.id, deliveries: c.out})
		c.out = nil
	}
	if len(done) > 0 {
		g.h.settler.add(g, func(p *pendingSettle) {
			for _, o := range done {
				p.done(o)
			}
		})
	}
	if mark, ok := g.g.WantMark(); ok {
		g.h.settler.add(g, func(p *pendingSettle) {
			p.setMark(mark)
			if p.leaving { // somebody came back before that was proposed
				p.leaving, g.leaving = false, false
			}
		})
	}
	if at, _ := g.g.Due(); at != g.due {
		g.due = at
		g.h.timers.set(g, at)
	}
	if !g.leaving && g.g.Idle() {
		mark, need := g.g.Leave()
		if !need {
			g.dropLocked()
			return
		}
		g.leaving = true
		g.h.settler.add(g, func(p *pendingSettle) {
			p.setMark(mark)
			p.leaving = true
		})
	}
}

// grown looks at the end of the queue, which has changed, or at whether it is still there.
func (g *hubGroup) grown() {
	head, _, err := g.h.r.state.Store().Queue(g.key.queue)
	if err != nil {
		return // of the store: this node is going down
	}
	g.mu.Lock()
	if g.dead || g.g == nil {
		g.mu.Unlock()
		return
	}
	if head.End > g.end {
		g.end = head.End
		g.g.Grow(head.End)
		g.pumpLocked()
		g.mu.Unlock()
		return
	}
	_, err = g.h.r.state.Unsettled(g.key.queue, g.key.group)
	if core.KindOf(err) != core.NotFound {
		g.mu.Unlock()
		return
	}
	g.endLocked(err)
}

// endLocked ends the consumers of a group that was deleted. It lets go of mu.
func (g *hubGroup) endLocked(err error) {
	g.dropLocked()
	gone := g.consumers
	g.consumers = nil
	g.mu.Unlock()
	for _, c := range gone {
		c.session.mu.Lock()
		delete(c.session.consumers, c.id)
		c.session.mu.Unlock()
		c.session.out(fromHub{kind: hubEnded, consumer: c.id, err: err})
	}
}

// tick lets time pass.
func (g *hubGroup) tick() {
	now := g.h.r.now()
	g.do(func(d *dispatch.Group) {
		g.due = 0 // the timers have forgotten it
		g.failedLocked(d.Tick(now, nil))
	})
}

// settled is told what became of a proposal.
func (g *hubGroup) settled(p *pendingSettle, out *state.GroupSettled) {
	g.mu.Lock()
	if g.dead {
		g.mu.Unlock()
		return
	}
	if out.Kind != core.OK {
		g.endLocked(core.E(out.Kind, "queue %d has no group %q any more", g.key.queue, g.key.group))
		return
	}
	defer g.mu.Unlock()
	for i, f := range p.Failed {
		fate := out.Failed[i]
		g.h.r.met.buried(fate)
		switch {
		case p.awaited[i]:
			g.g.Decided(f.Offset, fate == state.Again)
		case fate != state.Again:
			g.g.Gone(f.Offset)
		}
	}
	for i, o := range p.Rejected {
		g.h.r.met.buried(out.Rejected[i])
		g.g.Decided(o, false)
	}
	if p.SetMark && !p.leaving {
		g.g.Marked(p.Mark)
	}
	if p.leaving {
		g.leaving = false
	}
	if p.leaving && g.g.Idle() {
		g.dropLocked()
		return
	}
	g.pumpLocked()
}

// imposeLocked does what transactions settled of the group.
func (g *hubGroup) imposeLocked() {
	for _, t := range g.h.feed.takeImposed(g.key) {
		if t.Outcome.Kind != core.OK {
			continue
		}
		g.h.r.met.settled.Add(float64(t.Outcome.Settled))
		for _, sp := range t.Done {
			for o := sp.First; o < min(sp.End, g.end); o++ {
				g.g.Impose(o, true)
			}
		}
		for i, f := range t.Failed {
			g.h.r.met.buried(t.Outcome.Failed[i])
			g.g.Impose(f.Offset, t.Outcome.Failed[i] != state.Again)
		}
		for i, o := range t.Rejected {
			g.h.r.met.buried(t.Outcome.Rejected[i])
			g.g.Impose(o, true)
		}
	}
}
