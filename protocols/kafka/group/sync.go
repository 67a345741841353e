package group

import "time"

// Sync handles a SyncGroup. reply is called now, or when the leader's assignment is
// there.
func (c *Coordinator) Sync(now time.Time, r Sync, reply func(Synced)) {
	g, m, code := c.lookup(r.Group, r.Member, r.Instance)
	switch {
	case code != None:
		reply(Synced{Code: code})
	case r.Generation != g.generation:
		reply(Synced{Code: IllegalGeneration})
	case r.ProtocolType != nil && *r.ProtocolType != g.protocolType,
		r.Protocol != nil && *r.Protocol != g.protocol && g.state != PreparingRebalance:
		reply(Synced{Code: InconsistentProtocol})
	case g.state == Stable:
		c.touch(now, m)
		m.owesSync = false
		c.endSync(g)
		reply(g.synced(m))
	case g.state == CompletingRebalance && m == g.leader:
		c.assign(now, g, m, r.Assignments, reply)
	case g.state == CompletingRebalance:
		m.owesSync = false
		// A SyncGroup that m has parked before was given up by the client.
		c.replySync(m, Synced{Code: RebalanceInProgress})
		m.sync = reply
	default:
		reply(Synced{Code: RebalanceInProgress})
	}
}

// assign takes the leader's assignment and gives everybody that waits its part.
// Members that the leader has left out get an empty one.
func (c *Coordinator) assign(now time.Time, g *group, leader *member, as []Assignment, reply func(Synced)) {
	byMember := make(map[string][]byte, len(as))
	total := int64(0)
	for _, a := range as {
		if g.byID[a.Member] == nil {
			continue
		}
		if len(a.Data) > c.cfg.MaxMemberBytes {
			reply(Synced{Code: MessageTooLarge})
			return
		}
		total += int64(len(a.Data) - len(byMember[a.Member]))
		byMember[a.Member] = a.Data
	}
	if c.bytes+total > c.cfg.MaxBytes {
		reply(Synced{Code: CoordinatorUnavailable})
		return
	}
	leader.owesSync = false
	leader.sync = reply
	g.becomeStable()
	for _, m := range g.members {
		m.setAssignment(c, byMember[m.id])
		if m.sync != nil {
			c.touch(now, m)
			c.replySync(m, g.synced(m))
		}
	}
	c.endSync(g)
	c.cfg.Logger.Info("consumer group is stable", "group", g.id, "generation", g.generation,
		"members", len(g.members), "protocol", g.protocol)
}

// endSync ends the sync phase if everybody has an assignment.
func (c *Coordinator) endSync(g *group) {
	if g.allSynced() {
		c.timers.stop(&g.timer)
	}
}

// syncDeadline puts out those that have the generation but never asked for their part.
func (c *Coordinator) syncDeadline(now time.Time, g *group) {
	var late []*member
	for _, m := range g.members {
		if m.owesSync {
			late = append(late, m)
		}
	}
	if len(late) == 0 {
		return
	}
	for _, m := range late {
		c.cfg.Logger.Info("member of consumer group did not sync", "group", g.id, "member", m.id)
		c.remove(g, m)
	}
	c.rebalance(now, g, "members did not sync")
}

func (g *group) synced(m *member) Synced {
	return Synced{ProtocolType: g.protocolType, Protocol: g.protocol, Assignment: m.assignment}
}

func (m *member) setAssignment(c *Coordinator, data []byte) {
	c.bytes += int64(len(data) - len(m.assignment))
	m.assignment = data
}
