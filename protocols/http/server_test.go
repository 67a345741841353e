package httpd

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"polylog/protocols/http/front"
)

// fasthttp has two goroutines that only sleep and look: one for the Date header, for
// ever, and one a server, which notices the end within 10 s.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// reasons is why the test's broker is not ready.
type reasons = atomic.Pointer[[]string]

// start serves on a free port until the test ends.
func start(t *testing.T, why *reasons) (s *Server, addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ready := func() []string {
		if r := why.Load(); r != nil {
			return *r
		}
		return nil
	}
	s = New(Options{Listener: ln, Ready: ready, Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return s, ln.Addr().String()
}

func get(t *testing.T, method, url string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestEndpoints(t *testing.T) {
	var why reasons
	_, addr := start(t, &why)
	notReady := []string{"no leader", `said "no"`}
	why.Store(&notReady)
	cases := []struct {
		method, path string
		code         int
		body         string
	}{
		{"GET", "/health/live", 200, `{"status":"live"}`},
		{"GET", "/health/ready", 503, `{"status":"not ready","reasons":["no leader","said \"no\""]}`},
		{"HEAD", "/health/live", 200, ""},
		{"GET", "/metrics", 200, `polylog_http_requests_total{code="503"} 1`},
		{"GET", "/debug/pprof/", 200, "goroutine"},
		{"GET", "/debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		{"GET", "/debug/pprof/cmdline", 200, "test"},
		{"POST", "/health/live", 405, "only GET"},
		{"GET", "/v1/topics", 503, `"code":"not_ready"`},
		{"GET", "/", 404, "no_such_path"},
		{"GET", "/health/live/", 404, ""},
		{"GET", "/health//live", 400, ""},
	}
	for _, c := range cases {
		if code, body := get(t, c.method, "http://"+addr+c.path); code != c.code || !strings.Contains(body, c.body) {
			t.Errorf("%s %s: %d %s, want %d with %s", c.method, c.path, code, body, c.code, c.body)
		}
	}
	why.Store(nil)
	if code, body := get(t, "GET", "http://"+addr+"/health/ready"); code != 200 || body != "{\"status\":\"ready\"}\n" {
		t.Errorf("ready: %d %s", code, body)
	}
}

// talk sends raw bytes and is the first line of the answer.
func talk(t *testing.T, addr, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	// The server may refuse, and close, before it has read everything.
	go func() { _, _ = io.WriteString(c, request) }()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatalf("%.40q: %v", request, err)
	}
	return strings.TrimSpace(line)
}

func TestBadRequests(t *testing.T) {
	var why reasons
	_, addr := start(t, &why)
	for request, want := range map[string]string{
		"nonsense\r\n\r\n":                 "400",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": "400",
		"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 2*front.MaxHeader) + "\r\n\r\n":        "431",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n":                                      "400",
		"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n":        "413",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n":         "404",
		"GET /%2e%2e/debug/pprof/cmdline%00 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n":           "400",
		"GET http://other/health/live HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n":             "200",
		"GET /health/live HTTP/1.0\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n": "400",
	} {
		if got := talk(t, addr, request); !strings.Contains(got, " "+want+" ") {
			t.Errorf("%.60q: %q, want %s", request, got, want)
		}
	}
}

func TestPanicIsAnswered(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := New(Options{Listener: ln, Registry: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var ctx fasthttp.RequestCtx
	ctx.Init(&fasthttp.Request{}, nil, nil)
	ctx.Request.SetRequestURI("/health/ready") // Ready is nil
	s.front.ServeRequest(&ctx)
	if ctx.Response.StatusCode() != 500 || !strings.Contains(log.String(), "http handler panicked") {
		t.Fatalf("%d, log %s", ctx.Response.StatusCode(), log.String())
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(); err != nil {
		t.Fatalf("serve after close: %v", err)
	}
}

// A client that says nothing, one in the middle of a request and one that takes a long
// profile must not hold up Close beyond its context.
func TestCloseEndsEveryConnection(t *testing.T) {
	var why reasons
	s, addr := start(t, &why)
	var conns []net.Conn
	for _, request := range []string{"", "GET /health/live HTTP/1.1\r\nHo", "GET /debug/pprof/profile?seconds=60 HTTP/1.1\r\nHost: a\r\n\r\n"} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	get(t, "GET", "http://"+addr+"/health/live") // the others were accepted before this one
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for _, c := range conns {
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Error(err)
		}
		_ = c.Close()
	}
}
