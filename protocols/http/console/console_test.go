package console

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"polylog/protocols/http/front"
)

func newConsole(t *testing.T, o Options) *Console {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// request is one from a browser on this machine, unless headers say otherwise.
type request struct {
	method, path, body string
	headers            map[string]string
	remote             string
}

func (c *Console) do(t *testing.T, r request) *fasthttp.RequestCtx {
	t.Helper()
	var ctx fasthttp.RequestCtx
	var q fasthttp.Request
	q.Header.SetMethod(r.method)
	q.SetRequestURI(r.path)
	q.Header.SetHost("127.0.0.1:8080")
	for k, v := range r.headers {
		q.Header.Set(k, v)
	}
	remote := net.ParseIP("127.0.0.1")
	if r.remote != "" {
		remote = net.ParseIP(r.remote)
	}
	ctx.Init(&q, &net.TCPAddr{IP: remote, Port: 5}, nil)
	if err := c.Serve(&ctx, r.path, func(int) ([]byte, error) { return []byte(r.body), nil }); err != nil {
		front.RefuseWith(&ctx, err)
	}
	return &ctx
}

// Every file is served with its type, its tag and the policy, plain and compressed, and not again to
// who has it.
func TestAssets(t *testing.T) {
	c := newConsole(t, Options{})
	names := 0
	err := fs.WalkDir(assets, "assets", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		names++
		want, err := assets.ReadFile(p)
		if err != nil {
			return err
		}
		name := Prefix + strings.TrimPrefix(p, "assets/")
		ctx := c.do(t, request{method: "GET", path: name})
		h := &ctx.Response.Header
		if ctx.Response.StatusCode() != 200 || !bytes.Equal(ctx.Response.Body(), want) || string(h.ContentType()) != kinds[path.Ext(p)] {
			t.Errorf("%s: %d, %s", name, ctx.Response.StatusCode(), h.ContentType())
		}
		for _, k := range []string{"Content-Security-Policy", "ETag", "X-Content-Type-Options", "Vary"} {
			if len(h.Peek(k)) == 0 {
				t.Errorf("%s has no %s", name, k)
			}
		}
		tag := string(h.Peek("ETag"))
		for _, known := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
			ctx = c.do(t, request{method: "GET", path: name, headers: map[string]string{"If-None-Match": known}})
			if ctx.Response.StatusCode() != 304 || len(ctx.Response.Body()) != 0 {
				t.Errorf("%s with If-None-Match %s: %d", name, known, ctx.Response.StatusCode())
			}
		}
		ctx = c.do(t, request{method: "GET", path: name, headers: map[string]string{"Accept-Encoding": "gzip", "If-None-Match": `"other"`}})
		if string(ctx.Response.Header.Peek("Content-Encoding")) == "gzip" {
			z, err := gzip.NewReader(bytes.NewReader(ctx.Response.Body()))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: compressed it is something else: %v", name, err)
			}
		} else if path.Ext(p) == ".js" {
			t.Errorf("%s is not compressed", name)
		}
		return nil
	})
	if err != nil || names < 15 {
		t.Fatalf("%d files, %v", names, err)
	}
	index := c.do(t, request{method: "GET", path: Prefix})
	if !strings.Contains(string(index.Response.Body()), "app.js") {
		t.Fatal("the index is not served at the prefix")
	}
	for _, r := range []request{{method: "GET", path: Prefix + "nothing.js"}, {method: "GET", path: Prefix + "vendor"}, {method: "POST", path: Prefix}, {method: "PUT", path: sessionPath}} {
		if s := c.do(t, r).Response.StatusCode(); s != 404 && s != 405 {
			t.Errorf("%s %s: %d", r.method, r.path, s)
		}
	}
}

