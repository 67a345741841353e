package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/certs/certstest"
	"polylog/router/admin"
	"polylog/router/state"
)

// member starts a node that listens for others; joining names whom it joins.
func member(t *testing.T, dir, id string, joining *served, args ...string) *served {
	t.Helper()
	return start(t, dir, append(memberArgs(id, joining), args...)...)
}

func memberArgs(id string, joining *served) []string {
	args := []string{"--node-id", id, "--node-listen", "127.0.0.1:0"}
	if joining != nil {
		args = append(args, "--join", joining.node)
	}
	return args
}

// clusterInfo is what `polylog cluster info` says, asked of s.
func (s *served) clusterInfo(t *testing.T) (i admin.Info) {
	t.Helper()
	out := must(t, "", "cluster", "info", "-n", s.node, "-o", "json")
	if err := json.Unmarshal([]byte(out), &i); err != nil {
		t.Fatal(err)
	}
	return i
}

// voters waits until the cluster has these voters and no other members, all of whom s
// knows the addresses of.
func (s *served) voters(t *testing.T, ids ...string) {
	t.Helper()
	var last admin.Info
	eventually(t, func() bool {
		last = s.clusterInfo(t)
		if len(last.Members) != len(ids) || last.Leader == "" {
			return false
		}
		for i, m := range last.Members {
			if m.ID != ids[i] || !m.Voter || m.Endpoints["kafka"] == "" {
				return false
			}
		}
		return true
	}, func() string { return fmt.Sprintf("%+v", last) })
}

// compared checks that the nodes have the same state.
func (s *served) compared(t *testing.T, ids ...string) {
	t.Helper()
	var h admin.Health
	out := must(t, "", "cluster", "health", "--compare", "-n", s.node, "-o", "json")
	if err := json.Unmarshal([]byte(out), &h); err != nil {
		t.Fatal(err)
	}
	if h.Compared == nil || len(h.Compared.Digests) != len(ids) {
		t.Fatalf("compared: %s", out)
	}
	for i, d := range h.Compared.Digests {
		if d.ID != ids[i] || len(d.SHA256) != 64 || d.SHA256 != h.Compared.Digests[0].SHA256 {
			t.Errorf("compared: %+v", h.Compared)
		}
	}
}

// eventually waits until ok is true; the test fails after a minute.
func eventually(t *testing.T, ok func() bool, state func() string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("it never was so; last: %s", state())
		}
	}
}

// refusedLine runs serve, which has to end with one line that contains want.
func refusedLine(t *testing.T, name, want string, args ...string) {
	t.Helper()
	args = append([]string{"serve", "--kafka-listen=:0", "--amqp-listen=:0", "--management-listen=off", "--mqtt-listen=off", "--mqtt-ws-listen=off", "--kafka-rest-listen=off", "--nsq-listen=off", "--http-listen=:0", "--log-level=error"}, args...)
	code, out, errs := call(t, "", args...)
	if code != exitFailed || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 || out != "" {
		t.Errorf("%s: code %d, %q, printed %q; want %q", name, code, errs, out, want)
	}
}

