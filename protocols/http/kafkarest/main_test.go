package kafkarest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"polylog/protocols/kafka"
	"polylog/protocols/kafka/group"
	"polylog/router"
	"polylog/router/routertest"
)

// fasthttp has two goroutines that only sleep and look; see package httpd.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// fixture is the interface of a broker in memory that Kafka clients can reach, too.
type fixture struct {
	t      testing.TB
	url    string
	kafka  string // address
	router *router.Router
	log    *routertest.Log
	server *Server
}

// start serves until the test ends. change, which may be nil, sees the options first.
func start(t testing.TB, change func(*Options)) *fixture {
	t.Helper()
	r, log := routertest.Start(t, nil)
	return serve(t, r, log, change)
}

// join is another node of f's cluster.
func (f *fixture) join(id string) *fixture {
	f.t.Helper()
	r, log := routertest.Join(f.t, f.log, id, nil)
	return serve(f.t, r, log, nil)
}

func serve(t testing.TB, r *router.Router, log *routertest.Log, change func(*Options)) *fixture {
	t.Helper()
	clients, rest := listen(t), listen(t)
	log.SetEndpoint("kafka", clients.Addr().String())
	var said bytes.Buffer // by Kafka's side
	k, err := kafka.New(kafka.Options{
		Router: r, Listeners: []net.Listener{clients}, Groups: group.Config{InitialDelay: -1},
		Logger: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	k.Serve()
	t.Cleanup(func() {
		closed(t, k.Close)
		if strings.Contains(said.String(), "closed on error") { // an instance's end is nothing to warn of
			t.Error(said.String())
		}
	})
	o := Options{Listener: rest, Router: r, Kafka: k, Logger: slog.New(slog.DiscardHandler), MaxBody: 1 << 20}
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
		closed(t, s.Close)
		if err := <-served; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return &fixture{t, "http://" + rest.Addr().String(), clients.Addr().String(), r, log, s}
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
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := fn(ctx); err != nil {
		t.Error(err)
	}
}

const v2 = "application/vnd.kafka.v2+json"

// do sends a request, which has to be answered with a status, and gives the body.
func (f *fixture) do(status int, method, path, contentType, body string) string {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	if resp.StatusCode != status {
		f.t.Fatalf("%s %s: %d %s, want %d", method, path, resp.StatusCode, b, status)
	}
	return strings.TrimSpace(string(b))
}

// is fails unless JSON is what is wanted.
func is(t testing.TB, got, want string) {
	t.Helper()
	var a, b bytes.Buffer
	if json.Compact(&a, []byte(got)) != nil || json.Compact(&b, []byte(want)) != nil || a.String() != b.String() {
		t.Fatalf("got %s\nwant %s", got, want)
	}
}

// refused is the body of a refusal; its code is that of the original.
func (f *fixture) refused(code int, method, path, contentType, body string) {
	f.t.Helper()
	status := code
	if status >= 1000 {
		status /= 100
	}
	var got refusal
	text := f.do(status, method, path, contentType, body)
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.Code != code || got.Message == "" {
		f.t.Fatalf("%s %s: %s, want error_code %d", method, path, text, code)
	}
}

// instance makes a consumer instance and gives its path.
func (f *fixture) instance(group, config string) string {
	f.t.Helper()
	var made struct {
		ID  string `json:"instance_id"`
		URI string `json:"base_uri"`
	}
	if err := json.Unmarshal([]byte(f.do(200, "POST", "/consumers/"+group, v2, config)), &made); err != nil {
		f.t.Fatal(err)
	}
	path := "/consumers/" + group + "/instances/" + made.ID
	if made.URI != f.url+path {
		f.t.Fatalf("base_uri %s, want %s", made.URI, f.url+path)
	}
	return path
}

// read reads records until there are n.
func (f *fixture) read(path string, n int) (all []consumed) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); len(all) < n; {
		if time.Now().After(deadline) {
			f.t.Fatalf("%d records, want %d", len(all), n)
		}
		var some []consumed
		if err := json.Unmarshal([]byte(f.do(200, "GET", path+"/records?timeout=10000", "", "")), &some); err != nil {
			f.t.Fatal(err)
		}
		all = append(all, some...)
	}
	if len(all) > n {
		f.t.Fatalf("%d records, want %d: %v", len(all), n, all)
	}
	return all
}

type consumed struct {
	Topic     string          `json:"topic"`
	Key       json.RawMessage `json:"key"`
	Value     json.RawMessage `json:"value"`
	Partition int32           `json:"partition"`
	Offset    int64           `json:"offset"`
	Headers   []headerJSON    `json:"headers"`
}

// client is a Kafka client.
func (f *fixture) client(opts ...kgo.Opt) *kgo.Client {
	f.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(f.kafka)}, opts...)...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(c.Close)
	return c
}

func (f *fixture) topic(name string, partitions int, configs map[string]string) {
	f.t.Helper()
	routertest.Topic(f.t, f.router, name, partitions, configs)
}
