package cluster

import (
	"errors"

	"github.com/hashicorp/raft"

	"polylog/core"
)

// errSequenceEnded refuses what was proposed behind a command that failed. See core.Sequence.
var errSequenceEnded = core.E(core.Unavailable, "a command of the same sequence has failed before")

// outcomeError says what raft's answer to an entry means for the proposer.
func outcomeError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return core.E(core.NotLeader, "this node is not the leader") // the entry was never stored
	}
	// Leadership lost after the entry was stored here, or a storage error, which
	// leaves open how much reached the disk.
	return core.E(core.Uncertain, "it is not known whether the proposal will be done: %v", err)
}
