package state

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"polylog/core"
)

// userCommand has the commands about users:
//
//	user NAME [must=new|there|first] [tags=(a,b)] [password=N] [no-password] [all=NAMESPACE]
//	delete-user NAME [last]
//	rights USER namespace=NAMESPACE [configure=…] [write=…] [read=…] [clear]
//	show-user NAME
func (s *script) userCommand() (c core.Command, show func(core.Result) string) {
	text := func(option string) string {
		v, _ := s.option(option)
		return v
	}
	created := func(r core.Result) string {
		if len(r.Body) == 1 && r.Body[0] == 1 {
			return " created"
		}
		return ""
	}
	switch s.d.Cmd {
	case "user":
		c := SetUser{Name: s.first()}
		c.Must = map[string]Must{"": MustNothing, "new": MustBeNew, "there": MustBeThere, "first": MustBeFirst}[text("must")]
		if tags, ok := s.option("tags"); ok {
			c.SetTags, c.Tags = true, strings.FieldsFunc(tags, func(r rune) bool { return r == ',' })
		}
		if n, ok := s.option("password"); ok {
			c.SetCredentials, c.Credentials = true, testCredentials(byte(s.number(n)))
		}
		for _, a := range s.d.CmdArgs {
			c.SetCredentials = c.SetCredentials || a.Key == "no-password"
		}
		if namespace, ok := s.option("all"); ok {
			c.Grants = []Grant{{namespace, ".*", ".*", ".*"}}
		}
		return c.Command(), created
	case "delete-user":
		c := DeleteUser{Name: s.first()}
		for _, a := range s.d.CmdArgs {
			c.Last = c.Last || a.Key == "last"
		}
		return c.Command(), created
	case "rights":
		c := SetRights{User: s.first(), Namespace: text("namespace"), Configure: text("configure"), Write: text("write"), Read: text("read")}
		for _, a := range s.d.CmdArgs {
			c.Clear = c.Clear || a.Key == "clear"
		}
		return c.Command(), created
	}
	return c, nil
}

// testCredentials are those of a password.
func testCredentials(password byte) []Credential {
	key := func(n int) []byte { return bytes.Repeat([]byte{password}, n) }
	return []Credential{
		{ScramSHA256, 4096, []byte{password}, key(32), key(32)},
		{ScramSHA512, 5000, []byte{password}, key(64), key(64)},
	}
}

// dumpUsers shows the users, by name, as readers see them.
func (m *machine) dumpUsers(b *strings.Builder) {
	for _, u := range m.state.Users() {
		fmt.Fprintf(b, "user %s created=%d login=%d tags=%v", u.Name, u.Created, u.Login, u.Tags)
		for i := range u.Credentials {
			c := &u.Credentials[i]
			fmt.Fprintf(b, " mechanism=%d,%d,%d", c.Mechanism, c.Iterations, c.StoredKey[0])
		}
		b.WriteString("\n")
		for _, namespace := range slices.Sorted(maps.Keys(u.Rights)) {
			g := u.Rights[namespace]
			fmt.Fprintf(b, "  in %s: %q %q %q\n", namespace, g.Configure, g.Write, g.Read)
		}
	}
}

// everyUserCommand has one of each kind.
func everyUserCommand() []core.Command {
	admin := SetUser{Name: "admin", Must: MustBeFirst, SetTags: true, Tags: []string{TagAdministrator}, SetCredentials: true, Credentials: testCredentials(1)}
	user := SetUser{Name: "u", SetTags: true, Tags: []string{"x", "b"}, Grants: []Grant{{core.DefaultNamespace, "^a", "", ".*"}}}
	grant := SetRights{User: "u", Namespace: core.DefaultNamespace, Configure: "", Write: ".*", Read: "^a"}
	clear := SetRights{User: "u", Namespace: core.DefaultNamespace, Clear: true}
	drop := DeleteUser{Name: "u"}
	return []core.Command{admin.Command(), user.Command(), grant.Command(), clear.Command(), grant.Command(), drop.Command(), user.Command(), grant.Command()}
}

// What passwords are verified by is in no description of a command.
func TestDescribeHidesCredentials(t *testing.T) {
	set := SetUser{Name: "u", SetCredentials: true, Credentials: testCredentials('s')}
	described(t, set.Command(), "set user {Name:u Must:0 SetTags:false Tags:[] SetCredentials:true Credentials:[{Mechanism:1 Iterations:4096 Salt:[] StoredKey:[] ServerKey:[]} ")
	described(t, (&DeleteUser{"u", true}).Command(), "delete user {Name:u Last:true}")
	described(t, (&SetRights{User: "u", Namespace: "n", Read: ".*"}).Command(), "set rights {User:u Namespace:n Clear:false Configure: Write: Read:.*}")
}

