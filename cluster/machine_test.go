package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"hash/crc32"
	"hash/fnv"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/vfs"
)

// testMachine is a state machine whose state is every command's body, in order, and
// a running hash of them. Its checkpoint is one JSON file.
type testMachine struct {
	fs   vfs.FS
	name string

	mu    sync.Mutex
	state testState
	disk  core.LogIndex
	calls int           // of Apply
	times []int64       // of the entries applied since it was opened
	block chan struct{} // Apply waits for it to be closed; nil: no
}

type testState struct {
	Applied core.LogIndex
	Hash    uint64
	Bodies  []string
	Wanted  []core.LogIndex // entries of "keep" commands that no "forget" has undone
	Forgets bool            // there was a "forget"; before it everything is wanted
	Conf    []byte
	ConfAt  core.LogIndex
}

func openMachine(tb testing.TB, fs vfs.FS, dir string) *testMachine {
	tb.Helper()
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	m := &testMachine{fs: fs, name: fs.PathJoin(dir, "state.json")}
	b, err := vfs.ReadFile(fs, m.name)
	if err == nil {
		err = json.Unmarshal(b, &m.state)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		tb.Fatal(err)
	}
	m.disk = m.state.Applied
	return m
}

func (m *testMachine) Apply(entries []core.Entry) [][]core.Result {
	m.mu.Lock()
	block := m.block
	m.mu.Unlock()
	if block != nil {
		<-block
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	results := make([][]core.Result, len(entries))
	for i, e := range entries {
		if e.Index <= m.state.Applied {
			panic("applied twice")
		}
		err := e.Commands(func(code core.Code, body []byte, _ uint32) {
			h := fnv.New64a()
			_ = json.NewEncoder(h).Encode([]any{m.state.Hash, e.Index, e.Time(), code, body})
			m.state.Hash = h.Sum64()
			switch {
			case len(body) >= 4 && string(body[:4]) == "keep":
				m.state.Wanted = append(slices.Clip(m.state.Wanted), e.Index)
			case len(body) == 7 && string(body[:6]) == "forget":
				m.state.Wanted = m.state.Wanted[min(len(m.state.Wanted), int(body[6]-'0')):]
				m.state.Forgets = true
			}
			m.state.Bodies = append(m.state.Bodies, string(body))
			results[i] = append(results[i], core.Result{Offset: core.Offset(len(m.state.Bodies) - 1), Start: core.Offset(e.Index)})
		})
		if err != nil {
			panic(err)
		}
		m.times = append(m.times, e.Time())
		m.state.Applied = e.Index
	}
	return results
}

func (m *testMachine) Configure(index core.LogIndex, conf []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Conf, m.state.ConfAt, m.state.Applied = append([]byte(nil), conf...), index, index
}

func (m *testMachine) Applied() core.LogIndex {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Applied
}

func (m *testMachine) Durable() core.LogIndex {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk
}

// FirstLive rounds down, as the index does.
func (m *testMachine) FirstLive() core.LogIndex {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.state.Forgets:
		return 1
	case len(m.state.Wanted) == 0:
		return 0
	}
	return max(1, m.state.Wanted[0]&^31)
}

func (m *testMachine) OverlayBytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(m.state.Applied - m.disk)
}

func (m *testMachine) bodies() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.state.Bodies...)
}

func (m *testMachine) hash() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Hash
}

type testCheckpoint struct {
	m     *testMachine
	state testState
}

func (m *testMachine) Freeze() (core.Checkpoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &testCheckpoint{m, m.state}, nil
}

func (c *testCheckpoint) Applied() core.LogIndex { return c.state.Applied }

func (c *testCheckpoint) Write() error {
	b, err := json.Marshal(c.state)
	if err != nil {
		return err
	}
	if err := vfs.WriteFile(c.m.fs, c.m.name, b); err != nil {
		return err
	}
	c.m.mu.Lock()
	c.m.disk = c.state.Applied
	c.m.mu.Unlock()
	return nil
}

func (m *testMachine) SaveTo(dir string) (core.LogIndex, error) {
	m.mu.Lock()
	at := m.disk
	m.mu.Unlock()
	b, err := vfs.ReadFile(m.fs, m.name)
	if errors.Is(err, os.ErrNotExist) {
		b, err = []byte("{}"), nil
	}
	if err == nil {
		err = m.fs.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = vfs.WriteFile(m.fs, m.fs.PathJoin(dir, m.fs.PathBase(m.name)), b)
	}
	return at, err
}

// fastMachine has no state but its index; for benchmarks.
type fastMachine struct {
	applied atomic.Uint64
}

