package cluster

import (
	"fmt"

	"polylog/core"
	"polylog/core/commitlog"
)

// HomeReport is what Check found.
type HomeReport struct {
	Term     core.Term     // of the vote file
	Snapshot core.LogIndex // 0: none yet
}

// Check reads raft's files and compares them with the log, as commitlog.Check has
// found it, and with the index, whose last durable entry is given. It refuses what
// Open would refuse, and changes nothing.
func (h *Home) Check(log *commitlog.Report, durable core.LogIndex) (r HomeReport, err error) {
	dir := h.fs.PathJoin(h.dir, raftName)
	snapshots, err := openSnapshots(h.fs, dir)
	if err != nil {
		return r, err
	}
	p := parts{snap: snapshots.latest.Load(), durable: durable, first: log.First, last: log.Last}
	logDir := h.fs.PathJoin(h.dir, logName)
	if err := checkHead(logDir, log.Head, p.snap); err != nil {
		return r, err
	}
	if p.snap != nil {
		r.Snapshot = p.snap.index
		p.holds = p.first > 0 && p.first <= p.snap.index && p.snap.index <= p.last
	}
	if log.Head == 0 && p.snap == nil && durable == 0 {
		return r, nil // it was never used
	}
	var vote stableStore
	name := h.fs.PathJoin(dir, stableName)
	if err := vote.load(h.fs, name); err != nil {
		return r, err
	}
	r.Term = core.Term(vote.term)
	if err := termsAgree(name, vote.term, log.LastTerm); err != nil {
		return r, err
	}
	if log.Last == 0 && vote.term > 1 && p.snap == nil {
		return r, fmt.Errorf("%s: %w", logDir, core.E(core.Corrupt, "the log is empty but this node has been used"))
	}
	_, err = p.agree()
	return r, err
}
