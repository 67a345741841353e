package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// verbsOf gives a broker's verbs over HTTP: the words, then the address.
func (s *served) verbsOf(t *testing.T) func(in string, args ...string) string {
	return func(in string, args ...string) string {
		t.Helper()
		return must(t, in, append(args, "-s", s.http)...)
	}
}

// has complains about what a text lacks.
func has(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
}

// wrong tries what must fail, with one line that says why.
func wrong(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	if got, _, errs := call(t, "", args...); got != code || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
		t.Errorf("%v: code %d, %q; want %d, %q", args, got, errs, code, want)
	}
}

func TestQueueVerbs(t *testing.T) {
	s := start(t, t.TempDir())
	do := s.verbsOf(t)
	do("", "queue", "create", "jobs", "--delivery-limit", "3", "--dead-letter-queue", "dead")
	do("", "queue", "create", "jobs", "--delivery-limit", "3", "--dead-letter-queue", "dead")
	do("", "queue", "create", "dead", "a:b/c")
	s.post(t, "/v1/queues/jobs/messages", `{"messages": [{"key": "k", "value": "one\u001b[2J"}, {"value": "two"}, {"valueBase64": "/w=="}]}`)
	has(t, do("", "queue", "list"), "QUEUE", "jobs   3      0          0        0          dead\n", "a:b/c  0 ")
	has(t, do("", "queue", "list", "--search", "JOB", "-o", "json"), `"deadLetterQueue": "dead"`)
	has(t, do("", "queue", "describe", "jobs"), "ready                   3\n", "delivery limit          3\n")
	peeked := do("", "queue", "peek", "jobs")
	has(t, peeked, "0-0", "k    one·[2J\n", "base64:/w==")
	if got := do("", "queue", "peek", "jobs", "-n", "2", "-o", "json"); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"one\u001b[2J"`) {
		t.Errorf("peek: %s", got)
	}
	has(t, do("", "queue", "purge", "jobs"), "queue jobs: 3 messages dropped")
	has(t, do("", "queue", "delete", "jobs", "a:b/c", "--if-unused", "--if-empty"), "queue jobs deleted, with 0 messages\n", "queue a:b/c deleted")
	wrong(t, exitFailed, "describe queue jobs: ", "queue", "describe", "jobs", "-s", s.http)
	wrong(t, exitFailed, "create queue dead: ", "queue", "create", "dead", "--single-active", "-s", s.http)
	wrong(t, exitUsage, "a name is empty", "queue", "delete", "", "-s", s.http)
	wrong(t, exitUsage, "is neither table nor json", "queue", "list", "-o", "xml", "-s", s.http)
}

// post calls the HTTP interface, which has to do it.
func (s *served) post(t *testing.T, path, body string) {
	t.Helper()
	resp, err := http.Post("http://"+s.http+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // a test
	if answer, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s, %v", path, resp.Status, answer, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestSubscriptionVerbs(t *testing.T) {
	s := start(t, t.TempDir())
	do := s.verbsOf(t)
	must(t, "", "topic", "create", "orders", "-b", s.kafka)
	do("", "subscription", "create", "reader", "--topic", "orders", "--from", "start", "--tag", "a,b", "--cel", "bytes > 0", "--retry-min", "1s", "--ack-deadline", "10s")
	s.post(t, "/v1/topics/orders/messages", `{"messages": [{"value": "one", "tag": "a"}, {"value": "two", "tag": "c"}, {"value": "three", "tag": "b"}]}`)
	has(t, do("", "subscription", "list"), "reader        orders  pull   3 ")
	has(t, do("", "subscription", "describe", "reader"), "tag a or b, and bytes > 0\n", "ack deadline     10s\n", "retry after      1s to 1s\n")
	for range 2 { // without --ack they are given back
		got := do("", "subscription", "pull", "reader", "-n", "1", "--wait", "10s")
		has(t, got, "one")
	}
	has(t, do("", "subscription", "pull", "reader", "--wait", "10s", "--ack", "-o", "json"), `"value":"one"`)
	do("", "subscription", "seek", "reader", "--to", "2020-01-01T00:00:00Z")
	do("", "subscription", "seek", "reader", "--offset", "0=2")
	has(t, do("", "subscription", "describe", "reader", "-o", "json"), `"ready": 1`)
	do("", "subscription", "seek", "reader", "--to", "end")
	do("", "subscription", "delete", "reader")
	wrong(t, exitFailed, "describe subscription reader: ", "subscription", "describe", "reader", "-s", s.http)
	do("", "subscription", "create", "p", "--topic", "orders")
	wrong(t, exitFailed, "not pushed", "subscription", "pause", "p", "-s", s.http)
	wrong(t, exitUsage, "give --topic or --queue", "subscription", "create", "x", "-s", s.http)
	wrong(t, exitUsage, "--ordered is for endpoints", "subscription", "create", "x", "-t", "orders", "--ordered", "-s", s.http)
	wrong(t, exitUsage, "say where to, once", "subscription", "seek", "p", "-s", s.http)
	wrong(t, exitUsage, "is none of start, end", "subscription", "seek", "p", "--to", "soon", "-s", s.http)
}

// An endpoint is made, tried, paused, goes on; what it does not take is found in its dead letters, and moved.
func TestWebhookVerbs(t *testing.T) {
	s := start(t, t.TempDir(), "--webhook-allow", "127.0.0.1/32")
	do := s.verbsOf(t)
	took := make(chan string, 100)
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value := r.Header.Get("X-Key")
		if value == "bad" && r.Header.Get("Authorization") == "Bearer x" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		took <- value
	}))
	defer sink.Close()
	must(t, "", "topic", "create", "orders", "-b", s.kafka)
	made := do("", "subscription", "create", "billing", "-t", "orders", "--push", sink.URL, "--permanent-status", "422", "-H", "Authorization=Bearer x", "--request-timeout", "5s")
	has(t, made, "secret, shown this once: whsec_")
	has(t, do("", "subscription", "describe", "billing"), "state            active\n", "headers          Authorization\n", "time-out         5s\n")
	has(t, do("", "subscription", "test", "billing", "-d", "{}"), "status  200\n")
	if got := <-took; got != "" {
		t.Errorf("the test had the key %q", got)
	}
	do("", "subscription", "pause", "billing")
	has(t, do("", "subscription", "list", "--search", sink.URL), "push, paused")
	s.post(t, "/v1/topics/orders/messages", `{"messages": [{"key": "good", "value": "1"}, {"key": "bad", "value": "2"}]}`)
	do("", "subscription", "resume", "billing")
	if got := <-took; got != "good" {
		t.Errorf("got %q", got)
	}
	for !strings.Contains(do("", "dlq", "list"), "billing.dead  1             0          subscription billing\n") { // until it is dead
	}
	has(t, do("", "dlq", "show", "billing.dead"), "subscription billing", "422", "bad")
	for !strings.Contains(do("", "subscription", "attempts", "billing"), "dead") { // until it is written down
	}
	has(t, do("", "dlq", "redrive", "billing.dead", "--cel", `key == "other"`), "0 messages moved, 1 passed over")
	has(t, do("", "dlq", "redrive", "billing.dead", "--to-topic", "orders", "--cel", `key == "bad"`), "1 messages moved, 0 passed over")
	has(t, do("", "subscription", "rotate", "billing", "--keep", "1h"), "secret, shown this once: whsec_")
	has(t, do("", "subscription", "describe", "billing"), "(until ")
	sink.Close()
	code, out, errs := call(t, "", "subscription", "test", "billing", "-s", s.http)
	if code != exitFailed || !strings.Contains(out, "failure") || !strings.Contains(errs, "did not take it") {
		t.Errorf("a dead endpoint: code %d, %s, %s", code, out, errs)
	}
	wrong(t, exitUsage, "give one of", "dlq", "redrive", "billing.dead", "--to-topic", "a", "--to-queue", "b", "-s", s.http)
}

func TestHookVerbs(t *testing.T) {
	s := start(t, t.TempDir())
	do := s.verbsOf(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a long enough secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	has(t, do("", "hook", "create", "github", "-t", "events", "-p", "github", "--key", "json:/repository/full_name"), "senders post to /hooks/github\n", "secret, shown this once: ")
	has(t, do("", "hook", "create", "slack", "-t", "events", "-p", "hmac", "--secret-file", secret, "--signature-header", "X-Slack-Signature", "--window", "1h"), "/hooks/slack\n")
	has(t, do("", "hook", "list"), "github  github  events  -      active  /hooks/github\n", "slack   hmac ")
	has(t, do("", "hook", "describe", "slack"), "owner             -\n", "state             active\n", "signature header  X-Slack-Signature\n", "window            1h0m0s\n")
	has(t, do("", "hook", "rotate", "github", "--keep", "0"), "secret, shown this once: ")
	do("", "hook", "delete", "github", "slack")
	wrong(t, exitFailed, "describe hook slack: ", "hook", "describe", "slack", "-s", s.http)
	wrong(t, exitUsage, "--topic and --preset", "hook", "create", "x", "-s", s.http)
	wrong(t, exitFailed, "read the secret: ", "hook", "create", "x", "-t", "t", "-p", "hmac", "--secret-file", secret+"x", "-s", s.http)
}

func TestExchangeAndNamespaceVerbs(t *testing.T) {
	s := start(t, t.TempDir())
	do := s.verbsOf(t)
	do("", "namespace", "create", "shop")
	has(t, do("", "namespace", "list"), "default", "shop ")
	in := func(args ...string) []string { return append(args, "-N", "shop") }
	do("", in("queue", "create", "red")...)
	do("", in("exchange", "create", "colours", "-t", "topic", "-a", "x=1", "-a", "y=one")...)
	do("", in("binding", "create", "colours", "-q", "red", "-k", "red.*", "-a", "n=2")...)
	has(t, do("", in("exchange", "list")...), "colours", "x=1 y=one")
	has(t, do("", in("binding", "list", "colours")...), "colours   red.*  queue red  n=2\n")
	do("", in("binding", "delete", "colours", "-q", "red", "-k", "red.*", "-a", "n=2")...)
	if got := do("", in("binding", "list", "colours")...); strings.Contains(got, "red") {
		t.Errorf("it is still there:\n%s", got)
	}
	do("", in("exchange", "delete", "colours")...)
	do("", "namespace", "delete", "shop")
	wrong(t, exitUsage, "--queue, or to an exchange", "binding", "create", "x", "-s", s.http)
}

func TestMsgAndConnections(t *testing.T) {
	s := start(t, t.TempDir())
	do := s.verbsOf(t)
	must(t, "a\nb\nc\n", "pub", "words", "-b", s.kafka, "-k", "letter", "-H", "h=1")
	has(t, do("", "msg", "find", "words", "--key", "letter", "--from", "2020-01-01T00:00:00Z"), "0-0 ", "letter  c\n")
	if got := do("", "msg", "find", "words", "--to", "2020-01-01T00:00:00Z"); strings.Contains(got, "letter") {
		t.Errorf("of another time:\n%s", got)
	}
	has(t, do("", "msg", "find", "words", "-p", "0", "--offset", "2", "-o", "json"), `"value":"c"`)
	has(t, do("", "msg", "get", "words", "0-1"), "header h  1\n", "value     b\n")
	if got := do("", "msg", "get", "words", "0-1", "--raw"); got != "b" {
		t.Errorf("raw: %q", got)
	}
	must(t, "", "sub", "words", "-b", s.kafka, "-g", "readers", "--from", "start", "-n", "2")
	has(t, do("", "msg", "story", "words", "0-1"), "readers  group  true\n")
	has(t, do("", "msg", "story", "words", "0-2"), "readers  group  false\n")
	has(t, do("", "connections", "--protocol", "http"), "NODE", "http 1.1  127.0.0.1:")
	var all []connection
	if err := json.Unmarshal([]byte(do("", "connections", "-o", "json")), &all); err != nil || len(all) == 0 {
		t.Errorf("%v, %v", all, err)
	}
	wrong(t, exitUsage, "is no id", "msg", "get", "words", "x", "-s", s.http)
	wrong(t, exitFailed, "message 0-9 of topic words: ", "msg", "get", "words", "0-9", "-s", s.http)
}

// Of several addresses the first that answers is used; one that is nobody's, and one that speaks something else, are
// said to be that.
func TestServers(t *testing.T) {
	s := start(t, t.TempDir())
	has(t, must(t, "", "queue", "list", "-s", "127.0.0.1:1,"+s.http), "QUEUE")
	has(t, must(t, "", "queue", "list", "-s", "http://"+s.http+"/"), "QUEUE")
	wrong(t, exitFailed, "no answer from 127.0.0.1:1: ", "queue", "list", "-s", "127.0.0.1:1")
	wrong(t, exitUsage, "is no address", "queue", "list", "-s", "localhost")
	wrong(t, exitUsage, "is no address", "queue", "list", "-s", "ftp://a:1")
	wrong(t, exitFailed, "no answer from ", "queue", "list", "-s", s.kafka)
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	wrong(t, exitFailed, "is no HTTP interface of a Polylog", "queue", "list", "-s", other.URL)
	var out, errs output
	p := process{in: strings.NewReader(""), out: &out, err: &errs, environ: []string{"POLYLOG_SERVER=" + s.http}}
	if code := run(t.Context(), p, []string{"queue", "list"}); code != exitOK {
		t.Errorf("by the environment: code %d, %s", code, errs.String())
	}
}

func TestSuggestions(t *testing.T) {
	wrong(t, exitUsage, `unknown command "lst" for "polylog queue"; did you mean: list`, "queue", "lst")
	wrong(t, exitUsage, "unknown flag: --serch; did you mean: --search", "queue", "list", "--serch", "x")
	wrong(t, exitUsage, "unknown flag: --nonsense; see polylog queue list --help", "queue", "list", "--nonsense")
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"serch", "search", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}} {
		if got := typos(c.a, c.b); got != c.want {
			t.Errorf("typos(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// Names are completed from the broker, where it answers.
func TestCompletion(t *testing.T) {
	s := start(t, t.TempDir())
	do := s.verbsOf(t)
	do("", "queue", "create", "jobs", "jobs-2", "other")
	for _, shell := range []string{"bash", "zsh", "fish"} {
		has(t, must(t, "", "completion", shell), "polylog")
	}
	complete := func(words ...string) string { return must(t, "", append([]string{"__complete"}, words...)...) }
	has(t, complete("queue", "purge", "-s", s.http, "jo"), "jobs\n", "jobs-2\n")
	if got := complete("queue", "purge", "-s", s.http, "jobs", "jo"); strings.Contains(got, "jobs\n") || !strings.Contains(got, "jobs-2\n") {
		t.Errorf("one that is there already: %s", got)
	}
	has(t, complete("queue", "create", "x", "-s", s.http, "--dead-letter-queue", "o"), "other\n")
	has(t, complete("dlq", ""), "redrive")
	must(t, "a\n", "pub", "orders", "-b", s.kafka)
	must(t, "", "sub", "orders", "-b", s.kafka, "-g", "billing", "--from", "start", "-n", "1")
	for _, words := range [][]string{
		{"topic", "describe", "or"}, {"topic", "delete", "x", "or"}, {"pub", "or"}, {"sub", "or"}, {"group", "reset", "g", "-t", "or"},
	} {
		has(t, complete(append([]string{words[0], "-b", s.kafka}, words[1:]...)...), "orders\n", ":4\n")
	}
	has(t, complete("group", "-b", s.kafka, "describe", "b"), "billing\n")
	has(t, complete("sub", "-b", s.kafka, "orders", "-g", "b"), "billing\n")
	for _, words := range [][]string{{"pub", "-b", s.kafka, "x", "or"}, {"export", "-s", s.http, "x", "or"}, {"sub", "-b", "127.0.0.1:1", "or"}} {
		if got := complete(words...); strings.Contains(got, "orders") {
			t.Errorf("%v: %s", words, got)
		}
	}
	if got := complete("queue", "purge", "-s", "127.0.0.1:1", ""); strings.Contains(got, "jobs") {
		t.Errorf("without a broker: %s", got)
	}
}