func (m *fastMachine) Apply(entries []core.Entry) [][]core.Result {
	out := make([][]core.Result, len(entries))
	for i, e := range entries {
		n := 0
		_ = e.Commands(func(core.Code, []byte, uint32) { n++ })
		out[i] = make([]core.Result, n)
	}
	m.applied.Store(uint64(entries[len(entries)-1].Index))
	return out
}
func (m *fastMachine) Configure(i core.LogIndex, _ []byte) { m.applied.Store(uint64(i)) }
func (m *fastMachine) Applied() core.LogIndex              { return core.LogIndex(m.applied.Load()) }
func (m *fastMachine) Durable() core.LogIndex              { return 0 }
func (m *fastMachine) FirstLive() core.LogIndex            { return 1 }
func (m *fastMachine) OverlayBytes() int64                 { return 0 }
func (m *fastMachine) SaveTo(string) (core.LogIndex, error) {
	return 0, core.E(core.Unsupported, "no state to copy")
}

func (m *fastMachine) Freeze() (core.Checkpoint, error) { return fastCheckpoint(m.applied.Load()), nil }

type fastCheckpoint core.LogIndex

func (c fastCheckpoint) Write() error           { return nil }
func (c fastCheckpoint) Applied() core.LogIndex { return core.LogIndex(c) }

// testCluster is the cluster that all of a test's nodes belong to.
const testCluster = "Y2x1c3RlcidzIHRlc3Rpbg"

// harness opens nodes whose storage is one file system.
type harness struct {
	tb      testing.TB
	fs      vfs.FS
	dir     string
	machine *testMachine
	fatal   chan error
	anew    chan error // why the process would have started anew
	homed   bool       // the machine's state lies in the data directory, as a broker's does
	home    *Home
	options Options // FS, Dir, Machine and Fatal are filled in
}

func newHarness(tb testing.TB, fs vfs.FS) *harness {
	return &harness{
		tb: tb, fs: fs, dir: "data", fatal: make(chan error, 1), anew: make(chan error, 1),
		options: Options{trusting: true}, // the other members may be the test's
	}
}

// open opens the node over what the file system holds, and closes it at the end.
func (h *harness) open() *Node {
	h.tb.Helper()
	n, err := h.tryOpen()
	if err != nil {
		h.tb.Fatal(err)
	}
	h.tb.Cleanup(func() { _ = n.Close() })
	return n
}

func (h *harness) tryOpen() (*Node, error) {
	o := h.options
	if !h.homed {
		h.machine = openMachine(h.tb, h.fs, "index")
	} else if err := h.lock(); err != nil {
		return nil, err
	}
	o.FS, o.Dir, o.Machine, o.ClusterID, o.Home = h.fs, h.dir, h.machine, testCluster, h.home
	if o.CommitLog.SegmentBytes == 0 {
		o.CommitLog.SegmentBytes = 256 << 10
	}
	o.Fatal = func(err error) { h.fatal <- err }
	if h.homed {
		o.Restart = func(err error) { h.anew <- err }
	}
	return Open(h.tb.Context(), o)
}

// lock locks the data directory and opens the machine's state in it.
func (h *harness) lock() (err error) {
	if h.home != nil {
		_ = h.home.Close()
	}
	if h.home, err = LockHome(h.fs, h.dir, h.options.NodeID); err != nil {
		return err
	}
	if h.home.IsNew() {
		join := h.home.Found
		if h.options.Join {
			join = h.home.Join
		}
		if err := join(testCluster); err != nil {
			return err
		}
	}
	h.machine = openMachine(h.tb, h.fs, h.home.IndexDir())
	return nil
}

// lead opens the node and waits until it leads.
func (h *harness) lead() *Node {
	h.tb.Helper()
	n := h.open()
	ready(h.tb, n)
	return n
}

func ready(tb testing.TB, n *Node) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	if err := n.Ready(ctx); err != nil {
		tb.Fatal(err)
	}
}

// command carries body; a long one with its checksum, all but the first bytes.
func command(body string) core.Command {
	c := core.Command{Code: 1, Payload: []byte(body)}
	if len(body) > 70<<10 {
		c.CheckedLen = len(body) - 10
		c.CheckedCRC = crc32.Checksum(c.Payload[10:], crc32.MakeTable(crc32.Castagnoli))
	}
	return c
}

func propose(tb testing.TB, n *Node, body string) core.Result {
	tb.Helper()
	r, err := n.Propose(tb.Context(), command(body))
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func wantKind(tb testing.TB, err error, k core.Kind) {
	tb.Helper()
	if core.KindOf(err) != k {
		tb.Fatalf("got %v, want an error of kind %q", err, k.Error())
	}
}

// waitFor waits until something is true that nothing announces.
func waitFor(tb testing.TB, is func() bool) {
	tb.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			tb.Fatal("waited for a minute in vain")
		}
	}
}
