package cluster

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"

	"polylog/core"
	"polylog/core/vfs"
)

func testSnapshot() snapshot {
	conf := raft.Configuration{Servers: []raft.Server{{ID: "1", Address: "a:1"}}}
	return snapshot{index: 100, term: 7, durable: 99, installed: true, confIndex: 1, conf: raft.EncodeConfiguration(conf)}
}

func TestSnapshotRecord(t *testing.T) {
	want := testSnapshot()
	got, err := decodeSnapshot(want.encode())
	must(t, err)
	if d := cmp.Diff(want, got, cmp.AllowUnexported(snapshot{})); d != "" {
		t.Fatal(d)
	}
	b := want.encode()
	for i := range b {
		b[i] ^= 1
		_, err := decodeSnapshot(b)
		wantKind(t, err, core.Corrupt)
		b[i] ^= 1
		_, err = decodeSnapshot(b[:i])
		wantKind(t, err, core.Corrupt)
	}
}

func TestSnapshotStore(t *testing.T) {
	fs := vfs.NewMem()
	s, err := openSnapshots(fs, "")
	must(t, err)
	s.saved = func(snapshot) error { return nil }
	if l, err := s.List(); len(l) != 0 || err != nil {
		t.Fatal(l, err)
	}
	k, err := s.Create(1, 100, 7, raft.Configuration{}, 1, nil)
	must(t, err)
	k.(*sink).local = true
	must(t, k.Close())
	s, err = openSnapshots(fs.CrashClone(vfs.CrashCloneCfg{}), "")
	must(t, err)
	l, err := s.List()
	must(t, err)
	if len(l) != 1 || l[0].Index != 100 || l[0].Term != 7 || l[0].ID != k.ID() {
		t.Fatalf("%+v", l)
	}
	meta, r, err := s.Open(k.ID())
	must(t, err)
	var b bytes.Buffer
	n, err := b.ReadFrom(r)
	must(t, err)
	if n != meta.Size {
		t.Fatalf("%d bytes, meta says %d", n, meta.Size)
	}
	_, _, err = s.Open("7-99")
	wantKind(t, err, core.NotFound)
}

func FuzzSnapshotRecord(f *testing.F) {
	s := testSnapshot()
	f.Add(s.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := decodeSnapshot(b); err == nil && s.meta().Index != uint64(s.index) {
			t.Fatal("another index in the meta data")
		}
	})
}
