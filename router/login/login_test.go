package login

import (
	"fmt"
	"testing"
	"time"

	"github.com/xdg-go/scram"

	"polylog/core"
	"polylog/router/state"
)

func user(t *testing.T, name, password string, at core.LogIndex) *state.User {
	t.Helper()
	c, err := Credentials(password)
	if err != nil {
		t.Fatal(err)
	}
	return &state.User{Name: name, Login: at, Credentials: c}
}

func TestVerify(t *testing.T) {
	v := NewVerifier()
	u := user(t, "u", "secret", 1)
	verify := func(want bool, u *state.User, password string) {
		t.Helper()
		if ok, err := v.Verify(t.Context(), u, password); ok != want || err != nil {
			t.Fatalf("%q: %t, %v", password, ok, err)
		}
	}
	remembered := func(want int) {
		t.Helper()
		if len(v.right) != want {
			t.Fatalf("%d passwords are remembered, want %d", len(v.right), want)
		}
	}
	verify(false, u, "wrong")
	verify(false, nil, "secret")
	verify(false, &state.User{Name: "without"}, "")
	verify(false, u, string(make([]byte, MaxPassword+1)))
	remembered(0)
	verify(true, u, "secret")
	remembered(1)
	u.Credentials[0].StoredKey = nil // what is remembered needs none
	verify(true, u, "secret")
	verify(false, u, "wrong")
	changed := user(t, "u", "other", 2)
	verify(false, changed, "secret")
	verify(true, changed, "other")
	v.Forget(func(string) *state.User { return changed })
	remembered(1)
	v.Forget(func(string) *state.User { return nil })
	remembered(0)
	if _, err := Credentials(""); core.KindOf(err) != core.Invalid {
		t.Fatal(err)
	}
}

