package index

import (
	"fmt"
	"sync"
	"testing"

	"polylog/core"
	"polylog/core/vfs"
)

// TestConcurrent has one writer that keeps several queues and a key in step,
// checkpoints in the background, and readers that must never see them out of step.
func TestConcurrent(t *testing.T) {
	const queues, rounds = 4, 600
	s := openOn(t, vfs.NewMem())
	createQueues(t, s, queues)
	s.mustSet(t, "round", "0")

	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { snapshots(t, s, queues, done) })
		wg.Go(func() { hotReads(t, s, queues, done) })
	}
	written := make(chan error, 1)
	written <- nil // no checkpoint is unfinished
	for round := 1; round <= rounds; round++ {
		s.mustUpdate(t, func(tx *Tx) {
			for q := core.QueueID(1); q <= queues; q++ {
				r := core.Run{MaxTime: int64(round), Ref: core.Ref{Index: core.LogIndex(round), Len: 1, Count: 3}}
				mustAppend(t, tx, q, r)
				if round%50 == 0 {
					if err := tx.Trim(q, core.Offset(round*3-60)); err != nil {
						t.Error(err)
					}
				}
			}
			tx.Set([]byte("round"), fmt.Append(nil, round))
			tx.SetApplied(core.LogIndex(round))
		})
		select {
		case err := <-written:
			if err != nil {
				t.Error(err)
			}
			c, err := s.Freeze()
			if err != nil {
				t.Error(err)
				break
			}
			go func() { written <- c.Write() }()
		default:
		}
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	close(done)
	wg.Wait()
	if s.Durable() == 0 {
		t.Error("no checkpoint was written")
	}
	closeStore(t, s)
}

// snapshots checks that a snapshot is of one moment and stays so.
func snapshots(t *testing.T, s *Store, queues core.QueueID, done chan struct{}) {
	for {
		sn, err := s.Snapshot()
		if err != nil {
			t.Error(err)
			return
		}
		for range 2 {
			v, _, err := sn.Get([]byte("round"))
			if err != nil || string(v) != fmt.Sprint(sn.Applied()) {
				t.Errorf("round %q at %d, %v", v, sn.Applied(), err)
			}
			for q := core.QueueID(1); q <= queues; q++ {
				h, ok, err := sn.Queue(q)
				if err != nil || !ok || h.End != core.Offset(sn.Applied()*3) {
					t.Errorf("queue %d at %d: %+v %v %v", q, sn.Applied(), h, ok, err)
				}
				runs, err := sn.Runs(q, 0, 1<<20, nil)
				if err != nil || int64(len(runs)) != h.Runs || (len(runs) > 0 && runs[len(runs)-1].End() != h.End) {
					t.Errorf("queue %d at %d: %d runs, head %+v, %v", q, sn.Applied(), len(runs), h, err)
				}
			}
		}
		sn.Close()
		select {
		case <-done:
			return
		default:
		}
	}
}

// hotReads checks that what single reads see never goes back and is whole.
func hotReads(t *testing.T, s *Store, queues core.QueueID, done chan struct{}) {
	var last Head
	for n := core.QueueID(0); ; n++ {
		h, ok, err := s.Queue(1)
		if err != nil || !ok || h.End < last.End || h.Start < last.Start || h.End%3 != 0 {
			t.Errorf("%+v after %+v, %v", h, last, err)
		}
		last = h
		q := n%queues + 1
		runs, err := s.Runs(q, 0, 1<<20, nil)
		for i, r := range runs {
			if r.Offset != runs[0].Offset+core.Offset(3*i) || r.MaxTime != int64(r.Index) || r.Offset != core.Offset(3*(r.Index-1)) {
				t.Errorf("run %d of queue %d: %+v", i, q, r)
			}
		}
		if err != nil || (h.End > 0 && len(runs) == 0) {
			t.Errorf("queue %d: %d runs, %v", q, len(runs), err)
		}
		if r, ok, err := s.RunByIndex(q, core.LogIndex(h.End/3)); h.End > 0 && (err != nil || !ok || r.Index < core.LogIndex(h.End/3)) {
			t.Errorf("queue %d by index %d: %+v %v %v", q, h.End/3, r, ok, err)
		}
		err = s.Scan(nil, nil, func(k, _ []byte) bool { return string(k) == "round" })
		if err != nil {
			t.Error(err)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}
