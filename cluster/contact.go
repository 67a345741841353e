package cluster

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"polylog/core"
)

// contacts is what this node has learned of others as their leader, by their answers.
type contacts struct {
	mu  sync.Mutex
	all map[raft.ServerID]contact // guarded by mu
}

type contact struct {
	at      time.Time // when the last call was sent that it has answered
	term    uint64    // in which matched was said
	matched uint64    // the other's log and ours are the same up to here, on its disk
}

// heard notes an answer to an AppendEntries call of a term that was sent at a time. Who knows
// of a newer term has not answered a leader.
func (c *contacts) heard(id raft.ServerID, at time.Time, term, matched uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.all[id]
	if term > k.term {
		k.term, k.matched = term, 0
	}
	k.at = at
	if term == k.term {
		k.matched = max(k.matched, matched)
	}
	c.all[id] = k
}

func (c *contacts) forget(id raft.ServerID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, id)
}

func (c *contacts) of(id raft.ServerID) contact {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[id]
}

// Contacts are the leader's with all members, itself among them; nil where this node does not
// lead.
func (n *Node) Contacts() []core.Contact {
	term, since := n.leadership.readySince()
	if term == 0 || !n.IsLeader() {
		return nil
	}
	commit, now := n.raft.CommitIndex(), n.transport.now()
	var all []core.Contact
	for _, s := range n.servers() {
		if string(s.ID) == n.o.NodeID {
			all = append(all, core.Contact{ID: string(s.ID), Held: core.LogIndex(commit)})
			continue
		}
		k := n.transport.contacts.of(s.ID)
		c := core.Contact{ID: string(s.ID), Silent: now.Sub(later(k.at, since))}
		if k.term == uint64(term) {
			c.Held = core.LogIndex(min(k.matched, commit))
		}
		all = append(all, c)
	}
	return all
}

// isFresh reports whether a majority has answered calls that were sent within the lease: then
// no other node leads, for none of them elects another one before ElectionTimeout. A process
// that was suspended thinks that it leads until raft looks at its lease; it is not fresh.
func (n *Node) isFresh() bool {
	if n.alone.Load() {
		return true
	}
	now := n.transport.now()
	if int64(now.Sub(n.opened)) < n.freshUntil.Load() {
		return true
	}
	heard, needed := n.transport.contacts.byMajority(n.servers(), raft.ServerID(n.o.NodeID))
	if !needed {
		return true
	}
	until := heard.Add(n.o.lease())
	n.freshUntil.Store(int64(until.Sub(n.opened)))
	return now.Before(until)
}

// byMajority is the newest time since which so many of the others have answered calls that they
// are a majority with self; needed is false where self is one.
func (c *contacts) byMajority(servers []raft.Server, self raft.ServerID) (at time.Time, needed bool) {
	voters := 0
	var sent []time.Time
	for _, s := range servers {
		if s.Suffrage == raft.Voter {
			voters++
			if s.ID != self {
				sent = append(sent, c.of(s.ID).at)
			}
		}
	}
	others := voters / 2
	switch {
	case others == 0:
		return at, false
	case len(sent) < others: // self has no vote
		return at, true
	}
	slices.SortFunc(sent, func(a, b time.Time) int { return b.Compare(a) })
	return sent[others-1], true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
