package group

import (
	"slices"
	"time"
)

// State is where a group is in its life.
type State uint8

// The states; see the package's diagram. A Dead group does not exist.
const (
	Empty State = iota
	PreparingRebalance
	CompletingRebalance
	Stable
	Dead
)

// String is the state's name in Kafka's answers.
func (s State) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// group is the membership of one group. Its state is written by the become methods only.
type group struct {
	id         string
	state      State
	generation int32

	protocolType string // empty until the first member joins
	protocol     string // the selected one; empty unless Completing or Stable
	leader       *member

	members []*member          // in the order they joined
	byID    map[string]*member // the same
	static  map[string]*member // those with an instance, by it
	pending map[string]*member // ids given out whose owners have yet to join with them
	votes   map[string]int     // protocol -> members that support it
	joining int                // members whose JoinGroup is parked

	topics map[string]struct{} // what members subscribe to; nil when unknown

	// timer is the group's one deadline. PreparingRebalance: end of the join phase.
	// CompletingRebalance and, while someone has not synced, Stable: end of the sync
	// phase. Empty: when it is forgotten.
	timer timer

	// During the first rebalance, which the clock alone ends:
	initial   bool
	grew      bool          // someone joined since the delay was last set
	remaining time.Duration // by how much the delay may still be extended
}

func newGroup(id string) *group {
	g := &group{
		id:      id,
		byID:    map[string]*member{},
		static:  map[string]*member{},
		pending: map[string]*member{},
		votes:   map[string]int{},
	}
	return g
}

// size is what the group is charged of Config.MaxBytes, besides its members.
func (g *group) size() int64 { return int64(groupOverhead + len(g.id)) }

func (g *group) becomePreparing() {
	g.initial = g.state == Empty
	g.state, g.protocol = PreparingRebalance, ""
}

func (g *group) becomeCompleting() {
	g.generation++
	g.state, g.initial = CompletingRebalance, false
	g.protocol = g.selectProtocol()
	g.topics = g.subscribedTopics()
}

func (g *group) becomeStable() { g.state = Stable }

func (g *group) becomeEmpty() {
	g.generation++
	g.state, g.initial = Empty, false
	g.protocol, g.topics = "", map[string]struct{}{}
}

// add makes m a member.
func (g *group) add(m *member) {
	delete(g.pending, m.id)
	g.members = append(g.members, m)
	g.byID[m.id] = m
	if m.instance != "" {
		g.static[m.instance] = m
	}
	if g.leader == nil {
		g.leader = m
		g.protocolType = m.protocolType
	}
	g.vote(m, +1)
}

// remove takes a member, or a pending one, out.
func (g *group) remove(m *member) {
	delete(g.pending, m.id)
	i := slices.Index(g.members, m)
	if i < 0 {
		return
	}
	g.members = slices.Delete(g.members, i, i+1)
	delete(g.byID, m.id)
	if m.instance != "" {
		delete(g.static, m.instance)
	}
	g.vote(m, -1)
	if g.leader == m {
		g.leader = nil
		if len(g.members) > 0 {
			g.leader = g.members[0]
		}
	}
}

// rename gives a member another id, as when a static member comes back.
func (g *group) rename(m *member, id string) {
	delete(g.byID, m.id)
	m.id = id
	g.byID[id] = m
}

func (g *group) vote(m *member, n int) {
	for _, p := range m.protocols {
		if g.votes[p.Name] += n; g.votes[p.Name] == 0 {
			delete(g.votes, p.Name)
		}
	}
}

// allJoined reports whether nobody is left to wait for in the join phase.
func (g *group) allJoined() bool { return g.joining == len(g.members) && len(g.pending) == 0 }

// allSynced reports whether every member has asked for its assignment.
func (g *group) allSynced() bool {
	return !slices.ContainsFunc(g.members, func(m *member) bool { return m.owesSync })
}

// accepts reports whether a member of this type and these protocols fits in: at least
// one protocol must be common to all.
func (g *group) accepts(protocolType string, ps []Protocol) bool {
	if len(g.members) == 0 {
		return protocolType != "" && len(ps) > 0
	}
	return protocolType == g.protocolType && slices.ContainsFunc(ps, g.common)
}

// common reports whether every member supports p.
func (g *group) common(p Protocol) bool { return g.votes[p.Name] == len(g.members) }

// selectProtocol lets each member vote for the first of its protocols that is common
// to all. A tie goes to the leader's preference.
func (g *group) selectProtocol() string {
	count := map[string]int{}
	for _, m := range g.members {
		if i := slices.IndexFunc(m.protocols, g.common); i >= 0 {
			count[m.protocols[i].Name]++
		}
	}
	best := ""
	for _, p := range g.leader.protocols {
		if count[p.Name] > count[best] {
			best = p.Name
		}
	}
	return best
}

// electJoined makes sure that the leader is one that has rejoined. It reports false
// when nobody has.
func (g *group) electJoined() bool {
	if g.leader != nil && g.leader.join != nil {
		return true
	}
	i := slices.IndexFunc(g.members, func(m *member) bool { return m.join != nil })
	if i < 0 {
		return false
	}
	g.leader = g.members[i]
	return true
}

// rebalanceTimeout is the largest that a member asked for.
func (g *group) rebalanceTimeout() time.Duration {
	var d time.Duration
	for _, m := range g.members {
		d = max(d, m.rebalance)
	}
	return d
}

// subscribedTopics is what the members subscribe to, or nil when that cannot be told.
func (g *group) subscribedTopics() map[string]struct{} {
	if g.protocolType != ConsumerType {
		return nil
	}
	topics := map[string]struct{}{}
	for _, m := range g.members {
		ts, err := SubscribedTopics(m.metadata(g.protocol))
		if err != nil {
			return nil
		}
		for _, t := range ts {
			topics[t] = struct{}{}
		}
	}
	return topics
}
