package router

import (
	"slices"
	"sync"

	"polylog/core"
	"polylog/router/dispatch"
	"polylog/router/state"
)

// hubGroup is one group that is in use. After each input it makes what deliveries there
// are to make and hands them to the sessions.
type hubGroup struct {
	h    *hub
	key  groupKey
	term core.Term // of the leader that this group is of

	mu        sync.Mutex // guards what follows
	g         *dispatch.Group
	dead      bool // dropped: another one may be in its place
	leaving   bool // nobody uses it, and that is being proposed
	resync    bool // the state is to look at the queue's timers again
	pending   int  // parts of settle commands that are on their way
	end       core.Offset
	due       int64 // when the timers call tick; 0: not at all
	consumers map[dispatch.ConsumerID]*hubConsumer

	rules   groupRules
	used    bool            // it has consumers, or had some and is to be deleted
	ending  bool            // the keeper was told to delete it
	dying   int             // messages that are proposed as dead
	aloft   int64           // with consumers, as last reported
	waiting []func(fromHub) // to be told when the queue is deleted, or used again
	getters []getter        // that wait for a mark
}

// hubConsumer is a consumer of a group.
type hubConsumer struct {
	session   *hubSession
	id        uint64 // the node's
	fence     uint64 // see ConsumeSpec
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
	if err := g.rules.load(g.h.r, g.key, acks.DeliveryLimit); err != nil {
		g.dropLocked()
		return false, err
	}
	start := dispatch.Start{
		Settled: acks.Settled, Begin: acks.Start, End: acks.End, Mark: acks.Mark, SingleActive: acks.SingleActive,
		Limits: g.rules.limits, Known: g.rules.known(),
		Failed: make([]dispatch.Failed, len(acks.Failed)),
	}
	for i, f := range acks.Failed {
		start.Failed[i] = dispatch.Failed(f)
	}
	g.g, g.end = dispatch.New(start), acks.End
	g.rules.rank(g.g, acks.Start, acks.End)
	g.consumers = map[dispatch.ConsumerID]*hubConsumer{}
	return true, nil
}

// dropLocked takes the group out of everything.
func (g *hubGroup) dropLocked() {
	g.dead = true
	g.h.feed.remove(g)
	g.h.timers.set(g, 0)
	g.h.forget(g)
	if g.rules.timed() {
		g.h.r.keeper.queueChanged(g.key.queue) // whose timers nobody minds now
	}
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

// look has the group see what there is now. The end of its queue is read anew: the news of what was
// appended last may come when this group is gone, and to nobody then.
func (g *hubGroup) look() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead {
		return false
	}
	g.imposeLocked()
	g.resync = true
	g.growLocked()
	return true
}

// attach adds a consumer. fenced are those that it ends: their sessions are to be told.
func (g *hubGroup) attach(s *hubSession, m *toHub, id dispatch.ConsumerID) (fenced []*hubConsumer, alive bool, err error) {
	a := &m.attach
	alive = g.do(func(d *dispatch.Group) {
		for other, c := range g.consumers {
			switch {
			case a.fence == 0:
			case c.fence > a.fence:
				err = errFenced(m)
				return
			case c.fence < a.fence:
				delete(g.consumers, other)
				g.failedLocked(d.Detach(other, c.countLost, nil))
				fenced = append(fenced, c)
			}
		}
		err = d.Attach(dispatch.Consumer{
			ID: id, Priority: a.priority, Prefetch: a.prefetch, Credit: a.credit, Lease: a.leaseMS,
			Exclusive: a.exclusive, Getter: a.getter,
		})
		if err == nil {
			g.consumers[id] = &hubConsumer{session: s, id: m.consumer, fence: a.fence, countLost: a.countLost, leased: a.leaseMS > 0}
			s.out(fromHub{kind: hubAttached, consumer: m.consumer})
		}
	})
	return fenced, alive, err
}

