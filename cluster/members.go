package cluster

import (
	"context"
	"time"

	"github.com/hashicorp/raft"

	"polylog/cluster/peer"
	"polylog/core"
)

func (n *Node) servers() []raft.Server { return n.raft.GetConfiguration().Configuration().Servers }

// Members are the nodes of the newest configuration that this node knows, which may
// not be committed yet.
func (n *Node) Members() []core.Member {
	servers := n.servers()
	members := make([]core.Member, len(servers))
	for i, s := range servers {
		members[i] = core.Member{ID: string(s.ID), Addr: string(s.Address), Voter: s.Suffrage == raft.Voter}
	}
	return members
}

// Mistaken is who of another cluster took this node for a member of that, lately.
func (n *Node) Mistaken() (peer.Mistake, bool) { return n.network.Mistaken() }

// isLoneVoter reports whether this node alone decides.
func (n *Node) isLoneVoter() bool {
	lone := false
	for _, s := range n.servers() {
		if s.Suffrage == raft.Voter {
			if string(s.ID) != n.o.NodeID {
				return false
			}
			lone = true
		}
	}
	return lone
}

// storedConfiguration is told of a configuration that is about to be in the log,
// committed or not, by raft's main goroutine.
func (n *Node) storedConfiguration(index core.LogIndex, c raft.Configuration) {
	n.newestConf.Store(uint64(index))
	if len(c.Servers) != 1 {
		n.alone.Store(false)
	}
}

// committedConfiguration is told of a committed configuration by the apply
// goroutine. Alone is set only here, when it is the newest: while in doubt, reads
// ask the others.
func (n *Node) committedConfiguration(index core.LogIndex, c raft.Configuration) {
	if uint64(index) >= n.newestConf.Load() && len(c.Servers) == 1 {
		n.alone.Store(string(c.Servers[0].ID) == n.o.NodeID)
	}
}

// AddNonvoter adds a node that gets the log and has no vote, or changes its address.
// Only the leader can; it returns when the change is committed.
func (n *Node) AddNonvoter(ctx context.Context, id, addr string) error {
	return n.change(ctx, func(timeout time.Duration) raft.IndexFuture {
		return n.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(addr), 0, timeout)
	})
}

// AddVoter adds a node with a vote, or gives it one. Add it as a non-voter first and
// wait until it has caught up: a voter counts at once.
func (n *Node) AddVoter(ctx context.Context, id, addr string) error {
	return n.change(ctx, func(timeout time.Duration) raft.IndexFuture {
		return n.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(addr), 0, timeout)
	})
}

// AddMember adds a node that gets the log and has no vote, which it is given when it has
// caught up (promote.go). Where the node is a member already its address is changed.
func (n *Node) AddMember(ctx context.Context, id, addr string) error {
	for _, s := range n.servers() {
		if string(s.ID) == id && s.Suffrage == raft.Voter {
			return n.AddVoter(ctx, id, addr)
		}
	}
	return n.AddNonvoter(ctx, id, addr)
}

// IsVoter reports whether the newest configuration that this node knows gives it a vote.
func (n *Node) IsVoter() bool {
	for _, s := range n.servers() {
		if string(s.ID) == n.o.NodeID {
			return s.Suffrage == raft.Voter
		}
	}
	return false
}

// IsMember reports whether the newest configuration that this node knows has it.
func (n *Node) IsMember() bool {
	for _, s := range n.servers() {
		if string(s.ID) == n.o.NodeID {
			return true
		}
	}
	return false
}

// RemoveMember takes a node out, with its vote.
func (n *Node) RemoveMember(ctx context.Context, id string) error {
	err := n.change(ctx, func(timeout time.Duration) raft.IndexFuture {
		return n.raft.RemoveServer(raft.ServerID(id), 0, timeout)
	})
	if err == nil {
		n.transport.contacts.forget(raft.ServerID(id)) // the next of that id is another
	}
	return err
}

func (n *Node) change(ctx context.Context, request func(time.Duration) raft.IndexFuture) error {
	if n.o.Listener == nil {
		return core.E(core.Conflict, "this node has no node-to-node listener: others cannot reach it")
	}
	if err := n.leadership.refusal(n); err != nil {
		return err
	}
	timeout := time.Duration(0)
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(time.Until(deadline), time.Millisecond)
	}
	answer := make(chan error, 1)
	n.calls.Go(func() { answer <- request(timeout).Error() })
	select {
	case err := <-answer:
		return outcomeError(err)
	case <-ctx.Done():
		return core.E(core.Uncertain, "outcome of a membership change not known yet: %v", context.Cause(ctx))
	}
}

// updateOwnAddress puts this node's address into the configuration where it has
// another there, as after a restart with another port: others could not reach it.
func (n *Node) updateOwnAddress() {
	if n.o.Listener == nil {
		return
	}
	addr := n.transport.LocalAddr()
	for _, s := range n.servers() {
		if string(s.ID) == n.o.NodeID && s.Suffrage == raft.Voter && s.Address != addr {
			n.calls.Go(func() {
				if err := n.raft.AddVoter(s.ID, addr, 0, 0).Error(); err != nil {
					n.o.Logger.Warn("own address not updated", "addr", string(addr), "err", err)
				}
			})
		}
	}
}
