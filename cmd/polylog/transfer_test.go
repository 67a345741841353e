package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// shown is what all messages of a topic are, without their places.
func shown(t *testing.T, s *served, topic string) []string {
	t.Helper()
	var all []string
	for line := range strings.Lines(must(t, "", "export", topic, "-s", s.http)) {
		var m map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		delete(m, "id")
		delete(m, "offset")
		delete(m, "partition")
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(b))
	}
	return all
}

// What a topic has is the same in another one after an export and an import, however it is compressed.
func TestExportAndImport(t *testing.T) {
	s := start(t, t.TempDir())
	do := s.verbsOf(t)
	s.post(t, "/v1/topics/from/messages", `{"messages": [
		{"key": "k", "value": "text <\u0001>", "headers": [{"name": "a", "value": "1"}, {"name": "a", "valueBase64": "/w=="}, {"name": "n", "value": 7}], "timestamp": 1700000000123},
		{"keyBase64": "/w==", "valueBase64": "/wA=", "contentType": "x/y", "messageId": "m", "priority": 3, "expiresAt": "2031-01-01T00:00:00Z"},
		{"key": "gone", "value": null}, {"value": ""}]}`)
	want := shown(t, s, "from")
	if len(want) != 4 || !strings.Contains(want[2], `"value":null`) {
		t.Fatalf("%q", want)
	}
	dir := t.TempDir()
	for i, suffix := range []string{"", ".gz", ".zst"} {
		file, topic := filepath.Join(dir, "messages.ndjson"+suffix), fmt.Sprint("to", i)
		has(t, do("", "export", "from", "-f", file), "4 messages in ")
		has(t, do("", "import", topic, "-f", file), "4 messages in topic "+topic)
		if got := shown(t, s, topic); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\n%q, want\n%q", suffix, got, want)
		}
		if left, err := filepath.Glob(file + ".*checkpoint*"); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
	do(must(t, "", "sub", "from", "-b", s.kafka, "-e", "-o", "json"), "import", "sub")
	if got := shown(t, s, "sub"); len(got) != 4 || !strings.Contains(got[1], `"valueBase64":"/wA="`) {
		t.Errorf("from sub: %q", got)
	}
	file := filepath.Join(dir, "messages.ndjson")
	wrong(t, exitFailed, "--force writes over it", "export", "from", "-f", file, "-s", s.http)
	wrong(t, exitFailed, "was not begun, or is finished", "export", "from", "-f", file, "--resume", "-s", s.http)
	wrong(t, exitFailed, "no import of ", "import", "from", "-f", file, "--resume", "-s", s.http)
	wrong(t, exitFailed, "export topic nix: ", "export", "nix", "-s", s.http)
	wrong(t, exitUsage, "with a --file", "export", "from", "--resume", "-s", s.http)
	code, out, errs := call(t, "{\"value\": \"a\"}\n\n{\"value\": \"b\", \"nonsense\": 1}\n{\"value\": \"c\"}", "import", "partly", "-s", s.http)
	if code != exitFailed || !strings.Contains(out, "2 messages in topic partly") || !strings.Contains(errs, "line 3 is refused: ") || !strings.Contains(errs, "1 of 3 messages were refused") {
		t.Errorf("code %d, %s, %s", code, out, errs)
	}
}

// A line that is no message ends an import: what is before it is stored, and what was refused is not forgotten when it
// goes on.
func TestImportOfABadLine(t *testing.T) {
	s := start(t, t.TempDir())
	const bad, lines = "nonsense", "{\"value\":\"a\"}\n{\"nonsense\":1}\n{\"value\":\"b\"}\n\n%s\n{\"value\":\"d\"}\n"
	code, _, errs := call(t, fmt.Sprintf(lines, bad), "import", "piped", "-s", s.http)
	if code != exitFailed || !strings.Contains(errs, "line 5: it is no message in JSON") || !strings.Contains(errs, "2 messages are stored") {
		t.Errorf("code %d, %s", code, errs)
	}
	file := filepath.Join(t.TempDir(), "in.ndjson")
	write := func(line string) {
		t.Helper()
		if err := os.WriteFile(file, fmt.Appendf(nil, lines, line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // it stays where it is
		write(bad)
		args := []string{"import", "words", "-f", file, "-s", s.http}
		if _, err := os.Stat(checkpointPath(file, "import")); err == nil {
			args = append(args, "--resume")
		}
		code, _, errs = call(t, "", args...)
		if code != exitFailed || !strings.Contains(errs, "line 5: it is no message in JSON") || !strings.Contains(errs, "2 messages are stored; go on with --resume") {
			t.Errorf("code %d, %s", code, errs)
		}
	}
	write("{\"value\":\"c\"}")
	code, out, errs := call(t, "", "import", "words", "-f", file, "--resume", "-s", s.http)
	if code != exitFailed || !strings.Contains(out, "4 messages in topic words") || !strings.Contains(errs, "1 of 5 messages were refused") {
		t.Errorf("code %d, %s, %s", code, out, errs)
	}
	if got := shown(t, s, "words"); len(got) != 4 || !strings.Contains(got[3], `"d"`) {
		t.Errorf("%q", got)
	}
}

// Whenever an import of large messages is killed, each of which is a request, its checkpoint has all but the one that is
// under way: at most one is stored twice. What names its requests is there before the first.
func TestImportKeepsSingleMessages(t *testing.T) {
	s := start(t, t.TempDir())
	file := filepath.Join(t.TempDir(), "in.ndjson")
	value := strings.Repeat("x", batchBytes/2+1)
	if err := os.WriteFile(file, []byte(strings.Repeat("{\"value\":\""+value+"\"}\n", 3)), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse("http://" + s.http)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(u)
	var at []checkpoint // when each request comes
	watch := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := readCheckpoint(checkpointPath(file, "import"))
		if err != nil || c == nil {
			t.Errorf("no checkpoint: %v", err)
			c = &checkpoint{}
		}
		at = append(at, *c)
		proxy.ServeHTTP(w, r)
	}))
	defer watch.Close()
	has(t, must(t, "", "import", "large", "-f", file, "-s", watch.URL), "3 messages in topic large")
	if len(at) != 3 {
		t.Fatalf("%d requests", len(at))
	}
	for i, c := range at {
		if c.Lines != int64(i) || c.Done != int64(i) || c.Run == "" || c.Run != at[0].Run {
			t.Errorf("at request %d the checkpoint was %+v", i, c)
		}
	}
}

