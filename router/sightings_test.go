package router_test

import (
	"testing"
	"time"

	"polylog/router"
	"polylog/router/routertest"
	"polylog/router/state"
)

// The leader notes how far the members hold the log and who is away, once for each news, and
// every node knows then.
func TestNoteMembers(t *testing.T) {
	var first, second *router.Options
	leader, log := routertest.Start(t, func(o *router.Options) { first = o })
	follower, other := routertest.Join(t, log, "n2", func(o *router.Options) { second = o })
	for r, l := range map[*router.Router]*routertest.Log{leader: log, follower: other} {
		m := state.Member{ID: l.ID(), Instance: l.ID(), Addr: "h:1", MaxLevel: state.MaxLevel, Endpoints: map[string]string{"kafka": "h:2"}}
		if err := r.Announce(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	gone := router.Candidate{Member: state.Member{ID: "n9", Instance: "i9", Addr: "h:9", MaxLevel: state.MaxLevel}, New: true, Clock: time.Now()}
	if err := leader.AddMember(t.Context(), &gone); err != nil { // nobody runs it
		t.Fatal(err)
	}
	before := log.Last()
	for range 3 {
		if err := leader.NoteMembers(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := follower.NoteMembers(t.Context()); err != nil { // which it leaves to the leader
			t.Fatal(err)
		}
	}
	if n := log.Commands(state.CodeNoteMembers); n != 1 {
		t.Errorf("%d notes of the same", n)
	}
	for _, r := range []*router.Router{leader, follower} {
		away := map[string]bool{}
		for _, m := range r.Cluster().Members {
			away[m.ID] = m.Away
		}
		if len(away) != 3 || !away["n9"] || away[log.ID()] || away["n2"] {
			t.Errorf("away: %v", away)
		}
	}
	if held := router.Held(second.State)("n2"); held < before {
		t.Errorf("n2 is known to hold the log up to %d, not %d", held, before)
	}
	if err := leader.RemoveMember(t.Context(), "n9"); err != nil {
		t.Fatal(err)
	}
	if _, ok := first.State.Sightings()["n9"]; ok {
		t.Error("what was seen of a removed node is still known")
	}
}