func TestExpressions(t *testing.T) {
	for _, tc := range []struct {
		text, name string
		want       bool
	}{
		{"", "", false},
		{"", "q", false},
		{"^$", "", true},
		{"^$", "q", false},
		{".*", "", true},
		{".*", "q", true},
		{"^.*$", "q", true},
		{"^orders", "orders.eu", true},
		{"^orders", "my-orders", false},
		{"orders", "my-orders", true},
		{"^(a|b)$", "b", true},
		{"^(a|b)$", "c", false},
	} {
		if err := (&Grant{Read: tc.text}).Check(); err != nil {
			t.Fatal(err)
		}
		x := expression(tc.text)
		if x.String() != tc.text {
			t.Fatal(x)
		}
		if got := x.Matches(tc.name); got != tc.want {
			t.Errorf("%q of %q: %t", tc.text, tc.name, got)
		}
	}
	for _, bad := range []string{"(", "a**", strings.Repeat("a", maxExpression+1), "(?=a)"} {
		if err := (&Grant{Write: bad}).Check(); core.KindOf(err) != core.Invalid {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}

// A user and its rights are one command: all of it is done, or nothing.
func TestUserWithRights(t *testing.T) {
	m, log := newMachine(t), newEntries()
	admin := SetUser{Name: "admin", Must: MustBeFirst, SetTags: true, Tags: []string{TagAdministrator}, SetCredentials: true, Credentials: testCredentials(1)}
	for _, bad := range [][]Grant{{{"none", "", "", ""}}, {{core.DefaultNamespace, "", "", strings.Repeat("a", maxExpression+1)}}, {{core.DefaultNamespace, ".*", "", ""}, {"none", "", "", ""}}} {
		admin.Grants = bad
		if r := m.state.Apply(log.take(admin.Command()))[0][0]; r.Err == nil || m.state.HasUsers() {
			t.Fatalf("%+v: %v", bad, r.Err)
		}
	}
	admin.Grants = []Grant{{core.DefaultNamespace, ".*", "^w", ""}}
	m.done(log.take(admin.Command()))
	g := m.state.User("admin").Rights[core.DefaultNamespace]
	if g.Configure.String() != ".*" || g.Write.String() != "^w" || g.Read.String() != "" {
		t.Fatalf("%+v", g)
	}
	admin.Must, admin.Grants = MustNothing, nil // as commands were before they had any
	m.done(log.take(admin.Command()))
	if len(m.state.User("admin").Rights) != 1 {
		t.Fatal("rights that were not named are gone")
	}
}

// Readers see a change when its batch is applied, are told of it once, and have the old user as it was.
func TestUsersAreSeen(t *testing.T) {
	m, log := newMachine(t), newEntries()
	told := 0
	m.state.OnUsers(func() { told++ })
	if m.state.HasUsers() || m.state.User("admin") != nil {
		t.Fatal("there are users")
	}
	m.state.Apply(log.take(everyUserCommand()...))
	u := m.state.User("u")
	if !m.state.HasUsers() || told != 1 || u == nil || !u.HasTag("b") || len(u.Rights) != 1 {
		t.Fatalf("told %d times, %+v", told, u)
	}
	revision := m.state.UsersRevision()
	m.done(log.take((&SetRights{User: "u", Namespace: core.DefaultNamespace, Clear: true}).Command()))
	if len(u.Rights) != 1 || len(m.state.User("u").Rights) != 0 || told != 2 || m.state.UsersRevision() == revision {
		t.Fatal("the user that was given out has changed, or the new one is not there")
	}
	m.state.Apply(log.take((&DeleteUser{Name: "nobody"}).Command()))
	if told != 2 {
		t.Fatal("readers are told of nothing")
	}
}

func FuzzUserValues(f *testing.F) {
	f.Add((&User{Name: "u", Created: 5, Login: 7, Tags: []string{"a"}, Credentials: testCredentials(1)}).encode())
	f.Fuzz(func(t *testing.T, v []byte) {
		u, err := decodeUser("u", v)
		if err != nil {
			return
		}
		if got, err := decodeUser("u", u.encode()); err != nil || !reflect.DeepEqual(got, u) {
			t.Errorf("%+v became %+v, %v", u, got, err)
		}
	})
}
