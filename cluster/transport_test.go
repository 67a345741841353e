package cluster

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"polylog/core"
)

// follower answers AppendEntries calls with what fn says, until stop or the test's end.
func (p *scripted) follower(fn func(*raft.AppendEntriesRequest) *raft.AppendEntriesResponse) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case rpc := <-p.tr.Consumer():
				if c, ok := rpc.Command.(*raft.AppendEntriesRequest); ok {
					rpc.Respond(fn(c), nil)
				}
			}
		}
	}()
	stop = sync.OnceFunc(func() { close(done); <-ended })
	p.tb.Cleanup(stop)
	return stop
}

// Calls carry a bounded number of bytes, and claim no more to be committed than what they
// have compared.
func TestAppendEntriesIsBounded(t *testing.T) {
	a, b := newScripted(t, "a"), newScripted(t, "b")
	var now, takes atomic.Int64 // ns
	a.tr.now = func() time.Time { return time.Unix(0, now.Load()) }
	var got *raft.AppendEntriesRequest
	b.follower(func(r *raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
		got = r
		now.Add(takes.Load())
		return &raft.AppendEntriesResponse{Success: true}
	})
	entry := func(i uint64, size int) *raft.Log { return &raft.Log{Index: i, Term: 1, Data: make([]byte, size)} }
	large := maxAppendBytes + 1
	for _, c := range []struct {
		entries      []*raft.Log
		commit       uint64
		sent, claims int
	}{
		{nil, 7, 0, 7},
		{nil, 20, 0, 10},
		{[]*raft.Log{entry(11, 1), entry(12, 1)}, 20, 2, 12},
		{[]*raft.Log{entry(11, 1), entry(12, 1)}, 11, 2, 11},
		{[]*raft.Log{entry(11, maxAppendBytes/2), entry(12, maxAppendBytes/2), entry(13, 1)}, 20, 2, 12},
		{[]*raft.Log{entry(11, large), entry(12, 1)}, 20, 1, 11},
		{[]*raft.Log{entry(11, 1), entry(12, large)}, 5, 1, 5},
	} {
		r := raft.AppendEntriesRequest{RPCHeader: a.header(), Term: 1, PrevLogEntry: 10, PrevLogTerm: 1, Entries: c.entries, LeaderCommitIndex: c.commit}
		must(t, a.tr.AppendEntries("b", b.tr.LocalAddr(), &r, &raft.AppendEntriesResponse{}))
		if len(got.Entries) != c.sent || int(got.LeaderCommitIndex) != c.claims || len(r.Entries) != c.sent {
			t.Errorf("%d entries and commit index %d were sent, want %d and %d", len(got.Entries), got.LeaderCommitIndex, c.sent, c.claims)
		}
	}
	takes.Store(int64(a.tr.lease) * 3 / 4)
	for _, want := range []int{4, 2, 1} { // to one that is slow
		r := raft.AppendEntriesRequest{RPCHeader: a.header(), Term: 1, PrevLogEntry: 10, PrevLogTerm: 1}
		for i := range uint64(4) {
			r.Entries = append(r.Entries, entry(11+i, maxAppendBytes/4))
		}
		must(t, a.tr.AppendEntries("b", b.tr.LocalAddr(), &r, &raft.AppendEntriesResponse{}))
		if len(got.Entries) != want {
			t.Errorf("%d entries were sent, want %d", len(got.Entries), want)
		}
	}
}

// An answer that comes after the lease proves nothing. One that takes entries is asked for
// again without them, so that they need not be sent again.
func TestLateAnswer(t *testing.T) {
	a, b := newScripted(t, "a"), newScripted(t, "b")
	a.tr.lease = time.Second
	var now atomic.Int64
	a.tr.now = func() time.Time { return time.Unix(0, now.Load()) }
	const late = true
	for _, c := range []struct {
		name    string
		entries int
		answers []bool // late or not
		kind    core.Kind
	}{
		{"a heartbeat in time", 0, []bool{!late}, core.OK},
		{"a late heartbeat", 0, []bool{late}, core.Unavailable},
		{"entries in time", 2, []bool{!late}, core.OK},
		{"late entries", 2, []bool{late, !late}, core.OK},
		{"late entries over a bad network", 2, []bool{late, late}, core.Unavailable},
	} {
		var got []*raft.AppendEntriesRequest
		stop := b.follower(func(r *raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
			got = append(got, r)
			if c.answers[len(got)-1] == late {
				now.Add(int64(2 * a.tr.lease))
			}
			return &raft.AppendEntriesResponse{Success: true, LastLog: uint64(len(got))}
		})
		r := raft.AppendEntriesRequest{RPCHeader: a.header(), Term: 7, PrevLogEntry: 10, PrevLogTerm: 5, LeaderCommitIndex: 20}
		for i := range c.entries {
			r.Entries = append(r.Entries, &raft.Log{Index: uint64(11 + i), Term: 6})
		}
		var resp raft.AppendEntriesResponse
		if err := a.tr.AppendEntries("b", b.tr.LocalAddr(), &r, &resp); core.KindOf(err) != c.kind {
			t.Errorf("%s: %v", c.name, err)
		}
		stop()
		if len(got) != len(c.answers) || len(r.Entries) != c.entries || int(resp.LastLog) != len(got) {
			t.Errorf("%s: %d calls, want %d; answer %+v", c.name, len(got), len(c.answers), resp)
			continue
		}
		if len(got) == 2 {
			if q := got[1]; len(q.Entries) != 0 || q.PrevLogEntry != 12 || q.PrevLogTerm != 6 || q.Term != 7 || q.LeaderCommitIndex != 12 {
				t.Errorf("%s: asked again with %+v", c.name, q)
			}
		}
	}
}

// A vote is asked for over a new connection where those that were kept are broken, as after
// the other node's restart. Each refusal would cost an election time-out.
func TestVoteAfterRestart(t *testing.T) {
	a, b := newScripted(t, "a"), newScripted(t, "b")
	addr := b.tr.LocalAddr()
	var calls sync.WaitGroup
	for range maxPool { // at a time, so that each has a connection, which is kept
		calls.Go(func() {
			r := raft.AppendEntriesRequest{RPCHeader: a.header(), Term: 1}
			if err := a.tr.AppendEntries("b", addr, &r, &raft.AppendEntriesResponse{}); err != nil {
				t.Error(err)
			}
		})
	}
	var together []raft.RPC
	for range maxPool {
		together = append(together, <-b.tr.Consumer())
	}
	for _, rpc := range together {
		rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
	}
	calls.Wait()
	must(t, b.tr.Close())
	must(t, b.network.Close())
	newScriptedOn(t, "b", relisten(t, string(addr))).agree()

	var resp raft.RequestPreVoteResponse
	must(t, a.tr.RequestPreVote("b", addr, &raft.RequestPreVoteRequest{RPCHeader: a.header(), Term: 2}, &resp))
	if !resp.Granted {
		t.Fatal("no vote")
	}
}

// A connection reaches the node that it is meant for, or none.
func TestRaftCallsNameTheirNode(t *testing.T) {
	a, b := newScripted(t, "a"), newScripted(t, "b")
	r := raft.AppendEntriesRequest{RPCHeader: a.header(), Term: 1}
	wantKind(t, a.tr.AppendEntries("c", b.tr.LocalAddr(), &r, &raft.AppendEntriesResponse{}), core.Conflict)
}
