package cluster

import (
	"math"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"polylog/core"
	"polylog/core/vfs"
)

// A call that no sound node makes is refused: the node goes on, and nothing of it is kept.
func TestMalformedCalls(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	b := newScripted(t, "b")
	conf := h.seed(string(b.tr.LocalAddr()), repeat(9, 4)...)
	h.options.ElectionTimeout = time.Hour
	b.to = raft.ServerAddress(h.options.Listener.Addr().String())
	n := h.open()
	if !b.append(raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 10, PrevLogTerm: 4, LeaderCommitIndex: 10}).Success {
		t.Fatal("a sound call was refused")
	}
	waitFor(t, func() bool { return n.machine.Applied() == 10 })

	entry := func(index, term uint64) *raft.Log {
		return &raft.Log{Index: index, Term: term, Data: entryData("x")}
	}
	typed := func(kind raft.LogType, data []byte) *raft.Log {
		return &raft.Log{Index: 11, Term: 5, Type: kind, Data: data}
	}
	call := func(entries ...*raft.Log) raft.AppendEntriesRequest {
		return raft.AppendEntriesRequest{Term: 5, PrevLogEntry: 10, PrevLogTerm: 4, LeaderCommitIndex: 20, Entries: entries}
	}
	at := func(index, term uint64, entries ...*raft.Log) raft.AppendEntriesRequest {
		r := call(entries...)
		r.PrevLogEntry, r.PrevLogTerm = index, term
		return r
	}
	long := entry(11, 5)
	long.Extensions = make([]byte, 1<<20)
	far := call()
	far.Term = math.MaxUint64
	for name, r := range map[string]raft.AppendEntriesRequest{
		"no entry":              call(nil),
		"no entry in between":   call(entry(11, 5), nil, entry(13, 5)),
		"a gap":                 call(entry(12, 5)),
		"a gap inside":          call(entry(11, 5), entry(13, 5)),
		"again":                 call(entry(11, 5), entry(11, 5)),
		"the last index":        at(math.MaxUint64, 4, entry(0, 5)),
		"a falling term":        call(entry(11, 5), entry(12, 4)),
		"an old term":           call(entry(11, 3)),
		"a term to come":        call(entry(11, 6)),
		"before a term to come": at(10, 6),
		"a long extension":      call(long),
		"an old type":           call(typed(raft.LogAddPeerDeprecated, []byte{0xc1})),
		"a new type":            call(typed(77, nil)),
		"no configuration":      call(typed(raft.LogConfiguration, []byte{0xc1})),
		"nobody votes":          call(typed(raft.LogConfiguration, raft.EncodeConfiguration(raft.Configuration{}))),
		"half a command":        call(typed(raft.LogCommand, entryData("x")[:12])),
		"what is committed":     at(0, 0, &raft.Log{Index: 1, Term: 1, Type: raft.LogNoop}, entry(2, 5)),
		"the last term":         far,
	} {
		r.RPCHeader = b.header()
		var resp raft.AppendEntriesResponse
		if err := b.tr.NetworkTransport.AppendEntries("a", qualified("a", b.to), &r, &resp); err == nil {
			t.Errorf("%s: taken, %+v", name, resp)
		}
	}
	for name, change := range map[string]func(*raft.InstallSnapshotRequest){
		"its version":          func(r *raft.InstallSnapshotRequest) { r.SnapshotVersion = 0; r.Peers = []byte{0xc1} },
		"its term":             func(r *raft.InstallSnapshotRequest) { r.LastLogTerm = 6 },
		"its configuration":    func(r *raft.InstallSnapshotRequest) { r.Configuration = []byte{0xc1} },
		"a configuration late": func(r *raft.InstallSnapshotRequest) { r.ConfigurationIndex = 101 },
		"its size":             func(r *raft.InstallSnapshotRequest) { r.Size = math.MaxInt64 },
		"less than nothing":    func(r *raft.InstallSnapshotRequest) { r.Size = -1 },
	} {
		r := &raft.InstallSnapshotRequest{
			RPCHeader: b.header(), SnapshotVersion: 1, Term: 5, LastLogIndex: 100, LastLogTerm: 5,
			Configuration: raft.EncodeConfiguration(conf), ConfigurationIndex: 1,
		}
		change(r)
		if err := n.inspect(r); err == nil {
			t.Errorf("snapshot: %s: taken", name)
		}
	}
	vote := &raft.RequestVoteRequest{RPCHeader: b.header(), Term: math.MaxUint64, LastLogIndex: 10, LastLogTerm: 4}
	if err := b.tr.RequestVote("a", b.to, vote, &raft.RequestVoteResponse{}); err == nil {
		t.Error("a vote in the last term was heard")
	}
	if last, term := n.log.Last(), n.Term(); last != 10 || term != 4 {
		t.Fatalf("the log ends at %d, the term is %d; want 10 and 4", last, term)
	}

	// No more is committed than what was compared, whatever the call says.
	next := call(entry(11, 5), entry(12, 5))
	next.LeaderCommitIndex = 10
	b.append(next)
	less := call(entry(11, 5))
	less.RPCHeader = b.header()
	must(t, b.tr.NetworkTransport.AppendEntries("a", qualified("a", b.to), &less, &raft.AppendEntriesResponse{}))
	waitFor(t, func() bool { return n.machine.Applied() >= 11 })
	if got := core.LogIndex(n.raft.CommitIndex()); got != 11 {
		t.Fatalf("entry %d is committed, want 11", got)
	}
}
