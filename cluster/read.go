package cluster

import (
	"context"

	"github.com/hashicorp/raft"

	"polylog/core"
)

// reader answers whether reads of the local state are current. One goroutine asks
// raft for everybody who waits at the time.
type reader struct{ requests chan readRequest }

type readRequest struct {
	barrier bool
	answer  chan error
}

func (r *reader) init() { r.requests = make(chan readRequest) }

// ReadIndex returns nil when the state machine, read after the return, contains every
// command that anybody was told is done, by any node, before the call. A node that does
// not lead asks the leader (read_remote.go). Where no leader confirms it in time, because
// there is none or it cannot be reached, the error is of kind Unavailable.
func (n *Node) ReadIndex(ctx context.Context) error {
	err := n.readHere(ctx)
	if core.KindOf(err) != core.NotLeader {
		return err
	}
	return n.readThere(ctx)
}

// readHere is ReadIndex for the leader: it led at some moment during the call. What is
// acknowledged by it, or by way of it, was applied here first, so leading is all there is
// to show.
//
// A node that is alone leads for as long as it is leader. With other voters a round
// of heartbeats shows it; but raft takes a non-voter's answer to one for a vote, so
// where there are non-voters a barrier entry is committed instead.
//
// A node that shuts down hands leadership over, which is faster than the time-outs that
// the confirmation builds on: it confirms nothing any more.
func (n *Node) readHere(ctx context.Context) error {
	if n.proposer.isClosed() {
		return core.E(core.Closed, "this node is shutting down")
	}
	if err := n.awaitReady(ctx); err != nil {
		return err
	}
	if n.alone.Load() {
		return nil
	}
	barrier := false
	for _, s := range n.servers() {
		barrier = barrier || s.Suffrage != raft.Voter
	}
	return n.ask(ctx, barrier)
}

// Barrier returns when everything that was in the log before the call has been
// committed and applied here. Commands that still wait in the queue may not be.
func (n *Node) Barrier(ctx context.Context) error {
	if err := n.awaitReady(ctx); err != nil {
		return err
	}
	return n.ask(ctx, true)
}

// awaitReady waits while this node leads and is not ready.
func (n *Node) awaitReady(ctx context.Context) error {
	if err := n.refusal(); core.KindOf(err) != core.Unavailable || n.failure.failed() != nil {
		return err
	}
	if err := n.Ready(ctx); err != nil {
		return err
	}
	return n.refusal()
}

func (n *Node) ask(ctx context.Context, barrier bool) error {
	q := readRequest{barrier: barrier, answer: make(chan error, 1)}
	select {
	case n.reader.requests <- q:
	case <-n.stop:
		return core.E(core.Closed, "this node is shutting down")
	case <-ctx.Done():
		return core.E(core.Unavailable, "read not confirmed: %v", context.Cause(ctx))
	}
	select {
	case err := <-q.answer:
		return err
	case <-ctx.Done():
		return core.E(core.Unavailable, "read not confirmed: %v", context.Cause(ctx))
	}
}

func (n *Node) readLoop() {
	for {
		var round []readRequest
		select {
		case <-n.stop:
			return
		case q := <-n.reader.requests:
			round = append(round, q)
		}
		for more := true; more; {
			select {
			case q := <-n.reader.requests:
				round = append(round, q)
			default:
				more = false
			}
		}
		barrier := false
		for _, q := range round {
			barrier = barrier || q.barrier
		}
		var future raft.Future
		if barrier {
			future = n.raft.Barrier(0)
		} else {
			future = n.raft.VerifyLeader()
		}
		err := future.Error()
		if err != nil {
			err = core.E(core.NotLeader, "this node does not lead: %v", err)
		}
		for _, q := range round {
			q.answer <- err
		}
	}
}
