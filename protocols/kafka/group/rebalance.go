package group

import (
	"slices"
	"time"
)

// rebalance starts a rebalance, or looks whether one that runs can go on.
func (c *Coordinator) rebalance(now time.Time, g *group, reason string) {
	if g.state == PreparingRebalance {
		c.maybeEndJoin(now, g)
		return
	}
	if g.state == CompletingRebalance {
		for _, m := range g.members {
			m.setAssignment(c, nil)
			if m.sync != nil {
				c.touch(now, m)
				c.replySync(m, Synced{Code: RebalanceInProgress})
			}
		}
	}
	g.becomePreparing()
	c.cfg.Logger.Info("consumer group rebalances", "group", g.id, "generation", g.generation,
		"members", len(g.members), "reason", reason)
	if !g.initial {
		c.timers.set(&g.timer, now.Add(g.rebalanceTimeout()))
		c.maybeEndJoin(now, g)
		return
	}
	if c.cfg.InitialDelay == 0 {
		c.endJoin(now, g)
		return
	}
	g.grew = false
	g.remaining = max(g.rebalanceTimeout()-c.cfg.InitialDelay, 0)
	c.timers.set(&g.timer, now.Add(c.cfg.InitialDelay))
}

// joinDeadline ends the join phase with those that have come. The first rebalance is
// put off, within the rebalance time-out, as long as new members keep coming.
func (c *Coordinator) joinDeadline(now time.Time, g *group) {
	if g.initial && g.grew && g.remaining > 0 {
		g.grew = false
		d := min(c.cfg.InitialDelay, g.remaining)
		g.remaining -= d
		c.timers.set(&g.timer, now.Add(d))
		return
	}
	c.endJoin(now, g)
}

// maybeEndJoin ends the join phase if nobody is missing.
func (c *Coordinator) maybeEndJoin(now time.Time, g *group) {
	if g.state == PreparingRebalance && !g.initial && g.allJoined() {
		c.endJoin(now, g)
	}
}

// endJoin begins the next generation with the members that have rejoined, and the
// static ones, which may be away until their sessions end.
func (c *Coordinator) endJoin(now time.Time, g *group) {
	for _, m := range slices.Clone(g.members) {
		if m.join == nil && m.instance == "" {
			c.cfg.Logger.Info("member of consumer group did not rejoin", "group", g.id, "member", m.id)
			c.remove(g, m)
		}
	}
	if len(g.members) == 0 {
		g.becomeEmpty()
		c.timers.set(&g.timer, now.Add(c.cfg.KeepEmpty))
		return
	}
	if !g.electJoined() {
		// Only static members that are away: wait for them or for their sessions' end.
		c.timers.set(&g.timer, now.Add(g.rebalanceTimeout()))
		return
	}
	g.becomeCompleting()
	for _, m := range g.members {
		m.isNew, m.owesSync = false, true
		c.touch(now, m)
		c.replyJoin(g, m, g.joined(m))
	}
	c.timers.set(&g.timer, now.Add(g.rebalanceTimeout()))
}
