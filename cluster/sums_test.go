package cluster

import (
	"strings"
	"testing"

	"polylog/core/commitlog"
	"polylog/core/vfs"
)

// TestEntrySums proposes commands with checksums, of which the log must make good frames,
// and looks that none is left behind, be it that raft stored the entry or not.
func TestEntrySums(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	n := h.lead()
	for i := range 20 {
		_, err := n.Propose(t.Context(), command(strings.Repeat("x", 75<<10+i*1000)))
		must(t, err)
	}
	if left := len(n.proposer.sums.of); n.proposer.sums.of == nil || left > 0 {
		t.Fatalf("no checksum was put, or %d were not taken", left)
	}
	must(t, n.Close())
	r, err := commitlog.Check(h.fs, h.fs.PathJoin(h.dir, logName))
	if err != nil || len(r.Damage) > 0 || r.Last < 20 {
		t.Fatalf("%+v, %v", r, err)
	}
}
