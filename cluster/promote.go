package cluster

import (
	"context"
	"time"

	"github.com/hashicorp/raft"

	"polylog/core"
	"polylog/core/wire"
)

// A new member has no vote until it has caught up: one that lags far behind would count
// for the majority at once and hold up every commit. The leader looks at its progress, and
// gives it the vote when it has, within one look, got to where the leader was at the look
// before.

const (
	progressService = "progress"
	// promoteInterval is between two looks, and so about how far behind, in time, a
	// member may be that gets a vote.
	promoteInterval = 500 * time.Millisecond
	promoteTimeout  = 10 * time.Second
)

// tellProgress says how far this node has come: the index of the last entry that it
// knows to be committed and has handed to its state machine, uvarint.
func (n *Node) tellProgress(_ string, s core.Stream) error {
	return s.Send(wire.AppendUvarint(nil, n.raft.AppliedIndex()))
}

// progressOf asks a member how far it has come.
func (n *Node) progressOf(ctx context.Context, id raft.ServerID) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, promoteInterval)
	defer cancel()
	s, err := n.OpenStream(ctx, string(id), progressService)
	if err != nil {
		return 0, err
	}
	b, err := s.Recv()
	if err != nil {
		return 0, err
	}
	r := wire.NewReader(b)
	return r.Uvarint(), r.Close()
}

// promoteLoop is the leader's goroutine that gives votes.
func (n *Node) promoteLoop() {
	ctx, cancel := context.WithCancel(context.Background())
	n.loops.Go(func() { <-n.stop; cancel() })
	tick := time.NewTicker(promoteInterval)
	defer tick.Stop()
	goals := map[raft.ServerID]uint64{}
	for {
		select {
		case <-n.stop:
			return
		case <-tick.C:
		}
		if n.refusal() != nil {
			clear(goals)
			continue
		}
		for _, s := range n.servers() {
			if s.Suffrage == raft.Voter {
				delete(goals, s.ID)
				continue
			}
			goal, seen := goals[s.ID]
			goals[s.ID] = n.raft.CommitIndex()
			if !seen {
				continue
			}
			if at, err := n.progressOf(ctx, s.ID); err == nil && at >= goal {
				n.promote(ctx, s)
			}
		}
	}
}

func (n *Node) promote(ctx context.Context, s raft.Server) {
	ctx, cancel := context.WithTimeout(ctx, promoteTimeout)
	defer cancel()
	if err := n.AddVoter(ctx, string(s.ID), string(s.Address)); err != nil {
		n.o.Logger.Warn("member not given a vote; it is tried again", "node", string(s.ID), "err", err)
		return
	}
	n.o.Logger.Info("member has caught up and votes", "node", string(s.ID))
}
