package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"polylog/cmd/polylog/config"
)

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(url)
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

func TestServeIsReachableWhereItSays(t *testing.T) {
	s := start(t, t.TempDir(), "--log-format=json")
	if code, body := get(t, "http://"+s.http+"/health/ready"); code != 200 {
		t.Errorf("ready: %d %s", code, body)
	}
	_, metrics := get(t, "http://"+s.http+"/metrics")
	for _, name := range []string{"polylog_build_info{", "go_goroutines ", "process_resident_memory_bytes ", "polylog_raft_leader 1", "polylog_topics 0", "polylog_log_bytes ", "polylog_disk_free_bytes "} {
		if !strings.Contains(metrics, name) {
			t.Errorf("no %s among the metrics", name)
		}
	}
	must(t, "", "topic", "list", "--broker", s.kafka)
	out := s.out.String()
	if !strings.Contains(out, "is ready, data in "+s.dir) || !strings.Contains(out, s.kafka) || !strings.Contains(out, "curl http://"+s.http) {
		t.Errorf("printed:\n%s", out)
	}
	s.end(t)
	log := s.err.String()
	if !strings.Contains(log, `"msg":"ready"`) || !strings.Contains(log, `"kafka":"`+s.kafka+`"`) || !strings.Contains(log, `"msg":"stopped"`) {
		t.Errorf("logged:\n%s", log)
	}
	if c, err := net.Dial("tcp", s.kafka); err == nil {
		_ = c.Close()
		t.Error("the Kafka listener is still there")
	}
}

func TestServeWithListenersOff(t *testing.T) {
	s := start(t, t.TempDir(), "--kafka-listen=off", "--amqp-listen=off", "--management-listen=off", "--mqtt-listen=off", "--mqtt-ws-listen=off", "--kafka-rest-listen=off", "--nsq-listen=off", "--http-listen=off")
	if s.kafka != "" || s.http != "" {
		t.Errorf("kafka %q, http %q", s.kafka, s.http)
	}
}

func TestDataOutlivesTheBroker(t *testing.T) {
	dir := t.TempDir()
	for _, flush := range []string{"sync", "interval", "os"} {
		s := start(t, dir, "--flush", flush)
		must(t, "", "pub", "words", "-b", s.kafka, "-p", "0", flush)
		s.end(t)
	}
	s := start(t, dir)
	if got := must(t, "", "sub", "words", "-b", s.kafka, "--to-end"); got != "sync\ninterval\nos\n" {
		t.Errorf("got %q", got)
	}
}

