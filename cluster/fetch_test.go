package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/vfs"
	"polylog/core/wire"
)

var errPowerCut = errors.New("the power is cut")

// rig is a node whose state can be fetched, and a file system that holds what the same
// node had earlier.
type rig struct {
	t      *testing.T
	source *harness
	n      *Node
	old    *vfs.MemFS // the data directory as it was
	had    []string   // bodies then
}

func newRig(t *testing.T) *rig {
	t.Helper()
	fs := vfs.NewMem()
	r := &rig{t: t, source: newTrimHarness(t, fs)}
	r.source.homed = true
	r.n = r.source.lead()
	for range 20 {
		keep(t, r.n)
	}
	r.n.checkpoint()
	r.had = r.source.machine.bodies()
	r.old = fs.CrashClone(vfs.CrashCloneCfg{})
	for range 60 {
		keep(t, r.n)
	}
	for range 6 {
		propose(t, r.n, "forget9")
	}
	waitFor(t, func() bool { r.source.trim(r.n); return r.n.log.First() > 1 })
	return r
}

// fetch fetches the source's state to fs. what it serves goes through tamper, if any.
func (r *rig) fetch(fs vfs.FS, tamper func([]byte) []byte) (received int64, err error) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	near, serve := core.NewStreamPipe(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve(func(s core.Stream) error {
			if tamper != nil {
				s = tampered{s, tamper}
			}
			return r.n.serveFiles("2", s)
		})
	}()
	defer func() { cancel(); <-done }()
	var count atomic.Int64
	f := fetcher{fs: fs, dir: fs.PathJoin("data", incomingName), stream: near, received: &count, whole: map[string]terms{}}
	m, err := f.manifest(testCluster, nil)
	if err == nil {
		err = f.all(m)
	}
	return count.Load(), err
}

// tampered is a stream whose messages are changed on the way; nil ends it.
type tampered struct {
	core.Stream
	change func([]byte) []byte
}

func (s tampered) Send(b []byte) error {
	if b = s.change(bytes.Clone(b)); b == nil {
		return core.E(core.Unavailable, "lost")
	}
	return s.Stream.Send(b)
}

// open opens the node on fs as a start would, and gives the bodies of its state.
func (r *rig) open(fs vfs.FS) []string {
	r.t.Helper()
	h := newTrimHarness(r.t, fs)
	h.homed = true
	n, err := h.tryOpen()
	if err != nil {
		r.t.Fatal(err)
	}
	ready(r.t, n)
	for _, i := range h.wanted() {
		if _, err := n.log.Entry(i); err != nil {
			r.t.Fatalf("wanted entry %d: %v", i, err)
		}
	}
	bodies := h.machine.bodies()
	propose(r.t, n, "goes on")
	must(r.t, n.Close())
	must(r.t, h.home.Close())
	for _, dir := range []string{arrivedName, exportsName} {
		if _, err := fs.Stat("data/" + dir); err == nil && dir == arrivedName {
			r.t.Fatalf("%s is left", dir)
		}
	}
	return bodies
}

// dying is fs without power after n changes.
func dying(fs vfs.FS, n int) (vfs.FS, *atomic.Int64) {
	left := &atomic.Int64{}
	left.Store(int64(n))
	return vfs.WithHook(fs, func(vfs.Op, string) error {
		if left.Add(-1) < 0 {
			return errPowerCut
		}
		return nil
	}), left
}

// The power fails before any single change of a take-over, and again during what completes
// it: the node has its old state or the new one, whole, and the new one once decided.
func TestTakeOverAndPowerFailure(t *testing.T) {
	r := newRig(t)
	base := r.old.CrashClone(vfs.CrashCloneCfg{})
	_, err := r.fetch(base, nil)
	must(t, err)
	want := r.source.machine.bodies()
	for n := 0; ; n++ {
		fs := base.CrashClone(vfs.CrashCloneCfg{})
		hooked, _ := dying(fs, n)
		err := decide(hooked, "data")
		decided := err == nil
		if decided {
			var home *Home
			if home, err = LockHome(hooked, "data", ""); err == nil {
				must(t, home.Close())
			}
		}
		if err != nil && !errors.Is(err, errPowerCut) {
			t.Fatal(err)
		}
		again, _ := dying(fs.CrashClone(vfs.CrashCloneCfg{}), n%7) // dies once more, a little later
		if home, err := LockHome(again, "data", ""); err == nil {
			must(t, home.Close())
		}
		inner, _ := again.(interface{ Unwrap() vfs.FS }).Unwrap().(*vfs.MemFS)
		got := r.open(inner.CrashClone(vfs.CrashCloneCfg{}))
		if isNew := slices.Equal(got, want); !isNew && (decided || !slices.Equal(got, r.had)) {
			t.Fatalf("died before change %d (decided: %v): %d bodies, had %d, want %d", n, decided, len(got), len(r.had), len(want))
		}
		if err == nil {
			if n < 10 {
				t.Fatalf("only %d changes", n)
			}
			return
		}
	}
}

