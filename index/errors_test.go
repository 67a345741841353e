package index

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"polylog/core"
	"polylog/core/vfs"
)

var errDisk = errors.New("injected disk error")

// badDisk fails operations of a kind on files whose name contains a text, while on.
type badDisk struct {
	on   atomic.Bool
	kind errorfs.OpReadWrite
	name string
	hits atomic.Int64
}

// MaybeError implements errorfs.Injector.
func (d *badDisk) MaybeError(op errorfs.Op) error {
	if !d.on.Load() || op.Kind.ReadOrWrite() != d.kind || !strings.Contains(op.Path, d.name) {
		return nil
	}
	d.hits.Add(1)
	return errDisk
}

func (d *badDisk) String() string { return "bad disk" }

func openOn(t *testing.T, fs vfs.FS) *Store {
	t.Helper()
	s, err := Open(Options{FS: fs, Dir: "index"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestWriteFails makes the flush of a checkpoint fail: Write says so, nothing
// changes for readers, a second Write succeeds and stores everything once.
func TestWriteFails(t *testing.T) {
	disk := &badDisk{kind: errorfs.OpIsWrite, name: ".sst"}
	mem := vfs.NewMem()
	s := openOn(t, errorfs.Wrap(mem, disk))
	m := newModel()
	for i, st := range history {
		old := m.clone()
		err := st.apply(t, s, m, func() { disk.on.Store(true) })
		if !errors.Is(err, errDisk) {
			t.Fatalf("%s: %v", st.name, err)
		}
		m.equalStore(t, st.name+", after the error", s)
		if s.Durable() != old.applied {
			t.Fatalf("%s: durable at %d", st.name, s.Durable())
		}
		if _, err := s.Freeze(); core.KindOf(err) != core.Conflict {
			t.Fatalf("%s: freeze with an unfinished checkpoint: %v", st.name, err)
		}
		// What is on the disk is the state before.
		left := mem.CrashClone(vfs.CrashCloneCfg{})
		if reopened(t, st.name+", after the error", left, old, m, history[i:]) != 0 {
			t.Fatalf("%s: durable in spite of the error", st.name)
		}
		disk.on.Store(false)
		c := &Checkpoint{s: s, frozen: s.frozen, committed: true}
		for err = errDisk; err != nil; err = c.Write() {
			// Errors from before the disk recovered may still be reported.
			if !errors.Is(err, errDisk) {
				t.Fatalf("%s: again: %v", st.name, err)
			}
		}
		m.equalStore(t, st.name+", written", s)
		left = mem.CrashClone(vfs.CrashCloneCfg{})
		if reopened(t, st.name+", written", left, old, m, history[i:]) != 1 {
			t.Fatalf("%s: not durable after Write", st.name)
		}
	}
	closeStore(t, s)
}

// TestReadFails reads a base whose disk fails: the error reaches the caller, an
// Update that met it has no effect, and nothing is remembered wrongly.
func TestReadFails(t *testing.T) {
	disk := &badDisk{kind: errorfs.OpIsRead, name: ".sst"}
	mem := vfs.NewMem()
	m := newModel()
	s := openOn(t, mem)
	for _, st := range history {
		if err := st.apply(t, s, m, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, s)

	s = openOn(t, errorfs.Wrap(mem, disk))
	disk.on.Store(true)
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	_, _, err := s.Queue(1)
	note(err)
	_, err = s.Runs(1, 2000, 5, nil)
	note(err)
	_, _, err = s.RunByTime(1, 5)
	note(err)
	_, _, err = s.RunByIndex(1, 5)
	note(err)
	_, _, err = s.Get([]byte(keyName(2)))
	note(err)
	note(s.Scan(nil, nil, func(_, _ []byte) bool { return true }))
	_, err = s.Hash()
	note(err)
	for _, change := range []func(tx *Tx) error{
		func(tx *Tx) error { return tx.CreateQueue(9) },
		func(tx *Tx) error { return tx.DropQueue(1) },
		func(tx *Tx) error { return tx.Trim(1, 2100) },
		func(tx *Tx) error { _, err := tx.Append(1, benchRun(1)); return err },
	} {
		note(s.Update(func(tx *Tx) error {
			tx.Set([]byte("lost"), []byte("change"))
			if change(tx) == nil {
				t.Error("a change that needs the disk succeeded")
			}
			return nil // the error must count although it is ignored
		}))
	}
	for i, err := range errs {
		if !errors.Is(err, errDisk) && core.KindOf(err) != core.Corrupt {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if disk.hits.Load() == 0 {
		t.Fatal("nothing was injected")
	}
	disk.on.Store(false)
	m.equalStore(t, "after the errors", s)
	closeStore(t, s)
}

// TestOpenFails opens what cannot be opened.
func TestOpenFails(t *testing.T) {
	for _, o := range []Options{{}, {FS: vfs.NewMem()}, {Dir: "index"}} {
		if _, err := Open(o); core.KindOf(err) != core.Invalid {
			t.Errorf("%+v: %v", o, err)
		}
	}
	disk := &badDisk{kind: errorfs.OpIsWrite}
	disk.on.Store(true)
	if _, err := Open(Options{FS: errorfs.Wrap(vfs.NewMem(), disk), Dir: "index"}); !errors.Is(err, errDisk) {
		t.Errorf("bad disk: %v", err)
	}
	mem := vfs.NewMem()
	s := openOn(t, mem)
	if _, err := Open(Options{FS: mem, Dir: "index"}); err == nil {
		t.Error("opened twice")
	}
	s.mustSet(t, "a", "b")
	mustCheckpoint(t, s)
	closeStore(t, s)

	for _, c := range []struct {
		key, value []byte
		want       core.Kind
	}{
		{[]byte{prefixMeta}, []byte{99}, core.Unsupported},
		{[]byte{prefixMeta}, []byte{0xff}, core.Corrupt},
		{[]byte{prefixMeta}, nil, core.Corrupt},
		{bucketKey(1), []byte{0}, core.Corrupt},
		{bucketKey(1)[:3], []byte{1}, core.Corrupt},
	} {
		bad := mem.CrashClone(vfs.CrashCloneCfg{})
		tamper(t, bad, c.key, c.value)
		if _, err := Open(Options{FS: bad, Dir: "index"}); core.KindOf(err) != c.want {
			t.Errorf("%q = %x: %v", c.key, c.value, err)
		}
	}
}

// tamper writes to the base behind the store's back.
func tamper(t *testing.T, fs vfs.FS, key, value []byte) {
	t.Helper()
	o := Options{FS: fs, Dir: "index"}
	o.setDefaults()
	db, err := openPebble(&o, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	b := batchWriter{b: db.NewBatch()}
	b.set(key, value)
	if err := errors.Join(b.err, b.b.Commit(pebble.NoSync), db.Flush(), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestCorruptQueue reads queues whose base is damaged.
func TestCorruptQueue(t *testing.T) {
	mem := vfs.NewMem()
	s := openOn(t, mem)
	m := newModel()
	for _, st := range history[:2] {
		if err := st.apply(t, s, m, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, s)
	for _, c := range []struct {
		what       string
		key, value []byte
	}{
		{"head", headKey(1), []byte{1}},
		{"impossible head", headKey(1), []byte{5, 0, 0, 3, 0, 0, 0, 0}},
		{"chunk", chunkKey(1, 1), []byte{200, 1}},
		{"empty chunk", chunkKey(1, 1), nil},
	} {
		bad := mem.CrashClone(vfs.CrashCloneCfg{})
		tamper(t, bad, c.key, c.value)
		s := openOn(t, bad)
		if _, err := s.Runs(1, 0, 1<<20, nil); core.KindOf(err) != core.Corrupt {
			t.Errorf("%s: runs: %v", c.what, err)
		}
		if _, err := s.Hash(); core.KindOf(err) != core.Corrupt {
			t.Errorf("%s: hash: %v", c.what, err)
		}
		if err := s.Update(func(tx *Tx) error { return tx.DropQueue(1) }); core.KindOf(err) != core.Corrupt {
			t.Errorf("%s: drop: %v", c.what, err)
		}
		closeStore(t, s)
	}
}

func TestClosed(t *testing.T) {
	s := openOn(t, vfs.NewMem())
	s.mustSet(t, "a", "b")
	c, err := s.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	sn, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	sn.Close()
	sn.Close()
	closeStore(t, s)
	closeStore(t, s)
	_, _, errGet := s.Get([]byte("a"))
	_, _, errQueue := s.Queue(1)
	_, errSnapshot := s.Snapshot()
	_, errFreeze := s.Freeze()
	_, errHash := s.Hash()
	for i, err := range []error{
		errGet, errQueue, errSnapshot, errFreeze, errHash, c.Write(),
		s.Scan(nil, nil, nil), s.Update(func(*Tx) error { return nil }),
	} {
		if core.KindOf(err) != core.Closed {
			t.Errorf("call %d on a closed store: %v", i, err)
		}
	}
}

// TestManifestErrorEndsProcess runs itself in a child, since Pebble does not go on
// after it failed to write its manifest.
func TestManifestErrorEndsProcess(t *testing.T) {
	const env = "POLYLOG_TEST_INDEX_MANIFEST"
	if os.Getenv(env) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestManifestErrorEndsProcess$")
		cmd.Env = append(os.Environ(), env+"=1")
		out, err := cmd.CombinedOutput()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.ExitCode() != 7 || !bytes.Contains(out, []byte("fatal: pebble: MANIFEST")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	disk := &badDisk{kind: errorfs.OpIsWrite, name: "MANIFEST"}
	s, err := Open(Options{
		FS: errorfs.Wrap(vfs.NewMem(), disk), Dir: "index", Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Fatal: func(err error) {
			_, _ = os.Stderr.WriteString("fatal: " + err.Error() + "\n")
			os.Exit(7)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.mustSet(t, "a", "b")
	disk.on.Store(true)
	mustCheckpoint(t, s)
}
