package group

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Beat is a ConsumerGroupHeartbeat request.
type Beat struct {
	Group, Member, ClientID, ClientHost string
	User                                string // whose rights it has
	Epoch                               int32
	Instance, Rack                      *string  // nil: not given
	Rebalance                           int32    // ms; -1: unchanged
	Names                               []string // nil: unchanged
	Pattern                             *Pattern // nil: unchanged; one without text: none
	Assignor                            *string  // nil: unchanged
	// Owned is what the member has; Reported is false when it does not say so.
	Owned    []Partition
	Reported bool
	NoID     bool // version 0, where the coordinator makes the member's id
	// Found is the names of the topics, in order, that Looked matches and User may know of; Looked
	// is what PatternDue has asked for, or nil.
	Found  []string
	Looked *Pattern
}

// Beaten answers a Beat.
type Beaten struct {
	Code     Code
	Message  string // what is wrong
	Member   string
	Epoch    int32
	Interval time.Duration // until the next heartbeat
	// Assigned is what the member has from now on, in order; Changed is false when it
	// has to be left out of the answer.
	Assigned []Partition
	Changed  bool
}

// refreshTopics is how long a change of a topic may take to show in a target.
const refreshTopics = time.Second

// ConsumerHeartbeat handles a ConsumerGroupHeartbeat: a member joins, stays, says what it
// let go of, or leaves.
func (c *Coordinator) ConsumerHeartbeat(now time.Time, b Beat, topics Topics) Beaten {
	if msg, code := b.check(c.cfg.MaxMemberBytes); code != None {
		return Beaten{Code: code, Message: msg}
	}
	if b.Names != nil {
		b.Names = slices.Compact(slices.Sorted(slices.Values(b.Names)))
	}
	if more := int64(c.grows(&b)); b.Epoch >= epochJoin && more > 0 && c.bytes+more > c.cfg.MaxBytes {
		return Beaten{Code: CoordinatorUnavailable, Message: "member is refused in group " + b.Group}
	}
	g, m, code := c.consumerMember(now, &b)
	if code != None {
		return Beaten{Code: code, Message: "member is refused in group " + b.Group}
	}
	if b.Epoch < 0 {
		return c.consumerLeaves(now, g, m, &b)
	}
	before := m.size() + g.size()
	changed := m.update(&b)
	changed = g.look(now, m, &b) || changed
	c.bytes += m.size() + g.size() - before
	if changed || m.target == nil || now.Sub(g.refreshed) >= refreshTopics {
		if g.refresh(now, topics) || changed || m.target == nil {
			c.retarget(g, "member "+m.id+" or its topics changed")
		}
	}
	had := m.assigned
	if g.reconcile(m, &b) {
		c.timers.set(&m.revoke, now.Add(m.rebalance))
	} else if m.state != unrevoked {
		c.timers.stop(&m.revoke)
	}
	c.timers.set(&m.session, now.Add(c.cfg.ConsumerSession))
	out := Beaten{Member: m.id, Epoch: m.epoch, Interval: c.cfg.ConsumerInterval}
	full := b.Epoch == epochJoin || b.Rebalance != -1 && (b.Names != nil || b.Pattern != nil) && b.Reported
	if full || !maps.Equal(had, m.assigned) {
		out.Changed, out.Assigned = true, m.assigned.sorted()
	}
	return out
}

// check refuses what no group would accept.
func (b *Beat) check(maxBytes int) (string, Code) {
	size := namesSize(b.Names)
	empty := func(s *string) bool { return s != nil && *s == "" }
	switch {
	case b.Group == "":
		return "group id is empty", InvalidRequest
	case b.Member == "" && (!b.NoID || b.Epoch != epochJoin):
		return "member id is empty", InvalidRequest
	case empty(b.Instance) || empty(b.Rack):
		return "instance id or rack is empty", InvalidRequest
	case size > maxBytes:
		return fmt.Sprintf("subscription takes %d bytes, want at most %d", size, maxBytes), InvalidRequest
	case b.Epoch < leaveStatic:
		return fmt.Sprintf("member epoch is %d", b.Epoch), InvalidRequest
	case b.Epoch == leaveStatic && b.Instance == nil:
		return "a member without instance id cannot leave for a while", InvalidRequest
	case b.Epoch == epochJoin && b.Rebalance <= 0:
		return fmt.Sprintf("rebalance time-out is %d ms", b.Rebalance), InvalidRequest
	case b.Epoch == epochJoin && (!b.Reported || len(b.Owned) > 0):
		return "a member that joins must own no partitions", InvalidRequest
	case b.Epoch == epochJoin && b.Names == nil && b.Pattern == nil:
		return "a member that joins must subscribe to something", InvalidRequest
	case b.Assignor != nil && assignors[*b.Assignor] == nil:
		return "assignor " + *b.Assignor + " is not supported", UnsupportedAssignor
	default:
		return "", None
	}
}

// grows is how much more than now there will be to keep of the member that speaks, and of its group.
func (c *Coordinator) grows(b *Beat) (more int) {
	m, g := &consumer{}, c.consumers[b.Group]
	switch {
	case g == nil:
		more = groupOverhead + memberOverhead
	case g.byID[b.Member] != nil:
		m = g.byID[b.Member]
	case b.Instance != nil && g.static[*b.Instance] != nil:
		m = g.static[*b.Instance]
	default:
		more = memberOverhead
	}
	if b.Names != nil {
		more += namesSize(b.Names) - namesSize(m.names)
	}
	if b.Pattern != nil {
		more += b.Pattern.size() - m.pattern.size()
	}
	if b.Rack != nil {
		more += len(*b.Rack) - len(m.rack)
	}
	return more
}

