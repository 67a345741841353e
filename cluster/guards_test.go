package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"polylog/cluster/peer"
	"polylog/core"
	"polylog/core/commitlog"
	"polylog/core/vfs"
)

// scripted is the far end of a transport, played by the test.
type scripted struct {
	tb testing.TB
	tr transport

	network *peer.Network
	to      raft.ServerAddress
}

func newScripted(tb testing.TB, id string) *scripted {
	tb.Helper()
	return newScriptedOn(tb, id, listen(tb))
}

func newScriptedOn(tb testing.TB, id string, l net.Listener) *scripted {
	tb.Helper()
	network := peer.New(peer.Options{ClusterID: testCluster, NodeID: id, Listener: l})
	p := &scripted{tb: tb, network: network, tr: newTransport(network, id, l.Addr().String(), time.Hour, hclog.NewNullLogger())}
	tb.Cleanup(func() { _, _ = p.tr.Close(), network.Close() })
	return p
}

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// agree grants every vote and takes every entry, until the transport is closed.
func (p *scripted) agree() {
	header := raft.RPCHeader{ProtocolVersion: 3}
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case rpc := <-p.tr.Consumer():
				switch c := rpc.Command.(type) {
				case *raft.RequestPreVoteRequest:
					rpc.Respond(&raft.RequestPreVoteResponse{RPCHeader: header, Term: c.Term, Granted: true}, nil)
				case *raft.RequestVoteRequest:
					rpc.Respond(&raft.RequestVoteResponse{RPCHeader: header, Term: c.Term, Granted: true}, nil)
				case *raft.AppendEntriesRequest:
					rpc.Respond(&raft.AppendEntriesResponse{
						RPCHeader: header, Term: c.Term, Success: true, LastLog: c.PrevLogEntry + uint64(len(c.Entries)),
					}, nil)
				}
			}
		}
	}()
	p.tb.Cleanup(func() { close(done); <-ended })
}

func (p *scripted) header() raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: 3, ID: []byte("b"), Addr: []byte(p.tr.LocalAddr())}
}

func (p *scripted) append(r raft.AppendEntriesRequest) (resp raft.AppendEntriesResponse) {
	p.tb.Helper()
	r.RPCHeader = p.header()
	if err := p.tr.AppendEntries("a", p.to, &r, &resp); err != nil {
		p.tb.Fatal(err)
	}
	return resp
}

// seed gives the harness' node, which is "a", a log before it is opened: a
// configuration of the voters a, b and c, then commands of the given terms.
func (h *harness) seed(addrB string, terms ...core.Term) raft.Configuration {
	h.tb.Helper()
	home, err := OpenHomeIn(h.fs, h.dir, "a", testCluster)
	if err != nil {
		h.tb.Fatal(err)
	}
	l := listen(h.tb)
	h.options.Listener = l
	conf := raft.Configuration{Servers: []raft.Server{
		{ID: "a", Address: raft.ServerAddress(l.Addr().String())},
		{ID: "b", Address: raft.ServerAddress(addrB)},
		{ID: "c", Address: "127.0.0.1:1"},
	}}
	entries := []commitlog.Entry{{Index: 1, Term: 1, Type: uint8(raft.LogConfiguration), Data: raft.EncodeConfiguration(conf)}}
	for i, term := range terms {
		entries = append(entries, commitlog.Entry{Index: core.LogIndex(i + 2), Term: term, Data: entryData(fmt.Sprint(i + 2))})
	}
	h.log(func(log *commitlog.Log) error { return log.Append(entries) })
	raftDir := h.fs.PathJoin(h.dir, raftName)
	if err := h.fs.MkdirAll(raftDir, 0o755); err != nil {
		h.tb.Fatal(err)
	}
	s := openStableAt(h.tb, h.fs, raftDir)
	if err := errors.Join(s.SetUint64([]byte(keyTerm), uint64(entries[len(entries)-1].Term)), s.close()); err != nil {
		h.tb.Fatal(err)
	}
	if err := home.Close(); err != nil {
		h.tb.Fatal(err)
	}
	return conf
}

