package console

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"polylog/protocols/http/front"
)

const (
	sessionPath = Prefix + "session"
	// sessionTime is for how long a browser may change things once it has logged in.
	sessionTime = 12 * time.Hour
	// MinToken is the length of the shortest token, in bytes: who may guess has to guess much.
	MinToken = 16
	// triesPerMinute bounds wrong tokens, of all clients together.
	triesPerMinute = 10
	maxLogin       = 4 << 10 // bytes of a login's body
	secFetchSite   = "Sec-Fetch-Site"
)

// Options are what a Console is made of.
type Options struct {
	// Token lets who knows it change things. Empty: nobody can log in, but browsers on this
	// machine may unlock the console where Loopback is true.
	Token string
	// Loopback says that only this machine reaches the listener.
	Loopback bool
	Clock    func() time.Time
}

// Console serves the page and knows which browsers may change something.
//
// A session is nothing but a cookie that says when it ends, signed. The key is made from the token,
// so that a session is good on every node that has the same one and ends when it is changed;
// without a token it is this process's own.
type Console struct {
	o      Options
	assets map[string]*asset
	token  [32]byte // hash of the token
	key    []byte

	users atomic.Pointer[Users] // nil: it is not known yet whether there are any

	mu      sync.Mutex // guards what follows
	minute  int64      // that wrong tokens are counted in
	refused int
}

// New makes a Console. The error is one of ours, or of a token that is too short.
func New(o Options) (*Console, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	c := &Console{o: o, token: sha256.Sum256([]byte(o.Token)), key: make([]byte, sha256.Size)}
	switch {
	case o.Token == "":
		_, _ = rand.Read(c.key) // it does not fail
	case len(o.Token) < MinToken:
		return nil, fmt.Errorf("the token has %d bytes, want %d or more", len(o.Token), MinToken)
	default:
		m := hmac.New(sha256.New, []byte(o.Token))
		m.Write([]byte("polylog console sessions"))
		c.key = m.Sum(nil)
	}
	var err error
	c.assets, err = load()
	return c, err
}

// Users are those of the broker. Once there are some, they log in instead of tokens.
type Users interface {
	HasUsers() bool
	// Login is nil when the password is the user's.
	Login(ctx context.Context, user, password, host string) error
	// Anonymous is the user that a client from host is which shows nothing; empty: it is refused.
	Anonymous(host string) string
	// SessionKey is what sessions of a user are signed with; nil: it can have none.
	SessionKey(user string) []byte
}

// SetUsers says who the users are.
func (c *Console) SetUsers(u Users) { c.users.Store(&u) }

// known are the users, where there are some.
func (c *Console) known() Users {
	if u := c.users.Load(); u != nil && (*u).HasUsers() {
		return *u
	}
	return nil
}

// Serve answers a request for a path at or below Prefix. body reads its body, limit bytes at most.
func (c *Console) Serve(ctx *fasthttp.RequestCtx, path string, body func(limit int) ([]byte, error)) error {
	if path == sessionPath {
		return c.serveSession(ctx, body)
	}
	if !ctx.IsGet() && !ctx.IsHead() {
		ctx.Response.Header.Set(fasthttp.HeaderAllow, "GET, HEAD")
		return &front.Problem{Status: 405, Code: "method_not_allowed", Detail: "this path takes only GET and HEAD"}
	}
	return c.serveAsset(ctx, path[len(Prefix):])
}

// MayWrite is nil when a request may change something: it comes from no browser, or from one that
// has logged in. Browsers say that they are some with whatever is not GET or HEAD, and pages
// cannot keep them from it.
func (c *Console) MayWrite(ctx *fasthttp.RequestCtx) error {
	h := &ctx.Request.Header
	if h.Peek(fasthttp.HeaderOrigin) == nil && h.Peek(secFetchSite) == nil || c.loggedIn(ctx) || c.known() != nil && h.Peek(fasthttp.HeaderAuthorization) != nil {
		return nil
	}
	return &front.Problem{Status: 403, Code: "login_needed", Detail: "log in to the console first: until then browsers change nothing"}
}

