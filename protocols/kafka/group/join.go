package group

import "time"

// Join handles a JoinGroup. reply is called now, or when the join phase is over.
func (c *Coordinator) Join(now time.Time, r Join, reply func(Joined)) {
	refuse := func(code Code, id string) { reply(Joined{Code: code, Generation: -1, Member: id}) }
	r.Protocols = distinct(r.Protocols)
	if r.Rebalance <= 0 {
		r.Rebalance = r.Session
	}
	if cg := c.consumers[r.Group]; cg != nil {
		if len(cg.members) > 0 {
			refuse(InconsistentProtocol, r.Member)
			return
		}
		c.dropConsumers(cg)
	}
	switch g := c.groups[r.Group]; {
	case r.Group == "":
		refuse(InvalidGroupID, r.Member)
	case r.Session < c.cfg.MinSession || r.Session > c.cfg.MaxSession:
		refuse(InvalidSessionTimeout, r.Member)
	case g == nil && r.Member != "":
		refuse(UnknownMemberID, r.Member)
	case g != nil && !c.hasRoom(g, r):
		if m := g.byID[r.Member]; m != nil {
			c.remove(g, m)
			c.afterRemoval(now, g, "group is full")
		}
		refuse(GroupMaxSizeReached, "")
	case protocolsLen(r.Protocols) > c.cfg.MaxMemberBytes:
		refuse(MessageTooLarge, r.Member)
	case c.bytes+int64(protocolsLen(r.Protocols))+memberOverhead+groupOverhead > c.cfg.MaxBytes:
		refuse(CoordinatorUnavailable, r.Member)
	case g == nil && !newGroup(r.Group).accepts(r.ProtocolType, r.Protocols),
		g != nil && !g.accepts(r.ProtocolType, r.Protocols):
		refuse(InconsistentProtocol, r.Member)
	case r.Member == "":
		c.joinNew(now, c.create(now, r.Group), r, reply)
	case g.pending[r.Member] != nil && r.Instance == "":
		c.enter(now, g, g.pending[r.Member], r, reply)
	default:
		m, code := g.member(r.Member, r.Instance)
		if code != None {
			refuse(code, r.Member)
			return
		}
		c.joinAgain(now, g, m, r, reply)
	}
}

// create is the group of that name, made if there is none.
func (c *Coordinator) create(now time.Time, id string) *group {
	g := c.groups[id]
	if g == nil {
		g = newGroup(id)
		g.timer.fire = func(now time.Time) { c.deadline(now, g) }
		c.groups[g.id] = g
		c.bytes += g.size()
		c.timers.set(&g.timer, now.Add(c.cfg.KeepEmpty))
	}
	return g
}

// hasRoom reports whether a join keeps the group within its maximum size. While
// members rejoin, those count that have: if the group is too large, the last to come
// are put out.
func (c *Coordinator) hasRoom(g *group, r Join) bool {
	m := g.byID[r.Member]
	if r.Member == "" {
		m = g.static[r.Instance] // whose place it takes
	}
	switch g.state {
	case PreparingRebalance:
		return m != nil && m.join != nil || g.joining < c.cfg.MaxSize
	case CompletingRebalance, Stable:
		return m != nil || len(g.members) < c.cfg.MaxSize
	default:
		return true
	}
}

// joinNew handles a JoinGroup without a member id.
func (c *Coordinator) joinNew(now time.Time, g *group, r Join, reply func(Joined)) {
	prefix := r.ClientID
	if r.Instance != "" {
		prefix = r.Instance
	}
	id := prefix + "-" + c.cfg.NewID()
	if old := g.static[r.Instance]; old != nil {
		c.takeOver(now, g, old, id, r, reply)
		return
	}
	m := &member{id: id, instance: r.Instance, session: r.Session}
	m.timer.fire = func(now time.Time) { c.sessionEnds(now, g, m) }
	c.bytes += m.size()
	if r.NeedsID && r.Instance == "" {
		g.pending[id] = m
		c.touch(now, m)
		reply(Joined{Code: MemberIDRequired, Generation: -1, Member: id})
		return
	}
	c.enter(now, g, m, r, reply)
}