// What is not on the disk is not noted as written.
func TestExportNotesWhatIsWritten(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil { // its Sync fails
		t.Fatal(err)
	}
	e := &exporter{exportFlags: &exportFlags{file: f.Name()}, file: f, at: checkpoint{Version: exportVersion, Cursor: "c", Bytes: 5}}
	if err := e.keep(); err == nil {
		t.Error("it is kept")
	}
	if c, err := readCheckpoint(checkpointPath(f.Name(), "export")); err != nil || c != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

// breaker passes requests on to a broker until it has passed some, and fails afterwards.
func breaker(t *testing.T, s *served, after int, sent bool) *httptest.Server {
	t.Helper()
	u, err := url.Parse("http://" + s.http)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(u)
	var n atomic.Int64
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last := n.Add(1) > int64(after)
		if last && sent { // the broker does it, and nobody is told
			proxy.ServeHTTP(httptest.NewRecorder(), r)
		}
		if last {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(b.Close)
	return b
}

// A transfer that was cut off goes on with --resume, and nothing is missing or there twice: not even what was stored
// without an answer.
func TestTransfersGoOn(t *testing.T) {
	s := start(t, t.TempDir())
	do := s.verbsOf(t)
	const n = 3500
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "{\"key\":\"k\",\"value\":\"%d\"}\n", i)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "in.ndjson")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cut := breaker(t, s, 2, true)
	code, _, errs := call(t, "", "import", "words", "-f", file, "-s", cut.URL)
	if code != exitFailed || !strings.Contains(errs, "2000 messages are stored; go on with --resume") {
		t.Fatalf("code %d, %s", code, errs)
	}
	wrong(t, exitFailed, "was interrupted after 2000 messages", "import", "words", "-f", file, "-s", s.http)
	wrong(t, exitFailed, "into topic words", "import", "other", "-f", file, "--resume", "-s", s.http)
	has(t, do("", "import", "words", "-f", file, "--resume"), "3500 messages in topic words")

	out := filepath.Join(dir, "out.ndjson.gz")
	cut = breaker(t, s, 3, false) // the topic, and two pages
	code, _, errs = call(t, "", "export", "words", "-f", out, "-s", cut.URL)
	if code != exitFailed || !strings.Contains(errs, "2000 messages are in ") {
		t.Fatalf("code %d, %s", code, errs)
	}
	f, err := os.OpenFile(out, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("half a page"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	wrong(t, exitFailed, "was begun already", "export", "words", "-f", out, "-s", s.http)
	must(t, "", "topic", "create", "other", "-b", s.kafka)
	wrong(t, exitFailed, "is an export of topic words", "export", "other", "-f", out, "--resume", "-s", s.http)
	has(t, do("", "export", "words", "-f", out, "--resume"), "3500 messages in ")
	has(t, do("", "import", "again", "-f", out), "3500 messages in topic again")
	got := shown(t, s, "again")
	if len(got) != n {
		t.Fatalf("%d messages", len(got))
	}
	for i, m := range got {
		if !strings.Contains(m, fmt.Sprintf(`"value":"%d"`, i)) {
			t.Fatalf("message %d is %s", i, m)
		}
	}
}

// Who is asked to stop says so, and how to go on.
func TestImportInterrupted(t *testing.T) {
	s := start(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	stop := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() }))
	defer stop.Close()
	file := filepath.Join(t.TempDir(), "in.ndjson")
	if err := os.WriteFile(file, []byte("{\"value\": \"a\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs output
	code := run(ctx, process{in: strings.NewReader(""), out: &out, err: &errs}, []string{"import", "words", "-f", file, "-s", stop.URL})
	if code != exitFailed || !strings.Contains(errs.String(), "0 messages are stored; go on with --resume\n") {
		t.Errorf("code %d, %s", code, errs.String())
	}
	has(t, must(t, "", "import", "words", "-f", file, "--resume", "-s", s.http), "1 messages in topic words")
}

func TestBar(t *testing.T) {
	b := newBar(&process{err: &output{}}, "messages", 200)
	b.at(10)
	b.end()
	if b.out != nil {
		t.Error("a bar where there is no terminal")
	}
	at := b.began.Add(10e9)
	b.done = 50
	if got, want := b.text(at, 200), "[######                  ]  25%  50 of 200 messages  5/s  30s left"; got != want {
		t.Errorf("got %q", got)
	}
	if got := b.text(at, 10); got != "[######   " {
		t.Errorf("got %q", got)
	}
	b.total, b.what = 0, "bytes"
	if got := b.text(at, 200); got != "50 B  5 B/s  10s" {
		t.Errorf("got %q", got)
	}
}
