package nsq

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

// fasthttp has two goroutines that only sleep and look; see package httpd.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

const maxBody = 4096

// fixture is the interface of a broker in memory.
type fixture struct {
	t      *testing.T
	url    string
	router *router.Router
	log    *routertest.Log
	clock  *routertest.Clock
	server *Server
}

// start serves until the test ends. change, which may be nil, sees the options first.
func start(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	clock := routertest.NewClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	r, log := routertest.Start(t, func(o *router.Options) { o.Clock = clock.Now })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Listener: ln, Router: r, Logger: slog.New(slog.DiscardHandler), Clock: clock.Now, MaxBody: maxBody, Version: "1.2.3"}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return &fixture{t, "http://" + ln.Addr().String(), r, log, clock, s}
}

// request sends a request and gives the answer, whose body is read. change may be nil.
func request(t *testing.T, method, url, body string, change func(*http.Request)) (status int, header http.Header, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(req)
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // which follows nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

// do has to be answered with a status and a body.
func (f *fixture) do(status int, want, method, path, body string) {
	f.t.Helper()
	if got, _, answer := request(f.t, method, f.url+path, body, nil); got != status || answer != want {
		f.t.Fatalf("%s %s: %d %q, want %d %q", method, path, got, answer, status, want)
	}
}

// stored are the values of a topic, partition by partition.
func (f *fixture) stored(topic string) (values []string) {
	f.t.Helper()
	t, ok := f.router.Topic(core.TopicName(topic))
	if !ok {
		f.t.Fatalf("there is no topic %s", topic)
	}
	for _, q := range t.Partitions {
		h, err := f.router.Head(q)
		if err != nil {
			f.t.Fatal(err)
		}
		if _, err := f.router.Browse(router.Principal{}, q, h.Start, h.End, 1<<20, func(b router.Browsed) bool {
			values = append(values, string(b.Value))
			return true
		}); err != nil {
			f.t.Fatal(err)
		}
	}
	return values
}