// RFC 7677, section 3, has this exchange.
func TestVectorOfTheRFC(t *testing.T) {
	c, err := derive("pencil", state.ScramSHA256, []byte("\x5b\x6d\x99\x68\x9d\x12\x35\x8e\xec\xa0\x4b\x14\x12\x36\xfa\x81"), 4096)
	if err != nil {
		t.Fatal(err)
	}
	u := &state.User{Name: "user", Login: 1, Credentials: []state.Credential{c}}
	x := NewVerifier().Scram("SCRAM-SHA-256", func(string) *state.User { return u })
	x.talk = serverWithNonce(t, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", c).NewConversation()
	x.user = u
	reply, done, err := x.Step([]byte("n,,n=user,r=rOprNGfwEbeRWgbNEkqO"))
	if want := "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"; string(reply) != want || done || err != nil {
		t.Fatalf("%s, %t, %v", reply, done, err)
	}
	reply, done, err = x.Step([]byte("c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="))
	if want := "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="; string(reply) != want || !done || err != nil {
		t.Fatalf("%s, %t, %v", reply, done, err)
	}
}

func serverWithNonce(t *testing.T, nonce string, c state.Credential) *scram.Server {
	t.Helper()
	s, err := scram.SHA256.NewServer(func(string) (scram.StoredCredentials, error) {
		return scram.StoredCredentials{KeyFactors: scram.KeyFactors{Salt: string(c.Salt), Iters: c.Iterations}, StoredKey: c.StoredKey, ServerKey: c.ServerKey}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.WithNonceGenerator(func() string { return nonce })
}

// talk has a client of SCRAM log in.
func talk(t *testing.T, x *Exchange, name, password string) (bool, error) {
	t.Helper()
	hash := scram.SHA256
	c, err := hash.NewClientUnprepped(name, password, "")
	if err != nil {
		t.Fatal(err)
	}
	conv := c.NewConversation()
	say, err := conv.Step("")
	if err != nil {
		t.Fatal(err)
	}
	reply, _, err := x.Step([]byte(say))
	if err != nil {
		return false, err
	}
	if say, err = conv.Step(string(reply)); err != nil {
		t.Fatal(err)
	}
	reply, done, err := x.Step([]byte(say))
	if done {
		if _, err := conv.Step(string(reply)); err != nil || !conv.Valid() {
			t.Fatal("the client does not believe the server: ", err)
		}
	}
	return done, err
}

func TestScram(t *testing.T) {
	v := NewVerifier()
	u := user(t, "u,=ü", "sécret", 3)
	find := func(name string) *state.User {
		if name == u.Name {
			return u
		}
		return nil
	}
	x := v.Scram("SCRAM-SHA-256", find)
	if ok, err := talk(t, x, "u,=ü", "sécret"); !ok || err != nil || x.User() != u {
		t.Fatalf("%t, %v", ok, err)
	}
	// A wrong password and a user that is not there look the same, until the end.
	for _, who := range []string{"u,=ü", "nobody"} {
		x := v.Scram("SCRAM-SHA-256", find)
		if ok, err := talk(t, x, who, "wrong"); ok || core.KindOf(err) != core.Denied {
			t.Fatalf("%s: %t, %v", who, ok, err)
		}
	}
	for _, nonsense := range []string{"", "x", "n,,", "n,,n=u", "p=tls-unique,,n=u,r=abc"} {
		if _, done, err := v.Scram("SCRAM-SHA-512", find).Step([]byte(nonsense)); done || core.KindOf(err) != core.Invalid {
			t.Errorf("%q: %t, %v", nonsense, done, err)
		}
	}
	if v.Scram("SCRAM-SHA-1", find) != nil {
		t.Error("there is a mechanism that there is not")
	}
	// What a client that is nobody is told is the same each time, as it is for one who is somebody.
	a, b := v.fake("nobody", state.ScramSHA256), v.fake("nobody", state.ScramSHA256)
	if string(a.Salt) != string(b.Salt) || string(a.Salt) == string(v.fake("other", state.ScramSHA256).Salt) {
		t.Error("users that are not there have a salt of their own that changes, or none")
	}
}

func FuzzScram(f *testing.F) {
	f.Add("n,,n=u,r=abc", "c=biws,r=abc,p=YQ==")
	v := NewVerifier()
	f.Fuzz(func(t *testing.T, first, second string) {
		x := v.Scram("SCRAM-SHA-256", func(string) *state.User { return nil })
		if _, done, _ := x.Step([]byte(first)); done {
			t.Fatal("somebody is logged in")
		}
		if _, done, _ := x.Step([]byte(second)); done {
			t.Fatal("somebody is logged in")
		}
	})
}

func TestGate(t *testing.T) {
	now := time.Unix(1000, 0)
	g := Gate{Clock: func() time.Time { return now }}
	for i := range burst {
		if !g.Open("10.0.0.1", "u") {
			t.Fatalf("closed after %d failures", i)
		}
		g.Failed("10.0.0.1", "u")
	}
	if g.Open("10.0.0.1", "u") || !g.Open("10.0.0.2", "u") || !g.Open("x", "u") {
		t.Fatal("the wrong gates are open")
	}
	if !g.Open("10.0.0.1", "other") || !g.Open("10.0.0.1", "") {
		t.Fatal("others behind the same address are shut out")
	}
	now = now.Add(pause)
	if !g.Open("::ffff:10.0.0.1", "u") {
		t.Fatal("closed though one failure is forgiven")
	}
	g.Failed("10.0.0.1", "u")
	if g.Open("10.0.0.1", "u") {
		t.Fatal("open for more than one")
	}
	now = now.Add(burst * pause)
	if !g.Open("10.0.0.1", "u") || len(g.failed) != 0 {
		t.Fatal("nothing is forgotten")
	}
	for range burst {
		g.Failed("2001:db8::1", "u")
	}
	if g.Open("2001:db8::2", "u") || !g.Open("2001:db8:0:1::1", "u") {
		t.Fatal("a network of IPv6 is not one")
	}
	all := Gate{Clock: g.Clock}
	for i := range allBurst { // of all users together there may be many, not any number
		if !all.Open("10.0.0.3", fmt.Sprint(i)) {
			t.Fatalf("closed after %d failures", i)
		}
		all.Failed("10.0.0.3", fmt.Sprint(i))
	}
	if all.Open("10.0.0.3", "one more") {
		t.Fatal("open for all names that there are")
	}
	for i := range maxGuesses + 100 {
		g.Failed(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), "u")
	}
	if n := len(g.failed); n > maxGuesses {
		t.Fatalf("%d addresses are kept", n)
	}
}
