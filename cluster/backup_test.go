package cluster

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"polylog/core"
	"polylog/core/vfs"
)

// backUp has the node give a backup into dir of fs.
func backUp(t *testing.T, n *Node, fs vfs.FS, dir string) (BackupInfo, error) {
	t.Helper()
	near, serve := core.NewStreamPipe(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve(func(s core.Stream) error { return n.serveBackup("", s) })
	}()
	info, err := Backup(fs, near, dir)
	_ = near.CloseSend()
	<-done
	return info, err
}

// A backup of a cluster of three becomes a cluster of one, with the same data, another
// id and a log that goes on.
func TestBackupAndRestore(t *testing.T) {
	nw := newDamageNetwork(t)
	n := nw.follower().n
	want := nw.leader().h.machine.bodies()
	fs := vfs.NewMem()
	info, err := backUp(t, n, fs, "backup")
	must(t, err)
	if info.ClusterID != testCluster || info.Last != n.snapshotIndex() || info.Files < 3 || info.Bytes < 40_000 {
		t.Fatalf("%+v", info)
	}
	_, err = backUp(t, n, fs, "backup")
	wantKind(t, err, core.Exists)
	nw.propose("late")
	late, err := backUp(t, n, fs, "later")
	must(t, err)
	if late.Last <= info.Last || late.Last != n.machine.Applied() {
		t.Fatalf("a later backup ends with entry %d, applied is %d", late.Last, n.machine.Applied())
	}
	o := RestoreOptions{FS: fs, From: "backup", Dir: "restored", NodeID: "r1", First: func(dir string) ([]core.Command, error) {
		if _, err := fs.Stat(dir + "/state.json"); err != nil {
			return nil, err
		}
		return []core.Command{command("restored")}, nil
	}}
	got, err := Restore(t.Context(), o)
	must(t, err)
	if got != info {
		t.Fatalf("%+v, want %+v", got, info)
	}
	_, err = Restore(t.Context(), o)
	wantKind(t, err, core.Exists)

	h := newHarness(t, fs)
	h.homed, h.dir, h.options.NodeID = true, "restored", ""
	h.options.CommitLog.SegmentBytes = 8 << 10
	r := h.lead()
	if members := r.Members(); len(members) != 1 || members[0].ID != "r1" || !members[0].Voter || r.ClusterID() == testCluster {
		t.Fatalf("%+v in cluster %s", members, r.ClusterID())
	}
	if got := h.machine.bodies(); !slices.Equal(got, append(want, "restored")) {
		t.Fatalf("%d bodies, want %d and one", len(got), len(want))
	}
	propose(t, r, "goes on")
}

// A node that no leader confirms to be up to date gives no backup.
func TestNoBackupWithoutLeader(t *testing.T) {
	nw := newDamageNetwork(t)
	cutOff := nw.follower()
	for _, nd := range nw.nodes {
		if nd != cutOff {
			nd.isolate()
		}
	}
	cutOff.isolate()
	fs := vfs.NewMem()
	_, err := backUp(t, cutOff.n, fs, "backup")
	wantKind(t, err, core.NotLeader)
	if _, err := fs.Stat("backup"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a backup was made: %v", err)
	}
	for _, nd := range nw.nodes {
		nd.heal()
	}
	nw.converge()
	_, err = backUp(t, cutOff.n, fs, "backup")
	must(t, err)
}

// A restore that is interrupted leaves no node behind, and can be repeated.
func TestRestoreAndPowerFailure(t *testing.T) {
	rig := newRig(t)
	base := vfs.NewMem()
	_, err := backUp(t, rig.n, base, "backup")
	must(t, err)
	for n := 0; ; n += 3 {
		fs := base.CrashClone(vfs.CrashCloneCfg{})
		hooked, _ := dying(fs, n)
		o := RestoreOptions{FS: hooked, From: "backup", Dir: "data", ClusterID: testCluster}
		_, done := Restore(t.Context(), o)
		if done != nil && !errors.Is(done, errPowerCut) {
			t.Fatal(done)
		}
		after := fs.CrashClone(vfs.CrashCloneCfg{})
		o.FS = after
		if _, err := Restore(t.Context(), o); err != nil && core.KindOf(err) != core.Exists || done == nil && err == nil {
			t.Fatalf("died before change %d: %v, then %v", n, done, err)
		}
		if got := rig.open(after.CrashClone(vfs.CrashCloneCfg{})); !slices.Equal(got, rig.source.machine.bodies()) {
			t.Fatalf("died before change %d: another state", n)
		}
		if done == nil {
			return
		}
	}
}

func TestRestoreRefuses(t *testing.T) {
	rig := newRig(t)
	fs := vfs.NewMem()
	_, err := backUp(t, rig.n, fs, "backup")
	must(t, err)
	must(t, fs.MkdirAll("cats", 0o755))
	must(t, vfs.WriteFile(fs, "cats/tabby.jpg", []byte("x")))
	must(t, fs.MkdirAll("bad/log", 0o755))
	must(t, vfs.WriteFile(fs, "bad/manifest", []byte("x")))
	for name, c := range map[string]struct {
		o    RestoreOptions
		kind core.Kind
	}{
		"no backup":        {RestoreOptions{From: "cats", Dir: "d"}, core.NotFound},
		"a bad manifest":   {RestoreOptions{From: "bad", Dir: "d"}, core.Corrupt},
		"somebody's files": {RestoreOptions{From: "backup", Dir: "cats"}, core.Conflict},
		"cluster id":       {RestoreOptions{From: "backup", Dir: "d", ClusterID: "x"}, core.Invalid},
		"node id":          {RestoreOptions{From: "backup", Dir: "d", NodeID: "a b"}, core.Invalid},
	} {
		c.o.FS = fs
		_, err := Restore(t.Context(), c.o)
		if core.KindOf(err) != c.kind || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, dir := range []string{"backup/log", "backup/index"} {
		names, err := fs.List(dir)
		must(t, err)
		path := dir + "/" + names[0]
		good, err := vfs.ReadFile(fs, path)
		must(t, err)
		bad := bytes.Clone(good)
		bad[len(bad)-9] ^= 1
		must(t, vfs.WriteFile(fs, path, bad))
		_, err = Restore(t.Context(), RestoreOptions{FS: fs, From: "backup", Dir: "d"})
		wantKind(t, err, core.Corrupt)
		if !strings.Contains(err.Error(), "is damaged") {
			t.Error(err)
		}
		must(t, vfs.WriteFile(fs, path, good))
	}
	_, err = Restore(t.Context(), RestoreOptions{FS: fs, From: "backup", Dir: "d"})
	must(t, err)
}