func TestServeRefusesInOneLine(t *testing.T) {
	foreign, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	for _, name := range []string{filepath.Join(foreign, "notes.txt"), file} {
		if err := os.WriteFile(name, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, t.TempDir())
	other := start(t, t.TempDir(), "--node-id=7")
	other.end(t)
	newer := t.TempDir()
	if err := os.WriteFile(filepath.Join(newer, "meta"), []byte("polylog data directory\nformat 99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"locked", []string{"--data-dir", s.dir}, exitFailed, "in use by another"},
		{"foreign", []string{"--data-dir", foreign}, exitFailed, "is not a polylog data directory"},
		{"a file", []string{"--data-dir", file}, exitFailed, "not a directory"},
		{"another node's", []string{"--data-dir", other.dir, "--node-id=8"}, exitFailed, `belongs to node "7"`},
		{"newer", []string{"--data-dir", newer}, exitFailed, "format 99"},
		{"address in use", []string{"--data-dir", t.TempDir(), "--kafka-listen", s.kafka}, exitFailed, "kafka-listen: listen tcp"},
		{"no such address", []string{"--data-dir", t.TempDir(), "--kafka-listen", "192.0.2.1:0"}, exitFailed, "cannot assign requested address"},
		{"bad broker configuration", []string{"--data-dir", t.TempDir(), "--broker-config", "num.partitions=lots"}, exitUsage, "num.partitions"},
		{"address file", []string{"--data-dir", t.TempDir(), "--addr-file", "/nonexistent/a"}, exitFailed, "addr-file"},
		{"bad value", []string{"--flush=never"}, exitUsage, "is none of sync, interval, os"},
		{"no such file", []string{"--config=/nonexistent/c"}, exitUsage, "no such file"},
		{"argument", []string{"now"}, exitUsage, "unexpected argument"},
	} {
		args := append([]string{"serve", "--kafka-listen=:0", "--amqp-listen=:0", "--management-listen=off", "--mqtt-listen=off", "--mqtt-ws-listen=off", "--kafka-rest-listen=off", "--nsq-listen=off", "--http-listen=:0", "--log-level=error"}, c.args...)
		code, out, errs := call(t, "", args...)
		if code != c.code || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 || out != "" {
			t.Errorf("%s: code %d, %q, printed %q", c.name, code, errs, out)
		}
	}
}

// What does not fit on the disk or may not be written must end the process before it
// serves, with one line: a bit flipped in the log here.
func TestServeRefusesADamagedLog(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	must(t, "", "pub", "words", "-b", s.kafka, "one", "two", "three")
	s.end(t)
	must(t, "", "check", "--data-dir", dir)
	segments, err := filepath.Glob(filepath.Join(dir, "log", "*.log"))
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	b, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	b[strings.Index(string(b), "three")] ^= 1
	if err := os.WriteFile(segments[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := call(t, "", "check", "--data-dir", dir)
	if code != exitFailed || !strings.Contains(out, "damage: ") || !strings.Contains(errs, "the log is damaged") {
		t.Errorf("check: %d %s %s", code, out, errs)
	}
	code, _, errs = call(t, "", "serve", "--data-dir", dir, "--kafka-listen=:0", "--amqp-listen=:0", "--management-listen=off", "--mqtt-listen=off", "--mqtt-ws-listen=off", "--kafka-rest-listen=off", "--nsq-listen=off", "--http-listen=:0", "--log-level=error")
	if code != exitFailed || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, filepath.Base(segments[0])) {
		t.Errorf("serve: %d %s", code, errs)
	}
}

// fill makes a data directory whose log has several segments, all of them wanted.
func fill(t *testing.T) (dir string, segments []string) {
	t.Helper()
	dir = t.TempDir()
	s := start(t, dir)
	line := strings.Repeat("x", 300<<10) + "\n"
	for range 2 {
		must(t, strings.Repeat(line, 5), "pub", "words", "-b", s.kafka)
	}
	s.end(t)
	segments, err := filepath.Glob(filepath.Join(dir, "log", "*.log"))
	if err != nil || len(segments) < 3 {
		t.Fatal(segments, err)
	}
	return dir, segments
}

// serveRefuses checks that serve names what is wrong in one line, and leaves the log alone.
func serveRefuses(t *testing.T, dir, want string) {
	t.Helper()
	names := func() (all string) {
		entries, err := os.ReadDir(filepath.Join(dir, "log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all += e.Name() + "\n"
		}
		return all
	}
	before := names()
	code, _, errs := call(t, "", "serve", "--data-dir", dir, "--kafka-listen=:0", "--amqp-listen=:0", "--management-listen=off", "--mqtt-listen=off", "--mqtt-ws-listen=off", "--kafka-rest-listen=off", "--nsq-listen=off", "--http-listen=:0", "--log-level=error", "--segment-size=1MiB")
	if code != exitFailed || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, want) {
		t.Errorf("serve: %d %s", code, errs)
	}
	if after := names(); before != after {
		t.Errorf("the log's files were\n%sand are\n%s", before, after)
	}
}

// What serve refuses check refuses too, and neither changes the log.
func TestServeAndCheckRefuseAlike(t *testing.T) {
	dir, segments := fill(t)
	must(t, "", "check", "--data-dir", dir)
	vote, snapshot := filepath.Join(dir, "raft", "vote"), filepath.Join(dir, "raft", "snapshot")
	for _, c := range []struct {
		name, file, want string
		damage           func([]byte) []byte // nil: it is removed
	}{
		{"oldest segment missing", segments[0], "is missing", nil},
		{"vote missing", vote, "must not vote", nil},
		{"vote empty", vote, "must not vote", func(b []byte) []byte { return b[:0] }},
		{"snapshot empty", snapshot, "not a snapshot record", func(b []byte) []byte { return b[:0] }},
		{"snapshot cut", snapshot, "raft snapshot", func(b []byte) []byte { return b[:len(b)/2] }},
		{"snapshot flipped", snapshot, "checksum", func(b []byte) []byte { b[6] ^= 1; return b }},
	} {
		good, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		if c.damage == nil {
			err = os.Remove(c.file)
		} else {
			err = os.WriteFile(c.file, c.damage(append([]byte(nil), good...)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		code, _, errs := call(t, "", "check", "--data-dir", dir)
		if code != exitFailed || !strings.Contains(errs, c.want) {
			t.Errorf("%s: check: %d %s", c.name, code, errs)
		}
		serveRefuses(t, dir, c.want)
		if err := os.WriteFile(c.file, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	must(t, "", "check", "--data-dir", dir)
}

func TestEffectiveConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(must(t, "", "config", "--flush=os")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := must(t, "", "config", "--config", file, "--http-listen=off"); !strings.Contains(got, "flush: os\n") || !strings.Contains(got, "http-listen: "+config.Off) {
		t.Errorf("got\n%s", got)
	}
}

func TestReferenceIsCurrent(t *testing.T) {
	doc, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(doc), must(t, "", "config", "--reference")); d != "" {
		t.Fatalf("docs/configuration.md is not current, run make docs (-file +code):\n%s", d)
	}
}