func (h *harness) log(do func(*commitlog.Log) error) {
	h.tb.Helper()
	log, err := commitlog.Open(commitlog.Options{FS: h.fs, Dir: h.fs.PathJoin(h.dir, logName), SegmentBytes: 256 << 10})
	if err == nil {
		err = errors.Join(do(log), log.Close())
	}
	if err != nil {
		h.tb.Fatal(err)
	}
}

func entryData(body string) []byte {
	c := command(body)
	return core.AppendCommand(core.AppendEntryHeader(nil, 1), &c)
}

func repeat(n int, t core.Term) []core.Term { return slices.Repeat([]core.Term{t}, n) }

// Guard 1: what hashicorp/raft#695 describes. An old leader hears of a newer term by
// a heartbeat and has a proposal at the same time; it must not write the proposal
// under the newer term, where the new leader's entry belongs.
func TestGuard1ForgedEntry(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	b := newScripted(t, "b")
	b.agree()
	h.seed(string(b.tr.LocalAddr()))
	b.to = raft.ServerAddress(h.options.Listener.Addr().String())
	h.options.ElectionTimeout = 800 * time.Millisecond
	n := h.open()
	waitFor(t, n.IsLeader)
	propose(t, n, "before")
	term, last := uint64(n.Term()), n.raft.LastIndex()

	b.append(raft.AppendEntriesRequest{Term: term + 1})
	// Straight to raft, as a proposal that found this node leading a moment ago.
	if err := n.raft.Apply(entryData("forged"), 0).Error(); err == nil {
		t.Error("an old leader acknowledged a proposal")
	}
	if e, err := n.log.Entry(core.LogIndex(last + 1)); err == nil && uint64(e.Term) == term+1 {
		t.Errorf("the old leader forged entry %d of term %d", last+1, term+1)
	}
	resp := b.append(raft.AppendEntriesRequest{
		Term: term + 1, PrevLogEntry: last, PrevLogTerm: term, LeaderCommitIndex: last + 1,
		Entries: []*raft.Log{{Index: last + 1, Term: term + 1, Data: entryData("real")}},
	})
	if !resp.Success {
		t.Fatal("the new leader's entry was refused")
	}
	waitFor(t, func() bool { return len(h.machine.bodies()) == 2 })
	if got := h.machine.bodies(); got[1] != "real" {
		t.Fatalf("applied %q, the leader has %q", got[1], "real")
	}
}

// Guard 1, the means: a heartbeat comes through the consumer even with a handler set.
func TestGuard1Heartbeats(t *testing.T) {
	a, b := newScripted(t, "a"), newScripted(t, "b")
	a.tr.SetHeartbeatHandler(func(rpc raft.RPC) { rpc.Respond(&raft.AppendEntriesResponse{Term: 666}, nil) })
	a.agree()
	b.to = a.tr.LocalAddr()
	if resp := b.append(raft.AppendEntriesRequest{Term: 1}); resp.Term != 1 {
		t.Fatal("a heartbeat took the fast path")
	}
}

// Guard 2: a crash between the two halves of a vote leaves the old vote whole.
func TestGuard2HalfVote(t *testing.T) {
	fs := vfs.NewMem()
	s := openTestStable(t, fs)
	must(t, s.SetUint64([]byte(keyTerm), 5))
	must(t, s.SetUint64([]byte(keyVoteTerm), 4))
	must(t, s.Set([]byte(keyVoteCandidate), []byte("b")))
	must(t, s.SetUint64([]byte(keyVoteTerm), 5))
	check := func(fs vfs.FS, term uint64, candidate string) {
		t.Helper()
		s := openTestStable(t, fs)
		got, _ := s.GetUint64([]byte(keyVoteTerm))
		c, _ := s.Get([]byte(keyVoteCandidate))
		if got != term || string(c) != candidate || s.term != 5 {
			t.Fatalf("vote for %q in term %d (now %d), want %q in %d", c, got, s.term, candidate, term)
		}
	}
	check(fs.CrashClone(vfs.CrashCloneCfg{}), 4, "b")
	must(t, s.Set([]byte(keyVoteCandidate), []byte("c")))
	check(fs.CrashClone(vfs.CrashCloneCfg{}), 5, "c")
}

