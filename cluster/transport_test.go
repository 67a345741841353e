package cluster

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"polylog/core"
)

// follower answers AppendEntries calls with what fn says.
func (p *scripted) follower(fn func(*raft.AppendEntriesRequest) *raft.AppendEntriesResponse) {
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
	p.tb.Cleanup(func() { close(done); <-ended })
}

// Calls carry a bounded number of bytes, and claim no more to be committed than what they
// have compared.
func TestAppendEntriesIsBounded(t *testing.T) {
	a, b := newScripted(t, "a"), newScripted(t, "b")
	var got *raft.AppendEntriesRequest
	b.follower(func(r *raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
		got = r
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
}

// An answer that comes after the lease proves nothing.
func TestLateAnswer(t *testing.T) {
	a, b := newScripted(t, "a"), newScripted(t, "b")
	hold := make(chan struct{}, 1)
	b.follower(func(*raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
		<-hold
		return &raft.AppendEntriesResponse{Success: true}
	})
	call := func() error {
		r := raft.AppendEntriesRequest{RPCHeader: a.header(), Term: 1}
		return a.tr.AppendEntries("b", b.tr.LocalAddr(), &r, &raft.AppendEntriesResponse{})
	}
	hold <- struct{}{}
	must(t, call())
	a.tr.lease = 10 * time.Millisecond
	time.AfterFunc(20*time.Millisecond, func() { hold <- struct{}{} })
	wantKind(t, call(), core.Unavailable)
}

// A connection reaches the node that it is meant for, or none.
func TestRaftCallsNameTheirNode(t *testing.T) {
	a, b := newScripted(t, "a"), newScripted(t, "b")
	r := raft.AppendEntriesRequest{RPCHeader: a.header(), Term: 1}
	wantKind(t, a.tr.AppendEntries("c", b.tr.LocalAddr(), &r, &raft.AppendEntriesResponse{}), core.Conflict)
}
