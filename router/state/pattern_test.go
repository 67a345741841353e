package state

import (
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"polylog/core"
	"polylog/core/message"
)

// A replica that cannot compile what another one has let in stays equal to it, says so, and starts again.
func TestReplicaThatCompilesLess(t *testing.T) {
	const text = "(?<of>a)"
	less := func(do func()) {
		t.Helper()
		defer func() { compile = regexp.Compile }()
		compile = func(s string) (*regexp.Regexp, error) {
			if strings.Contains(s, "(?<") {
				return nil, errors.New("what is that?")
			}
			return regexp.Compile(s)
		}
		do()
	}
	full, other, log := newMachine(t), newMachine(t), newEntries()
	user := SetUser{
		Name: "admin", SetTags: true, Tags: []string{TagAdministrator}, SetCredentials: true, Credentials: testCredentials(1),
		Grants: []Grant{{core.DefaultNamespace, ".*", text, "^b"}},
	}
	rights := SetRights{User: "admin", Namespace: core.DefaultNamespace, Configure: ".*", Write: "^b", Read: text}
	policy := SetPolicy{Policy{
		Namespace: core.DefaultNamespace, Name: "p", Pattern: text, Priority: 9,
		Definition: message.Table{{Name: "max-length", Value: message.Int(message.KindInt64, 5)}},
	}}
	for _, c := range []core.Command{user.Command(), rights.Command(), policy.Command()} {
		e := log.take(c)
		want := full.state.Apply(e)
		if want[0][0].Err != nil {
			t.Fatal(want[0][0].Err)
		}
		less(func() {
			if got := other.state.Apply(e); !reflect.DeepEqual(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
		if full.hash() != other.hash() {
			t.Error("the states differ")
		}
	}
	check := func() {
		t.Helper()
		is := other.state.User("admin").Rights[core.DefaultNamespace]
		if is.Read.String() != text || is.Read.Matches("a") || !is.Write.Matches("b") {
			t.Errorf("%+v", is)
		}
		if ps := other.state.Policies(core.DefaultNamespace, false); len(ps) != 1 || ps[0].Pattern != text || ps[0].match.MatchString("a") {
			t.Errorf("%+v", ps)
		}
		if len(other.complaints) == 0 {
			t.Error("nobody hears of it")
		}
		other.complaints = nil
	}
	less(func() {
		if len(other.complaints) != 3 {
			t.Errorf("%v", other.complaints)
		}
		check()
		other.checkpoint()
		other.crash(log.all) // and starts with what it has
		check()
		for _, err := range []error{user.Grants[0].Check(), policy.Policy.Check()} {
			if core.KindOf(err) != core.Invalid {
				t.Errorf("its doors: %v", err)
			}
		}
	})
	if full.hash() != other.hash() {
		t.Error("the states differ")
	}
	if is := full.state.User("admin").Rights[core.DefaultNamespace]; !is.Read.Matches("a") || len(full.complaints) != 0 {
		t.Errorf("%+v, %v", is, full.complaints)
	}
}

// The syntax of patterns is that of Go 1.26. Where a version of Go takes more, doors must refuse that until
// all nodes have it: below a feature level. One that takes less must not be used.
func TestSyntaxIsFixed(t *testing.T) {
	for want, all := range map[bool][]string{
		true: {
			`(?<n>a)`, `(?P<n>a)`, `\p{Letter}`, `\p{Greek}`, `\p{greek}`, `\pL`, `\Qa.b\E`, `[[:word:]]`, `a{1000}`, `(?i)a`, `(?U)a*`,
			`(?s-m:a)`, `\x{10FFFF}`, `[a&&b]`, `[[=a=]]`, `[[.a.]]`, `[[:ascii]`, `\z`, `\A`, `\07`, `\bq\B`,
		},
		false: {
			"(", "\xff", `a**`, `a++`, `a*+`, `a?+`, `a{1001}`, `a{2,1}`, `(?=a)`, `(?!a)`, `(?<=a)`, `(?<!a)`, `(?>a)`, `(?|a)`, `(?R)`, `(?&n)`, `(?P>n)`,
			`(?(1)a)`, `(?'n'a)`, `(?#c)`, `(?x)a`, `(?n)a`, `(?u)a`, `(?a)x`, `(?P=n)`, `\k<n>`, `\g1`, `\1`, `\8`, `\C`, `\Z`, `\G`, `\K`, `\R`, `\h`, `\H`,
			`\N`, `\N{DIGIT ONE}`, `\X`, `\e`, `\cA`, `\y`, `\u0061`, `\U0001F600`, `\o{1}`, `\p{Script=Greek}`, `\p{sc=Greek}`, `[a--b]`,
		},
	} {
		for _, text := range all {
			if err := (&Grant{Read: text}).Check(); (err == nil) != want {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
}
