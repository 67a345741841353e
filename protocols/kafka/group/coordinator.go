package group

import "time"

// Coordinator is all groups of one leader. It is not safe for concurrent use. The
// functions that receive answers are called once, from within any of its methods that
// takes the time; they must not block and must not call the Coordinator.
type Coordinator struct {
	cfg       Config
	groups    map[string]*group
	consumers map[string]*consumers // of the new protocol; no name is in both
	timers    timers
	bytes     int64 // sum of the sizes of groups and members, pending ones included
	count     int   // members
}

// New is a coordinator without groups.
func New(cfg Config) *Coordinator {
	cfg.EnsureDefaults()
	return &Coordinator{cfg: cfg, groups: map[string]*group{}, consumers: map[string]*consumers{}}
}

// Next is the time before which Tick does nothing; false when there is none.
func (c *Coordinator) Next() (time.Time, bool) { return c.timers.next() }

// Tick does what is due at now.
func (c *Coordinator) Tick(now time.Time) {
	for t := c.timers.expired(now); t != nil; t = c.timers.expired(now) {
		t.fire(now)
	}
}

// deadline is the group's own timer.
func (c *Coordinator) deadline(now time.Time, g *group) {
	switch g.state {
	case PreparingRebalance:
		c.joinDeadline(now, g)
	case CompletingRebalance, Stable:
		c.syncDeadline(now, g)
	case Empty:
		if len(g.pending) > 0 {
			c.timers.set(&g.timer, now.Add(c.cfg.KeepEmpty))
		} else {
			c.drop(g)
		}
	case Dead:
	}
}

// drop forgets a group without members.
func (c *Coordinator) drop(g *group) {
	for _, m := range g.pending {
		c.remove(g, m)
	}
	c.timers.stop(&g.timer)
	c.bytes -= g.size()
	delete(c.groups, g.id)
}

// sessionEnds puts out a member that has given no sign of life for its session's time.
func (c *Coordinator) sessionEnds(now time.Time, g *group, m *member) {
	if m.waits() && !m.isNew {
		return // the clock starts again with the answer
	}
	c.remove(g, m)
	c.cfg.Logger.Info("member of consumer group expired", "group", g.id, "member", m.id, "session", m.session)
	c.afterRemoval(now, g, "member expired")
}

// touch starts m's session anew.
func (c *Coordinator) touch(now time.Time, m *member) { c.timers.set(&m.timer, now.Add(m.session)) }

// remove takes a member out, with an answer to what it waits for.
func (c *Coordinator) remove(g *group, m *member) {
	if g.byID[m.id] == m {
		c.count--
	}
	c.replyJoin(g, m, Joined{Code: UnknownMemberID, Generation: -1})
	c.replySync(m, Synced{Code: UnknownMemberID})
	c.timers.stop(&m.timer)
	c.bytes -= m.size()
	g.remove(m)
}

// afterRemoval lets the group go on without those that were removed.
func (c *Coordinator) afterRemoval(now time.Time, g *group, reason string) {
	switch g.state {
	case CompletingRebalance, Stable:
		c.rebalance(now, g, reason)
	case PreparingRebalance:
		c.maybeEndJoin(now, g)
	case Empty, Dead:
	}
}

// replyJoin answers m's parked JoinGroup, if there is one.
func (c *Coordinator) replyJoin(g *group, m *member, r Joined) {
	if m.join != nil {
		g.joining--
		reply := m.join
		m.join = nil
		reply(r)
	}
}

// replySync answers m's parked SyncGroup, if there is one.
func (c *Coordinator) replySync(m *member, r Synced) {
	if m.sync != nil {
		reply := m.sync
		m.sync = nil
		reply(r)
	}
}

// Reset forgets all groups and answers all that wait with code: leadership is lost.
func (c *Coordinator) Reset(code Code) {
	groups := c.groups
	c.groups, c.consumers = map[string]*group{}, map[string]*consumers{}
	c.timers, c.bytes, c.count = nil, 0, 0
	for _, g := range groups {
		for _, m := range g.members {
			c.replyJoin(g, m, Joined{Code: code, Generation: -1, Member: m.id})
			c.replySync(m, Synced{Code: code})
		}
	}
}

// lookup finds the member that a request speaks for.
func (c *Coordinator) lookup(id, memberID, instance string) (*group, *member, Code) {
	if id == "" {
		return nil, nil, InvalidGroupID
	}
	g := c.groups[id]
	if g == nil {
		return nil, nil, UnknownMemberID
	}
	m, code := g.member(memberID, instance)
	return g, m, code
}

// member finds a member. A static one must be the current holder of its instance.
func (g *group) member(id, instance string) (*member, Code) {
	if instance != "" {
		switch holder := g.static[instance]; {
		case holder == nil:
			return nil, UnknownMemberID
		case holder.id != id:
			return nil, FencedInstanceID
		}
	}
	m := g.byID[id]
	if m == nil {
		return nil, UnknownMemberID
	}
	return m, None
}
