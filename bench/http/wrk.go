package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"polylog/compat/harness"
)

const (
	connections = 64
	payloadSize = 100 // bytes
	batchSize   = 100 // messages
)

// load is one kind of request to one side.
type load struct {
	row, side   string
	title       string
	path        func(*harness.Broker) string
	contentType string
	body        string
	messages    int // in each request
}

func (l load) name() string { return l.title }

// v1, nsq and root are paths of requests.
func v1(b *harness.Broker) string   { return b.HTTP + "/v1/topics/bench/messages" }
func root(b *harness.Broker) string { return b.HTTP + "/" }
func pub(b *harness.Broker) string  { return b.NSQ + "/pub?topic=bench" }
func mpub(b *harness.Broker) string { return b.NSQ + "/mpub?topic=bench" }

// loads are all of them, in the order of the table.
var loads = []load{
	{"one", "echo", "one message: bare echo", root, octets, payload, 1},
	{"one", "os", "one message: `/v1`, os", v1, octets, payload, 1},
	{"one", "os", "one message: `/pub`, os", pub, octets, payload, 1},
	{"one", "nsqd", "one message: nsqd's `/pub`", pub, octets, payload, 1},
	{"one", "sync", "one message: `/v1`, sync", v1, octets, payload, 1},
	{"batch", "echo", "100 messages: bare echo", root, "application/json", batch(), batchSize},
	{"batch", "os", "100 messages: `/v1`, os", v1, "application/json", batch(), batchSize},
	{"batch", "os", "100 messages: `/mpub`, os", mpub, octets, strings.Repeat(payload+"\n", batchSize), batchSize},
	{"batch", "nsqd", "100 messages: nsqd's `/mpub`", mpub, octets, strings.Repeat(payload+"\n", batchSize), batchSize},
	{"batch", "sync", "100 messages: `/v1`, sync", v1, "application/json", batch(), batchSize},
}

const octets = "application/octet-stream"

var payload = strings.Repeat("x", payloadSize)

// batch is the JSON of many messages.
func batch() string {
	type message struct {
		Value string `json:"value"`
	}
	var all struct {
		Messages []message `json:"messages"`
	}
	for range batchSize {
		all.Messages = append(all.Messages, message{payload})
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(text)
}

// measure has wrk send the requests, for a second that does not count and then for those that do.
func (l load) measure(ctx context.Context, server *harness.Broker, seconds int, dir string) (s sample, err error) {
	body, script := filepath.Join(dir, "body"), filepath.Join(dir, "post.lua")
	if err := os.WriteFile(body, []byte(l.body), 0o644); err != nil {
		return s, err
	}
	text := fmt.Sprintf("local f = io.open(%q, 'rb')\nwrk.method = 'POST'\nwrk.body = f:read('*a')\nwrk.headers['Content-Type'] = %q\n", body, l.contentType)
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		return s, err
	}
	run := func(seconds int) (sample, error) {
		out, err := exec.CommandContext(ctx, "wrk", "-t1", "-c", strconv.Itoa(connections), "-d", strconv.Itoa(seconds)+"s",
			"--latency", "--timeout", "60s", "-s", script, "http://"+l.path(server)).CombinedOutput()
		if err != nil {
			return s, fmt.Errorf("wrk: %w: %s", err, out)
		}
		return readWrk(string(out), l.messages)
	}
	if _, err := run(1); err != nil {
		return s, err
	}
	before, err := server.Usage()
	if err != nil {
		return s, err
	}
	if s, err = run(seconds); err != nil {
		return s, err
	}
	after, err := server.Usage()
	s.cpu = float64((after.CPU - before.CPU).Nanoseconds()) / 1e3 / s.requests / float64(l.messages)
	return s, err
}

var (
	wrkRequests = regexp.MustCompile(`(\d+) requests in ([\d.]+)(ms|s|m)`)
	wrkLatency  = regexp.MustCompile(`(50|99)% +([\d.]+)(us|ms|s)`)
	wrkFailures = regexp.MustCompile(`Non-2xx or 3xx responses: \d+|Socket errors: .*`)
)

// readWrk reads what wrk says at its end. A request that failed makes it an error.
func readWrk(text string, messages int) (s sample, err error) {
	if bad := wrkFailures.FindString(text); bad != "" {
		return s, fmt.Errorf("wrk: %s", bad)
	}
	m := wrkRequests.FindStringSubmatch(text)
	if m == nil {
		return s, fmt.Errorf("wrk said %q", text)
	}
	if s.requests, err = strconv.ParseFloat(m[1], 64); err != nil {
		return s, err
	}
	took, err := time.ParseDuration(m[2] + m[3])
	if err != nil || s.requests == 0 {
		return s, fmt.Errorf("%s requests in %s%s: %w", m[1], m[2], m[3], err)
	}
	s.rate = s.requests * float64(messages) / took.Seconds()
	for _, m := range wrkLatency.FindAllStringSubmatch(text, -1) {
		d, err := time.ParseDuration(m[2] + m[3])
		if err != nil {
			return s, err
		}
		if m[1] == "50" {
			s.p50 = d
		} else {
			s.p99 = d
		}
	}
	return s, nil
}

// serveEcho answers each request with its body, by the same server library that the broker has.
func serveEcho(addr string) error {
	server := fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) { ctx.Write(ctx.PostBody()) }}
	return server.ListenAndServe(addr)
}
