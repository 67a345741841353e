package manage

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"polylog/protocols/amqp"
	"polylog/router"
	"polylog/router/routertest"
)

// fasthttp has two goroutines that only sleep and look; see package httpd.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// fixture is the API of a broker in memory that AMQP clients can reach, too.
type fixture struct {
	t      testing.TB
	url    string // up to /api/
	amqp   string // address
	router *router.Router
	api    *Server
	why    atomic.Pointer[[]string] // the broker is not ready
}

// start serves until the test ends.
func start(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{t: t}
	f.router, _ = routertest.Start(t, nil)
	s, err := amqp.NewServer(amqp.Options{Router: f.router, NodeID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	clients, api := listen(t), listen(t)
	s.Serve(clients)
	t.Cleanup(func() { closed(t, s.Close) })
	f.amqp, f.url = clients.Addr().String(), "http://"+api.Addr().String()+"/api/"
	m := New(Options{
		Listener: api, Router: f.router, AMQP: s, Started: time.Now(), Logger: slog.New(slog.DiscardHandler), MaxBody: 1 << 20,
		Listeners: func() []Listener { return []Listener{{Protocol: "amqp", Addr: netip.MustParseAddrPort(f.amqp)}} },
		Ready: func() []string {
			if why := f.why.Load(); why != nil {
				return *why
			}
			return nil
		},
	})
	f.api = m
	served := make(chan error, 1)
	go func() { served <- m.Serve() }()
	t.Cleanup(func() {
		closed(t, m.Close)
		if err := <-served; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return f
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func closed(t testing.TB, fn func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := fn(ctx); err != nil {
		t.Error(err)
	}
}

// connect is an AMQP client, until the test ends.
func (f *fixture) connect() *client {
	f.t.Helper()
	nc, err := net.Dial("tcp", f.amqp)
	if err != nil {
		f.t.Fatal(err)
	}
	k, err := open(context.Background(), nc, "guest", "guest", "/")
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(k.close)
	return k
}

// do makes a call as guest.
func (f *fixture) do(method, path, body string) (status int, answer string, header http.Header) {
	f.t.Helper()
	return f.as("guest", "guest", method, path, body)
}

func (f *fixture) as(user, password, method, path, body string) (status int, answer string, header http.Header) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	if user != "" {
		req.SetBasicAuth(user, password)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	b, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return res.StatusCode, strings.TrimSuffix(string(b), "\n"), res.Header
}

// ok makes a call that has to succeed, with the status that is right for it.
func (f *fixture) ok(method, path, body string, status int) string {
	f.t.Helper()
	got, answer, _ := f.do(method, path, body)
	if got != status {
		f.t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, got, answer, status)
	}
	return answer
}

// fetch is the answer to a GET, decoded.
func fetch[T any](f *fixture, path string) (v T) {
	f.t.Helper()
	answer := f.ok("GET", path, "", 200)
	if err := json.Unmarshal([]byte(answer), &v); err != nil {
		f.t.Fatalf("GET %s: %v: %s", path, err, answer)
	}
	return v
}
