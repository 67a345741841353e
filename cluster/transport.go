package cluster

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"polylog/cluster/peer"
	"polylog/core"
)

// transport is raft's network transport without the heartbeat fast path (guard 1).
// Heartbeats take the way through raft's main goroutine, like everything else, and
// so may wait there for a disk write: the time-outs allow for that.
//
// It tells the stream layer which node a call is for, so that a connection never
// reaches another one that has got its address: raft would take that node's answers
// for those of the one it meant.
type transport struct {
	*raft.NetworkTransport
	nudger    *nudger
	contacts  *contacts
	pace      *pace
	lease     time.Duration // the leader's
	now       func() time.Time
	electable func() error          // why this node must not ask for votes, or nil
	inspected chan raft.RPC         // calls that raft may have, see inspect.go; nil: all
	read      func(*raft.Log) error // the bytes of an entry that were left out
}

// Consumer implements raft.Transport.
func (t transport) Consumer() <-chan raft.RPC {
	if t.inspected != nil {
		return t.inspected
	}
	return t.NetworkTransport.Consumer()
}

// SetHeartbeatHandler does nothing, on purpose.
func (transport) SetHeartbeatHandler(func(raft.RPC)) {}

// Close closes every connection, in either direction.
func (t transport) Close() error {
	t.CloseStreams()
	return t.NetworkTransport.Close()
}

// AppendEntries implements raft.Transport. Raft bounds the number of entries only, so those beyond what the follower's
// pace allows are left out; one that is larger travels alone. Raft goes on behind the last entry that is left in args.
//
// A follower takes entries for committed up to the lower of what it is told and of the
// end of its own log, which may lie behind what this call has compared with the leader's:
// so it is told no more than that.
//
// Raft takes an answer for a sign, as of now, that the follower knows no other leader.
// But it may have waited in a socket for a process that was suspended, and a new leader
// may have been elected meanwhile: reads confirmed by such an answer would be stale. So
// one that took longer than the lease does not count. But the follower has the entries,
// and over a slow network would have them sent again, and answer late again: so it is
// asked at once, without them, and an answer to that within the lease counts for both.
func (t transport) AppendEntries(id raft.ServerID, addr raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	n, bytes, err := fitting(args.Entries, t.pace.of(id), t.read)
	if err != nil {
		return err
	}
	args.Entries = args.Entries[:n]
	compared := args.PrevLogEntry
	if k := len(args.Entries); k > 0 {
		compared = args.Entries[k-1].Index
	}
	args.LeaderCommitIndex = min(args.LeaderCommitIndex, compared)
	took, err := t.appendEntries(id, addr, args, resp)
	if bytes > 0 {
		t.pace.took(id, bytes, took, t.lease)
	}
	if k := len(args.Entries); err == nil && took > t.lease && resp.Success && k > 0 {
		again := *args
		again.Entries, again.PrevLogEntry, again.PrevLogTerm = nil, compared, args.Entries[k-1].Term
		*resp = raft.AppendEntriesResponse{}
		took, err = t.appendEntries(id, addr, &again, resp)
	}
	if err == nil && took > t.lease {
		return core.E(core.Unavailable, "answer after %v, the lease is %v", took, t.lease)
	}
	if err == nil && resp.Success {
		t.nudger.tell(id, args.LeaderCommitIndex)
		t.contacts.heard(id, t.now().Add(-took), args.Term, compared)
	} else if err == nil && resp.Term <= args.Term {
		t.contacts.heard(id, t.now().Add(-took), args.Term, 0)
	}
	return err
}

