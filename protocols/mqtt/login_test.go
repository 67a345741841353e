package mqtt

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
	"github.com/xdg-go/scram"

	"polylog/core/certs"
	"polylog/core/certs/certstest"
	"polylog/router"
	"polylog/router/routertest"
)

// quickly has refused logins answered at once.
func quickly(o *Options) { o.loginDelay = time.Nanosecond }

// addUser makes a user with the password pw-NAME, as whoever may.
func (b *broker) addUser(t testing.TB, name string, tags ...string) {
	t.Helper()
	routertest.AddUser(t, b.router, name, tags...)
}

// admin is the administrator, once there is one.
func (b *broker) admin(t testing.TB) router.Principal {
	t.Helper()
	return routertest.Admin(t, b.router)
}

func (b *broker) grant(t testing.TB, user, configure, write, read string) {
	t.Helper()
	routertest.Grant(t, b.router, user, configure, write, read)
}

// withUsers has an administrator, which has all rights, alice, who has some, and eve, who has none.
func (b *broker) withUsers(t testing.TB) {
	t.Helper()
	b.addUser(t, "admin", router.TagAdministrator)
	b.addUser(t, "alice")
	b.addUser(t, "eve")
	b.grant(t, "admin", ".*", ".*", ".*")
	b.grant(t, "alice", "^(c|all)", "^(w|c|all)", "^(r|all)")
}

// credentials has a CONNECT show a user name and a password.
func credentials(user, password string) func(*packets.Packet) {
	return func(p *packets.Packet) {
		p.Connect.UsernameFlag, p.Connect.Username = true, []byte(user)
		p.Connect.PasswordFlag, p.Connect.Password = true, []byte(password)
	}
}

// as connects a client as a user.
func as(t testing.TB, b *broker, user, id string, version byte) *client {
	t.Helper()
	c, ack := connectAs(t, b.addr, id, version, credentials(user, "pw-"+user))
	if ack.ReasonCode != 0 {
		t.Fatalf("CONNACK %#x", ack.ReasonCode)
	}
	return c
}

// refusedAs tries to connect, and wants this reason of MQTT 5, and code of MQTT 3.1.1.
func refusedAs(t testing.TB, b *broker, v5, v3 byte, change func(*packets.Packet)) {
	t.Helper()
	for version, want := range map[byte]byte{5: v5, 4: v3} {
		c, ack := connectAs(t, b.addr, "refused", version, change)
		if ack.ReasonCode != want {
			t.Errorf("version %d: CONNACK %#x, want %#x", version, ack.ReasonCode, want)
		}
		c.expectEnd(0)
	}
}

// TestUsersLogIn with what they have shown; who shows nothing, or is nobody here, is told.
func TestUsersLogIn(t *testing.T) {
	clients := &router.Clients{}
	b, _ := serve(t, func(o *Options) { quickly(o); o.Clients = clients })
	connected(t, b, "before", 5) // nobody is asked
	b.withUsers(t)
	for _, version := range []byte{4, 5} {
		c := as(t, b, "alice", "a", version)
		c.quiet()
		list, _ := clients.List(0, 9, func(k *router.Client) bool { return k.ClientID == "a" })
		if len(list) != 1 || list[0].User != "alice" {
			t.Errorf("%+v", list)
		}
	}
	wrong := packets.ErrBadUsernameOrPassword.Code
	refusedAs(t, b, wrong, 4, credentials("alice", "pw-admin"))
	refusedAs(t, b, wrong, 4, credentials("alice", ""))
	refusedAs(t, b, wrong, 4, credentials("nobody", "pw-alice"))
	refusedAs(t, b, wrong, 4, credentials("", "pw-alice"))
	refusedAs(t, b, wrong, 4, credentials("guest", "guest"))
	refusedAs(t, b, packets.ErrNotAuthorized.Code, 5, nil)
	refusedAs(t, b, packets.ErrNotAuthorized.Code, 5, credentials("", ""))
	refusedAs(t, b, packets.ErrNotAuthorized.Code, 5, credentials("eve", "pw-eve")) // she has no right here at all
	if n := b.metrics.logins.Load(); n != 16 {
		t.Errorf("%d logins were refused, want 16", n)
	}
	if n := b.metrics.broken.Load(); n != 0 {
		t.Errorf("%d clients made an error", n)
	}
}

