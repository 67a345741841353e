package cluster

import (
	"context"
	"time"

	"github.com/hashicorp/raft"

	"polylog/core"
	"polylog/core/wire"
)

// A node that was started with an older copy of its data has forgotten entries that it had
// acknowledged, and with its vote a majority that lacks them could go on without them. It
// cannot tell by itself. But leaders write into the log how far each member holds it
// (Options.Held), so the others may know. Therefore a node has no vote from its start on until
// so many other members have told it that it lacks nothing that they are a majority with it:
// a moment, where they run, and where they do not there is nobody to elect either. A node that
// is told otherwise goes without a vote until the leader has sent it what it lacks.
//
// What nobody else remembers of it is not found: what it has acknowledged since the last note
// that one of those has which it elects with.

const (
	heldService    = "held"
	recallInterval = 100 * time.Millisecond
	recallTimeout  = time.Second
)

var errNotRecalled = core.E(core.Unavailable, "this node has no vote until other members have told it that its log is not older than it was")

// HasVote reports whether this node takes part in elections: it is a voter, and knows that it has
// lost nothing that it had acknowledged.
func (n *Node) HasVote() bool { return n.recalled.Load() && n.IsVoter() }

// tellHeld tells another node how far this one knows it to hold the log, uvarint.
func (n *Node) tellHeld(peer string, s core.Stream) error {
	held := n.o.Held(peer)
	for _, c := range n.Contacts() {
		if c.ID == peer {
			held = max(held, c.Held)
		}
	}
	return s.Send(wire.AppendUvarint(nil, uint64(held)))
}

// recallLoop asks until this node may vote.
func (n *Node) recallLoop() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n.loops.Go(func() { <-n.stop; cancel() })
	tick := time.NewTicker(recallInterval)
	defer tick.Stop()
	for warned := false; !n.recalled.Load(); {
		held, enough := n.recall(ctx)
		switch last := n.log.Last(); {
		case held > last && !warned:
			warned = true
			n.o.Logger.Warn("the data of this node is older than what it had acknowledged: it has no vote until the leader has sent it the rest; where there is no leader start it with its newest data, or remove it and join again with an empty directory",
				"last entry", uint64(last), "acknowledged", uint64(held))
		case held <= last && enough:
			n.recalled.Store(true)
			return
		}
		select {
		case <-tick.C:
		case <-n.stop:
			return
		}
	}
}

// recall asks all other members once, and waits for all: one that has just started may know less
// than another. held is the most that one knows this node to have held, enough that those who
// answered and this node are a majority.
func (n *Node) recall(ctx context.Context) (held core.LogIndex, enough bool) {
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	servers := n.servers()
	answers := make(chan func() (core.LogIndex, bool), len(servers))
	asked, voters, told := 0, 0, 0
	for _, s := range servers {
		if s.Suffrage == raft.Voter {
			voters++
		}
		if string(s.ID) == n.o.NodeID {
			if s.Suffrage == raft.Voter {
				told++
			}
			continue
		}
		asked++
		n.calls.Go(func() {
			at, err := n.askHeld(ctx, string(s.ID))
			answers <- func() (core.LogIndex, bool) { return at, err == nil && s.Suffrage == raft.Voter }
		})
	}
	for range asked {
		at, counts := (<-answers)()
		held = max(held, at)
		if counts {
			told++
		}
	}
	return held, voters > 0 && told > voters/2
}

func (n *Node) askHeld(ctx context.Context, id string) (core.LogIndex, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := n.OpenStream(ctx, id, heldService)
	if err != nil {
		return 0, err
	}
	b, err := s.Recv()
	if err != nil {
		return 0, err
	}
	r := wire.NewReader(b)
	return core.LogIndex(r.Uvarint()), r.Close()
}
