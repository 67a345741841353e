package simtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"polylog/core"
	"polylog/core/commitlog"
	"polylog/router/state"
)

// healTime is how long a cluster without faults may take until all nodes have the same.
const healTime = time.Minute

var errNotNow = errors.New("not now")

// agree waits until all nodes have applied the same, and compares everything with
// everything.
func (w *world) agree() {
	if w.hopeless() {
		return
	}
	reason := "there is no leader"
	w.replacing <- struct{}{} // a replacement that was begun ends first
	defer func() { <-w.replacing }()
	var all []*process
	if !w.await(healTime, func() bool {
		var at core.LogIndex
		if at, reason = w.mark(); at == 0 {
			return false
		}
		return w.await(5*time.Second, func() bool {
			all, reason = w.settled(at)
			return reason == ""
		})
	}) {
		w.fail("%v after all faults have ended: %s", healTime, reason)
		return
	}
	w.agreed = all[0].state.Applied()
	first, err := all[0].state.Hash()
	for _, p := range all[1:] {
		sum, e := p.state.Hash()
		if err = errors.Join(err, e); sum != first {
			w.fail("nodes %s and %s have other states at entry %d", all[0].id, p.id, w.agreed)
		}
	}
	for _, p := range all {
		if now := p.state.Applied(); now != w.agreed {
			err = errors.Join(err, fmt.Errorf("node %s has applied entry %d while states were compared at %d", p.id, now, w.agreed))
		}
	}
	if err != nil {
		w.fail("compare states: %v", err)
		return
	}
	for _, q := range w.allQueues() {
		w.judgeQueue(q, all)
	}
}

// mark has the leader do a command that changes nothing, and gives its index.
func (w *world) mark() (core.LogIndex, string) {
	l := w.leader()
	if l == nil {
		return 0, "there is no leader"
	}
	ctx, cancel := within(5 * time.Second)
	defer cancel()
	r, err := l.broker.Propose(ctx, (&state.Digest{}).Command())
	if err != nil || r.Err != nil {
		return 0, fmt.Sprintf("nothing can be proposed: %v, %v", r.Err, err)
	}
	return core.LogIndex(r.Offset), ""
}

// settled is every node's process, when all have applied the same, at least up to at.
func (w *world) settled(at core.LogIndex) (all []*process, reason string) {
	for _, nd := range w.nodes {
		p := nd.process()
		switch {
		case p == nil:
			return nil, nd.addr + " is down"
		case p.voters() != len(w.nodes):
			return nil, fmt.Sprintf("node %s knows %d voters", p.id, p.voters())
		case p.state.Applied() < at:
			return nil, fmt.Sprintf("node %s has applied %d of %d", p.id, p.state.Applied(), at)
		}
		all = append(all, p)
	}
	for _, p := range all[1:] {
		if p.state.Applied() != all[0].state.Applied() {
			return nil, "an entry is on its way"
		}
	}
	return all, ""
}

// judgeQueue reads all of a queue at every node.
func (w *world) judgeQueue(q *queue, all []*process) {
	var first []placed
	for i, p := range all {
		head, _, err := p.store.Queue(q.id)
		var records []placed
		if err == nil {
			records, err = p.readQueue(q.id, head.Start, 1<<20)
		}
		if err != nil {
			w.fail("node %s: read all of queue %d: %v", p.id, q.id, err)
			return
		}
		w.compare(p, q, records)
		if i == 0 {
			first = records
			if n := len(records); n > 0 && records[n-1].offset+1 != head.End || n == 0 && head.Start != head.End {
				w.fail("node %s: queue %d is said to end at %d, it has %d records", p.id, q.id, head.End, n)
			}
			w.judgeMessages(q, head.Start, records)
		} else if !slices.Equal(records, first) {
			w.fail("queue %d is another one at node %s than at node %s", q.id, p.id, all[0].id)
		}
	}
}

// compareDisks compares the logs that the nodes have left: all entries up to the one at
// which they agreed, and the bytes of sealed segments.
func (w *world) compareDisks() {
	logs := make([]*commitlog.Log, len(w.nodes))
	for i, nd := range w.nodes {
		l, err := commitlog.Open(commitlog.Options{FS: nd.disk, Dir: dataDir + "/log", SegmentBytes: segmentBytes})
		if err != nil {
			w.fail("open the log of %s: %v", nd.addr, err)
			return
		}
		defer l.Close() //nolint:errcheck // it was only read
		logs[i] = l
		if l.First() > 1 {
			w.stats.Trimmed++
		}
	}
	for i, l := range logs[1:] {
		if err := sameLog(logs[0], l, w.agreed); err != nil {
			w.fail("the logs of %s and %s: %v", w.nodes[0].addr, w.nodes[i+1].addr, err)
		}
	}
}

func sameLog(a, b *commitlog.Log, to core.LogIndex) error {
	for i := max(a.First(), b.First()); i <= to; i++ {
		x, err := a.Entry(i)
		y, err2 := b.Entry(i)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if x.Term != y.Term || x.Type != y.Type || !bytes.Equal(x.Data, y.Data) || !bytes.Equal(x.Ext, y.Ext) {
			return fmt.Errorf("entry %d differs: of terms %d and %d", i, x.Term, y.Term)
		}
	}
	for _, s := range a.Segments() {
		x, ok := a.Sealed(s.Base)
		y, ok2 := b.Sealed(s.Base)
		if ok && ok2 && x.Next <= to+1 && x != y {
			return fmt.Errorf("segment %d differs: %+v, %+v", s.Base, x, y)
		}
	}
	return nil
}
