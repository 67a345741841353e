package group

import (
	"slices"
	"time"
)

// A consumer group of the new protocol (KIP-848) has no phases. Whatever changes what
// should be assigned (a member, a subscription, a topic) bumps the group's epoch and
// makes a new target assignment at once. Each member then walks from what it has to its
// target by heartbeats:
//
//	           target changed, must give up something
//	 stable ─────────────────────────────────────▶ unrevoked
//	   │ ▲                                             │ has let go
//	   │ └───────────────────────────────┐             ▼
//	   │ target changed, waits for others│     ┌── next step ──┐
//	   └────────────────────────────▶ unreleased ◀─────────────┘
//
// A member gets a partition only once its former owner has said that it let go of it;
// it moves to the group's epoch when it has nothing left to give up. Members that do not
// let go within their rebalance time-out are removed.

// Partition names a partition of a topic.
type Partition struct {
	Topic [16]byte
	Index int32
}

// Topic is what assigning needs to know of a topic.
type Topic struct {
	ID         [16]byte
	Name       string
	Partitions int32
}

// Topics is the broker's topics, as the coordinator sees them: all members alike, or each heartbeat
// would make another target. What a member may not know of it must not name.
type Topics interface {
	Topic(name string) (Topic, bool)
}

// partitions is a set. Of what a member has, it knows the epoch in which the member got it.
type partitions map[Partition]int32

// consumers is a consumer group of the new protocol.
type consumers struct {
	id    string
	epoch int32 // of the target assignment

	members []*consumer          // in the order they joined
	byID    map[string]*consumer // the same
	static  map[string]*consumer // those with an instance, by it

	topics    map[string]Topic // what members subscribe to and exists
	refreshed time.Time        // when topics was last looked at
	found     map[patternKey]*found
	// owners holds, for every partition, the member that has it and has not said that
	// it let go of it. No partition is given to anybody else.
	owners map[Partition]*consumer

	timer timer // while there are no members: when it is forgotten
}

type consumerState uint8

const (
	stable     consumerState = iota // has its target of the epoch it is in
	unrevoked                       // has been told to give up partitions
	unreleased                      // waits for partitions of others
)

// consumer is a member of consumers.
type consumer struct {
	id, instance, rack   string
	clientID, clientHost string
	rebalance            time.Duration
	names                []string
	pattern              *Pattern
	user                 string // who has sent the last heartbeat
	found                *found // what pattern matches for user; nil without pattern
	assignor             string

	epoch    int32 // leaveStatic while a static member is away
	previous int32 // the epoch before: the answer that raised it may have been lost
	state    consumerState
	target   partitions // to be assigned in the group's epoch
	assigned partitions // what it may use
	revoking partitions // what it must let go of

	session timer
	revoke  timer // on while unrevoked
}

// What member epochs mean beside positive numbers.
const (
	epochJoin   = 0
	epochLeave  = -1
	leaveStatic = -2 // leaves, to come back under the same instance
)

func newConsumers(id string) *consumers {
	return &consumers{
		id:     id,
		byID:   map[string]*consumer{},
		static: map[string]*consumer{},
		topics: map[string]Topic{},
		found:  map[patternKey]*found{},
		owners: map[Partition]*consumer{},
	}
}

func (g *consumers) size() int64 {
	n := groupOverhead + len(g.id)
	for _, f := range g.found {
		n += f.size()
	}
	return int64(n)
}

func (m *consumer) size() int64 {
	n := memberOverhead + len(m.id) + len(m.instance) + len(m.clientID) + len(m.clientHost) + len(m.rack)
	return int64(n + namesSize(m.names) + m.pattern.size())
}

func namesSize(names []string) (n int) {
	for _, t := range names {
		n += 16 + len(t)
	}
	return n
}

func (g *consumers) add(m *consumer) {
	g.members = append(g.members, m)
	g.byID[m.id] = m
	if m.instance != "" {
		g.static[m.instance] = m
	}
}

func (g *consumers) remove(m *consumer) {
	g.give(m, nil, nil)
	g.members = slices.DeleteFunc(g.members, func(o *consumer) bool { return o == m })
	delete(g.byID, m.id)
	if g.static[m.instance] == m {
		delete(g.static, m.instance)
	}
}

// give changes what m has, and with it who owns what.
func (g *consumers) give(m *consumer, assigned, revoking partitions) {
	for _, old := range []partitions{m.assigned, m.revoking} {
		for p := range old {
			delete(g.owners, p)
		}
	}
	m.assigned, m.revoking = assigned, revoking
	for _, now := range []partitions{assigned, revoking} {
		for p := range now {
			g.owners[p] = m
		}
	}
}

// state is the group's state in Kafka's words. A target is always made at once, so
// the state Assigning never shows.
func (g *consumers) state() string {
	switch {
	case len(g.members) == 0:
		return "Empty"
	case slices.ContainsFunc(g.members, func(m *consumer) bool { return m.state != stable || m.epoch != g.epoch }):
		return "Reconciling"
	default:
		return "Stable"
	}
}

// subscribes reports whether m wants a topic.
func (m *consumer) subscribes(topic string) bool {
	_, named := slices.BinarySearch(m.names, topic)
	return named || m.found.has(topic)
}

// subset reports whether a lies in b.
func (a partitions) subset(b partitions) bool {
	for p := range a {
		if _, ok := b[p]; !ok {
			return false
		}
	}
	return true
}

// overlaps reports whether a and b have something in common.
func (a partitions) overlaps(b partitions) bool {
	for p := range a {
		if _, ok := b[p]; ok {
			return true
		}
	}
	return false
}