func errFenced(m *toHub) error {
	return core.E(core.Fenced, "queue %d, group %q: there is a consumer under a newer lease", m.queue, m.group)
}

// detach removes a consumer that has gone or was lost.
func (g *hubGroup) detach(id dispatch.ConsumerID) {
	g.do(func(d *dispatch.Group) {
		c := g.consumers[id]
		if c == nil {
			return // it was fenced just now
		}
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
		if m.outcome == dispatch.Release || m.outcome == dispatch.Fail {
			g.growLocked()                   // what was confirmed counts
			waiting = waiting || g.dying > 0 // what is too much now is dead when that is answered
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

// hold answers which deliveries are still the consumers' who have the receipts, and claims them.
func (g *hubGroup) hold(m *toHub, answer func(fromHub)) bool {
	kinds := make([]core.Kind, len(m.receipts))
	until := int64(0)
	if m.n > 0 {
		until = g.h.r.now() + m.n
	}
	alive := g.do(func(d *dispatch.Group) {
		for i, r := range m.receipts {
			if !d.Claim(r.Offset, r.Serial, until) {
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
		g.growLocked() // what was confirmed goes, too
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

// count answers with what the group is doing. Where the queue is about to be deleted because
// its last consumer left, it waits for that.
func (g *hubGroup) count(answer func(fromHub)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead {
		return false
	}
	g.growLocked()
	if g.endingLocked() {
		g.waiting = append(g.waiting, answer)
		return true
	}
	answer(fromHub{counts: g.countsLocked()})
	return true
}

func (g *hubGroup) countsLocked() (c QueueCounts) {
	c.Ready, c.Unsettled, c.Delayed = g.g.Counts()
	c.Unsettled -= int64(g.dying)
	c.Consumers = g.g.Active()
	return c
}

// endingLocked reports whether the queue is to be deleted, as soon as the state knows that it
// had a consumer.
func (g *hubGroup) endingLocked() bool {
	return g.used && g.rules.autoDelete && g.g.Active() == 0
}

// get makes one delivery to a consumer that asks for each, and answers with it, or without
// one where there is none.
func (g *hubGroup) get(s *hubSession, m *toHub, answer func(fromHub)) bool {
	s.mu.Lock()
	a, ok := s.consumers[m.consumer]
	s.mu.Unlock()
	if !ok {
		answer(fromHub{err: core.E(core.Closed, "the consumer has ended")})
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead {
		return false
	}
	g.touchLocked()
	g.growLocked()
	g.getLocked(a.id, answer)
	return true
}

// getLocked answers at once, or when the mark is committed that it needs.
func (g *hubGroup) getLocked(id dispatch.ConsumerID, answer func(fromHub)) {
	d, ok := g.g.Get(id, g.h.r.now(), g.h.serial.Add(1))
	if !ok {
		_, there := g.consumers[id]
		if ready, _, _ := g.g.Counts(); there && ready > 0 && !g.g.Served() {
			g.getters = append(g.getters, getter{id, answer})
			g.pumpLocked() // which wants the mark
			return
		}
		answer(fromHub{counts: g.countsLocked()})
		return
	}
	g.h.r.met.delivered(d.Redelivered)
	answer(fromHub{
		deliveries: []handed{{Receipt{d.Offset, d.Serial}, d.Attempts, d.Redelivered}},
		counts:     g.countsLocked(),
	})
	g.pumpLocked()
}

// getter is a consumer that waits for the message that it asked for.
type getter struct {
	id     dispatch.ConsumerID
	answer func(fromHub)
}

// pumpLocked makes the deliveries that can be made, and sees to what follows from the
// group's state.
func (g *hubGroup) pumpLocked() {
	now := g.h.r.now()
	g.deliverLocked(now)
	for g.buryLocked(now) {
		g.deliverLocked(now) // of what is at the head now
	}
	if mark, ok := g.g.WantMark(); ok {
		g.h.settler.add(g, func(p *pendingSettle) {
			p.setMark(mark)
			if p.leaving { // somebody came back before that was proposed
				p.leaving, g.leaving = false, false
			}
		})
	}
	g.reportLocked()
	at, some := g.g.Due()
	if !some || at <= now && g.dying > 0 {
		at = 0 // nothing is due; in the second case, before those are gone
	}
	if at != g.due {
		g.due = at
		g.h.timers.set(g, at)
	}
	if !g.leaving && g.pending == 0 && g.idleLocked() {
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

// idleLocked reports whether nobody uses the group, nor waits for the end of its queue, or may come
// to wait for it.
func (g *hubGroup) idleLocked() bool { return g.g.Idle() && !g.ending && len(g.waiting) == 0 }

// deliverLocked hands out what consumers can take.
func (g *hubGroup) deliverLocked(now int64) {
	var served []*hubConsumer
	for {
		d, ok := g.g.Next(now, g.h.serial.Add(1))
		if !ok {
			break
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
}

// maxDying bounds the messages of a group that are proposed as dead at a time.
const maxDying = 1 << 11

// buryLocked proposes as dead what has expired, and what is too much. It reports whether
// something had expired: another message is at the head then.
func (g *hubGroup) buryLocked(now int64) bool {
	expired := g.g.Expire(now, maxDying-g.dying, nil)
	g.dying += len(expired)
	dropped := g.g.Overflow(maxDying-g.dying, nil)
	g.dying += len(dropped)
	if len(expired)+len(dropped) > 0 {
		g.h.settler.add(g, func(p *pendingSettle) {
			p.Expired = append(p.Expired, expired...)
			p.Overflowed = append(p.Overflowed, dropped...)
		})
	}
	return len(expired) > 0
}

// reportLocked tells the state what it cannot know and has to: who uses the queue, and, where
// a queue that is full refuses messages, how much is with consumers.
func (g *hubGroup) reportLocked() {
	active := g.g.Active() > 0
	if active {
		g.ending = false
		for _, answer := range g.waiting { // it goes on
			answer(fromHub{counts: g.countsLocked()})
		}
		g.waiting = nil
	}
	switch {
	case !g.rules.expires || active == g.used:
	case active:
		if g.used = true; g.rules.autoDelete {
			g.h.settler.add(g, func(p *pendingSettle) { p.use(state.UseBegan) })
		}
	case !g.rules.autoDelete:
		g.used = false
		g.h.settler.add(g, func(p *pendingSettle) { p.use(state.UseEnded) })
	case g.pending == 0 && !g.ending:
		g.ending = true
		g.h.r.keeper.queueChanged(g.key.queue) // to be deleted
	}
	if g.rules.rejects {
		_, flying, _ := g.g.Counts()
		if flying -= int64(g.dying); flying != g.aloft {
			g.aloft = flying
			bytes := g.rules.bytesOf(g.g)
			g.h.settler.add(g, func(p *pendingSettle) { p.SetAloft, p.Aloft, p.AloftBytes = true, flying, bytes })
		}
	}
	if g.resync {
		g.resync = false
		g.h.settler.add(g, func(*pendingSettle) {})
	}
}

// touchLocked keeps a queue that is used now and then from being taken for unused.
func (g *hubGroup) touchLocked() {
	if g.rules.expires && !g.rules.autoDelete && !g.used {
		g.h.settler.add(g, func(p *pendingSettle) { p.use(state.UseEnded) })
	}
}

// growLocked takes what was appended, and what the queue's definition says by now. What was
// appended under another leader is for that one to deliver, and as never delivered before, though
// this node may not have heard of it yet.
func (g *hubGroup) growLocked() {
	head, _, err := g.h.r.state.Store().Queue(g.key.queue)
	if err != nil {
		return // of the store: this node is going down
	}
	if g.h.r.state.Term() > g.term {
		g.h.suspectDeposed()
		return
	}
	if g.rules.refresh(g.h.r, g.key) {
		g.g.SetLimits(g.rules.limits, g.rules.known())
	}
	if head.End > g.end {
		was := g.end
		g.end = head.End
		g.g.Grow(head.End)
		g.rules.rank(g.g, was, head.End)
	}
	g.pumpLocked()
}

// grown looks at the end of the queue, which has changed, or at whether it is still there.
func (g *hubGroup) grown() {
	g.mu.Lock()
	if g.dead || g.g == nil {
		g.mu.Unlock()
		return
	}
	end := g.end
	if g.growLocked(); g.dead || g.end > end {
		g.mu.Unlock()
		return
	}
	_, err := g.h.r.state.Unsettled(g.key.queue, g.key.group)
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
	answers := g.waiting
	for _, w := range g.getters {
		answers = append(answers, w.answer)
	}
	g.waiting, g.getters = nil, nil
	g.mu.Unlock()
	for _, answer := range answers {
		answer(fromHub{err: err})
	}
	for _, c := range gone {
		c.end(err)
	}
}

// end forgets a consumer that its group has forgotten, and tells its node. Neither the group's nor a
// session's mu is held.
func (c *hubConsumer) end(err error) {
	c.session.mu.Lock()
	delete(c.session.consumers, c.id)
	c.session.mu.Unlock()
	c.session.out(fromHub{kind: hubEnded, consumer: c.id, err: err})
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
	g.pending--
	if g.dead {
		g.mu.Unlock()
		return
	}
	if out.Kind != core.OK {
		g.endLocked(core.E(out.Kind, "queue %d has no group %q any more", g.key.queue, g.key.group))
		return
	}
	defer g.mu.Unlock()
	g.againLocked(p, out)
	for i, f := range p.Failed {
		fate := out.Failed[i]
		g.h.r.met.buried(fate)
		switch {
		case fate == state.Later:
		case p.awaited[i]:
			g.g.Decided(f.Offset, fate == state.Again)
		case fate != state.Again:
			g.g.Gone(f.Offset)
		}
	}
	for i, o := range slices.Concat(p.Rejected, p.Expired, p.Overflowed) {
		fate := out.Rejected[i]
		if fate == state.Later {
			continue
		}
		g.h.r.met.buried(fate)
		g.g.Decided(o, false)
		if i -= len(p.Rejected); i >= 0 {
			g.dying--
			if i < len(p.Expired) {
				g.h.r.met.expired.Inc()
			}
		}
	}
	if p.SetMark && !p.leaving {
		g.g.Marked(p.Mark)
	}
	if p.leaving {
		g.leaving = false
	}
	if p.leaving && g.pending == 0 && g.idleLocked() {
		g.dropLocked()
		return
	}
	getters := g.getters
	g.getters = nil
	for _, w := range getters {
		g.getLocked(w.id, w.answer)
	}
	if !g.dead {
		g.pumpLocked()
	}
}

// againLocked proposes again what was put off, with those who wait for it.
func (g *hubGroup) againLocked(p *pendingSettle, out *state.GroupSettled) {
	if !slices.Contains(out.Failed, state.Later) && !slices.Contains(out.Rejected, state.Later) {
		return
	}
	g.h.settler.add(g, func(next *pendingSettle) {
		for i, f := range p.Failed {
			if out.Failed[i] == state.Later {
				next.fail(f.Offset, f.Counted, f.Due, p.awaited[i])
			}
		}
		fates := out.Rejected
		for _, part := range [...]struct{ from, to *[]core.Offset }{
			{&p.Rejected, &next.Rejected}, {&p.Expired, &next.Expired}, {&p.Overflowed, &next.Overflowed},
		} {
			for i, o := range *part.from {
				if fates[i] == state.Later {
					*part.to = append(*part.to, o)
				}
			}
			fates = fates[len(*part.from):]
		}
		next.told, p.told = append(next.told, p.told...), nil
	})
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
