package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// What is published over HTTP is what is published over Kafka's protocol, and so is what is printed.
func TestPubAndSubOverHTTP(t *testing.T) {
	s := start(t, t.TempDir())
	must(t, "", "topic", "create", "words", "-p", "3", "-b", s.kafka)
	var want []string
	for i, where := range [][]string{{"-b", s.kafka}, {"-s", s.http}} {
		pub := func(in string, args ...string) {
			must(t, in, append(append([]string{"pub", "words"}, args...), where...)...)
		}
		pub("k=one\nk=two\n\nnone\n", "-K", "=", "-H", "a=1", "-H", "a=\xff")
		pub("", "by key", "and\x00not\xfftext", "--key", "k")
		pub("", "third", "-p", "2")
		var got []string
		for _, from := range [][]string{{"-b", s.kafka}, {"-s", s.http}} {
			all := must(t, "", append([]string{"sub", "words", "-e"}, from...)...)
			got = strings.SplitAfter(all, "\n")
			slices.Sort(got)
			if n := strings.Count(all, "\n"); n != 7*(i+1) {
				t.Errorf("%d lines from %v: %q", n, from, all)
			}
			if i == 0 && want == nil {
				want = got
			}
			if i == 0 && !slices.Equal(got, want) {
				t.Errorf("%q from %v, want %q", got, from, want)
			}
		}
		if again := slices.Compact(got); i == 1 && !slices.Equal(again, want) {
			t.Errorf("%q over HTTP, want %q", again, want)
		}
	}
	over := func(from ...string) string {
		return must(t, "", append([]string{"sub", "words", "-s", s.http}, from...)...)
	}
	if n := strings.Count(must(t, "", "sub", "words", "-b", s.kafka, "-e", "-o", "json"), `"headers":[{"name":"a","value":"1"},{"name":"a","value":null,"valueBase64":"/w=="}]`); n != 8 {
		t.Errorf("%d messages have their headers", n)
	}
	has(t, over("-e", "-o", "json", "--from", "0"), `{"topic":"words",`, `"key":"k"`)
	if got := over("-e", "--from", "end"); got != "" {
		t.Errorf("behind the end: %q", got)
	}
	if got := over("-e", "--from", "2001-01-01T00:00:00Z"); strings.Count(got, "\n") != 14 {
		t.Errorf("from a time: %q", got)
	}
	if got := over("--from", "start", "-n", "5"); strings.Count(got, "\n") != 5 {
		t.Errorf("five: %q", got)
	}
	wrong(t, exitFailed, "publish to words: message 1 is refused: ", "pub", "words", "x", "-p", "9", "-s", s.http)
	wrong(t, exitFailed, "read topic nix: ", "sub", "nix", "-s", s.http)
	wrong(t, exitFailed, "no answer from 127.0.0.1:1", "sub", "words", "-s", "127.0.0.1:1")
	wrong(t, exitUsage, "--group is of Kafka's protocol", "sub", "words", "-g", "g", "-s", s.http)
	wrong(t, exitUsage, "--compression is of Kafka's protocol", "pub", "words", "x", "-z", "gzip", "-s", s.http)
	wrong(t, exitUsage, "broker server", "pub", "words", "x", "-b", s.kafka, "-s", s.http)
}

// Many lines are few requests, and nothing is stored twice or missing when an answer is lost.
func TestPubOverHTTPStoresOnce(t *testing.T) {
	s := start(t, t.TempDir())
	u, err := url.Parse("http://" + s.http)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(u)
	var n atomic.Int64
	lossy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%2 == 1 && r.Header.Get("Idempotency-Key") != "" {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	lossy.Config.ErrorLog = nil
	defer lossy.Close()
	var in strings.Builder
	for i := range 5000 {
		_, _ = fmt.Fprintln(&in, i)
	}
	must(t, in.String(), "pub", "words", "-s", lossy.URL+","+s.http, "-p", "0")
	if got := must(t, "", "sub", "words", "-e", "-b", s.kafka); got != in.String() {
		t.Errorf("%d lines: %.200q", strings.Count(got, "\n"), got)
	}
}

// A stream that is cut off, in the middle of a message, goes on where it was.
func TestSubOverHTTPGoesOn(t *testing.T) {
	s := start(t, t.TempDir())
	want := ""
	for i := range 20 {
		want += fmt.Sprintln("message", i)
	}
	must(t, want, "pub", "words", "-b", s.kafka)
	u, err := url.Parse("http://" + s.http)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.FlushInterval = -1
	var streams atomic.Int64
	proxy.ModifyResponse = func(resp *http.Response) error {
		if strings.HasSuffix(resp.Request.URL.Path, "/stream") {
			streams.Add(1)
			resp.Body = struct {
				io.Reader
				io.Closer
			}{io.LimitReader(resp.Body, 1000), resp.Body}
		}
		return nil
	}
	cut := httptest.NewServer(proxy)
	defer cut.Close()
	if got := must(t, "", "sub", "words", "-s", cut.URL, "--from", "start", "-n", "20"); got != want {
		t.Errorf("%q", got)
	}
	if streams.Load() < 3 {
		t.Errorf("%d streams", streams.Load())
	}
}

// Ctrl-C ends it well, and what was printed stays.
func TestSubOverHTTPIsStopped(t *testing.T) {
	s := start(t, t.TempDir())
	must(t, "one\n", "pub", "words", "-s", s.http)
	ctx, cancel := context.WithCancel(t.Context())
	out := &firstWrite{output: &output{}, seen: make(chan struct{})}
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, process{in: strings.NewReader(""), out: out, err: &output{}}, []string{"sub", "words", "-s", s.http, "--from", "start"})
	}()
	<-out.seen
	cancel()
	if c := <-code; c != exitOK || out.String() != "one\n" {
		t.Errorf("code %d, %q", c, out.String())
	}
}
