package main

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"polylog/router/admin"
)

func TestTop(t *testing.T) {
	s := start(t, t.TempDir())
	do := s.verbsOf(t)
	must(t, "a\nb\nc\n", "pub", "words", "-b", s.kafka)
	must(t, "", "sub", "words", "-b", s.kafka, "-g", "readers", "--from", "start", "-n", "1")
	do("", "queue", "create", "jobs")
	has(t, do("", "top", "--once", "-i", "100ms"), "healthy", "1     leader  ready", "words  1           0     3 ", "jobs   0 ", "readers  Empty  2\n")
	var v view
	if err := json.Unmarshal([]byte(do("", "top", "-o", "json", "-i", "100ms")), &v); err != nil || len(v.Topics) != 1 || v.Topics[0].Messages != 3 || v.Groups[0].Lag != 2 {
		t.Errorf("%+v, %v", v, err)
	}
	wrong(t, exitUsage, "less than 100ms", "top", "-i", "1ms", "-s", s.http)
	wrong(t, exitFailed, "no answer from ", "top", "--once", "-s", "127.0.0.1:1")
}

// Rates are between two looks: of figures that grew, and of nodes that did not begin anew meanwhile.
func TestTopRates(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	health := admin.Health{Info: admin.Info{Members: []admin.Member{{ID: "a"}, {ID: "b"}}}, Nodes: []admin.NodeHealth{{ID: "a", Status: &admin.Status{}}, {ID: "b"}}}
	figures := func(at time.Time, in float64) map[string]sampled {
		return map[string]sampled{"a": {at, map[string]float64{"polylog_messages_produced_total": in}}}
	}
	was := &look{at: at, health: health, nodes: figures(at, 100), topics: map[string]*topTopic{"t": {Name: "t", next: 10}}}
	is := &look{at: at.Add(2 * time.Second), health: health, nodes: figures(at.Add(2*time.Second), 300), topics: map[string]*topTopic{"t": {Name: "t", next: 50}, "new": {Name: "new", next: 9}}}
	v := is.since(was)
	if v.In != 100 || v.Topics[0].In != 20 || v.Topics[1].In != 0 || v.Nodes[1].State != "unreachable" {
		t.Errorf("%+v", v)
	}
	is.nodes = figures(at.Add(2*time.Second), 5)
	if v := is.since(was); v.In != 0 {
		t.Errorf("a node that began anew: %v", v.In)
	}
	v.Problems = []string{"one \x1b[2J"}
	for _, height := range []int{0, 1, 5, 12, 100} {
		lines := v.lines(height)
		if height > 0 && len(lines) > height || slices.ContainsFunc(lines, func(l string) bool { return strings.ContainsAny(l, "\x1b\n") }) {
			t.Errorf("%d: %q", height, lines)
		}
	}
}

// Sections share what room there is; what one does not need the others get.
func TestShares(t *testing.T) {
	sections := []section{{rows: 1}, {rows: 100}, {rows: 3}}
	for height, want := range map[int][]int{0: {1, 100, 3}, 200: {1, 100, 3}, 16: {1, 6, 3}, 10: {1, 1, 2}, 1: {1, 1, 1}} {
		if got := shares(height, sections); !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", height, got, want)
		}
	}
}

func TestDoctor(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	do := s.verbsOf(t)
	has(t, do("", "doctor", "--data-dir", dir), "it answers and is ready", "disk latency", "there is one node", "can be reached from here", "none of 0 is more than", "there are none in 0 queues")
	do("", "queue", "create", "jobs", "--dead-letter-queue", "dead", "--delivery-limit", "1")
	do("", "queue", "create", "dead")
	s.post(t, "/v1/queues/jobs/messages", `{"messages": [{"value": "a"}, {"value": "b"}]}`)
	s.post(t, "/v1/queues/dead/messages", `{"messages": [{"value": "a"}]}`)
	must(t, "a\nb\nc\n", "pub", "words", "-b", s.kafka)
	must(t, "", "sub", "words", "-b", s.kafka, "-g", "readers", "--from", "start", "-n", "1")
	has(t, do("", "doctor", "--lag", "1"), "it is 2 messages behind", "2 messages wait, 0 consumers read", "1 in queue dead", "polylog dlq redrive dead")
	do("", "queue", "delete", "dead")
	has(t, do("", "doctor"), "queue dead does not exist: what dies in queue jobs is gone")
	has(t, do("", "dlq", "list"), "dead   missing ")
	var all []finding
	if err := json.Unmarshal([]byte(do("", "doctor", "-o", "json")), &all); err != nil || len(all) < 5 {
		t.Errorf("%+v, %v", all, err)
	}
	code, out, errs := call(t, "", "doctor", "-s", "127.0.0.1:1", "--data-dir", t.TempDir())
	if code != exitFailed || !strings.Contains(out, "is not a polylog data directory") || !strings.Contains(out, "start it, or name another") || !strings.Contains(errs, "checks failed") {
		t.Errorf("without a broker: code %d, %s, %s", code, out, errs)
	}
}