// The power fails before any single change of a transfer: the node has lost nothing, and
// the next attempt completes it without fetching all again.
func TestFetchAndPowerFailure(t *testing.T) {
	r := newRig(t)
	want := r.source.machine.bodies()
	total, err := r.fetch(r.old.CrashClone(vfs.CrashCloneCfg{}), nil)
	must(t, err)
	resumed := false
	for n := 0; ; n++ {
		fs := r.old.CrashClone(vfs.CrashCloneCfg{})
		hooked, _ := dying(fs, n)
		_, err := r.fetch(hooked, nil)
		if err != nil && !errors.Is(err, errPowerCut) {
			t.Fatal(err)
		}
		after := fs.CrashClone(vfs.CrashCloneCfg{})
		if got := r.open(after.CrashClone(vfs.CrashCloneCfg{})); !slices.Equal(got, r.had) {
			t.Fatalf("died before change %d: %d bodies, had %d", n, len(got), len(r.had))
		}
		received, again := r.fetch(after, nil)
		must(t, again)
		resumed = resumed || err != nil && received < total*2/3
		if n%5 == 0 || err == nil {
			must(t, decide(after, "data"))
			if got := r.open(after.CrashClone(vfs.CrashCloneCfg{})); !slices.Equal(got, want) {
				t.Fatalf("died before change %d: %d bodies, want %d", n, len(got), len(want))
			}
		}
		if err == nil {
			break
		}
	}
	if !resumed {
		t.Fatal("every attempt fetched everything")
	}
}

// Whatever a peer sends that it should not: an error, nothing outside the directory of
// what is fetched, and the next attempt with a good peer succeeds.
func TestFetchFromABadPeer(t *testing.T) {
	r := newRig(t)
	data := func(change func(b []byte, k int) []byte) func([]byte) []byte {
		k := 0
		return func(b []byte) []byte {
			if b[0] != sayData {
				return b
			}
			k++
			return change(b, k)
		}
	}
	manifestOf := func(change func(m *manifest)) func([]byte) []byte {
		var pieces [][]byte
		return func(b []byte) []byte {
			if b[0] == askManifest {
				e, err := r.n.acquireExport(t.Context(), false)
				must(t, err)
				defer r.n.releaseExport(e)
				m := *e.manifest
				m.files, m.segments = slices.Clone(m.files), slices.Clone(m.segments)
				change(&m)
				encoded := m.encode()
				pieces = [][]byte{append([]byte{sayData}, encoded...)}
				return wire.AppendUint64([]byte{askManifest}, uint64(len(encoded)))
			}
			if len(pieces) > 0 {
				b, pieces = pieces[0], nil
			}
			return b
		}
	}
	for name, c := range map[string]struct {
		tamper func([]byte) []byte
		kind   core.Kind
	}{
		"a changed byte in a file":       {data(func(b []byte, k int) []byte { b[len(b)-1] ^= byte(k / 2); return b }), core.Corrupt},
		"a changed byte in the manifest": {data(func(b []byte, k int) []byte { b[9] ^= byte(1 / k); return b }), core.Corrupt},
		"nothing in a message":           {data(func([]byte, int) []byte { return []byte{sayData} }), core.Corrupt},
		"more than was asked for":        {data(func(b []byte, k int) []byte { return append(b, make([]byte, 100_000*(k/2))...) }), core.Corrupt},
		"another kind of message":        {data(func(b []byte, k int) []byte { b[0] += byte(k / 3); return b }), core.Corrupt},
		"an end half-way": {data(func(b []byte, k int) []byte {
			if k > 2 {
				return nil
			}
			return b
		}), core.Unavailable},
		"a huge manifest":          {func([]byte) []byte { return wire.AppendUint64([]byte{askManifest}, 1<<40) }, core.TooLarge},
		"no manifest":              {func([]byte) []byte { return []byte{sayResume} }, core.Corrupt},
		"a path":                   {manifestOf(func(m *manifest) { m.files[0].name = "../../meta" }), core.Corrupt},
		"a foreign cluster":        {manifestOf(func(m *manifest) { m.cluster = newUUID() }), core.Conflict},
		"files that are not there": {manifestOf(func(m *manifest) { m.files = append(m.files, indexFile{"zz", 5, 0}) }), core.NotFound},
		"another length":           {manifestOf(func(m *manifest) { m.segments[0].Bytes -= 8 }), core.Corrupt},
		"another checksum":         {manifestOf(func(m *manifest) { m.segments[0].Sum++ }), core.Corrupt},
		"another term":             {manifestOf(func(m *manifest) { m.snap.term++ }), core.Corrupt},
	} {
		fs := r.old.CrashClone(vfs.CrashCloneCfg{})
		before := tree(t, fs)
		_, err := r.fetch(fs, c.tamper)
		if core.KindOf(err) != c.kind || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want kind %q", name, err, c.kind.Error())
		}
		if after := tree(t, fs); after != before {
			t.Errorf("%s: the directory was\n%s\nand is\n%s", name, before, after)
		}
		if _, err := r.fetch(fs, nil); err != nil {
			t.Errorf("%s: and then from a good peer: %v", name, err)
		}
	}
}

