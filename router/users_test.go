package router_test

import (
	"errors"
	"testing"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

var local = router.Principal{Host: "127.0.0.1"}

// withUsers has an administrator and some users.
func withUsers(t testing.TB, r *router.Router) router.Principal {
	t.Helper()
	set := func(p router.Principal, name string, tags ...string) {
		t.Helper()
		if _, err := r.SetUser(t.Context(), p, name, router.UserChange{New: true, Tags: &tags, Password: new("pw-" + name)}); err != nil {
			t.Fatal(err)
		}
	}
	set(local, "admin", router.TagAdministrator)
	admin := login(t, r, "admin")
	set(admin, "alice", router.TagPolicymaker)
	set(admin, "watch", router.TagMonitoring)
	if _, err := r.SetRights(t.Context(), admin, "alice", core.DefaultNamespace, "^a", "^(a|b)", "^(b|amq)"); err != nil {
		t.Fatal(err)
	}
	return admin
}

func login(t testing.TB, r *router.Router, name string) router.Principal {
	t.Helper()
	p, err := r.Login(t.Context(), name, "pw-"+name, "10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRights(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	admin := withUsers(t, r)
	who := map[string]router.Principal{
		"admin": admin, "alice": login(t, r, "alice"), "watch": login(t, r, "watch"), "": local,
		"broker": router.Itself("x"), "hooks": router.Trusted("hooks", "10.0.0.1"), "forged": {Name: "admin", Host: "127.0.0.1"},
	}
	topic := func(n string) router.Resource {
		return router.Resource{Kind: router.ResourceTopic, Name: core.TopicName(n)}
	}
	space := router.Resource{Kind: router.ResourceNamespace, Name: core.Name{Name: core.DefaultNamespace}}
	cluster := router.Resource{Kind: router.ResourceCluster}
	user := router.Resource{Kind: router.ResourceUser, Name: core.Name{Name: "alice"}}
	for _, tc := range []struct {
		op  router.Operation
		res router.Resource
		may string // of alice, watch and admin, who; else -
	}{
		{router.OpRead, topic("bills"), "a--"},
		{router.OpRead, topic("accounts"), "---"},
		{router.OpWrite, topic("accounts"), "a--"},
		{router.OpWrite, topic("cats"), "---"},
		{router.OpCreate, topic("accounts"), "a--"},
		{router.OpDelete, topic("bills"), "---"},
		{router.OpAlterConfigs, topic("accounts"), "a--"},
		{router.OpDescribe, topic("bills"), "awA"},
		{router.OpDescribe, topic("cats"), "-wA"},
		{router.OpRead, router.Resource{Kind: router.ResourceTopic, Name: core.Name{Namespace: "v", Name: "bills"}}, "---"},
		{router.OpRead, router.Resource{Kind: router.ResourceGroup, Name: core.Name{Name: "billing"}}, "a--"},
		{router.OpRead, router.Resource{Kind: router.ResourceExchange, Name: core.TopicName("")}, "a--"},
		{router.OpWrite, router.Resource{Kind: router.ResourceExchange, Name: core.TopicName("")}, "a--"},
		{router.OpRead, router.Resource{Kind: router.ResourceQueue, Name: core.TopicName("b")}, "a--"},
		{router.OpRead, space, "a--"},
		{router.OpDescribe, space, "awA"},
		{router.OpAlter, space, "a-A"},
		{router.OpCreate, space, "--A"},
		{router.OpWrite, cluster, "awA"},
		{router.OpDescribe, cluster, "-wA"},
		{router.OpAlterConfigs, cluster, "--A"},
		{router.OpAlter, user, "--A"},
	} {
		got := []byte("---")
		for i, name := range []string{"alice", "watch", "admin"} {
			err := r.Authorize(who[name], tc.op, tc.res)
			if err == nil {
				got[i] = "awA"[i]
			} else if core.KindOf(err) != core.Denied {
				t.Fatal(err)
			}
		}
		if string(got) != tc.may {
			t.Errorf("%s %s: %s may, want %s", tc.op, tc.res, got, tc.may)
		}
		for _, name := range []string{"", "forged"} {
			if r.Authorize(who[name], tc.op, tc.res) == nil {
				t.Errorf("%s %s: %q may", tc.op, tc.res, name)
			}
		}
		if err := errors.Join(r.Authorize(who["broker"], tc.op, tc.res), r.Authorize(who["hooks"], tc.op, tc.res)); err != nil {
			t.Error(err)
		}
	}
	if err := r.Authorize(who["alice"], router.OpRead, topic("cats")); err.Error() != `user "alice" may not read topic cats` {
		t.Error(err)
	}
}

// What goes on in somebody's name goes on as long as he may do it, whatever his password is, and not for
// somebody else of his name.
func TestBehalf(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	before := r.OwnerOf(local)
	admin := withUsers(t, r)
	bills := router.Resource{Kind: router.ResourceTopic, Name: core.TopicName("bills")}
	may := func(o router.Owner) error { return r.Authorize(router.Behalf(o, "test", ""), router.OpRead, bills) }
	alice := login(t, r, "alice")
	owner := r.OwnerOf(alice)
	if before != (router.Owner{}) || owner.User != "alice" {
		t.Fatal(before, owner)
	}
	if _, err := r.SetUser(t.Context(), admin, "alice", router.UserChange{Password: new("other")}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(may(before), may(owner)); err != nil {
		t.Error(err)
	}
	gone := r.OwnerOf(alice) // who has not logged in again
	for _, o := range []router.Owner{r.OwnerOf(admin), r.OwnerOf(local), gone, {User: "alice", Created: owner.Created + 1}} {
		if err := may(o); core.KindOf(err) != core.Denied {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if err := r.DeleteUser(t.Context(), admin, "alice", false); err != nil {
		t.Fatal(err)
	}
	if err := may(owner); core.KindOf(err) != core.Denied || err.Error() != `user "alice" is gone` {
		t.Error(err)
	}
}

// While there are no users everybody may do everything, and guest logs in from here; not afterwards.
func TestWithoutUsers(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	ctx := t.Context()
	guest, err := r.Login(ctx, "guest", "guest", "::1")
	if err != nil || guest.Name != "guest" {
		t.Fatal(err)
	}
	for _, tc := range [][3]string{{"guest", "guest", "10.0.0.1"}, {"guest", "x", "127.0.0.1"}, {"admin", "guest", "127.0.0.1"}} {
		if _, err := r.Login(ctx, tc[0], tc[1], tc[2]); core.KindOf(err) != core.Denied {
			t.Errorf("%v: %v", tc, err)
		}
	}
	anybody, err := r.Anonymous("10.0.0.1")
	if err != nil || r.Authorize(anybody, router.OpDelete, router.Resource{Kind: router.ResourceCluster}) != nil || !r.IsTagged(anybody, router.TagAdministrator) {
		t.Fatal(err)
	}
	// From another machine nobody can make the first user.
	tags := []string{router.TagAdministrator}
	first := router.UserChange{Tags: &tags, Password: new("x")}
	if _, err := r.SetUser(ctx, anybody, "eve", first); core.KindOf(err) != core.Denied || r.HasUsers() {
		t.Fatal(err)
	}
	withUsers(t, r)
	for _, p := range []router.Principal{guest, anybody} {
		if err := r.Authorize(p, router.OpDescribe, router.Resource{Kind: router.ResourceCluster}); core.KindOf(err) != core.Denied {
			t.Error(err)
		}
		if _, err := r.SetUser(ctx, p, "eve", first); core.KindOf(err) != core.Denied {
			t.Error(err)
		}
	}
	if _, err := r.Anonymous("127.0.0.1"); core.KindOf(err) != core.Denied {
		t.Error(err)
	}
	if _, err := r.Login(ctx, "guest", "guest", "127.0.0.1"); core.KindOf(err) != core.Denied {
		t.Error(err)
	}
}

// TestRequiredUsers: where there have to be users nobody may do anything before there is one; when the last
// one is deleted the broker is open, as any.
func TestRequiredUsers(t *testing.T) {
	r, _ := routertest.Start(t, func(o *router.Options) { o.RequireUsers = true })
	ctx := t.Context()
	may := func() bool {
		p, err := r.Anonymous("127.0.0.1")
		return err == nil && r.Authorize(p, router.OpDescribe, router.Resource{Kind: router.ResourceCluster}) == nil
	}
	if may() {
		t.Error("somebody may do something before there is a user")
	}
	tags := []string{router.TagAdministrator}
	first := router.UserChange{Tags: &tags, Password: new("pw-admin")}
	if _, err := r.SetUser(ctx, local, "eve", first); core.KindOf(err) != core.Denied {
		t.Error(err)
	}
	if _, err := r.SetUser(ctx, router.Itself("test"), "admin", first); err != nil {
		t.Fatal(err)
	}
	if err := r.DeleteUser(ctx, login(t, r, "admin"), "admin", true); err != nil {
		t.Fatal(err)
	}
	if !may() {
		t.Error("nobody may do anything after the last user was deleted")
	}
	if _, err := r.SetUser(ctx, local, "admin", first); err != nil {
		t.Error(err)
	}
}

// TestOwnPassword: a user changes its own password, and nothing else of itself.
func TestOwnPassword(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	withUsers(t, r)
	tags := []string{router.TagAdministrator}
	for _, c := range []router.UserChange{{Tags: &tags}, {Password: new("x"), Tags: &tags}, {Password: new("x"), New: true}} {
		if _, err := r.SetUser(t.Context(), login(t, r, "alice"), "alice", c); core.KindOf(err) != core.Denied {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := r.SetUser(t.Context(), login(t, r, "alice"), "watch", router.UserChange{Password: new("x")}); core.KindOf(err) != core.Denied {
		t.Error(err)
	}
	if _, err := r.SetUser(t.Context(), login(t, r, "alice"), "alice", router.UserChange{Password: new("pw-alice")}); err != nil {
		t.Error(err)
	}
}

func TestLogin(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	ctx := t.Context()
	admin := withUsers(t, r)
	// guest is bound to this machine, as RabbitMQ's.
	if _, err := r.SetUser(ctx, admin, "guest", router.UserChange{Password: new("pw-guest")}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Login(ctx, "guest", "pw-guest", "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Login(ctx, "guest", "pw-guest", "10.0.0.1"); core.KindOf(err) != core.Denied {
		t.Fatal(err)
	}
	if p, err := r.Certified("alice", "10.0.0.1"); err != nil || p.Name != "alice" {
		t.Fatal(err)
	}
	if _, err := r.Certified("CN=eve", "10.0.0.1"); core.KindOf(err) != core.Denied {
		t.Fatal(err)
	}
	// Whoever guesses is refused after a while, though it be right.
	for i := 0; ; i++ {
		_, err := r.Login(ctx, "alice", "wrong", "10.9.9.9")
		if core.KindOf(err) == core.Limit {
			break
		}
		if core.KindOf(err) != core.Denied || i > 1000 {
			t.Fatal(err)
		}
	}
	if _, err := r.Login(ctx, "alice", "pw-alice", "10.9.9.9"); core.KindOf(err) != core.Limit {
		t.Fatal(err)
	}
	login(t, r, "alice")
}

// A user changes its own password and nothing else; whoever logged in before is cut off then.
func TestChangesCutOff(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	ctx := t.Context()
	gone := func(p router.Principal) chan struct{} {
		c := make(chan struct{})
		t.Cleanup(r.WhileLoggedIn(p, func() { close(c) }))
		return c
	}
	anybody := gone(local)
	admin := withUsers(t, r)
	<-anybody
	alice := login(t, r, "alice")
	cut, stays := gone(alice), gone(admin)
	if _, err := r.SetUser(ctx, alice, "alice", router.UserChange{There: true, Tags: &[]string{router.TagAdministrator}}); core.KindOf(err) != core.Denied {
		t.Fatal(err)
	}
	if _, err := r.SetUser(ctx, alice, "admin", router.UserChange{There: true, Password: new("x")}); core.KindOf(err) != core.Denied {
		t.Fatal(err)
	}
	if _, err := r.SetUser(ctx, alice, "alice", router.UserChange{There: true, Password: new("new")}); err != nil {
		t.Fatal(err)
	}
	<-cut
	select {
	case <-stays:
		t.Fatal("somebody else is cut off")
	default:
	}
	<-gone(alice) // also when it is noted too late
	if err := r.Authorize(alice, router.OpRead, router.Resource{Kind: router.ResourceTopic, Name: core.TopicName("bills")}); core.KindOf(err) != core.Denied {
		t.Fatal(err)
	}
	alice, err := r.Login(ctx, "alice", "new", "10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	cut = gone(alice)
	if err := r.DeleteUser(ctx, alice, "alice", false); core.KindOf(err) != core.Denied {
		t.Fatal(err)
	}
	if err := r.DeleteUser(ctx, admin, "alice", false); err != nil {
		t.Fatal(err)
	}
	<-cut
}

// Clients without credentials are a user, where that is wished, but administrate nothing.
func TestAnonymousUser(t *testing.T) {
	r, _ := routertest.Start(t, func(o *router.Options) { o.AnonymousUser = "alice" })
	admin := withUsers(t, r)
	if _, err := r.SetUser(t.Context(), admin, "alice", router.UserChange{Tags: &[]string{router.TagAdministrator}}); err != nil {
		t.Fatal(err)
	}
	p, err := r.Anonymous("10.0.0.1")
	if err != nil || p.Name != "alice" || r.IsTagged(p, router.TagAdministrator) {
		t.Fatal(p, err)
	}
	if err := r.Authorize(p, router.OpRead, router.Resource{Kind: router.ResourceQueue, Name: core.TopicName("b")}); err != nil {
		t.Fatal(err)
	}
	if err := r.DeleteUser(t.Context(), p, "admin", false); core.KindOf(err) != core.Denied {
		t.Fatal(err)
	}
}

func BenchmarkAuthorize(b *testing.B) {
	r, _ := routertest.Start(b, nil)
	withUsers(b, r)
	alice := login(b, r, "alice")
	res := router.Resource{Kind: router.ResourceExchange, Name: core.TopicName("bills")}
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Authorize(alice, router.OpWrite, res); err != nil {
			b.Fatal(err)
		}
	}
}

// What is allowed costs no allocation.
func TestAuthorizeAllocatesNothing(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	withUsers(t, r)
	alice := login(t, r, "alice")
	res := router.Resource{Kind: router.ResourceExchange, Name: core.TopicName("bills")}
	if n := testing.AllocsPerRun(100, func() {
		if r.Authorize(alice, router.OpWrite, res) != nil {
			t.Fatal("denied")
		}
	}); n > 0 {
		t.Fatalf("%v allocations", n)
	}
}