// TestGuesses are refused after many, right ones too, and nobody else is.
func TestGuesses(t *testing.T) {
	clock := routertest.NewClock(time.Unix(1e9, 0)) // nothing is forgiven
	r, _ := routertest.Start(t, func(o *router.Options) { o.Clock = clock.Now })
	b := serveOn(t, r, quickly)
	b.withUsers(t)
	there := as(t, b, "alice", "there", 5)
	for range 10 {
		refusedAs(t, b, packets.ErrBadUsernameOrPassword.Code, 4, credentials("alice", "wrong"))
	}
	refusedAs(t, b, packets.ErrConnectionRateExceeded.Code, 3, credentials("alice", "pw-alice"))
	there.quiet()
	clock.Advance(time.Second)
	as(t, b, "alice", "late", 5)
}

// TestRefusalsTakeTime: who guesses waits; others do not, and the server can stop meanwhile.
func TestRefusalsTakeTime(t *testing.T) {
	b, _ := serve(t, func(o *Options) { o.loginDelay = time.Hour })
	b.withUsers(t)
	c := dial(t, b.addr, 5)
	pk := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: 5,
		Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: "c", Clean: true},
	}
	credentials("alice", "wrong")(&pk)
	c.send(&pk)
	await(t, func() bool { return b.metrics.logins.Load() == 1 })
	as(t, b, "alice", "other", 5).quiet()
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ack := c.expect(packets.Connack); ack.ReasonCode != packets.ErrBadUsernameOrPassword.Code {
		t.Errorf("CONNACK %#x", ack.ReasonCode)
	}
}

// TestAnonymousUser is who shows nothing.
func TestAnonymousUser(t *testing.T) {
	r, _ := routertest.Start(t, func(o *router.Options) { o.AnonymousUser = "alice" })
	b := serveOn(t, r, quickly)
	b.withUsers(t)
	c := connected(t, b, "c", 5)
	c.mustSubscribe("all/#", 1)
	c.send(publishPacket("all/x", "m", 0, 0))
	c.expectMessage("all/x", "m")
	if codes := c.subscribe(2, packets.Subscription{Filter: "secret/#"}); codes[0] != packets.ErrNotAuthorized.Code {
		t.Errorf("SUBACK %#x", codes)
	}
	refusedAs(t, b, packets.ErrBadUsernameOrPassword.Code, 4, credentials("alice", "wrong"))
	if err := b.router.DeleteUser(t.Context(), b.admin(t), "alice", false); err != nil {
		t.Fatal(err)
	}
	c.expectEnd(packets.ErrNotAuthorized.Code)
	refusedAs(t, b, packets.ErrNotAuthorized.Code, 5, nil)
}

// TestConnectionsEndWithTheirUser, when it has another password, and those of nobody with the first user.
func TestConnectionsEndWithTheirUser(t *testing.T) {
	b, _ := serve(t, quickly)
	nobody, old := connected(t, b, "n", 5), connected(t, b, "o", 4)
	b.withUsers(t)
	nobody.expectEnd(packets.ErrNotAuthorized.Code)
	old.expectEnd(0)
	alice, admin := as(t, b, "alice", "a", 5), as(t, b, "admin", "b", 5)
	b.grant(t, "alice", "", "", "") // no end
	alice.quiet()
	if _, err := b.router.SetUser(t.Context(), b.admin(t), "alice", router.UserChange{There: true, Password: new("pw-new")}); err != nil {
		t.Fatal(err)
	}
	alice.expectEnd(packets.ErrAdministrativeAction.Code)
	alice, ack := connectAs(t, b.addr, "a", 5, credentials("alice", "pw-new"))
	if ack.ReasonCode != 0 {
		t.Fatalf("CONNACK %#x", ack.ReasonCode)
	}
	if err := b.router.DeleteUser(t.Context(), b.admin(t), "alice", false); err != nil {
		t.Fatal(err)
	}
	if pk := alice.expect(packets.Disconnect); pk.ReasonCode != packets.ErrAdministrativeAction.Code || pk.Properties.ReasonString != "the user is deleted" {
		t.Errorf("%+v", pk)
	}
	alice.expectEnd(0)
	admin.quiet()
}

