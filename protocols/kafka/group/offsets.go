package group

import (
	"slices"
	"time"
)

// NoGeneration is the generation of commits from outside the group's protocol.
const NoGeneration = -1

// CheckCommit decides whether a client may commit offsets of ps for a group: a member in
// its current generation; or anyone who names no generation while there are no members.
// A commit is a sign of life.
func (c *Coordinator) CheckCommit(now time.Time, id, memberID, instance string, generation int32, ps []Partition) Code {
	if g := c.consumers[id]; g != nil {
		code := g.checkEpoch(memberID, generation)
		if code == StaleMemberEpoch && g.byID[memberID].hadIn(generation, ps) {
			return None
		}
		return code
	}
	g := c.groups[id]
	if g == nil || len(g.members) == 0 {
		if generation < 0 {
			return None
		}
		// Kafka, where membership survives its coordinator, may say GROUP_ID_NOT_FOUND,
		// which ends a consumer. This makes it join again.
		return UnknownMemberID
	}
	if generation < 0 && memberID == "" && instance == "" {
		return UnknownMemberID
	}
	m, code := g.member(memberID, instance)
	switch {
	case code != None:
		return code
	case generation != g.generation:
		return IllegalGeneration
	case g.state == CompletingRebalance:
		return RebalanceInProgress
	}
	c.touch(now, m)
	return None
}

// CheckDelete decides whether a group may be deleted, and forgets it if so. Whether
// there is such a group besides is for the caller to know.
func (c *Coordinator) CheckDelete(id string) (known bool, code Code) {
	if g := c.consumers[id]; g != nil {
		if len(g.members) > 0 {
			return true, NonEmptyGroup
		}
		c.dropConsumers(g)
		return true, None
	}
	g := c.groups[id]
	switch {
	case g == nil:
		return false, None
	case len(g.members) > 0:
		return true, NonEmptyGroup
	}
	c.drop(g)
	return true, None
}

// CheckDeleteOffsets decides whether offsets of a group may be deleted, and of which
// topics not, because members subscribe to them. Where that cannot be told, no topic of
// a consumer group is free.
func (c *Coordinator) CheckDeleteOffsets(id string) (known bool, subscribed func(topic string) bool, code Code) {
	if g := c.consumers[id]; g != nil {
		topics := g.topics // never changed, only replaced
		if len(g.members) == 0 {
			topics = nil
		}
		return true, func(t string) bool { _, ok := topics[t]; return ok }, None
	}
	g := c.groups[id]
	switch {
	case g == nil:
		return false, func(string) bool { return false }, None
	case len(g.members) == 0:
		return true, func(string) bool { return false }, None
	case g.protocolType != ConsumerType:
		return true, nil, NonEmptyGroup
	case g.topics == nil:
		return true, func(string) bool { return true }, None
	}
	topics := g.topics // never changed, only replaced
	return true, func(t string) bool { _, ok := topics[t]; return ok }, None
}

// Active reports whether the group has members: its offsets do not expire.
func (c *Coordinator) Active(id string) bool {
	if g := c.consumers[id]; g != nil {
		return len(g.members) > 0
	}
	g := c.groups[id]
	return g != nil && len(g.members) > 0
}

// CheckFetch decides whether a client may read the offsets of a group. Only members of the
// new protocol say who they are, lest they start from offsets that are still to change.
func (c *Coordinator) CheckFetch(id, memberID string, epoch int32) Code {
	if g := c.consumers[id]; g != nil && (memberID != "" || epoch >= 0) {
		return g.checkEpoch(memberID, epoch)
	}
	return None
}

// hadIn reports whether a member that believes in an older epoch had all of ps in it and
// has not let go of them: its commit crossed the answer that raised its epoch (KIP-1251).
func (m *consumer) hadIn(epoch int32, ps []Partition) bool {
	return epoch < m.epoch && !slices.ContainsFunc(ps, func(p Partition) bool {
		since, ok := m.assigned[p]
		if !ok {
			since, ok = m.revoking[p]
		}
		return !ok || since > epoch
	})
}

// checkEpoch decides whether a client that names a member and its epoch is up to date.
func (g *consumers) checkEpoch(memberID string, epoch int32) Code {
	m := g.byID[memberID]
	switch {
	case epoch < 0 && len(g.members) == 0:
		return None
	case m == nil:
		return UnknownMemberID
	case m.epoch != epoch:
		return StaleMemberEpoch
	default:
		return None
	}
}
