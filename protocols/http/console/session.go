package console

import (
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
	if h.Peek(fasthttp.HeaderOrigin) == nil && h.Peek(secFetchSite) == nil || c.loggedIn(ctx) {
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
		if err := c.logIn(ctx, text); err != nil {
			return err
		}
		until := c.o.Clock().Add(sessionTime)
		c.setCookie(ctx, c.sign(until), until)
		return c.answer(ctx, until)
	case ctx.IsDelete():
		c.setCookie(ctx, "", fasthttp.CookieExpireDelete)
		return c.answer(ctx, time.Time{})
	default:
		ctx.Response.Header.Set(fasthttp.HeaderAllow, "DELETE, GET, HEAD, POST")
		return &front.Problem{Status: 405, Code: "method_not_allowed", Detail: "this path takes DELETE, GET, HEAD and POST"}
	}
	return c.answer(ctx, c.until(ctx))
}

// answer says how it stands with a session that ends at until; zero: there is none.
func (c *Console) answer(ctx *fasthttp.RequestCtx, until time.Time) error {
	s := state{LoggedIn: !until.IsZero(), CanUnlock: c.mayUnlock(ctx), HasToken: c.o.Token != ""}
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

// logIn is nil when the request has the token, or may do without.
func (c *Console) logIn(ctx *fasthttp.RequestCtx, text []byte) error {
	var login struct {
		Token  string `json:"token"`
		Unlock bool   `json:"unlock"`
	}
	if err := front.DecodeJSON(text, &login); err != nil {
		return err
	}
	if login.Unlock && login.Token == "" && c.o.Token == "" {
		if c.mayUnlock(ctx) {
			return nil
		}
		return &front.Problem{Status: 403, Code: "denied", Detail: "this broker has no console-token-file, and not only its own machine reaches it: nobody can log in"}
	}
	given := sha256.Sum256([]byte(login.Token))
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
	return c.o.Token == "" && c.o.Loopback && ctx.RemoteIP().IsLoopback() && isLoopback(string(ctx.Host()))
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

// sign makes a session's value: when it ends, in ms, and a MAC of that.
func (c *Console) sign(until time.Time) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(until.UnixMilli()))
	return base64.RawURLEncoding.EncodeToString(append(b, c.mac(b)...))
}

func (c *Console) mac(b []byte) []byte {
	m := hmac.New(sha256.New, c.key)
	m.Write(b)
	return m.Sum(nil)
}

func (c *Console) loggedIn(ctx *fasthttp.RequestCtx) bool { return !c.until(ctx).IsZero() }

// until is when the request's session ends; zero where it has none.
func (c *Console) until(ctx *fasthttp.RequestCtx) time.Time {
	b, err := base64.RawURLEncoding.DecodeString(string(ctx.Request.Header.Cookie(cookie(ctx))))
	if err != nil || len(b) != 8+sha256.Size || !hmac.Equal(b[8:], c.mac(b[:8])) {
		return time.Time{}
	}
	until := time.UnixMilli(int64(binary.BigEndian.Uint64(b)))
	if !c.o.Clock().Before(until) {
		return time.Time{}
	}
	return until
}
