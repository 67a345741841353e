package cluster

import (
	"context"
	"testing"
	"time"
)

// A leader that is about to be closed hands over while it still serves: what it is given
// from then on is done by the next one.
func TestHandOver(t *testing.T) {
	nw := newCalmNetwork(t, 3)
	nw.form()
	old := nw.leader()
	if !nw.propose("before") {
		t.Fatal("nothing was done")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	old.n.HandOver(ctx)
	if l, ok := old.n.Leader(); old.n.IsLeader() || !ok || l.ID == old.n.ID() {
		t.Fatalf("leader is %+v, %v", l, ok)
	}
	if _, err := old.n.Propose(ctx, command("after")); err != nil {
		t.Fatal(err)
	}
	old.n.HandOver(ctx) // nothing to hand over
	must(t, old.n.Close())
	if !nw.propose("later") {
		t.Fatal("nothing was done")
	}
	bodies := nw.leader().h.machine.bodies()
	for _, want := range []string{"before", "after", "later"} {
		found := 0
		for _, b := range bodies {
			if b == want {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%q was done %d times, of %q", want, found, bodies)
		}
	}
	old.start(t)
}
