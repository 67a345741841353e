package router_test

import (
	"runtime"
	"testing"
	"time"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
	"polylog/router/state"
)

func acquire(t *testing.T, r *router.Router, name string, takeover bool) *router.Lease {
	t.Helper()
	l, err := r.AcquireLease(t.Context(), name, takeover)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func lost(l *router.Lease) bool {
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

func wantOwner(t *testing.T, r *router.Router, name, want string) {
	t.Helper()
	got, _, err := r.LeaseOwner(name)
	if got != want || (core.KindOf(err) == core.NotFound) != (want == "") {
		t.Errorf("%s is owned by %q (%v), want %q", name, got, err, want)
	}
}

func TestLease(t *testing.T) {
	a, la := routertest.Start(t, nil)
	b, _ := routertest.Join(t, la, "2", nil)
	ctx := t.Context()
	first := acquire(t, b, "x", false)
	for _, r := range []*router.Router{a, b} {
		wantOwner(t, r, "x", "2")
		if _, err := r.AcquireLease(ctx, "x", false); core.KindOf(err) != core.Conflict {
			t.Errorf("owned by another lease: %v", err)
		}
	}
	second := acquire(t, a, "x", true)
	if !lost(first) || lost(second) || second.Token() <= first.Token() {
		t.Errorf("takeover: lost %v and %v, tokens %d, %d", lost(first), lost(second), first.Token(), second.Token())
	}
	if err := first.Confirm(ctx); core.KindOf(err) != core.Fenced {
		t.Error(err)
	}
	if err := second.Confirm(ctx); err != nil {
		t.Error(err)
	}
	// Who has lost it cannot give it up.
	if err := first.Release(ctx); err != nil {
		t.Error(err)
	}
	wantOwner(t, b, "x", "1")
	third := acquire(t, a, "x", true) // the same node by another lease
	if !lost(second) {
		t.Error("the node's own takeover was not told")
	}
	for range 2 {
		if err := third.Release(ctx); err != nil {
			t.Error(err)
		}
	}
	wantOwner(t, b, "x", "")
	if n := la.Commands(state.CodeReleaseLease); n != 1 || lost(third) {
		t.Errorf("%d releases, lost %v", n, lost(third))
	}
	// A name that was free has higher tokens than before.
	if l := acquire(t, b, "x", false); l.Token() <= third.Token() {
		t.Errorf("token %d after %d", l.Token(), third.Token())
	}
	if _, err := b.AcquireLease(ctx, "", false); core.KindOf(err) != core.Invalid {
		t.Error(err)
	}
}

// An owner that is cut off learns late, but cannot take its lease for valid.
func TestLeaseOfCutOffNode(t *testing.T) {
	clock := routertest.NewClock(time.UnixMilli(1_700_000_000_000))
	a, la := routertest.Start(t, func(o *router.Options) { o.Clock = clock.Now })
	b, lb := routertest.Join(t, la, "2", nil)
	ctx := t.Context()
	x, y := acquire(t, b, "x", false), acquire(t, b, "y", false)
	own := acquire(t, a, "own", false)
	expire := func() {
		t.Helper()
		if err := a.ExpireLeases(ctx); err != nil {
			t.Fatal(err)
		}
	}
	expire()
	clock.Advance(time.Hour) // nobody looked: that is not the owner's silence
	expire()
	lb.Cut(true)
	lb.Hold()
	expire()
	clock.Advance(10*time.Second - time.Millisecond)
	expire()
	wantOwner(t, a, "x", "2")
	lb.Cut(false)
	expire() // it answers: the silence begins anew
	lb.Cut(true)
	expire()
	clock.Advance(10*time.Second - time.Millisecond)
	expire()
	wantOwner(t, a, "x", "2")
	clock.Advance(time.Millisecond)
	expire()
	wantOwner(t, a, "x", "")
	next := acquire(t, a, "x", false)
	if lost(x) || next.Token() <= x.Token() {
		t.Errorf("lost %v, tokens %d, %d", lost(x), x.Token(), next.Token())
	}
	if err := x.Confirm(ctx); core.KindOf(err) != core.Unavailable {
		t.Errorf("cut off: %v", err)
	}
	if n := la.Commands(state.CodeSweepLeases); n != 1 {
		t.Errorf("%d sweeps", n)
	}
	lb.Cut(false)
	// It does not know of the end of its session, and is told.
	if _, err := b.AcquireLease(ctx, "x", false); core.KindOf(err) != core.Conflict {
		t.Errorf("%v, want the new owner's", err)
	}
	lb.Release()
	if !lost(x) || !lost(y) || lost(next) || lost(own) {
		t.Errorf("lost: %v, %v; and %v, %v", lost(x), lost(y), lost(next), lost(own))
	}
	if l := acquire(t, b, "y", false); lost(l) {
		t.Error("a lease of the new session is lost")
	}
}

// A follower that applies late is told what it has applied, not before.
func TestLeaseLostByLocalApply(t *testing.T) {
	a, la := routertest.Start(t, nil)
	b, lb := routertest.Join(t, la, "2", nil)
	lb.Hold()
	x := acquire(t, b, "x", false)
	acquire(t, a, "x", true)
	if lost(x) {
		t.Error("told before it was applied")
	}
	lb.Release()
	if !lost(x) {
		t.Error("not told")
	}
}

func TestLeasesOfEarlierRun(t *testing.T) {
	a, la := routertest.Start(t, nil)
	b, lb := routertest.Join(t, la, "2", nil)
	x := acquire(t, b, "x", false)
	lb.Cut(true)
	b.Close() // it cannot say good-bye
	wantOwner(t, a, "x", "2")
	if !lost(x) {
		t.Error("the leases of a router that is closed are not lost")
	}
	waiting := acquire(t, a, "watch", false)
	again, _ := routertest.Join(t, la, "2", nil)
	if l := acquire(t, again, "x", false); l.Token() <= x.Token() {
		t.Errorf("token %d after %d", l.Token(), x.Token())
	}
	if lost(waiting) {
		t.Error("another node's lease was lost")
	}
}

// The leader ends what a node's earlier run has, and what nodes have that are no members.
func TestExpireLeases(t *testing.T) {
	a, la := routertest.Start(t, nil)
	propose := func(c core.Command) {
		t.Helper()
		if res, err := la.Propose(t.Context(), c); err != nil || res.Err != nil {
			t.Fatal(res.Err, err)
		}
	}
	for _, node := range []string{"2", "gone"} {
		open := state.OpenSession{Node: node, Run: "earlier"}
		propose(open.Command())
	}
	for i, node := range []string{"2", "gone"} {
		take := state.AcquireLease{Node: node, Session: uint64(1 + i), Claim: 1, Name: "of " + node}
		propose(take.Command())
	}
	_, lb := routertest.Join(t, la, "2", nil)
	wantOwner(t, a, "of gone", "gone")
	if err := a.ExpireLeases(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantOwner(t, a, "of gone", "")
	wantOwner(t, a, "of 2", "")
	lb.SetLeader(true) // and a follower does not judge
	open := state.OpenSession{Node: "gone", Run: "later"}
	propose(open.Command())
	take := state.AcquireLease{Node: "gone", Session: 5, Claim: 1, Name: "of gone"}
	propose(take.Command())
	if err := a.ExpireLeases(t.Context()); err != nil {
		t.Error(err)
	}
	wantOwner(t, a, "of gone", "gone")
}

// A node that closes frees its leases at once.
func TestLeasesOfClosedNode(t *testing.T) {
	a, la := routertest.Start(t, nil)
	b, _ := routertest.Join(t, la, "2", nil)
	x := acquire(t, b, "x", false)
	b.Close()
	wantOwner(t, a, "x", "")
	if !lost(x) {
		t.Error("not told")
	}
}

// Releases that fail are made up for.
func TestReleaseOfLeaseLater(t *testing.T) {
	a, la := routertest.Start(t, nil)
	b, lb := routertest.Join(t, la, "2", nil)
	x := acquire(t, b, "x", false)
	lb.Cut(true)
	if err := x.Release(t.Context()); core.KindOf(err) != core.Unavailable {
		t.Fatal(err)
	}
	wantOwner(t, a, "x", "2")
	lb.Cut(false)
	for la.Commands(state.CodeReleaseLease) == 0 {
		runtime.Gosched()
	}
	wantOwner(t, a, "x", "")
}

// What a node has without knowing, after an acquisition whose outcome it never learned, is
// given up when it is applied.
func TestLeaseThatNobodyHolds(t *testing.T) {
	a, la := routertest.Start(t, nil)
	b, _ := routertest.Join(t, la, "2", nil)
	acquire(t, b, "other", false)
	session := uint64(1) // the first of the log
	late := state.AcquireLease{Node: "2", Session: session, Claim: 1000, Name: "x"}
	if res, err := la.Propose(t.Context(), late.Command()); err != nil || res.Err != nil {
		t.Fatal(res.Err, err)
	}
	for la.Commands(state.CodeReleaseLease) == 0 {
		runtime.Gosched()
	}
	wantOwner(t, a, "x", "")
	wantOwner(t, a, "other", "2")
}

// Where nobody knows whether a lease was acquired, its owner asks again: it takes it over from
// itself, if that has to be.
func TestLeaseWhoseOutcomeIsLost(t *testing.T) {
	a, la := routertest.Start(t, nil)
	b, _ := routertest.Join(t, la, "2", nil)
	acquire(t, b, "other", false) // the session is open
	la.LoseOutcome()
	x := acquire(t, b, "x", true)
	if err := x.Confirm(t.Context()); err != nil || lost(x) {
		t.Fatal(err, lost(x))
	}
	wantOwner(t, a, "x", "2")
	la.LoseOutcome()
	if _, err := b.AcquireLease(t.Context(), "y", false); core.KindOf(err) != core.Uncertain {
		t.Errorf("without takeover: %v", err)
	}
}
