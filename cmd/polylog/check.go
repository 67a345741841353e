package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"polylog/core"
	"polylog/core/commitlog"
	"polylog/core/vfs"
	"polylog/index"
	"polylog/router/state"
)

func newCheck(p *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Read a whole data directory and say whether it is sound",
		Long: "check reads every byte of the log and compares every reference of the queues with the batch that\n" +
			"it points at, and raft's files with both. The broker must not be running.",
		Args: cobra.NoArgs,
	}
	dir := dataDirFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) (err error) {
		home, err := lockExisting(*dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, home.Close()) }()
		_, _ = fmt.Fprintf(p.out, "data   %s, cluster %s, node %s\n", *dir, home.ClusterID(), home.NodeID())
		log, err := checkLog(p.out, filepath.Join(*dir, logDir))
		if err != nil {
			return err
		}
		return explain(*dir, checkIndex(p, *dir, func(durable core.LogIndex) error {
			r, err := home.Check(&log, durable)
			if err == nil {
				_, _ = fmt.Fprintf(p.out, "raft   term %d, snapshot at entry %d\n", r.Term, r.Snapshot)
			}
			return err
		}))
	}
	return cmd
}

// checkLog prints what a reading of the whole log found.
func checkLog(w io.Writer, dir string) (commitlog.Report, error) {
	r, err := commitlog.Check(vfs.Default, dir)
	if err != nil {
		return r, err
	}
	_, _ = fmt.Fprintf(w, "log    %d segments, %d entries from %d to %d, %d bytes\n", len(r.Segments), r.Entries, r.First, r.Last, r.Bytes)
	for _, n := range r.Notes {
		_, _ = fmt.Fprintf(w, "       note: %s\n", n)
	}
	for _, d := range r.Damage {
		_, _ = fmt.Fprintf(w, "       damage: %v\n", d)
	}
	if len(r.Damage) > 0 {
		return r, fmt.Errorf("the log is damaged in %d places, first: %w", len(r.Damage), r.Damage[0])
	}
	return r, nil
}

// checkIndex compares the queues with the log, after agree has compared the index's last
// durable entry with everything else: opening the log may change it.
func checkIndex(p *process, dir string, agree func(core.LogIndex) error) (err error) {
	store, err := index.Open(index.Options{
		FS: vfs.Default, Dir: filepath.Join(dir, indexDir),
		Fatal: func(err error) { die(p.err, explain(dir, err)) },
	})
	if err != nil {
		return fmt.Errorf("open the index: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := agree(store.Durable()); err != nil {
		return err
	}
	log, err := commitlog.Open(commitlog.Options{Dir: filepath.Join(dir, logDir), CacheBytes: -1, Durable: store.Applied()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	st, err := state.Open(store, state.Options{})
	if err != nil {
		return err
	}
	snapshot, err := store.Snapshot()
	if err != nil {
		return err
	}
	defer snapshot.Close()
	c := queueChecker{log: log, read: snapshot}
	topics := 0
	for _, t := range st.Topics() {
		topics++
		for p, q := range t.Queues {
			if err := c.queue(q); err != nil {
				return fmt.Errorf("topic %s partition %d (queue %d): %w", t.Name, p, q, err)
			}
		}
	}
	hash, err := store.Hash()
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(p.out, "index  up to entry %d: %d topics, %d queues, %d runs, %d records, %d bytes of batches; every reference holds\n",
		store.Applied(), topics, c.queues, c.runs, c.records, c.bytes)
	_, _ = fmt.Fprintf(p.out, "       hash %x, the same on each node that has applied the same entries\n", hash)
	return nil
}

// queueChecker compares queues with the batches that they refer to.
type queueChecker struct {
	log                          *commitlog.Log
	read                         *index.Snapshot
	buf                          []byte
	queues, runs, records, bytes int64
}

// runsAtATime bounds the memory for one queue's runs.
const runsAtATime = 1024

func (c *queueChecker) queue(q core.QueueID) error {
	head, ok, err := c.read.Queue(q)
	if err != nil {
		return err
	}
	c.queues++
	if !ok {
		return nil // nothing was ever appended
	}
	c.records += int64(head.End - head.Start)
	for next := head.Start; next != head.End; {
		runs, err := c.read.Runs(q, next, runsAtATime, nil)
		if err != nil {
			return err
		}
		if len(runs) == 0 || next > head.End {
			return core.E(core.Corrupt, "the runs end at offset %d, the queue at %d", next, head.End)
		}
		for _, r := range runs {
			// A trim can cut into the first batch; all others follow on each other.
			if r.Offset != next && (next != head.Start || r.Offset > next) {
				return core.E(core.Corrupt, "a run begins at offset %d, want %d", r.Offset, next)
			}
			if err := c.run(r); err != nil {
				return fmt.Errorf("offset %d: %w", r.Offset, err)
			}
			next = r.End()
		}
	}
	return nil
}

// run looks at the header of the batch that r refers to; the log's own checksums have
// covered every byte.
func (c *queueChecker) run(r core.Run) error {
	b, _, err := c.log.ReadAt(r.Index, r.Pos, core.BatchHeaderLen, c.buf)
	if err != nil {
		return err
	}
	c.buf = b[:cap(b)]
	h, ok := core.ParseBatchHeader(b)
	if !ok || h.Magic != 2 || h.TotalLen() != int(r.Len) || uint64(h.LastOffsetDelta)+1 < uint64(r.First)+uint64(r.Count) {
		return core.E(core.Corrupt, "entry %d at %d: not the batch of %d bytes and %d records that the queue has", r.Index, r.Pos, r.Len, r.Count)
	}
	c.runs++
	c.bytes += int64(r.Len)
	return nil
}