// Guard 2, the consequence: a stale candidate of the same term gets no second vote.
func TestGuard2StaleCandidate(t *testing.T) {
	fs := vfs.NewMem()
	h := newHarness(t, fs)
	b := newScripted(t, "b")
	h.seed(string(b.tr.LocalAddr()), repeat(99, 4)...)
	b.to = raft.ServerAddress(h.options.Listener.Addr().String())
	must(t, fs.MkdirAll("data/raft", 0o755))
	s := openStableAt(t, fs, "data/raft")
	must(t, s.SetUint64([]byte(keyTerm), 5))
	must(t, s.SetUint64([]byte(keyVoteTerm), 4))
	must(t, s.Set([]byte(keyVoteCandidate), []byte(b.tr.LocalAddr())))
	must(t, s.SetUint64([]byte(keyVoteTerm), 5)) // and the power fails
	h.options.ElectionTimeout = time.Hour
	h.open()
	var resp raft.RequestVoteResponse
	must(t, b.tr.RequestVote("a", b.to, &raft.RequestVoteRequest{RPCHeader: b.header(), Term: 5, LastLogIndex: 10, LastLogTerm: 1}, &resp))
	if resp.Granted {
		t.Fatal("a candidate with entry 10 of term 1 got the vote of a node with entry 100 of term 4")
	}
}

// Guard 3: raft's snapshot is at 100, the state machine's own state at 60.
func TestGuard3Replay(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	n := h.lead()
	for i := range 60 {
		propose(t, n, fmt.Sprint(i))
	}
	n.checkpoint()
	old, err := vfs.ReadFile(h.fs, "index/state.json")
	must(t, err)
	for i := range 60 {
		propose(t, n, fmt.Sprint(60+i))
		if i == 40 {
			n.checkpoint()
		}
	}
	want := h.machine.bodies()
	must(t, n.Close())
	must(t, vfs.WriteFile(h.fs, "index/state.json", old)) // restored from an older copy
	h.lead()
	if got := h.machine.bodies(); !slices.Equal(got, want) {
		t.Fatalf("%d commands applied, want %d", len(got), len(want))
	}
	if raftConfig(&n.o, "1", nil).RestoreCommittedLogs {
		t.Fatal("RestoreCommittedLogs is on")
	}
}

// Guard 4: an fsync error of the log ends the process, and nothing is acknowledged.
func TestGuard4SyncError(t *testing.T) {
	fs, broken := brokenSync(vfs.NewMem())
	h := newHarness(t, fs)
	n := h.lead()
	propose(t, n, "a")
	broken.On()
	_, err := n.Propose(t.Context(), command("b"))
	wantKind(t, err, core.Uncertain)
	waitFor(t, func() bool { return len(h.fatal) == 1 })
	_, err = n.Propose(t.Context(), command("c"))
	wantKind(t, err, core.Unavailable)
	wantKind(t, n.Ready(t.Context()), core.Unavailable)
	broken.Off()
	must(t, n.Close())
}

// Guard 4: and one of the vote file.
func TestGuard4VoteError(t *testing.T) {
	fs, broken := brokenSync(vfs.NewMem())
	var failed error
	s, err := openStable(fs, "", true, func(err error) error { failed = err; return err }, &stallWatch{})
	must(t, err)
	broken.On()
	if err := s.SetUint64([]byte(keyTerm), 3); err == nil || failed == nil {
		t.Fatalf("%v, %v", err, failed)
	}
}

