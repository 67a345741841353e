package group

import "time"

// Leave handles a LeaveGroup: one code for each of who.
func (c *Coordinator) Leave(now time.Time, id string, who []Leaver) []Code {
	codes := make([]Code, len(who))
	g := c.groups[id]
	left := 0
	for i, l := range who {
		if g == nil {
			codes[i] = UnknownMemberID
			continue
		}
		m, code := g.leaver(l)
		if codes[i] = code; code != None {
			continue
		}
		c.cfg.Logger.Info("member left consumer group", "group", g.id, "member", m.id, "reason", l.Reason)
		c.remove(g, m)
		left++
	}
	if left > 0 {
		c.afterRemoval(now, g, "members left")
	}
	return codes
}

// leaver finds who is meant: a member, one that has yet to join with its id, or the
// holder of an instance.
func (g *group) leaver(l Leaver) (*member, Code) {
	if l.Member == "" {
		if m := g.static[l.Instance]; m != nil {
			return m, None
		}
		return nil, UnknownMemberID
	}
	if m := g.pending[l.Member]; m != nil {
		return m, None
	}
	return g.member(l.Member, l.Instance)
}