// state is what the page has to know of itself.
type state struct {
	LoggedIn  bool       `json:"loggedIn"`
	Until     *time.Time `json:"until,omitempty"`
	CanUnlock bool       `json:"canUnlock"` // without a token
	HasToken  bool       `json:"hasToken"`  // with one
	HasUsers  bool       `json:"hasUsers"`  // with a user's name and password
	User      string     `json:"user,omitempty"`
	Anonymous string     `json:"anonymous,omitempty"` // the user that one is without logging in
}

func (c *Console) serveSession(ctx *fasthttp.RequestCtx, body func(int) ([]byte, error)) error {
	if err := front.SameOrigin(ctx); err != nil {
		return err
	}
	switch {
	case ctx.IsGet() || ctx.IsHead():
	case ctx.IsPost():
		text, err := body(maxLogin)
		if err != nil {
			return err
		}
		user, err := c.logIn(ctx, text)
		if err != nil {
			return err
		}
		until := c.o.Clock().Add(sessionTime)
		c.setCookie(ctx, c.sign(until, user), until)
		return c.answer(ctx, until, user)
	case ctx.IsDelete():
		c.setCookie(ctx, "", fasthttp.CookieExpireDelete)
		return c.answer(ctx, time.Time{}, "")
	default:
		ctx.Response.Header.Set(fasthttp.HeaderAllow, "DELETE, GET, HEAD, POST")
		return &front.Problem{Status: 405, Code: "method_not_allowed", Detail: "this path takes DELETE, GET, HEAD and POST"}
	}
	until, user := c.session(ctx)
	return c.answer(ctx, until, user)
}

// answer says how it stands with a session that ends at until; zero: there is none.
func (c *Console) answer(ctx *fasthttp.RequestCtx, until time.Time, user string) error {
	s := state{LoggedIn: !until.IsZero(), CanUnlock: c.mayUnlock(ctx), HasToken: c.o.Token != "", User: user}
	if users := c.known(); users != nil {
		s.HasUsers, s.Anonymous = true, users.Anonymous(front.Host(ctx))
	}
	if s.LoggedIn {
		s.Until = new(until.UTC())
	}
	body, err := json.Marshal(&s)
	if err != nil {
		return err
	}
	front.Send(ctx, 200, "application/json", body)
	return nil
}

// logIn is nil when the request has the password of a user, whom it names; or, where there are no
// users, has the token or may do without.
func (c *Console) logIn(ctx *fasthttp.RequestCtx, text []byte) (user string, err error) {
	var login struct {
		Token    string `json:"token"`
		Unlock   bool   `json:"unlock"`
		User     string `json:"user"`
		Password string `json:"password"`
	}
	if err := front.DecodeJSON(text, &login); err != nil {
		return "", err
	}
	if users := c.known(); users != nil {
		if login.User == "" {
			return "", &front.Problem{Status: 403, Code: "denied", Detail: "this broker has users: log in with a name and a password"}
		}
		return login.User, users.Login(ctx, login.User, login.Password, front.Host(ctx))
	}
	return "", c.believe(ctx, login.Token, login.Unlock)
}

// believe is nil when a request has the token, or may do without.
func (c *Console) believe(ctx *fasthttp.RequestCtx, token string, unlock bool) error {
	if unlock && token == "" && c.o.Token == "" {
		if c.mayUnlock(ctx) {
			return nil
		}
		return &front.Problem{Status: 403, Code: "denied", Detail: "this broker has no console-token-file, and not only its own machine reaches it: nobody can log in"}
	}
	given := sha256.Sum256([]byte(token))
	good := c.o.Token != "" && subtle.ConstantTimeCompare(given[:], c.token[:]) == 1
	if !c.mayTry(good) {
		return &front.Problem{Status: 429, Code: "limit", Detail: "too many wrong tokens: wait a minute", Retryable: true, RetryAfter: 60}
	}
	if !good {
		return &front.Problem{Status: 403, Code: "denied", Detail: "that is not the token"}
	}
	return nil
}