// The page needs nothing that the policy forbids, and asks nobody else.
func TestAssetsKeepToThePolicy(t *testing.T) {
	forbidden := []*regexp.Regexp{
		regexp.MustCompile(`<script(?:>|[^>]*>[^<])`), // in the page
		regexp.MustCompile(`<style|\sstyle="|\son\w+="`),
		regexp.MustCompile(`\beval\(|new Function\(|\bimportScripts\(`),
		regexp.MustCompile(`innerHTML|dangerouslySetInnerHTML|document\.write`),
		regexp.MustCompile(`(?i)(?:src|href)=["']?(?:https?:)?//|url\(|@import|from ['"](?:https?:)?//`),
	}
	err := fs.WalkDir(assets, "assets", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(p) == ".txt" {
			return err
		}
		b, err := assets.ReadFile(p)
		if err != nil {
			return err
		}
		for _, f := range forbidden {
			if strings.HasPrefix(p, "assets/vendor/") && strings.Contains(f.String(), "innerHTML") {
				continue // preact has it for who asks for it; nobody does
			}
			if at := f.FindIndex(b); at != nil {
				t.Errorf("%s has %q", p, b[at[0]:min(at[1]+40, len(b))])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "connect-src 'self'"} {
		if !strings.Contains(policy, d) {
			t.Errorf("the policy lacks %s", d)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Error(policy)
	}
}

// What others have written has its licence beside it.
func TestVendoredCodeHasItsLicence(t *testing.T) {
	for name, holder := range map[string]string{"htm": "Apache License", "preact": "Jason Miller", "uplot": "Leon Sorokin"} {
		b, err := assets.ReadFile("assets/vendor/LICENSE-" + name + ".txt")
		if err != nil || !strings.Contains(string(b), holder) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func stateOf(t *testing.T, ctx *fasthttp.RequestCtx) (s state) {
	t.Helper()
	if err := json.Unmarshal(ctx.Response.Body(), &s); err != nil {
		t.Fatalf("%s: %v", ctx.Response.Body(), err)
	}
	return s
}

// cookieOf is the cookie that an answer sets, as a request sends it.
func cookieOf(ctx *fasthttp.RequestCtx) (all, sent string) {
	var k fasthttp.Cookie
	k.SetKey("polylog-console-0")
	ctx.Response.Header.Cookie(&k)
	return k.String(), "polylog-console-0=" + string(k.Value())
}

func (c *Console) mayWrite(t *testing.T, headers map[string]string) bool {
	t.Helper()
	var ctx fasthttp.RequestCtx
	var q fasthttp.Request
	for k, v := range headers {
		q.Header.Set(k, v)
	}
	ctx.Init(&q, nil, nil)
	return c.MayWrite(&ctx) == nil
}

func TestTokenLogsIn(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	o := Options{Token: "0123456789abcdef", Loopback: true, Clock: func() time.Time { return now }}
	c := newConsole(t, o)
	browser := map[string]string{"Origin": "http://127.0.0.1:8080"}
	if s := stateOf(t, c.do(t, request{method: "GET", path: sessionPath})); s.LoggedIn || s.CanUnlock || !s.HasToken {
		t.Fatalf("%+v", s)
	}
	for _, body := range []string{`{"token": "0123456789abcdeF"}`, `{"token": ""}`, `{"unlock": true}`, `{}`} {
		if ctx := c.do(t, request{method: "POST", path: sessionPath, body: body, headers: browser}); ctx.Response.StatusCode() != 403 || len(ctx.Response.Header.Peek("Set-Cookie")) > 0 {
			t.Fatalf("%s: %d", body, ctx.Response.StatusCode())
		}
	}
	in := c.do(t, request{method: "POST", path: sessionPath, body: `{"token": "0123456789abcdef"}`, headers: browser})
	all, sent := cookieOf(in)
	if s := stateOf(t, in); !s.LoggedIn || s.Until == nil || !strings.Contains(all, "HttpOnly") || !strings.Contains(all, "SameSite=Strict") {
		t.Fatalf("%+v, %s", s, all)
	}
	with := func(cookie string) map[string]string {
		return map[string]string{"Origin": "http://127.0.0.1:8080", "Cookie": cookie}
	}
	changed := []byte(sent)
	changed[len(changed)-3] ^= 1
	switch {
	case c.mayWrite(t, browser), c.mayWrite(t, map[string]string{"Sec-Fetch-Site": "same-origin"}):
		t.Fatal("a browser writes without a session")
	case !c.mayWrite(t, nil):
		t.Fatal("who is no browser may not write")
	case !c.mayWrite(t, with(sent)):
		t.Fatal("the session is not good")
	case c.mayWrite(t, with(string(changed))), c.mayWrite(t, with("polylog-console-0=")):
		t.Fatal("a forged session is good")
	case !newConsole(t, o).mayWrite(t, with(sent)):
		t.Fatal("the session is not good on another node")
	}
	o.Token += "x"
	if newConsole(t, o).mayWrite(t, with(sent)) {
		t.Fatal("the session is good with another token")
	}
	now = now.Add(sessionTime)
	if c.mayWrite(t, with(sent)) {
		t.Fatal("the session does not end")
	}
	_, gone := cookieOf(c.do(t, request{method: "DELETE", path: sessionPath, headers: browser}))
	if gone != "polylog-console-0=" {
		t.Fatal(gone)
	}
}

func TestWrongTokensAreCounted(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := newConsole(t, Options{Token: "0123456789abcdef", Clock: func() time.Time { return now }})
	try := func(token string) int {
		return c.do(t, request{method: "POST", path: sessionPath, body: `{"token": "` + token + `"}`}).Response.StatusCode()
	}
	for range triesPerMinute {
		if s := try("wrong"); s != 403 {
			t.Fatal(s)
		}
	}
	if s := try("0123456789abcdef"); s != 429 {
		t.Fatalf("one more try: %d", s)
	}
	now = now.Add(time.Minute)
	if s := try("0123456789abcdef"); s != 200 {
		t.Fatalf("a minute later: %d", s)
	}
}

// Without a token a browser on this machine may unlock the console: no other one, and no page that
// came from elsewhere under a name that means this machine now.
func TestUnlock(t *testing.T) {
	for _, tc := range []struct {
		name   string
		o      Options
		host   string
		origin string
		remote string
		status int
	}{
		{"here", Options{Loopback: true}, "127.0.0.1:8080", "http://127.0.0.1:8080", "", 200},
		{"by name", Options{Loopback: true}, "localhost:8080", "http://localhost:8080", "", 200},
		{"IPv6", Options{Loopback: true}, "[::1]:8080", "http://[::1]:8080", "::1", 200},
		{"a name that was bound anew", Options{Loopback: true}, "evil.example:8080", "http://evil.example:8080", "", 403},
		{"a page of another site", Options{Loopback: true}, "127.0.0.1:8080", "http://evil.example", "", 403},
		{"from another machine", Options{Loopback: true}, "127.0.0.1:8080", "http://127.0.0.1:8080", "10.0.0.7", 403},
		{"others reach the listener", Options{}, "127.0.0.1:8080", "http://127.0.0.1:8080", "", 403},
		{"there is a token", Options{Loopback: true, Token: "0123456789abcdef"}, "127.0.0.1:8080", "http://127.0.0.1:8080", "", 403},
	} {
		c := newConsole(t, tc.o)
		ctx := c.do(t, request{method: "POST", path: sessionPath, body: `{"unlock": true}`, remote: tc.remote, headers: map[string]string{"Host": tc.host, "Origin": tc.origin}})
		if got := ctx.Response.StatusCode(); got != tc.status {
			t.Errorf("%s: %d, want %d: %s", tc.name, got, tc.status, ctx.Response.Body())
		}
		if tc.status == 200 {
			if _, sent := cookieOf(ctx); !c.mayWrite(t, map[string]string{"Origin": tc.origin, "Cookie": sent}) || newConsole(t, tc.o).mayWrite(t, map[string]string{"Origin": tc.origin, "Cookie": sent}) {
				t.Errorf("%s: the session is good elsewhere, or not here", tc.name)
			}
		}
	}
	if _, err := New(Options{Token: "short"}); err == nil {
		t.Error("a short token is taken")
	}
}
