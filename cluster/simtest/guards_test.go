//go:build guards

package simtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// missing are guards of package cluster taken out: what the source says and what it says
// without the guard.
var missing = map[string]struct {
	test  string // that has to fail
	edits []edit
}{
	"guard 1, no heartbeat fast path": {"TestOldLeaderHearsOfNewTerm", []edit{{
		"transport.go",
		"func (transport) SetHeartbeatHandler(func(raft.RPC)) {}",
		"func (t transport) SetHeartbeatHandler(fn func(raft.RPC)) { t.NetworkTransport.SetHeartbeatHandler(fn) }",
	}}},
	"guard 2, votes are written whole": {"TestPowerCutBetweenHalvesOfVote", []edit{{
		"stable.go",
		"s.staged = v\n\t\treturn nil",
		"s.staged, s.vote.term = v, v\n\t\treturn s.save()",
	}}},
	"asking others what this node has held": {"TestCopyOfOldDataDoesNotVote", []edit{{
		"node.go",
		"n.recalled.Store(n.isLoneVoter() || n.o.trusting)",
		"n.recalled.Store(true)",
	}}},
	"guard 7, restart after another's state": {"TestLeaderWithOldTailReturns", []edit{{
		"failure.go",
		"func (f *failure) restart(reason error) error {\n",
		"func (f *failure) restart(reason error) error {\n\tif reason != nil {\n\t\treturn nil\n\t}\n",
	}}},
}

type edit struct{ file, with, without string }

// Without a guard the simulation has to find what the guard is for. The package is built
// again, with the guard taken out of the source (go help build, -overlay).
func TestWithoutGuards(t *testing.T) {
	for name, m := range missing {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			replace := map[string]string{}
			for i, e := range m.edits {
				path, err := filepath.Abs(filepath.Join("..", e.file))
				if err != nil {
					t.Fatal(err)
				}
				source, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Count(string(source), e.with) != 1 {
					t.Fatalf("%s has not, or more than once: %s", e.file, e.with)
				}
				to := filepath.Join(dir, string(rune('a'+i))+".go")
				if err := os.WriteFile(to, []byte(strings.Replace(string(source), e.with, e.without, 1)), 0o600); err != nil {
					t.Fatal(err)
				}
				replace[path] = to
			}
			overlay, err := json.Marshal(map[string]any{"Replace": replace})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(file, overlay, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-overlay", file, "-run", "^"+m.test+"$", ".", "-seeds", "64", "-journals", dir)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+m.test) {
				t.Fatalf("nothing was found: %v\n%s", err, out)
			}
			t.Logf("%.1500s", out)
		})
	}
}
