package httpd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"polylog/core"
	"polylog/protocols/http/webhook"
	"polylog/router"
	"polylog/router/routertest"
)

// site is a server over a router.
type site struct {
	t      *testing.T
	addr   string
	router *router.Router
	log    *routertest.Log
	server *Server
	client *http.Client
	engine *webhook.Engine
}

// newSite serves a router of its own, or one that joins another site's.
func newSite(t *testing.T, first *site, change func(*Options)) *site {
	t.Helper()
	s := &site{t: t, client: &http.Client{Transport: &http.Transport{}}}
	if first == nil {
		s.router, s.log = routertest.Start(t, nil)
	} else {
		first.log.SetEndpoint("http", first.addr)
		s.router, s.log = routertest.Join(t, first.log, fmt.Sprint(len(first.router.Cluster().Members)+1), nil)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Listener: ln, Ready: func() []string { return nil }, Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	s.server = New(o)
	s.engine, err = webhook.New(webhook.Options{
		Router: s.router, Logger: o.Logger, Registerer: o.Registry, Guard: webhook.NewGuard([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.engine.Close)
	s.server.Open(s.router, s.engine)
	s.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.server.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.server.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		s.client.CloseIdleConnections()
	})
	return s
}

// reply is an answer.
type reply struct {
	status int
	header http.Header
	body   string
}

// do sends a request; headers are "Name: value".
func (s *site) do(method, path, body string, headers ...string) reply {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
		}
		req.Header.Add(name, value)
	}
	res, err := s.client.Do(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	r := reply{res.StatusCode, res.Header, string(b)}
	asDescribed(s.t, method, path, r)
	return r
}

// post posts JSON.
func (s *site) post(path, body string) reply {
	s.t.Helper()
	return s.do("POST", path, body, "Content-Type: application/json")
}

// want fails the test unless the answer has the status and holds the texts.
func (r reply) want(t *testing.T, status int, texts ...string) reply {
	t.Helper()
	if r.status != status {
		t.Fatalf("status %d, want %d: %s", r.status, status, r.body)
	}
	for _, text := range texts {
		if !strings.Contains(r.body, text) {
			t.Fatalf("%s lacks %s", r.body, text)
		}
	}
	return r
}

// into decodes the answer.
func into[T any](t *testing.T, r reply) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
	return v
}

// values are those of a page's messages.
func values(t *testing.T, r reply) (all []string) {
	t.Helper()
	for _, m := range into[browsed](t, r.want(t, 200)).Messages {
		if m.Value == nil {
			all = append(all, "null")
			continue
		}
		all = append(all, *m.Value)
	}
	return all
}

// records are what is stored in a topic's partition.
func (s *site) records(topic string, partition int) (all []core.Record) {
	s.t.Helper()
	t, ok := s.router.Topic(core.TopicName(topic))
	if !ok {
		s.t.Fatalf("no topic %s", topic)
	}
	var bs router.Batches
	if _, err := s.router.Read(t.Partitions[partition], 0, router.ReadOptions{MaxBytes: 1 << 20}, &bs); err != nil {
		s.t.Fatal(err)
	}
	for _, b := range bs.Items {
		for r, err := range core.Records(bytes.Clone(b.Data), core.MaxInflated) {
			if err != nil {
				s.t.Fatal(err)
			}
			all = append(all, r)
		}
	}
	return all
}