// enter makes m a member and parks its JoinGroup.
func (c *Coordinator) enter(now time.Time, g *group, m *member, r Join, reply func(Joined)) {
	m.protocolType, m.isNew = r.ProtocolType, true
	c.count++
	g.grew = true
	c.park(g, m, r, reply)
	g.add(m)
	c.timers.set(&m.timer, now.Add(c.cfg.NewMember))
	c.rebalance(now, g, "member joined: "+r.Reason)
}

// park takes over what a JoinGroup says about m, which may not be in the group yet,
// and keeps its reply. A JoinGroup that m has parked before was given up by the client.
func (c *Coordinator) park(g *group, m *member, r Join, reply func(Joined)) {
	c.replyJoin(g, m, Joined{Code: RebalanceInProgress, Generation: -1, Member: m.id})
	c.bytes -= m.size()
	in := g.byID[m.id] == m
	if in {
		g.vote(m, -1)
	}
	m.clientID, m.clientHost = r.ClientID, r.ClientHost
	m.session, m.rebalance = r.Session, r.Rebalance
	m.protocols = r.Protocols
	if in {
		g.vote(m, +1)
	}
	c.bytes += m.size()
	m.join = reply
	g.joining++
}

// joinAgain handles the JoinGroup of a member.
func (c *Coordinator) joinAgain(now time.Time, g *group, m *member, r Join, reply func(Joined)) {
	switch {
	case g.state == PreparingRebalance:
		c.park(g, m, r, reply)
		c.maybeEndJoin(now, g)
	case g.state == CompletingRebalance && m.matches(r.Protocols):
		// The answer to its first JoinGroup was lost.
		c.touch(now, m)
		reply(g.joined(m))
	case g.state == Stable && m != g.leader && m.matches(r.Protocols):
		// A follower with nothing new: it goes on to SyncGroup. A leader that joins
		// again has a reason that we cannot see, such as new partitions.
		c.touch(now, m)
		reply(g.joined(m))
	case g.state == Empty || g.state == Dead: // has no members
		reply(Joined{Code: UnknownMemberID, Generation: -1, Member: m.id})
	default:
		c.park(g, m, r, reply)
		c.rebalance(now, g, "member joined again: "+r.Reason)
	}
}

// joined is the answer to m's JoinGroup in this generation.
func (g *group) joined(m *member) Joined {
	j := Joined{
		Member:       m.id,
		Generation:   g.generation,
		ProtocolType: g.protocolType,
		Protocol:     g.protocol,
		Leader:       g.leader.id,
	}
	if m == g.leader {
		j.Members = make([]ProtocolMember, len(g.members))
		for i, o := range g.members {
			j.Members[i] = ProtocolMember{Member: o.id, Instance: o.instance, Metadata: o.metadata(g.protocol)}
		}
	}
	return j
}

// takeOver gives the place of a static member to a new process that has its instance
// id. Nothing else changes if the group is Stable and stays with its protocol.
func (c *Coordinator) takeOver(now time.Time, g *group, m *member, id string, r Join, reply func(Joined)) {
	c.replyJoin(g, m, Joined{Code: FencedInstanceID, Generation: -1, Member: m.id})
	c.replySync(m, Synced{Code: FencedInstanceID})
	oldLeader := g.leader.id
	c.bytes -= m.size()
	g.rename(m, id)
	c.bytes += m.size()
	c.park(g, m, r, reply)
	m.isNew = false
	c.touch(now, m)
	switch g.state {
	case Stable:
		if g.selectProtocol() != g.protocol {
			c.rebalance(now, g, "static member came back with other protocols: "+r.Reason)
			return
		}
		m.owesSync = false
		j := g.joined(m)
		if r.CanSkip {
			j.Skip = m == g.leader
		} else {
			// An old client that leads would assign anew, on its own. With the old
			// leader's id in the answer it does not.
			j.Leader, j.Members = oldLeader, nil
		}
		c.replyJoin(g, m, j)
	case CompletingRebalance:
		// The leader may be assigning to the old id.
		c.rebalance(now, g, "static member came back while partitions were assigned: "+r.Reason)
	case PreparingRebalance, Empty, Dead:
		c.maybeEndJoin(now, g)
	}
}