func brokenSync(fs vfs.FS) (vfs.FS, *errorfs.Toggle) {
	broken := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if isSync(op) {
			return errors.New("input/output error")
		}
		return nil
	})}
	return errorfs.Wrap(fs, broken), broken
}

// Guard 4: so does a write that does not come back.
func TestGuard4Stall(t *testing.T) {
	unblock := make(chan struct{})
	var stuck errorfs.Toggle
	stuck.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		if isSync(op) {
			<-unblock
		}
		return nil
	})
	h := newHarness(t, errorfs.Wrap(vfs.NewMem(), &stuck))
	h.options.StallLimit = 500 * time.Millisecond
	n := h.lead()
	stuck.On()
	answer := make(chan error, 1)
	n.ProposeAsync(command("x"), func(_ core.Result, err error) { answer <- err })
	waitFor(t, func() bool { return len(h.fatal) == 1 })
	stuck.Off()
	close(unblock)
	wantKind(t, <-answer, core.Uncertain)
}

// Scenario 4 of the ten (docs/raft-scenarios.md), hashicorp/raft#503 and #612: the leader's disk
// hangs, then a follower's. Each ends its own process alone; another node leads after the first,
// the same one goes on after the second, and both catch up when they are back.
func TestHungDisk(t *testing.T) {
	var disks []*hangingDisk
	nw := networkOf(t, 3, func(h *harness) {
		d := &hangingDisk{}
		disks = append(disks, d)
		h.fs = errorfs.Wrap(h.fs, errorfs.InjectorFunc(d.pass))
		h.options.StallLimit = time.Second
	})
	nw.form()
	nw.propose("before")
	ends := func(nd *netNode) { // its disk hangs, and it ends
		t.Helper()
		release := disks[slices.Index(nw.nodes, nd)].hang()
		nw.leader().n.ProposeAsync(command("stuck"), func(core.Result, error) {})
		if err := <-nd.h.fatal; err == nil {
			t.Error("it has ended without a reason")
		}
		release()
		must(t, nd.n.Close())
		nd.n = nil
	}
	first := nw.leader()
	ends(first)
	if !nw.propose("after") || nw.leader() == first {
		t.Error("nobody has taken over")
	}
	first.start(t)
	nw.converge()
	second := nw.leader()
	term := second.n.Term()
	follower := nw.nodes[slices.IndexFunc(nw.nodes, func(nd *netNode) bool { return nd != second })]
	ends(follower)
	nw.propose("without it")
	if now := nw.leader(); now != second || now.n.Term() != term {
		t.Errorf("a follower's disk has cost the leader's place: term %d, then %d", term, now.n.Term())
	}
	follower.start(t)
	nw.converge()
}

// hangingDisk holds up syncs while it hangs.
type hangingDisk struct{ hung atomic.Pointer[chan struct{}] }

func (d *hangingDisk) hang() (release func()) {
	c := make(chan struct{})
	d.hung.Store(&c)
	return func() { d.hung.Store(nil); close(c) }
}

func (d *hangingDisk) pass(op errorfs.Op) error {
	if c := d.hung.Load(); c != nil && isSync(op) {
		<-*c
	}
	return nil
}

func isSync(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
}

// Guard 5: raft finds no pipeline to use.
func TestGuard5NoPipeline(t *testing.T) {
	a, b := newScripted(t, "a"), newScripted(t, "b")
	if _, err := a.tr.AppendEntriesPipeline("b", b.tr.LocalAddr()); !errors.Is(err, raft.ErrPipelineReplicationNotSupported) {
		t.Fatalf("pipeline: %v", err)
	}
}