// What doctor makes of a cluster that is not well.
func TestDoctorFindings(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	node := func(id string, off time.Duration) admin.NodeHealth {
		return admin.NodeHealth{ID: id, Status: &admin.Status{Clock: now.Add(off), Version: "v" + id}}
	}
	members := []admin.Member{{ID: "1", Voter: true}, {ID: "2", Voter: true}, {ID: "3", Voter: true}}
	three := []admin.NodeHealth{node("1", 0), node("2", 0), node("3", 0)}
	dead := admin.NodeHealth{ID: "3"}
	for _, c := range []struct {
		name   string
		health admin.Health
		want   string
		state  string
	}{
		{"no leader", admin.Health{Info: admin.Info{Members: members}, Nodes: []admin.NodeHealth{node("1", 0), {ID: "2"}, dead}}, "there is none: 1 of 3", stateFailed},
		{"no majority", admin.Health{Info: admin.Info{Leader: "1", Members: members}, Nodes: []admin.NodeHealth{node("1", 0), {ID: "2"}, dead}}, "1 of 3 voters run, 2 are needed", stateFailed},
		{"one is missing", admin.Health{Info: admin.Info{Leader: "1", Members: members}, Nodes: []admin.NodeHealth{node("1", 0), node("2", 0), dead}}, "all of them are needed", stateWarning},
		{"all run", admin.Health{Info: admin.Info{Leader: "1", Members: members}, Nodes: three}, "3 of 3 voters run", stateOK},
		{"clocks apart", admin.Health{Info: admin.Info{Leader: "1", Members: members}, Nodes: []admin.NodeHealth{node("1", 0), node("2", 3*time.Second), node("3", 0)}}, "up to 3s apart", stateFailed},
		{"our clock", admin.Health{Info: admin.Info{Leader: "1", Members: members}, Nodes: []admin.NodeHealth{node("1", 5*time.Second), node("2", 5*time.Second), dead}}, "5s from this machine's", stateWarning},
		{"versions", admin.Health{Info: admin.Info{Leader: "1", Members: members}, Nodes: three}, "the nodes run v1, v2, v3", stateWarning},
	} {
		d := &doctor{}
		d.quorum(c.health)
		d.clocks(c.health, now)
		d.versions(c.health)
		if !slices.ContainsFunc(d.all, func(f finding) bool {
			return strings.Contains(f.Found, c.want) && f.State == c.state && (f.State == stateOK || f.Advice != "")
		}) {
			t.Errorf("%s: %+v", c.name, d.all)
		}
	}
	for left, want := range map[int64]string{-1: stateSkipped, 1 << 20: stateFailed, 1 << 30: stateWarning, 1 << 40: stateOK} {
		d := &doctor{}
		if d.space("disk", left); d.all[0].State != want {
			t.Errorf("%d bytes: %+v", left, d.all)
		}
	}
}

func TestBench(t *testing.T) {
	s := start(t, t.TempDir())
	for _, protocol := range []string{"http", "kafka"} {
		bench := func(args ...string) string {
			return must(t, "", append(args, "-s", s.http, "-b", s.kafka, "--protocol", protocol)...)
		}
		topic := "load-" + protocol
		has(t, bench("bench", "produce", topic, "-n", "25", "--batch", "10", "--size", "50"), "messages    25\n", "messages/s", "p99.9")
		var r result
		if err := json.Unmarshal([]byte(bench("bench", "produce", topic, "-n", "5", "-c", "2", "--rate", "1000", "-o", "json")), &r); err != nil || r.Messages != 5 || r.Times == nil {
			t.Errorf("%s: %+v, %v", protocol, r, err)
		}
		if err := json.Unmarshal([]byte(bench("bench", "consume", topic, "-o", "json", "-d", "1m")), &r); err != nil || r.Messages != 30 || r.Bytes != 25*50+5*100 {
			t.Errorf("%s: %+v, %v", protocol, r, err)
		}
	}
	wrong(t, exitUsage, "is neither http nor kafka", "bench", "produce", "t", "--protocol", "x")
	wrong(t, exitUsage, "say how much", "bench", "produce", "t", "-d", "0")
	wrong(t, exitUsage, "--batch and --clients", "bench", "produce", "t", "--batch", "0")
	wrong(t, exitFailed, "read nix: ", "bench", "consume", "nix", "-s", s.http)
}

func TestHistogram(t *testing.T) {
	for us := uint64(0); us < 1<<40; us += us/7 + 1 {
		if low := floorOf(bucketOf(us)); low > us || float64(us-low) > math.Max(0, float64(us)/64) {
			t.Fatalf("%d µs is counted as %d", us, low)
		}
	}
	var h histogram
	if h.times() != nil {
		t.Error("times of nothing")
	}
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Millisecond)
	}
	got := h.times()
	if math.Abs(got.P50-500) > 8 || math.Abs(got.P99-990) > 16 || got.Max != 1000 {
		t.Errorf("%+v", got)
	}
}
