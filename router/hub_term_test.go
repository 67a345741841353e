package router_test

import (
	"slices"
	"testing"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

// TestDeposedLeaderDelivers looks at a leader that has not heard of its successor yet, but applies
// what comes under that one, who delivers it as never delivered before: so the other must not.
func TestDeposedLeaderDelivers(t *testing.T) {
	r1, log1 := routertest.Start(t, nil)
	_, log2 := routertest.Join(t, log1, "2", nil)
	for range 20 { // it may hear before we look
		log1.SetLeader(true)
		q := declare(t, r1, "q", router.QueueConfig{})
		publish(t, r1, q, "a")
		c := consume(t, r1, router.ConsumeSpec{Queue: q.ID})
		next(t, c, "a", false)
		log2.SetLeader(true)
		publish(t, r1, q, "b")
		if ends := r1.HubEnds(q.ID); slices.Contains(ends, core.Offset(2)) {
			t.Fatal("the deposed leader delivers what came under the new one")
		}
		c.Close()
		if _, err := r1.DeleteQueue(timeout(t), nobody, q.Name, false, false); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNobodyDispatchesBeside drops the dispatcher within one term: the next one must not begin while a
// group of the old one may still deliver what comes.
func TestNobodyDispatchesBeside(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	q := declare(t, r, "q", router.QueueConfig{})
	c := consume(t, r, router.ConsumeSpec{Queue: q.ID})
	publish(t, r, q, "a")
	next(t, c, "a", false)
	if err := r.LeadWhileDropping(timeout(t), q.ID); core.KindOf(err) != core.NotLeader {
		t.Errorf("it leads: %v", err)
	}
	next(t, c, "a", true)
	publish(t, r, q, "b")
	next(t, c, "b", false)
}