// tree lists the data directory without what is being fetched.
func tree(t *testing.T, fs vfs.FS) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range []string{"data", "data/log", "data/index", "data/raft", ""} {
		names, err := fs.List(dir)
		must(t, err)
		slices.Sort(names)
		names = slices.DeleteFunc(names, func(n string) bool { return n == incomingName })
		fmt.Fprintln(&b, dir, names)
	}
	return b.String()
}

// A disk that is full stops a transfer before the node itself is out of room, or where
// it happens after all, and what was fetched waits for the next attempt.
func TestFetchToAFullDisk(t *testing.T) {
	r := newRig(t)
	fs := r.old.CrashClone(vfs.CrashCloneCfg{})
	small := &sizedFS{FS: fs}
	small.free.Store(2*reserveBytes + 1000)
	_, err := r.fetch(small, nil)
	wantKind(t, err, core.Limit)
	for n := 3; ; n += 4 {
		writes := 0
		full := vfs.WithHook(fs, func(op vfs.Op, _ string) error {
			if op == vfs.OpWrite {
				if writes++; writes == n {
					return syscall.ENOSPC
				}
			}
			return nil
		})
		_, err := r.fetch(full, nil)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		if n > 1000 {
			t.Fatal("no progress")
		}
	}
	must(t, decide(fs, "data"))
	if got := r.open(fs); !slices.Equal(got, r.source.machine.bodies()) {
		t.Fatal("another state than the source's")
	}
}

// sizedFS is on a disk with so much room.
type sizedFS struct {
	vfs.FS
	free atomic.Uint64
}

func (s *sizedFS) Unwrap() vfs.FS { return s.FS }

func (s *sizedFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: s.free.Load()}, nil
}

// What a node is asked for is bounded, too.
func TestServeFilesRefuses(t *testing.T) {
	r := newRig(t)
	for name, ask := range map[string][]byte{
		"nothing":           {},
		"unknown":           {'?'},
		"too much":          wire.AppendUvarint(wire.AppendUvarint(wire.AppendUvarint([]byte{askSegment}, 1), 0), maxAsked+1),
		"no bytes":          wire.AppendUvarint(wire.AppendUvarint(wire.AppendUvarint([]byte{askSegment}, 1), 0), 0),
		"negative offset":   wire.AppendUvarint(wire.AppendUvarint(wire.AppendUvarint([]byte{askSegment}, 1), 1<<63), 8),
		"no such segment":   wire.AppendUvarint(wire.AppendUvarint(wire.AppendUvarint([]byte{askSegment}, 3), 0), 8),
		"no such file":      wire.AppendUvarint(wire.AppendUvarint(wire.AppendUvarint([]byte{askFile}, 3), 0), 8),
		"cut":               {askSegment, 1},
		"no such portion":   wire.AppendUvarint([]byte{askPortion}, 3),
		"portion, cut":      {askPortion},
		"portion, trailing": {askPortion, 1, 1},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		near, serve := core.NewStreamPipe(ctx)
		done := make(chan struct{})
		go func() { defer close(done); serve(func(s core.Stream) error { return r.n.serveFiles("2", s) }) }()
		must(t, near.Send(ask))
		if _, err := near.Recv(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		<-done
	}
}