// The life of a cluster, by the command line alone: nodes join, are refused, removed,
// replaced, drained, moved to other addresses; a topic lives through it all.
func TestClusterLife(t *testing.T) {
	dirs := map[string]string{"n1": t.TempDir(), "n2": t.TempDir(), "n3": t.TempDir()}
	n1 := member(t, dirs["n1"], "n1", nil)
	must(t, "", "topic", "create", "words", "-p", "1", "-b", n1.kafka)
	must(t, "one\n", "pub", "words", "-b", n1.kafka)
	n2 := member(t, dirs["n2"], "n2", n1)
	n3 := member(t, dirs["n3"], "n3", n2)
	n3.voters(t, "n1", "n2", "n3")
	if i := n3.clusterInfo(t); i.Level != state.MaxLevel || i.Node != "n3" || i.Leader != "n1" {
		t.Errorf("%+v", i)
	}
	var health string
	eventually(t, func() bool {
		var code int
		code, health, _ = call(t, "", "cluster", "health", "--node", n2.node)
		return code == exitOK && strings.Contains(health, "\nhealthy\n")
	}, func() string { return health })
	n2.compared(t, "n1", "n2", "n3")
	if out := must(t, "", "cluster", "info", "--node", n2.node); !strings.Contains(out, "n3    voter   "+n3.node) {
		t.Errorf("info:\n%s", out)
	}

	foreign := start(t, t.TempDir())
	foreign.end(t)
	lost := t.TempDir()
	refusedLine(t, "another cluster's data", "belongs to cluster", append(memberArgs("1", n1), "--data-dir", foreign.dir)...)
	refusedLine(t, "a taken id", "node n2 is a member of the cluster with other data", append(memberArgs("n2", n1), "--data-dir", lost)...)
	if entries, err := os.ReadDir(lost); err != nil || len(entries) > 1 {
		t.Errorf("a refused node left %v, %v", entries, err)
	}
	sameNumber := fmt.Sprint(core.BrokerID("n2"))
	refusedLine(t, "an id of the same number", "mean the same number to Kafka clients", append(memberArgs(sameNumber, n1), "--data-dir", t.TempDir())...)
	refusedLine(t, "nobody there", "cannot join the cluster at 127.0.0.1:1:", "--node-id=n9", "--node-listen=127.0.0.1:0", "--join=127.0.0.1:1", "--join-timeout=1s", "--data-dir", t.TempDir())
	refusedLine(t, "an address that leads nowhere", "the leader cannot reach node n9 at 127.0.0.1:1", append(memberArgs("n9", n1), "--node-advertise=127.0.0.1:1", "--data-dir", t.TempDir())...)
	for _, offset := range []string{"1h", "-1h"} {
		refusedLine(t, "a clock an hour off", "off the leader's, more than 1m0s: set it right first",
			append(memberArgs("n9", n1), "--clock-offset", offset, "--data-dir", t.TempDir())...)
	}
	refusedLine(t, "an address of another service", "", append(memberArgs("n9", nil), "--join="+n1.kafka, "--join-timeout=1s", "--data-dir", t.TempDir())...)
	refusedLine(t, "a copy of the leader's data", "node n1 already runs at "+n1.node, append(memberArgs("n1", nil), "--data-dir", copyDir(t, n1.dir))...)
	refusedLine(t, "a copy of a running node's data", "node n3 already runs at "+n3.node, append(memberArgs("n3", nil), "--data-dir", copyDir(t, n3.dir))...)

	// Removed, n3 ends, cannot come back with its data, and can without.
	must(t, "", "cluster", "remove", "n3", "-n", n2.node)
	if code := n3.left(); code != exitFailed || !strings.Contains(n3.err.String(), "polylog: node n3 was removed from the cluster") {
		t.Errorf("code %d: %s", code, n3.err)
	}
	refusedLine(t, "removed", "node n3 was removed from the cluster", append(memberArgs("n3", nil), "--data-dir", dirs["n3"])...)
	n3 = member(t, t.TempDir(), "n3", n1)
	n1.voters(t, "n1", "n2", "n3")

	// Drained, n2 stops and comes back, at another address.
	must(t, "", "cluster", "drain", "n2", "-n", n1.node)
	if code := n2.left(); code != exitOK {
		t.Errorf("code %d: %s", code, n2.err)
	}
	code, out, _ := call(t, "", "cluster", "health", "-n", n1.node)
	if code != exitFailed || !strings.Contains(out, "2 of 3 voters run: if one more fails the cluster stops") || !strings.Contains(out, "node n2 cannot be reached") {
		t.Errorf("health: code %d\n%s", code, out)
	}
	for _, verb := range []string{"drain", "remove"} {
		if code, _, errs := call(t, "", "cluster", verb, "n3", "-n", n1.node); code != exitFailed || !strings.Contains(errs, "no majority: node n2 cannot be reached") {
			t.Errorf("%s: code %d: %s", verb, code, errs)
		}
	}
	if got := must(t, "", "sub", "words", "--to-end", "-b", n3.kafka); got != "one\n" {
		t.Errorf("got %q", got)
	}
	refusedLine(t, "a member whose clock is off now", "the clock of node n2 is ", append(memberArgs("n2", nil), "--clock-offset=1h", "--data-dir", dirs["n2"])...)
	suspended, err := net.Listen("tcp", n2.node) // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	refusedLine(t, "a copy of a suspended node's data", "node n2 already runs at "+n2.node+", it seems", append(memberArgs("n2", nil), "--data-dir", dirs["n2"])...)
	_ = suspended.Close()
	n2 = member(t, dirs["n2"], "n2", nil)
	n1.voters(t, "n1", "n2", "n3")

	// Its disk lost, n2 is replaced by n4.
	n2.end(t)
	refusedLine(t, "a wiped disk", "node n2 is a member of the cluster with other data", append(memberArgs("n2", n1), "--data-dir", t.TempDir())...)
	must(t, "", "cluster", "remove", "n2", "-n", n1.node)
	n4 := member(t, t.TempDir(), "n4", n1)
	n3.voters(t, "n1", "n3", "n4")

	// The leader itself goes.
	must(t, "", "cluster", "drain", "n1", "-n", n4.node)
	if code := n1.left(); code != exitOK {
		t.Errorf("code %d: %s", code, n1.err)
	}
	must(t, "", "cluster", "remove", "n1", "-n", n3.node+","+n4.node) // though another is about to lead
	n4.voters(t, "n3", "n4")
	must(t, "two\n", "pub", "words", "-b", n3.kafka+","+n4.kafka)
	if got := must(t, "", "sub", "words", "--to-end", "-b", n4.kafka); got != "one\ntwo\n" {
		t.Errorf("got %q", got)
	}

	// Without a majority nobody joins.
	n4.end(t)
	eventually(t, func() bool { return n3.clusterInfo(t).Leader == "" }, n3.err.String)
	refusedLine(t, "no quorum", "the cluster has no leader: most of its voters must run",
		append(memberArgs("n5", n3), "--data-dir", t.TempDir(), "--join-timeout=5s")...)
}

