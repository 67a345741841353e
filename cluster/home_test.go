package cluster

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"polylog/core"
	"polylog/core/vfs"
)

func TestHome(t *testing.T) {
	dir := t.TempDir() + "/new/data"
	h, err := OpenHome(vfs.Default, dir, "")
	must(t, err)
	if h.NodeID() != "1" || len(h.ClusterID()) != 22 {
		t.Fatalf("%+v", h)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v: not its owner's alone", info.Mode(), err)
	}
	_, err = OpenHome(vfs.Default, dir, "")
	wantKind(t, err, core.Conflict)
	if !strings.Contains(err.Error(), "in use by another polylog process") || strings.Contains(err.Error(), "\n") {
		t.Fatal(err)
	}
	must(t, h.Close())
	again, err := OpenHome(vfs.Default, dir, "1")
	must(t, err)
	defer again.Close() //nolint:errcheck // the end of the test
	if again.ClusterID() != h.ClusterID() {
		t.Fatal("the cluster id changed")
	}
}

// The lock holds against other processes: this test starts itself as one.
func TestHomeOfAnotherProcess(t *testing.T) {
	if dir := os.Getenv("POLYLOG_TEST_HOME"); dir != "" {
		_, err := OpenHome(vfs.Default, dir, "")
		wantKind(t, err, core.Conflict)
		return
	}
	dir := t.TempDir()
	h, err := OpenHome(vfs.Default, dir, "")
	must(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=TestHomeOfAnotherProcess", "-test.v")
	cmd.Env = append(os.Environ(), "POLYLOG_TEST_HOME="+dir)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Fatalf("%v: %s", err, out)
	}
	must(t, h.Close())
}

func TestHomeRefuses(t *testing.T) {
	old := "polylog data directory\nformat 1\ncluster AAAAAAAAAAAAAAAAAAAAAA\nnode 1\n"
	good := strings.Replace(old, "format 1", "format 2", 1) + "instance BBBBBBBBBBBBBBBBBBBBBA\norigin joined\n"
	for _, c := range []struct {
		name, file, text, node string
		kind                   core.Kind
	}{
		{"foreign directory", "cats.jpg", "x", "", core.Conflict},
		{"foreign meta", metaName, "cats\n", "", core.Conflict},
		{"other node", metaName, good, "2", core.Conflict},
		{"newer format", metaName, strings.Replace(good, "format 2", "format 3", 1), "", core.Unsupported},
		{"no format", metaName, strings.Replace(good, "format 2", "", 1), "", core.Corrupt},
		{"cut", metaName, good[:len(good)-3], "", core.Corrupt},
		{"cut in the old format", metaName, old[:len(old)-1], "", core.Corrupt},
		{"no instance", metaName, strings.Replace(old, "format 1", "format 2", 1), "", core.Corrupt},
		{"unknown origin", metaName, strings.Replace(good, "joined", "found", 1), "", core.Corrupt},
		{"one line more", metaName, good + "x\n", "", core.Corrupt},
		{"short cluster id", metaName, strings.Replace(good, "AAAA", "A", 1), "", core.Corrupt},
		{"bad node id", metaName, good, "a b", core.Invalid},
	} {
		fs := vfs.NewMem()
		must(t, fs.MkdirAll("data", 0o755))
		must(t, vfs.WriteFile(fs, "data/"+c.file, []byte(c.text)))
		_, err := OpenHome(fs, "data", c.node)
		if core.KindOf(err) != c.kind || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want kind %q", c.name, err, c.kind.Error())
		}
		names, err := fs.List("data")
		must(t, err)
		names = slices.DeleteFunc(names, func(n string) bool { return n == lockName })
		b, err := vfs.ReadFile(fs, "data/"+c.file)
		if err != nil || string(b) != c.text || len(names) != 1 {
			t.Errorf("%s: the directory was touched: %q", c.name, names)
		}
	}
	fs := vfs.NewMem()
	must(t, fs.MkdirAll("data", 0o755))
	must(t, vfs.WriteFile(fs, "data/"+metaName, []byte(good)))
	h, err := OpenHome(fs, "data", "")
	must(t, err)
	if h.ClusterID() != strings.Repeat("A", 22) || h.Instance() != strings.Repeat("B", 21)+"A" || !h.Joined() {
		t.Fatalf("%+v", h)
	}
	must(t, h.Close())

	// A directory of the first format has an instance, too, and keeps it.
	must(t, vfs.WriteFile(fs, "data/"+metaName, []byte(old)))
	for range 2 {
		h, err = OpenHome(fs, "data", "")
		must(t, err)
		if h.Instance() != "OJ3PKFJSykyzyMEQ_V6lRA" || h.Joined() {
			t.Fatalf("%+v", h)
		}
		must(t, h.Close())
	}
}

// A directory belongs to nobody until its node founds or joins a cluster, and then for
// ever.
func TestHomeJoins(t *testing.T) {
	fs := vfs.NewMem()
	h, err := LockHome(fs, "data", "n2")
	must(t, err)
	if !h.IsNew() || h.Instance() == "" {
		t.Fatalf("%+v", h)
	}
	must(t, h.Close())
	h, err = LockHome(fs, "data", "n3")
	must(t, err)
	wantKind(t, h.Join("cluster"), core.Invalid)
	cluster := strings.Repeat("C", 21) + "A"
	must(t, h.Join(cluster))
	wantKind(t, h.Found(""), core.Conflict)
	instance := h.Instance()
	must(t, h.Close())
	_, err = OpenHomeIn(fs, "data", "n3", strings.Repeat("A", 22))
	wantKind(t, err, core.Conflict)
	h, err = OpenHome(fs, "data", "n3")
	must(t, err)
	if h.IsNew() || !h.Joined() || h.ClusterID() != cluster || h.Instance() != instance {
		t.Fatalf("%+v", h)
	}
	must(t, h.Close())
}

func FuzzMeta(f *testing.F) {
	f.Add([]byte("polylog data directory\nformat 2\ncluster AAAAAAAAAAAAAAAAAAAAAA\nnode 1\ninstance AAAAAAAAAAAAAAAAAAAAAA\norigin joined\n"))
	f.Add([]byte("polylog data directory\nformat 1\ncluster AAAAAAAAAAAAAAAAAAAAAA\nnode 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Home
		if h.decodeMeta(b) == nil && len(h.clusterID) != 22 {
			t.Fatal(h.clusterID)
		}
	})
}
