package router

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"sync"

	"polylog/core"
	"polylog/router/login"
	"polylog/router/state"
)

// The user that there is while none was made, as RabbitMQ's: it logs in from this machine only, also
// when somebody makes a user of that name.
const (
	GuestUser     = "guest"
	guestPassword = "guest"
)

// logins knows who is logged in.
type logins struct {
	router    *Router
	verifier  *login.Verifier
	gate      login.Gate
	required  bool          // see Options.RequireUsers
	anonymous string        // user that clients without credentials are; empty: they are refused
	changed   chan struct{} // of capacity 1: users have changed

	mu  sync.Mutex
	all map[*loggedIn]struct{} // guarded by mu
}

// loggedIn is a connection of somebody.
type loggedIn struct {
	who Principal
	end func()
}

func (l *logins) init(r *Router, o *Options) {
	l.router, l.anonymous, l.required = r, o.AnonymousUser, o.RequireUsers
	l.verifier, l.gate.Clock = login.NewVerifier(), r.clock
	l.all, l.changed = map[*loggedIn]struct{}{}, make(chan struct{}, 1)
	r.state.OnUsers(func() {
		select {
		case l.changed <- struct{}{}:
		default:
		}
	})
}

// run ends the connections of those who are not what they were.
func (l *logins) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
		}
		l.verifier.Forget(l.router.state.User)
		var stale []*loggedIn
		l.mu.Lock()
		for k := range l.all {
			if !l.router.current(&k.who) {
				stale = append(stale, k)
			}
		}
		l.mu.Unlock()
		for _, k := range stale {
			k.end()
		}
	}
}

// current reports whether a principal is still whom it logged in as.
func (r *Router) current(p *Principal) bool {
	return p.itself || p.trusted || !r.HasUsers() || p.isStill(r.state.User(p.Name))
}

// WhileLoggedIn has end called, once, when the principal's user is deleted or gets another password,
// or when the first user is made and the principal is none: its connection is to end. end must not
// block, and may be called before this returns. Nothing is called after leave, but for what is under
// way.
func (r *Router) WhileLoggedIn(p Principal, end func()) (leave func()) {
	l := &r.logins
	k := &loggedIn{who: p, end: sync.OnceFunc(end)}
	l.mu.Lock()
	l.all[k] = struct{}{}
	l.mu.Unlock()
	if !r.current(&p) {
		k.end()
	}
	return func() {
		l.mu.Lock()
		delete(l.all, k)
		l.mu.Unlock()
	}
}

// HasUsers reports whether there are users, or there have to be. While there are none everybody may
// do everything.
func (r *Router) HasUsers() bool { return asksWho(r.state, r.logins.required) }

var (
	errLogin   = core.E(core.Denied, "the user or the password is wrong")
	errGuesses = core.E(core.Limit, "too many logins from this address have failed: wait a second")
)

// Login is the principal of a user who has shown a password. While there are no users there is one,
// guest, from this machine. Error kinds: Denied; Limit, where the address was wrong too often;
// Unavailable.
func (r *Router) Login(ctx context.Context, user, password, host string) (Principal, error) {
	if !r.HasUsers() {
		if user == GuestUser && password == guestPassword && isLoopback(host) {
			return Principal{Name: user, Host: host}, nil
		}
		return Principal{}, errLogin
	}
	if !r.logins.gate.Open(host, user) {
		return Principal{}, errGuesses
	}
	u := r.mayLogIn(user, host)
	ok, err := r.logins.verifier.Verify(ctx, u, password)
	switch {
	case err != nil:
		return Principal{}, err
	case !ok:
		r.logins.gate.Failed(host, user)
		return Principal{}, errLogin
	}
	return loggedInAs(u, host), nil
}

func loggedInAs(u *state.User, host string) Principal {
	return Principal{Name: u.Name, Host: host, login: u.Login}
}

// mayLogIn finds a user who may log in from a host; nil: there is none.
func (r *Router) mayLogIn(user, host string) *state.User {
	if user == GuestUser && !isLoopback(host) {
		return nil
	}
	return r.state.User(user)
}

// Anonymous is the principal of a client that shows nothing. While there are no users that is
// nobody in particular. Error kind: Denied.
func (r *Router) Anonymous(host string) (Principal, error) {
	switch {
	case !r.HasUsers():
		return Principal{Host: host}, nil
	case r.logins.anonymous == "" || r.state.User(r.logins.anonymous) == nil:
		return Principal{}, core.E(core.Denied, "this broker has users: log in")
	}
	return Principal{Name: r.logins.anonymous, Host: host, anonymous: true}, nil
}

// Certified is the principal of a client whose certificate names it. While there are no users that
// is enough; later there has to be one of that name. Error kind: Denied.
func (r *Router) Certified(subject, host string) (Principal, error) {
	if !r.HasUsers() {
		return Principal{Name: subject, Host: host}, nil
	}
	u := r.state.User(subject)
	if u == nil {
		return Principal{}, core.E(core.Denied, "there is no user %q, which the certificate names", subject)
	}
	return loggedInAs(u, host), nil
}

// Scram is a login by SCRAM (RFC 5802). It is used by one goroutine.
type Scram struct {
	router *Router
	host   string
	talk   *login.Exchange
	who    Principal
}

// Scram begins a login by a mechanism: SCRAM-SHA-256 or SCRAM-SHA-512. It is nil where there is no
// such mechanism.
func (r *Router) Scram(mechanism, host string) *Scram {
	x := &Scram{router: r, host: host}
	x.talk = r.logins.verifier.Scram(mechanism, func(name string) *state.User { return r.mayLogIn(name, host) })
	if x.talk == nil {
		return nil
	}
	return x
}

// Step takes what the client says and gives the answer. done says that the client has proved who it
// is. Error kinds: Denied, Invalid (it makes no sense), Limit (the address was wrong too often).
func (x *Scram) Step(data []byte) (reply []byte, done bool, err error) {
	gate := &x.router.logins.gate
	if !gate.Open(x.host, x.talk.Name()) {
		return nil, false, errGuesses
	}
	reply, done, err = x.talk.Step(data)
	if err != nil {
		gate.Failed(x.host, x.talk.Name())
		return nil, false, err
	}
	if done {
		x.who = loggedInAs(x.talk.User(), x.host)
	}
	return reply, done, nil
}

// Principal is who it was, after Step was done.
func (x *Scram) Principal() Principal { return x.who }

// Name is whom the client has said to be.
func (x *Scram) Name() string { return x.talk.Name() }

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// SessionKey is what sessions of a user are signed with: the same on every node, until the password
// changes. It is nil where there is no such user, or it has no password.
func (r *Router) SessionKey(user string) []byte {
	u := r.state.User(user)
	if u == nil || len(u.Credentials) == 0 {
		return nil
	}
	h := hmac.New(sha256.New, u.Credentials[0].ServerKey)
	h.Write(binary.BigEndian.AppendUint64([]byte("polylog sessions"), uint64(u.Login)))
	return h.Sum(nil)
}

// Resume is the principal of a user whose session, signed with SessionKey, somebody has shown.
func (r *Router) Resume(user, host string) (Principal, error) {
	u := r.mayLogIn(user, host)
	if u == nil {
		return Principal{}, errLogin
	}
	return loggedInAs(u, host), nil
}