// mayTry reports whether there were not too many wrong tokens in this minute, and counts one that is. A
// good one is refused behind them, too: else those who guess in time would learn of it.
func (c *Console) mayTry(good bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.o.Clock().Unix() / 60; now != c.minute {
		c.minute, c.refused = now, 0
	}
	if c.refused >= triesPerMinute {
		return false
	}
	if !good {
		c.refused++
	}
	return true
}

// mayUnlock reports whether a browser may log in without a token: it is on this machine, and so is
// the page, by name too. Of a name that somebody else's page has, and that now means this machine,
// that is not so.
func (c *Console) mayUnlock(ctx *fasthttp.RequestCtx) bool {
	return c.known() == nil && c.o.Token == "" && c.o.Loopback && front.IsLocal(ctx) && isLoopback(string(ctx.Host()))
}

func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "localhost" {
		return true
	}
	if len(host) > 2 && host[0] == '[' {
		host = host[1 : len(host)-1]
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// cookie is the name of the session's cookie. Cookies do not care for ports, of which each node of a
// cluster on one machine has another.
func cookie(ctx *fasthttp.RequestCtx) string {
	if a, ok := ctx.LocalAddr().(*net.TCPAddr); ok {
		return "polylog-console-" + strconv.Itoa(a.Port)
	}
	return "polylog-console"
}

func (c *Console) setCookie(ctx *fasthttp.RequestCtx, value string, until time.Time) {
	var k fasthttp.Cookie
	k.SetKey(cookie(ctx))
	k.SetValue(value)
	k.SetPath("/")
	k.SetExpire(until)
	k.SetHTTPOnly(true)
	k.SetSecure(ctx.IsTLS())
	k.SetSameSite(fasthttp.CookieSameSiteStrictMode)
	ctx.Response.Header.SetCookie(&k)
}

// sign makes a session's value: when it ends, in ms, whose it is, and a MAC of that. The user is
// empty where there are none.
func (c *Console) sign(until time.Time, user string) string {
	b := append(binary.BigEndian.AppendUint64(nil, uint64(until.UnixMilli())), user...)
	key := c.keyOf(user)
	if key == nil {
		return "" // it is gone since
	}
	return base64.RawURLEncoding.EncodeToString(append(b, mac(key, b)...))
}

// keyOf is what sessions of a user are signed with; nil: it can have none.
func (c *Console) keyOf(user string) []byte {
	users := c.known()
	switch {
	case users == nil && user == "":
		return c.key
	case users == nil || user == "":
		return nil
	}
	return users.SessionKey(user)
}

func mac(key, b []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write(b)
	return m.Sum(nil)
}

func (c *Console) loggedIn(ctx *fasthttp.RequestCtx) bool {
	until, _ := c.session(ctx)
	return !until.IsZero()
}

// User is the user whose session a request has; empty where it has none.
func (c *Console) User(ctx *fasthttp.RequestCtx) string {
	_, user := c.session(ctx)
	return user
}

// session is when the request's session ends, and whose it is; zero where it has none.
func (c *Console) session(ctx *fasthttp.RequestCtx) (until time.Time, user string) {
	b, err := base64.RawURLEncoding.DecodeString(string(ctx.Request.Header.Cookie(cookie(ctx))))
	if err != nil || len(b) < 8+sha256.Size {
		return time.Time{}, ""
	}
	signed, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	user = string(signed[8:])
	if key := c.keyOf(user); key == nil || !hmac.Equal(sum, mac(key, signed)) {
		return time.Time{}, ""
	}
	until = time.UnixMilli(int64(binary.BigEndian.Uint64(signed)))
	if !c.o.Clock().Before(until) {
		return time.Time{}, ""
	}
	return until, user
}
