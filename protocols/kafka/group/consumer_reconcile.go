package group

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"
)

// reconcile takes m one step from what it has to its target. It reports whether it told
// m to let go of partitions.
func (g *consumers) reconcile(m *consumer, b *Beat) bool {
	switch m.state {
	case stable:
		if m.epoch == g.epoch {
			return false
		}
	case unrevoked:
		if !b.Reported || setOf(b.Owned).overlaps(m.revoking) {
			return false // has not let go yet
		}
	case unreleased:
	}
	keep, lose, gain := partitions{}, partitions{}, partitions{}
	for p, since := range m.assigned {
		if _, ok := m.target[p]; ok {
			keep[p] = since
		} else {
			lose[p] = since
		}
	}
	waits := false
	for p := range m.target {
		if _, ok := keep[p]; ok {
			continue
		}
		if owner := g.owners[p]; owner == nil || owner == m {
			gain[p] = g.epoch
		} else {
			waits = true
		}
	}
	if len(lose) > 0 && (!b.Reported || setOf(b.Owned).overlaps(lose)) {
		m.state = unrevoked
		g.give(m, keep, lose)
		return true
	}
	maps.Copy(keep, gain)
	g.give(m, keep, nil)
	if m.epoch != g.epoch {
		m.previous, m.epoch = m.epoch, g.epoch
	}
	m.state = stable
	if waits {
		m.state = unreleased
	}
	return false
}

// consumerLeaves handles the last heartbeat of a member. A static one may only be away:
// its place and target stay until its session ends.
func (c *Coordinator) consumerLeaves(now time.Time, g *consumers, m *consumer, b *Beat) Beaten {
	if b.Epoch == leaveStatic {
		m.epoch, m.state = leaveStatic, stable
		g.give(m, nil, nil)
		c.timers.stop(&m.revoke)
	} else {
		c.cfg.Logger.Info("member left consumer group", "group", g.id, "member", m.id)
		c.removeConsumer(now, g, m)
	}
	return Beaten{Member: m.id, Epoch: b.Epoch}
}

// consumerExpires puts a member out.
func (c *Coordinator) consumerExpires(now time.Time, g *consumers, m *consumer, why string) {
	c.cfg.Logger.Info("member of consumer group expired", "group", g.id, "member", m.id, "reason", why)
	c.removeConsumer(now, g, m)
}

// removeConsumer takes a member out and gives the others a new target.
func (c *Coordinator) removeConsumer(now time.Time, g *consumers, m *consumer) {
	c.timers.stop(&m.session)
	c.timers.stop(&m.revoke)
	before := g.size()
	g.remove(m)
	g.forget()
	c.count--
	c.bytes += g.size() - before - m.size()
	c.retarget(g, "member "+m.id+" is gone")
	if len(g.members) == 0 {
		c.timers.set(&g.timer, now.Add(c.cfg.KeepEmpty))
	}
}

// dropConsumers forgets a group without members.
func (c *Coordinator) dropConsumers(g *consumers) {
	c.timers.stop(&g.timer)
	c.bytes -= g.size()
	delete(c.consumers, g.id)
}

func setOf(ps []Partition) partitions {
	s := make(partitions, len(ps))
	for _, p := range ps {
		s[p] = 0
	}
	return s
}

func comparePartitions(a, b Partition) int {
	return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Index, b.Index))
}

// sorted lists the set, by topic and number.
func (a partitions) sorted() []Partition {
	out := make([]Partition, 0, len(a))
	for p := range a {
		out = append(out, p)
	}
	slices.SortFunc(out, comparePartitions)
	return out
}