// A node that the leader could not reach has a data directory already, and joins with it when
// its address is right; without --join it says what is missing instead of waiting for ever.
func TestRefusedNodeJoinsLater(t *testing.T) {
	n1, dir := member(t, t.TempDir(), "n1", nil), t.TempDir()
	for range 2 {
		refusedLine(t, "an address that leads nowhere", "the leader cannot reach node n2 at 127.0.0.1:1",
			append(memberArgs("n2", n1), "--node-advertise=127.0.0.1:1", "--data-dir", dir)...)
	}
	refusedLine(t, "without --join", "was made to join a cluster and has not yet: start with --join", append(memberArgs("n2", nil), "--data-dir", dir)...)
	member(t, dir, "n2", n1)
	n1.voters(t, "n1", "n2")
}

func TestClusterVerbsRefuse(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"cluster"}, exitUsage, "a verb is missing"},
		{[]string{"cluster", "remove"}, exitUsage, "an argument is missing; usage: polylog cluster remove ID"},
		{[]string{"cluster", "info", "-n", "host"}, exitUsage, `"host" is not host:port`},
		{[]string{"cluster", "info", "-o", "xml"}, exitUsage, `output "xml" is neither table nor json`},
		{[]string{"cluster", "info", "-n", "127.0.0.1:1"}, exitFailed, "no answer from 127.0.0.1:1: "},
		{[]string{"cluster", "info", "--node-tls-cert", "x.pem"}, exitUsage, "node-tls-cert, node-tls-key and node-tls-ca: set all three or none"},
		{[]string{"cluster", "drain", "n1", "-n", "127.0.0.1:1", "--timeout", "1s"}, exitFailed, "no answer from 127.0.0.1:1: "},
	} {
		if code, _, errs := call(t, "", c.args...); code != c.code || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: code %d, %q; want %q", c.args, code, errs, c.want)
		}
	}
	s := member(t, t.TempDir(), "n1", nil)
	for verb, want := range map[string]string{"remove": "only 0 of 0 voters", "drain": "with node n1 stopped only 0 of 1 voters would run"} {
		if code, _, errs := call(t, "", "cluster", verb, "n1", "-n", s.node); code != exitFailed || !strings.Contains(errs, want) {
			t.Errorf("%s: code %d, %q", verb, code, errs)
		}
		if code, _, errs := call(t, "", "cluster", verb, "n7", "-n", s.node); code != exitFailed || !strings.Contains(errs, "no node n7 in this cluster") {
			t.Errorf("%s: code %d, %q", verb, code, errs)
		}
	}
}