// TestCertificates name users, where a client shows no password.
func TestCertificates(t *testing.T) {
	b, _ := serve(t, quickly)
	a := certstest.NewAuthority(t, "ours")
	var files certs.Files
	files.Cert, files.Key, files.CA = a.Files(t, t.TempDir(), time.Now().Add(time.Hour), a)
	c, err := certs.Load(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	secure := serveOn(t, b.router, func(o *Options) {
		quickly(o)
		o.Listeners = []net.Listener{tls.NewListener(l, c.Server(false))}
	})
	ca, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	without := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1"}
	without.RootCAs.AppendCertsFromPEM(ca)
	with := without.Clone()
	with.Certificates = []tls.Certificate{c.Fresh().Cert}
	n := 0
	connect := func(o *tls.Config, change func(*packets.Packet)) byte {
		t.Helper()
		n++
		nc, err := tls.Dial("tcp", l.Addr().String(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = nc.Close() })
		k := &client{t: t, nc: nc, in: packetReader{nc: nc, got: func(n int64) int64 { return n }}, version: 5}
		pk := packets.Packet{
			FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: 5,
			Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: fmt.Sprint("c", n), Clean: true},
		}
		if change != nil {
			change(&pk)
		}
		k.send(&pk)
		return k.expect(packets.Connack).ReasonCode
	}
	subject := c.Fresh().Cert.Leaf.Subject.String()
	if code := connect(with, nil); code != 0 {
		t.Errorf("without users: CONNACK %#x", code)
	}
	secure.withUsers(t)
	if code := connect(with, nil); code != packets.ErrNotAuthorized.Code {
		t.Errorf("no such user: CONNACK %#x", code)
	}
	secure.addUser(t, subject)
	secure.grant(t, subject, "", "", ".*")
	for _, tc := range []struct {
		name   string
		config *tls.Config
		change func(*packets.Packet)
		want   byte
	}{
		{"with", with, nil, 0},
		{"without", without, nil, packets.ErrNotAuthorized.Code},
		{"with, and a password", with, credentials("alice", "pw-alice"), 0},
		{"with, and a wrong password", with, credentials("alice", "wrong"), packets.ErrBadUsernameOrPassword.Code},
	} {
		if code := connect(tc.config, tc.change); code != tc.want {
			t.Errorf("%s: CONNACK %#x, want %#x", tc.name, code, tc.want)
		}
	}
}

// scramClient is a client of SCRAM in the middle of its exchange.
type scramClient struct {
	*client
	method string
	talk   *scram.ClientConversation
}

func newScram(c *client, method string, hash scram.HashGeneratorFcn, user, password string) *scramClient {
	c.t.Helper()
	k, err := hash.NewClientUnprepped(user, password, "")
	if err != nil {
		c.t.Fatal(err)
	}
	return &scramClient{c, method, k.NewConversation()}
}

// say is what comes next.
func (s *scramClient) say(heard []byte) string {
	s.t.Helper()
	text, err := s.talk.Step(string(heard))
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// scramConnect sends CONNECT, and the proof, and returns what it is answered with.
func (s *scramClient) scramConnect(id string) packets.Packet {
	s.t.Helper()
	s.send(&packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: 5,
		Connect:    packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: id, Clean: true},
		Properties: packets.Properties{AuthenticationMethod: s.method, AuthenticationData: []byte(s.say(nil))},
	})
	s.send(authPacket(0x18, s.method, s.say(s.expect(packets.Auth).Properties.AuthenticationData)))
	return s.expect(packets.Connack)
}

