package router_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
	"polylog/router/state"
)

// clockAt has a router's clock stand at a time.
func clockAt(at time.Time) func(*router.Options) {
	return func(o *router.Options) { o.Clock = func() time.Time { return at } }
}

func TestAdmit(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	r, log := routertest.Start(t, clockAt(now))
	own := state.Member{ID: "1", Instance: "I1", Addr: "127.0.0.1:7420", MaxLevel: state.MaxLevel}
	if err := r.Announce(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	stranger := router.Candidate{
		Member: state.Member{ID: "n2", Instance: "I2", Addr: "10.0.0.2:7420", Version: "0.1", MaxLevel: state.MaxLevel},
		New:    true, Clock: now,
	}
	for _, c := range []struct {
		name   string
		change func(*router.Candidate)
		kind   core.Kind
		want   string
	}{
		{"a new node", func(*router.Candidate) {}, core.OK, ""},
		{"a clock almost a minute ahead", func(c *router.Candidate) { c.Clock = now.Add(59 * time.Second) }, core.OK, ""},
		{"a clock an hour ahead", func(c *router.Candidate) { c.Clock = now.Add(time.Hour) }, core.Invalid, "the clock of node n2 is 1h0m0s off"},
		{"a clock an hour behind", func(c *router.Candidate) { c.Clock = now.Add(-time.Hour) }, core.Invalid, "the clock of node n2 is 1h0m0s off"},
		{"another cluster's data", func(c *router.Candidate) { c.ClusterID = "other" }, core.Conflict, "has the data of another cluster, other"},
		{"an old version", func(c *router.Candidate) { c.MaxLevel = 1 }, core.Unsupported, "runs polylog 0.1, which knows feature level 1; the cluster is at 3"},
		{"no port", func(c *router.Candidate) { c.Addr = "10.0.0.2" }, core.Invalid, "set node-advertise"},
		{"port 0", func(c *router.Candidate) { c.Addr = "10.0.0.2:0" }, core.Invalid, "set node-advertise"},
		{"any address", func(c *router.Candidate) { c.Addr = "[::]:7420" }, core.Invalid, "set node-advertise"},
		{"no host", func(c *router.Candidate) { c.Addr = ":7420" }, core.Invalid, "set node-advertise"},
		{"a member", func(c *router.Candidate) { c.Member, c.New = own, false }, core.OK, ""},
		{"a member's id with other data", func(c *router.Candidate) { c.ID, c.New = "1", false }, core.Conflict, "node 1 is a member of the cluster with other data"},
		{"a member that lost its log", func(c *router.Candidate) { c.Member = own }, core.Conflict, "node 1 is a member of the cluster with other data"},
	} {
		n := stranger
		c.change(&n)
		err := r.Admit(t.Context(), &n)
		if core.KindOf(err) != c.kind || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want kind %q and %q", c.name, err, c.kind.Error(), c.want)
		}
		if err != nil && r.IsMember("n2") {
			t.Errorf("%s: refused and added", c.name)
		}
	}
	log.SetLeader(false)
	if err := r.Admit(t.Context(), &stranger); core.KindOf(err) != core.NotLeader {
		t.Error(err)
	}
}

func TestAddAndRemoveMembers(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	r, log := routertest.Start(t, clockAt(now))
	ctx := t.Context()
	add := func(id, instance, addr string) error {
		return r.AddMember(ctx, &router.Candidate{
			Member: state.Member{ID: id, Instance: instance, Addr: addr, MaxLevel: state.MaxLevel}, New: true, Clock: now,
		})
	}
	if err := add("n2", "A", "10.0.0.2:7420"); err != nil {
		t.Fatal(err)
	}
	before := log.Last()
	if err := add("n2", "A", "10.0.0.2:7420"); core.KindOf(err) != core.Conflict { // a voter without a log
		t.Fatal(err)
	}
	if err := add("n3", "B", "10.0.0.3:7420"); err != nil {
		t.Fatal(err)
	}
	if err := add("n3", "C", "10.0.0.4:7420"); core.KindOf(err) != core.Conflict {
		t.Fatal(err)
	}
	if got := log.Last() - before; got != 1 {
		t.Errorf("%d entries, want one announcement", got)
	}
	if err := r.RemoveMember(ctx, "n3"); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Registry()["n3"]; ok || r.IsMember("n3") {
		t.Error("n3 is still there")
	}
	if err := r.RemoveMember(ctx, "n3"); core.KindOf(err) != core.NotFound {
		t.Error(err)
	}
	if err := add("n3", "C", "10.0.0.4:7420"); err != nil { // its id is free again
		t.Error(err)
	}
	if err := r.RemoveMember(ctx, "n2"); err != nil {
		t.Error(err)
	}
	if err := r.RemoveMember(ctx, "n3"); err != nil {
		t.Error(err)
	}
	if err := r.RemoveMember(ctx, "1"); core.KindOf(err) != core.Conflict {
		t.Errorf("the only voter: %v", err)
	}
}

// What a follower announces goes to all; the level rises when the last member knows it.
func TestAnnounce(t *testing.T) {
	a, la := routertest.Start(t, nil)
	b, lb := routertest.Join(t, la, "2", nil)
	ctx := t.Context()
	m := state.Member{ID: "2", Instance: "I", Addr: "127.0.0.1:1", Endpoints: map[string]string{"kafka": "h:9092"}, MaxLevel: state.MaxLevel}
	if err := b.Announce(ctx, m); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*router.Router{a, b} {
		if got := r.Registry()["2"]; !got.Equal(&m) {
			t.Errorf("%+v", got)
		}
	}
	last := la.Last()
	if err := b.Announce(ctx, m); err != nil || la.Last() != last {
		t.Errorf("said again: %v, %d entries more", err, la.Last()-last)
	}
	other := m
	other.Instance = "J"
	if err := b.Announce(ctx, other); core.KindOf(err) != core.Conflict {
		t.Errorf("another instance: %v", err)
	}
	old := m
	old.MaxLevel = 1
	if err := b.Announce(ctx, old); core.KindOf(err) != core.Unsupported {
		t.Errorf("an old program: %v", err)
	}
	lb.Cut(true)
	soon, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	m.Addr = "127.0.0.1:2"
	if err := b.Announce(soon, m); core.KindOf(err) != core.Unavailable {
		t.Errorf("cut off: %v", err)
	}
}