func (t transport) appendEntries(id raft.ServerID, addr raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (took time.Duration, err error) {
	sent := t.now()
	err = t.NetworkTransport.AppendEntries(id, qualified(id, addr), args, resp)
	return t.now().Sub(sent), err
}

// fitting is how many of the first entries have up to limit bytes, at least one, and how many they have. It reads
// them. Those before one that cannot be read fit.
func fitting(entries []*raft.Log, limit int, read func(*raft.Log) error) (n, bytes int, err error) {
	for i, e := range entries {
		if err := read(e); err != nil {
			if i > 0 {
				return i, bytes, nil
			}
			return 0, 0, err
		}
		more := len(e.Data) + len(e.Extensions)
		if bytes+more > limit && i > 0 {
			return i, bytes, nil
		}
		bytes += more
	}
	return len(entries), bytes, nil
}

// RequestVote implements raft.Transport.
func (t transport) RequestVote(id raft.ServerID, addr raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if err := t.electable(); err != nil {
		return err
	}
	return t.ask(func() error { return t.NetworkTransport.RequestVote(id, qualified(id, addr), args, resp) })
}

// RequestPreVote implements raft.WithPreVote.
func (t transport) RequestPreVote(id raft.ServerID, addr raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if err := t.electable(); err != nil {
		return err
	}
	return t.ask(func() error { return t.NetworkTransport.RequestPreVote(id, qualified(id, addr), args, resp) })
}

// ask asks for a vote, again where a kept connection was found broken, as all are to a
// node that was restarted: raft takes that for a refusal, and a refusal costs an election
// time-out. To ask twice changes nothing.
func (t transport) ask(vote func() error) error {
	begin := t.now()
	var err error
	for range maxPool + 1 {
		err = vote()
		var ours *core.Error // of a new connection
		if err == nil || errors.As(err, &ours) || t.now().Sub(begin) > t.lease {
			break
		}
	}
	return err
}

// InstallSnapshot implements raft.Transport.
func (t transport) InstallSnapshot(id raft.ServerID, addr raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return t.NetworkTransport.InstallSnapshot(id, qualified(id, addr), args, resp, data)
}

// TimeoutNow implements raft.Transport.
func (t transport) TimeoutNow(id raft.ServerID, addr raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, qualified(id, addr), args, resp)
}

// qualified puts the node's id before its address. Ids have no spaces.
func qualified(id raft.ServerID, addr raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(string(id) + " " + string(addr))
}

const (
	rpcTimeout = 10 * time.Second
	maxPool    = 3 // kept connections to each node: heartbeats, entries, nudges
)

// newTransport has raft speak through network. own is this node's id, addr what other
// nodes dial.
func newTransport(network *peer.Network, own, addr string, lease time.Duration, logger hclog.Logger) transport {
	calls := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:          &streamLayer{Listener: network.Raft(), network: network, own: own, addr: address(addr)},
		MaxPool:         maxPool,
		MaxRPCsInFlight: 1, // guard 5: no pipelining
		Timeout:         rpcTimeout,
		Logger:          logger,
	})
	return transport{
		NetworkTransport: calls, nudger: newNudger(), contacts: &contacts{all: map[raft.ServerID]contact{}},
		pace: newPace(), lease: lease, now: time.Now, electable: func() error { return nil }, read: func(*raft.Log) error { return nil },
	}
}

// streamLayer is raft's stream layer. It leads a node's calls to itself through a pipe,
// so that they need no network.
type streamLayer struct {
	*peer.Listener
	network *peer.Network
	own     string
	addr    address
	pipes   sync.WaitGroup
}

type address string

// Network implements net.Addr.
func (address) Network() string { return "tcp" }

// String implements net.Addr.
func (a address) String() string { return string(a) }

// Addr implements net.Listener.
func (s *streamLayer) Addr() net.Addr { return s.addr }

// Accept implements net.Listener.
func (s *streamLayer) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newBoundedConn(c), nil
}

// Dial implements raft.StreamLayer, for a qualified address.
func (s *streamLayer) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, addr, _ := strings.Cut(string(to), " ")
	if id == s.own {
		near, far := net.Pipe()
		s.pipes.Go(func() { s.Hand(far) })
		return near, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.network.Dial(ctx, addr, peer.Raft, id)
}

// Close ends the listener and every accepted connection.
func (s *streamLayer) Close() error {
	err := s.Listener.Close()
	s.pipes.Wait()
	return err
}