// consumerMember finds the member that speaks, or makes it.
func (c *Coordinator) consumerMember(now time.Time, b *Beat) (*consumers, *consumer, Code) {
	g := c.consumers[b.Group]
	if old := c.groups[b.Group]; old != nil && g == nil {
		if len(old.members) > 0 || len(old.pending) > 0 {
			return nil, nil, GroupIDNotFound // of this kind; Kafka says so too
		}
	}
	if g == nil {
		if b.Epoch != epochJoin {
			return nil, nil, UnknownMemberID
		}
		g = newConsumers(b.Group)
	}
	m := g.byID[b.Member]
	instance := ""
	if b.Instance != nil {
		instance = *b.Instance
		switch holder := g.static[instance]; {
		case holder == nil && b.Epoch != epochJoin:
			return nil, nil, UnknownMemberID
		case holder != nil && holder.id != b.Member && b.Epoch == epochJoin:
			if holder.epoch != leaveStatic {
				return nil, nil, UnreleasedInstanceID
			}
			c.consumerReturns(g, holder, b.Member)
			return g, holder, None
		case holder != nil && holder.id != b.Member:
			return nil, nil, FencedInstanceID
		}
	}
	switch {
	case m != nil && b.Epoch == epochJoin:
		// It starts anew, with nothing.
		g.give(m, nil, nil)
		m.epoch, m.previous, m.state = epochJoin, epochJoin, stable
		return g, m, None
	case m != nil:
		return g, m, m.checkEpoch(b)
	case b.Epoch != epochJoin:
		return nil, nil, UnknownMemberID
	case len(g.members) >= c.cfg.ConsumerMaxSize:
		return nil, nil, GroupMaxSizeReached
	}
	if c.consumers[g.id] == nil {
		if old := c.groups[g.id]; old != nil {
			c.drop(old)
		}
		c.consumers[g.id] = g
		c.bytes += g.size()
		g.timer.fire = func(time.Time) { c.dropConsumers(g) }
	}
	c.timers.stop(&g.timer)
	id := b.Member
	if id == "" {
		id = c.cfg.NewID()
	}
	m = &consumer{id: id, instance: instance, assignor: defaultAssignor}
	m.session.fire = func(now time.Time) { c.consumerExpires(now, g, m, "session ended") }
	m.revoke.fire = func(now time.Time) { c.consumerExpires(now, g, m, "did not let go of partitions") }
	g.add(m)
	c.count++
	c.bytes += m.size()
	c.timers.set(&m.session, now.Add(c.cfg.ConsumerSession))
	return g, m, None
}

// checkEpoch compares the epoch that a member believes in with its own. It may be one
// behind if it has nothing that the lost answer would have taken away.
func (m *consumer) checkEpoch(b *Beat) Code {
	if b.Epoch == m.epoch || b.Epoch < 0 {
		return None
	}
	if b.Epoch == m.previous && b.Epoch < m.epoch && b.Reported && setOf(b.Owned).subset(m.assigned) {
		return None
	}
	return FencedMemberEpoch
}

// consumerReturns gives a static member's place and target to its new process.
func (c *Coordinator) consumerReturns(g *consumers, m *consumer, id string) {
	c.bytes -= m.size()
	delete(g.byID, m.id)
	m.id = id
	g.byID[m.id] = m
	c.bytes += m.size()
	g.give(m, nil, nil)
	m.epoch, m.previous, m.state = epochJoin, epochJoin, stable
}

// update takes over what the member says about itself; changed when its target may be.
func (m *consumer) update(b *Beat) (changed bool) {
	m.clientID, m.clientHost = b.ClientID, b.ClientHost
	if b.Rebalance > 0 {
		m.rebalance = time.Duration(b.Rebalance) * time.Millisecond
	}
	if b.Rack != nil && *b.Rack != m.rack {
		m.rack, changed = *b.Rack, true
	}
	if b.Assignor != nil && *b.Assignor != m.assignor {
		m.assignor, changed = *b.Assignor, true
	}
	if b.Names != nil && !slices.Equal(b.Names, m.names) {
		m.names, changed = b.Names, true
	}
	if b.Pattern != nil && b.Pattern.Text() != m.pattern.Text() {
		m.pattern, changed = b.Pattern, true
	}
	return changed
}

// refresh looks which topics the members subscribe to; true when that has changed.
func (g *consumers) refresh(now time.Time, topics Topics) bool {
	g.refreshed = now
	found := map[string]Topic{}
	add := func(names []string) {
		for _, n := range names {
			if _, ok := found[n]; !ok {
				if t, ok := topics.Topic(n); ok {
					found[n] = t
				}
			}
		}
	}
	for _, m := range g.members {
		add(m.names)
	}
	for _, f := range g.found {
		add(f.names)
	}
	if maps.Equal(found, g.topics) {
		return false
	}
	g.topics = found
	return true
}

// retarget begins a new epoch.
func (c *Coordinator) retarget(g *consumers, reason string) {
	g.epoch++
	g.assign()
	c.cfg.Logger.Info("consumer group has a new target", "group", g.id, "epoch", g.epoch,
		"members", len(g.members), "reason", reason)
}
