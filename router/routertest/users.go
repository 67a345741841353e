package routertest

import (
	"testing"

	"polylog/core"
	"polylog/router"
)

// Admin is the administrator, admin, or who is on the broker's machine while there is none.
func Admin(t testing.TB, r *router.Router) router.Principal {
	t.Helper()
	if !r.HasUsers() {
		return router.Principal{Host: "127.0.0.1"}
	}
	p, err := r.Login(t.Context(), "admin", "pw-admin", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// AddUser has Admin make a user with the password pw-NAME.
func AddUser(t testing.TB, r *router.Router, name string, tags ...string) {
	t.Helper()
	c := router.UserChange{New: true, Tags: &tags, Password: new("pw-" + name)}
	if _, err := r.SetUser(t.Context(), Admin(t, r), name, c); err != nil {
		t.Fatal(err)
	}
}

// Grant has Admin give a user rights in the default namespace, in place of those that it has.
func Grant(t testing.TB, r *router.Router, user, configure, write, read string) {
	t.Helper()
	if _, err := r.SetRights(t.Context(), Admin(t, r), user, core.DefaultNamespace, configure, write, read); err != nil {
		t.Fatal(err)
	}
}
