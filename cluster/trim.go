package cluster

import (
	"time"

	"polylog/core"
)

// The log loses whole segments at its front, and only what the durable state wants no
// more: entries up to the snapshot record's dead index. A crash goes back to no
// earlier state, so no reference to a removed entry ever comes back; and a log that
// begins behind the dead index has lost a file (checkHead).

// deadIndex is the last entry that the log may lose.
func (n *Node) deadIndex() core.LogIndex {
	s := n.snapshots.latest.Load()
	if s == nil {
		return 0
	}
	return min(s.dead, s.index, n.machine.Durable())
}

// trimDead removes the segments that nobody wants.
func (n *Node) trimDead() {
	to := n.deadIndex()
	if to == 0 {
		return
	}
	room, known := n.home.room()
	n.dropExports(known && room < 2*reserveBytes)
	n.exports.mu.Lock()
	defer n.exports.mu.Unlock()
	if len(n.exports.all) > 0 {
		return // another node fetches the log, or is about to go on from there
	}
	if err := n.log.TrimHead(to); err != nil {
		n.o.Logger.Warn("old segments not removed", "to", uint64(to), "err", err)
	}
}

// Trim says that no entry up to index is wanted any more. Segments without any other
// are removed; where that takes a checkpoint first Trim makes one, if the last that it
// made is TrimPause ago.
func (n *Node) Trim(index core.LogIndex) {
	n.trimDead()
	defer n.refillReserve()
	segments := n.log.Segments()
	if oldest := segments[0]; !oldest.Sealed || oldest.Next > min(index, n.machine.Applied())+1 {
		return // a checkpoint would free nothing
	}
	n.trimMu.Lock()
	defer n.trimMu.Unlock()
	if !n.trimmed.IsZero() && time.Since(n.trimmed) < n.o.TrimPause {
		return
	}
	n.trimmed = time.Now()
	n.checkpoint()
	n.trimDead()
}

func (n *Node) refillReserve() {
	if err := n.home.keepReserve(); err != nil {
		n.o.Logger.Warn("no space reserved for a full disk", "err", err)
	}
}