// copyDir is a copy of a running node's data directory.
func copyDir(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// Nodes with certificates form a cluster, and every verb speaks to them with one; a node
// without, or with another authority's, is refused with one line, and so is the command line.
func TestClusterWithTLS(t *testing.T) {
	ours, other := certstest.NewAuthority(t, "ours"), certstest.NewAuthority(t, "other")
	flags := func(a *certstest.Authority) []string {
		cert, key, ca := a.Files(t, t.TempDir(), time.Now().Add(time.Hour), a)
		return []string{"--node-tls-cert=" + cert, "--node-tls-key=" + key, "--node-tls-ca=" + ca}
	}
	n1 := member(t, t.TempDir(), "n1", nil, flags(ours)...)
	n2 := member(t, t.TempDir(), "n2", n1, flags(ours)...)
	verb := func(args ...string) []string {
		return slices.Concat([]string{"cluster"}, args, []string{"-n", n1.node}, flags(ours))
	}
	var out string
	eventually(t, func() bool {
		out = must(t, "", verb("info")...)
		return strings.Contains(out, "n2    voter")
	}, func() string { return out })
	refusedLine(t, "no certificate", "set node-tls-cert", append(memberArgs("n3", n1), "--join-timeout=2s", "--data-dir", t.TempDir())...)
	refusedLine(t, "wrong authority", "unknown authority", append(append(memberArgs("n3", n1), flags(other)...), "--join-timeout=2s", "--data-dir", t.TempDir())...)
	for _, args := range [][]string{{"info"}, {"health"}, {"remove", "n2"}, {"drain", "n2"}, {"backup", "--to", t.TempDir()}} {
		args = slices.Concat([]string{"cluster"}, args, []string{"-n", n1.node, "--timeout=2s"})
		if code, _, errs := call(t, "", args...); code != exitFailed || !strings.Contains(errs, "set node-tls-cert") || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v without a certificate: code %d, %s", args, code, errs)
		}
	}

	if _, out, errs := call(t, "", verb("health", "--compare")...); !strings.Contains(out, "STATE AFTER ENTRY") || strings.Contains(out, "differ") {
		t.Errorf("health:\n%s%s", out, errs)
	}
	if out := must(t, "", verb("backup", "--to", filepath.Join(t.TempDir(), "backup"))...); !strings.Contains(out, "backup of cluster") {
		t.Error(out)
	}
	must(t, "", verb("remove", "n2")...)
	if code := n2.left(); code != exitFailed {
		t.Errorf("removed: code %d: %s", code, n2.err)
	}
	must(t, "", verb("drain", "n1", "--force")...)
	if code := n1.left(); code != exitOK {
		t.Errorf("drained: code %d: %s", code, n1.err)
	}
}
