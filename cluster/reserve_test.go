package cluster

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"polylog/core/vfs"
)

func TestReserve(t *testing.T) {
	fs := vfs.NewMem()
	room := func(n uint64) { fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: n, TotalBytes: 1 << 40}) }
	room(2*reserveBytes - 1)
	h := newHarness(t, fs)
	n := h.lead()
	has := func() bool { _, err := fs.Stat("data/reserve"); return err == nil }
	makeRoom := func(want bool) {
		t.Helper()
		if got, err := n.home.MakeRoom(); got != want || err != nil {
			t.Fatalf("made room: %v, %v", got, err)
		}
	}
	h.trim(n)
	if has() {
		t.Fatal("a reserve on a disk that is short of space")
	}
	room(2 * reserveBytes)
	h.trim(n)
	if !has() {
		t.Fatal("no reserve")
	}
	makeRoom(false)
	room(reserveBytes - 1)
	makeRoom(true)
	if has() {
		t.Fatal("the reserve is still there")
	}
	makeRoom(false)
	room(2 * reserveBytes)
	makeRoom(false)
	if !has() {
		t.Fatal("no new reserve")
	}
}

// A reserve that was copied has no space: it is filled.
func TestCopiedReserve(t *testing.T) {
	h := &Home{fs: vfs.Default, dir: t.TempDir()}
	name := filepath.Join(h.dir, reserveName)
	must(t, os.WriteFile(name, nil, 0o600))
	if _, err := h.MakeRoom(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	must(t, err)
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Blocks*512 < reserveBytes {
		t.Errorf("it holds %d blocks", st.Blocks)
	}
}