// TestScram logs in, and again on the connection, without the password on the wire.
func TestScram(t *testing.T) {
	b, _ := serve(t, quickly)
	hashes := map[string]scram.HashGeneratorFcn{"SCRAM-SHA-256": scram.SHA256, "SCRAM-SHA-512": scram.SHA512}
	open := newScram(dial(t, b.addr, 5), "SCRAM-SHA-256", scram.SHA256, "alice", "x")
	open.send(&packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: 5,
		Connect:    packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: "c", Clean: true},
		Properties: packets.Properties{AuthenticationMethod: open.method, AuthenticationData: []byte(open.say(nil))},
	})
	if ack := open.expect(packets.Connack); ack.ReasonCode != packets.ErrBadAuthenticationMethod.Code {
		t.Errorf("without users: CONNACK %#x", ack.ReasonCode)
	}
	b.withUsers(t)
	for method, hash := range hashes {
		s := newScram(dial(t, b.addr, 5), method, hash, "alice", "pw-alice")
		ack := s.scramConnect("s")
		if ack.ReasonCode != 0 || ack.Properties.AuthenticationMethod != method {
			t.Fatalf("%s: %+v", method, ack)
		}
		if s.say(ack.Properties.AuthenticationData); !s.talk.Valid() {
			t.Errorf("%s: the client does not believe the broker", method)
		}
		s.mustSubscribe("all/#", 1)
		again := newScram(s.client, method, hash, "alice", "pw-alice")
		again.send(authPacket(0x19, method, again.say(nil)))
		proof := again.say(again.expect(packets.Auth).Properties.AuthenticationData)
		again.send(publishPacket("all/x", method, 0, 0)) // it goes on meanwhile
		again.expectMessage("all/x", method)
		again.send(authPacket(0x18, method, proof))
		if pk := again.expect(packets.Auth); pk.ReasonCode != 0 {
			t.Fatalf("AUTH %#x", pk.ReasonCode)
		} else if again.say(pk.Properties.AuthenticationData); !again.talk.Valid() {
			t.Errorf("%s: the client does not believe the broker", method)
		}
		other := newScram(s.client, method, hash, "admin", "pw-admin")
		other.send(authPacket(0x19, method, other.say(nil)))
		other.send(authPacket(0x18, method, other.say(other.expect(packets.Auth).Properties.AuthenticationData)))
		other.expectEnd(packets.ErrNotAuthorized.Code)
	}
	for user, password := range map[string]string{"alice": "wrong", "nobody": "pw-alice"} {
		s := newScram(dial(t, b.addr, 5), "SCRAM-SHA-256", scram.SHA256, user, password)
		if ack := s.scramConnect("s"); ack.ReasonCode != packets.ErrBadUsernameOrPassword.Code {
			t.Errorf("%s: CONNACK %#x", user, ack.ReasonCode)
		}
		s.expectEnd(0)
	}
	refusedMethod := func(p *packets.Packet) { p.Properties.AuthenticationMethod = "SCRAM-SHA-1" }
	if _, ack := connectAs(t, b.addr, "s", 5, refusedMethod); ack.ReasonCode != packets.ErrBadAuthenticationMethod.Code {
		t.Errorf("CONNACK %#x", ack.ReasonCode)
	}
}

// FuzzLogin: whatever a client says, nobody is logged in who has no password.
func FuzzLogin(f *testing.F) {
	f.Add("alice", "x", "", "", "")
	f.Add("", "", "SCRAM-SHA-256", "n,,n=alice,r=abc", "c=biws,r=abc,p=YQ==")
	f.Add("alice", "", "SCRAM-SHA-512", "n,,n=alice,r=abc", "")
	f.Add("\x00", "\xff", "PLAIN", "\x00alice\x00x", "")
	clock := routertest.NewClock(time.Unix(1e9, 0))
	r, _ := routertest.Start(f, func(o *router.Options) { o.Clock = clock.Now })
	b := serveOn(f, r, quickly)
	b.withUsers(f)
	f.Fuzz(func(t *testing.T, user, password, method, first, second string) {
		if len(user)+len(password)+len(method)+len(first)+len(second) > 1<<15 || password == "pw-"+user {
			return // longer than what is of interest, or right
		}
		clock.Advance(time.Hour) // guesses are forgiven
		c := dial(t, b.addr, 5)
		pk := packets.Packet{
			FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: 5,
			Connect:    packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: "c", Clean: true},
			Properties: packets.Properties{AuthenticationMethod: method, AuthenticationData: []byte(first)},
		}
		credentials(user, password)(&pk)
		both := append(c.encode(&pk), c.encode(authPacket(0x18, method, second))...)
		if _, err := c.nc.Write(both); err != nil {
			t.Fatal(err)
		}
		for {
			pk, err := c.read()
			if err != nil {
				return // it was told, or what it said was no MQTT
			}
			if pk.FixedHeader.Type == packets.Connack && pk.ReasonCode == 0 {
				t.Fatalf("%q is logged in", user)
			}
		}
	})
}

// await waits until something is so.
func await(t testing.TB, is func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !is(); {
		if time.Now().After(until) {
			t.Fatal("it does not become so")
		}
		<-time.After(time.Millisecond)
	}
}