// Guard 6: close.go alone transfers leadership. (That it does so is seen in
// TestThreeNodes.)
func TestGuard6TransferOnlyInClose(t *testing.T) {
	files, err := filepath.Glob("*.go")
	must(t, err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		must(t, err)
		found := bytes.Contains(b, []byte("raft."+"LeadershipTransfer"))
		if found != (name == "close.go") && !strings.HasSuffix(name, "_test.go") {
			t.Errorf("%s: transfers leadership: %v", name, found)
		}
	}
}

// Guard 7: a leader's snapshot at 100 replaces a log up to 180 that differs from it.
func TestGuard7InstallOverLongerLog(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	b := newScripted(t, "b")
	conf := h.seed(string(b.tr.LocalAddr()), repeat(179, 1)...)
	h.options.ElectionTimeout = time.Hour
	addr := h.options.Listener.Addr().String()
	b.to = raft.ServerAddress(addr)
	n := h.open()

	snap := snapshot{index: 100, term: 3, durable: 100, confIndex: 1, conf: raft.EncodeConfiguration(conf)}
	if err := b.install(snap); err == nil {
		t.Fatal("took over a snapshot without the state that belongs to it")
	}
	h.machine.mu.Lock() // now as if the state had been fetched from the leader
	h.machine.state.Applied, h.machine.disk = 100, 100
	h.machine.mu.Unlock()
	must(t, (&testCheckpoint{h.machine, testState{Applied: 100}}).Write())
	_ = b.install(snap)
	err := <-h.fatal
	if !strings.Contains(err.Error(), "restart") {
		t.Fatalf("ended with %v", err)
	}
	must(t, n.Close())

	h.options.Listener = relisten(t, addr)
	n = h.open()
	next := raft.AppendEntriesRequest{
		Term: 3, PrevLogEntry: 100, PrevLogTerm: 3, LeaderCommitIndex: 101,
		Entries: []*raft.Log{{Index: 101, Term: 3, Data: entryData("next")}},
	}
	if resp := b.append(next); !resp.Success {
		t.Fatalf("after the restart the leader's next entry is refused: %+v", resp)
	}
	waitFor(t, func() bool { return slices.Equal(h.machine.bodies(), []string{"next"}) })
	must(t, n.Close())
	h.options.Listener = relisten(t, addr)
	n = h.open()
	if first, last := n.log.First(), n.log.Last(); first != 101 || last != 101 {
		t.Fatalf("log from %d to %d, want 101", first, last)
	}
}

// A snapshot that the log holds anyway needs no transfer and no restart.
func TestInstallWhatTheLogHolds(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	b := newScripted(t, "b")
	conf := h.seed(string(b.tr.LocalAddr()), repeat(179, 1)...)
	h.options.ElectionTimeout = time.Hour
	b.to = raft.ServerAddress(h.options.Listener.Addr().String())
	n := h.open()
	must(t, b.install(snapshot{index: 100, term: 1, durable: 100, confIndex: 1, conf: raft.EncodeConfiguration(conf)}))
	if got := n.machine.Applied(); got != 100 {
		t.Fatalf("applied %d, want 100", got)
	}
	resp := b.append(raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 180, PrevLogTerm: 1, LeaderCommitIndex: 180})
	if !resp.Success {
		t.Fatalf("%+v", resp)
	}
	waitFor(t, func() bool { return n.machine.Applied() == 180 })
}

func (p *scripted) install(s snapshot) error {
	record := s.encode()
	var resp raft.InstallSnapshotResponse
	err := p.tr.InstallSnapshot("a", p.to, &raft.InstallSnapshotRequest{
		RPCHeader: p.header(), SnapshotVersion: 1, Term: 3,
		LastLogIndex: uint64(s.index), LastLogTerm: uint64(s.term),
		Configuration: s.conf, ConfigurationIndex: uint64(s.confIndex), Size: int64(len(record)),
	}, &resp, bytes.NewReader(record))
	if err == nil && !resp.Success {
		err = errors.New("refused")
	}
	return err
}

func relisten(tb testing.TB, addr string) net.Listener {
	tb.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
