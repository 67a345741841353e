package group

import (
	"encoding/binary"
	"strings"
	"testing"
)

// checkInvariants fails unless everything that is kept twice agrees.
func checkInvariants(t *testing.T, c *Coordinator) {
	t.Helper()
	var bytes int64
	members, timers := 0, 0
	on := func(tm *timer) bool { return tm.slot > 0 }
	for id, g := range c.groups {
		bytes += g.size()
		members += len(g.members)
		joining, votes := 0, map[string]int{}
		for _, m := range g.members {
			bytes += m.size()
			if m.join != nil {
				joining++
			}
			for _, p := range m.protocols {
				votes[p.Name]++
			}
			if g.byID[m.id] != m || m.instance != "" && g.static[m.instance] != m {
				t.Errorf("group %s: member %s is not found by its ids", id, m.id)
			}
			if m.sync != nil && g.state != CompletingRebalance {
				t.Errorf("group %s: member %s waits for an assignment in %s", id, m.id, g.state)
			}
			if !on(&m.timer) && !m.waits() {
				t.Errorf("group %s: member %s neither waits nor expires", id, m.id)
			}
			if on(&m.timer) {
				timers++
			}
		}
		for _, m := range g.pending {
			bytes += m.size()
			if on(&m.timer) {
				timers++
			} else {
				t.Errorf("group %s: pending member %s never expires", id, m.id)
			}
		}
		if on(&g.timer) {
			timers++
		} else if g.state != Stable || !g.allSynced() {
			t.Errorf("group %s is %s without a deadline", id, g.state)
		}
		if joining != g.joining || joining > 0 && g.state != PreparingRebalance {
			t.Errorf("group %s (%s): %d members wait to join, counted %d", id, g.state, joining, g.joining)
		}
		if len(votes) != len(g.votes) {
			t.Errorf("group %s: votes %v, counted %v", id, votes, g.votes)
		}
		for p, n := range votes {
			if g.votes[p] != n {
				t.Errorf("group %s: %d votes for %s, counted %d", id, n, p, g.votes[p])
			}
		}
		if len(g.byID) != len(g.members) || (g.leader == nil) != (len(g.members) == 0) || g.leader != nil && g.byID[g.leader.id] != g.leader {
			t.Errorf("group %s: %d members, %d by id, leader %v", id, len(g.members), len(g.byID), g.leader)
		}
		if (g.state == Empty) && len(g.members) > 0 || (g.state == Stable || g.state == CompletingRebalance) && (len(g.members) == 0 || g.selectProtocol() == "") {
			t.Errorf("group %s: %d members in %s", id, len(g.members), g.state)
		}
	}
	for id, g := range c.consumers {
		bytes += g.size()
		members += len(g.members)
		owned := 0
		for _, m := range g.members {
			bytes += m.size()
			for _, has := range []partitions{m.assigned, m.revoking} {
				owned += len(has)
				for p := range has {
					if g.owners[p] != m {
						t.Errorf("group %s: %v of %s is owned by %v", id, p, m.id, g.owners[p])
					}
				}
			}
			if on(&m.session) {
				timers++
			} else {
				t.Errorf("group %s: member %s never expires", id, m.id)
			}
			if on(&m.revoke) != (m.state == unrevoked) {
				t.Errorf("group %s: member %s in state %d has revocation timer %v", id, m.id, m.state, on(&m.revoke))
			}
			if on(&m.revoke) {
				timers++
			}
			if m.epoch > g.epoch || m.state == stable && m.epoch == g.epoch && !m.target.subset(m.assigned) {
				t.Errorf("group %s in epoch %d: member %s in epoch %d has %v, its target is %v", id, g.epoch, m.id, m.epoch, m.assigned, m.target)
			}
		}
		if on(&g.timer) {
			timers++
		}
		if len(g.owners) != owned || len(g.byID) != len(g.members) || on(&g.timer) == (len(g.members) > 0) || c.groups[id] != nil {
			t.Errorf("group %s: %d owners for %d partitions, %d members, %d by id", id, len(g.owners), owned, len(g.members), len(g.byID))
		}
	}
	if s := c.Stats(); s.Bytes != bytes || s.Members != members {
		t.Errorf("%+v, want %d bytes, %d members", s, bytes, members)
	}
	if timers != len(c.timers) {
		t.Errorf("%d timers in the heap, %d known", len(c.timers), timers)
	}
}

// subscription is the metadata of a consumer of topics, joined by "+".
func subscription(topics string) []byte {
	b := []byte{0, 1}
	var names []string
	if topics != "" {
		names = strings.Split(topics, "+")
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(names)))
	for _, n := range names {
		b = binary.BigEndian.AppendUint16(b, uint16(len(n)))
		b = append(b, n...)
	}
	return append(b, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)
}
