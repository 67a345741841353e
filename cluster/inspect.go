package cluster

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"polylog/core"
	"polylog/core/commitlog"
)

// Raft trusts what other nodes say: a call that is not well-formed ends the process, in
// raft, in our log or in the state machine. So every call is looked at before raft gets it,
// and one that no sound node makes is refused; nothing has been changed by it then. What is
// well-formed is believed: who sent it is the listener's and TLS's matter.

// maxTermJump is by how much a call may raise the term at once. Terms rise by elections, a
// few a second at most; without a bound one bit that was flipped would use all terms up.
const maxTermJump = 1 << 32

// inspectLoop hands raft the calls that pass.
func (n *Node) inspectLoop() {
	refused := said{last: map[string]time.Time{}}
	for {
		select {
		case <-n.stop:
			return
		case rpc := <-n.transport.NetworkTransport.Consumer():
			if err := n.inspect(rpc.Command); err != nil {
				if !refused.again("") {
					n.o.Logger.Warn("call of another node refused", "reason", err)
				}
				rpc.Respond(nil, err)
				continue
			}
			n.stepwise(rpc.Command)
			if c, ok := rpc.Command.(*raft.RequestPreVoteRequest); ok {
				if n.shareDoubt() && n.o.NodeID > string(c.ID) && n.electable() == nil {
					n.loops.Go(func() { n.letRivalWait(rpc) })
					continue
				}
			}
			n.handOn(rpc)
		}
	}
}

// handOn gives raft a call.
func (n *Node) handOn(rpc raft.RPC) {
	select {
	case n.transport.inspected <- rpc:
	case <-n.stop:
	}
}

// inspect is why a call is refused, or nil.
func (n *Node) inspect(command any) error {
	term := uint64(0)
	var err error
	switch c := command.(type) {
	case *raft.AppendEntriesRequest:
		term = c.Term
		if err = checkAppend(c); err == nil {
			err = n.contradiction(c.Entries)
		}
	case *raft.InstallSnapshotRequest:
		term = c.Term
		err = checkInstall(c)
	case *raft.RequestVoteRequest:
		term = c.Term
		err = n.mayVote()
	case *raft.RequestPreVoteRequest:
		term = c.Term
		err = n.mayVote()
	}
	if now := n.raft.CurrentTerm(); err == nil && term > now && term-now > maxTermJump {
		err = core.E(core.Invalid, "term %d, the current one is %d", term, now)
	}
	return err
}

// mayVote is nil once this node knows that it has not lost what it had acknowledged.
func (n *Node) mayVote() error {
	if n.recalled.Load() {
		return nil
	}
	return errNotRecalled
}

// checkAppend is nil for entries that follow each other and that can be stored and applied.
func checkAppend(c *raft.AppendEntriesRequest) error {
	index, term := c.PrevLogEntry, c.PrevLogTerm
	if term > c.Term {
		return core.E(core.Invalid, "entry %d of term %d in a call of term %d", index, term, c.Term)
	}
	for i, e := range c.Entries {
		switch {
		case e == nil:
			return core.E(core.Invalid, "entry %d of %d is missing in a call", i+1, len(c.Entries))
		case index+1 == 0 || e.Index != index+1:
			return core.E(core.Invalid, "entry %d after entry %d in a call", e.Index, index)
		case e.Term < term || e.Term > c.Term:
			return core.E(core.Invalid, "entry %d of term %d after term %d, in a call of term %d", e.Index, e.Term, term, c.Term)
		case len(e.Data) > commitlog.MaxDataLen || len(e.Extensions) > commitlog.MaxExtLen:
			return core.E(core.TooLarge, "entry %d: %d and %d bytes", e.Index, len(e.Data), len(e.Extensions))
		}
		if err := checkEntry(e); err != nil {
			return err
		}
		index, term = e.Index, e.Term
	}
	c.LeaderCommitIndex = min(c.LeaderCommitIndex, index) // see transport.AppendEntries
	return nil
}

// checkEntry is nil for an entry of a type that we know, with what that type holds.
func checkEntry(e *raft.Log) error {
	switch e.Type {
	case raft.LogCommand:
		return core.Entry{Index: core.LogIndex(e.Index), Data: e.Data}.Commands(func(core.Code, []byte, uint32) {})
	case raft.LogConfiguration:
		return checkConfiguration(e.Data)
	case raft.LogNoop, raft.LogBarrier:
		return nil
	default:
		return core.E(core.Unsupported, "entry %d of type %d, which this node does not know", e.Index, e.Type)
	}
}

func checkInstall(c *raft.InstallSnapshotRequest) error {
	switch {
	case c.SnapshotVersion != 1:
		return core.E(core.Unsupported, "snapshot of version %d, this node knows 1", c.SnapshotVersion)
	case c.LastLogIndex == 0 || c.LastLogTerm > c.Term || c.ConfigurationIndex > c.LastLogIndex:
		return core.E(core.Invalid, "snapshot of entry %d of term %d, configuration %d, in a call of term %d", c.LastLogIndex, c.LastLogTerm, c.ConfigurationIndex, c.Term)
	case c.Size < 0 || c.Size > maxSnapshotRecord:
		return core.E(core.TooLarge, "snapshot record of %d bytes, the limit is %d", c.Size, maxSnapshotRecord)
	}
	return checkConfiguration(c.Configuration)
}

// checkConfiguration is nil for one that can be read and in which somebody votes.
func checkConfiguration(b []byte) error {
	conf, err := decodeConfiguration(b)
	if err != nil {
		return err
	}
	for _, s := range conf.Servers {
		if s.Suffrage == raft.Voter && s.ID != "" {
			return nil
		}
	}
	return core.E(core.Invalid, "configuration of %d nodes without a voter", len(conf.Servers))
}

// contradiction is nil when entries are not other ones than those that are applied here:
// these are committed, and so in the log of every leader to come.
func (n *Node) contradiction(entries []*raft.Log) error {
	applied := uint64(n.logs.applied())
	for _, e := range entries {
		if e.Index > applied {
			return nil
		}
		have, err := n.log.Entry(core.LogIndex(e.Index))
		if errors.Is(err, core.NotFound) {
			continue // trimmed
		}
		if err != nil {
			return err
		}
		if uint64(have.Term) != e.Term {
			return core.E(core.Conflict, "entry %d of term %d, here one of term %d is committed", e.Index, e.Term, have.Term)
		}
	}
	return nil
}
