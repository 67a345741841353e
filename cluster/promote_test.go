package cluster

import (
	"context"
	"testing"
	"time"
)

// A member that the leader hears nothing from gets no vote; it gets one when it has caught
// up, and keeps it when its address changes.
func TestMembersAreGivenVotes(t *testing.T) {
	nw := newNetwork(t, 3)
	l := nw.leader()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	votes := func(nd *netNode) bool {
		for _, m := range l.n.Members() {
			if m.ID == nd.n.ID() {
				return m.Voter
			}
		}
		return false
	}
	absent, there := nw.nodes[2], nw.nodes[1]
	absent.cut()
	for range 20 {
		nw.propose("before they join")
	}
	must(t, l.n.AddMember(ctx, absent.n.ID(), absent.front.Addr().String()))
	must(t, l.n.AddMember(ctx, there.n.ID(), there.front.Addr().String()))
	if votes(absent) || votes(there) {
		t.Fatal("a vote before anybody has looked")
	}
	waitFor(t, func() bool { return votes(there) })
	// The leader looks at members in the order of the configuration: it has looked at the
	// absent one before it gave the other its vote.
	if votes(absent) || absent.n.IsMember() {
		t.Fatal("a vote for a node that nobody reaches")
	}
	absent.heal()
	waitFor(t, func() bool { return votes(absent) && absent.n.IsVoter() })
	nw.converge()
	must(t, l.n.AddMember(ctx, there.n.ID(), there.front.Addr().String()))
	if !votes(there) {
		t.Fatal("an address has cost a vote")
	}
}
