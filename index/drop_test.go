package index

import (
	"testing"

	"polylog/core"
	"polylog/core/vfs"
)

// TestDropRuns drops a queue of falling times in steps, with its runs in the base, in
// the frozen and in the active overlay: each step takes as many runs as it says.
func TestDropRuns(t *testing.T) {
	s := openOn(t, vfs.NewMem())
	defer closeStore(t, s)
	createQueues(t, s, 1)
	const perLayer, step = 100, 7
	next := core.LogIndex(0)
	fill := func() {
		s.mustUpdate(t, func(tx *Tx) {
			for range perLayer {
				next++
				mustAppend(t, tx, 1, core.Run{MaxTime: 1000 - int64(next), Ref: core.Ref{Index: next, Len: 10, Count: 2}})
			}
		})
	}
	fill()
	mustCheckpoint(t, s)
	fill()
	frozen, err := s.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	fill()
	for left := int64(3 * perLayer); left > 0; left -= step {
		h, _, err := s.Queue(1)
		want := core.Offset(2 * (3*perLayer - left))
		if err != nil || h.Runs != left || h.Bytes != 10*left || h.Start != want || h.End != 6*perLayer || h.MaxTimeOffset != want {
			t.Fatalf("%d runs should be left: %+v, %v", left, h, err)
		}
		runs, err := s.Runs(1, 0, 1<<10, nil)
		if err != nil || int64(len(runs)) != left || runs[0].Offset != want {
			t.Fatalf("%d runs should be left: %v, %v", left, runs, err)
		}
		s.mustUpdate(t, func(tx *Tx) {
			if err := tx.DropRuns(1, step); err != nil {
				t.Fatal(err)
			}
		})
		if left < perLayer/2 {
			if err := frozen.Write(); err != nil {
				t.Fatal(err)
			}
		}
	}
	h, ok, err := s.Queue(1)
	if want := (Head{Start: 6 * perLayer, End: 6 * perLayer, MaxTime: -1, MaxTimeOffset: -1}); err != nil || !ok || h != want {
		t.Fatalf("the rest is %+v, %v", h, err)
	}
	if s.FirstLive() != 0 {
		t.Errorf("log index %d is still needed", s.FirstLive())
	}
	mustCheckpoint(t, s)
	if again, _, err := s.Queue(1); err != nil || again != h {
		t.Errorf("the checkpoint has %+v, %v, want %+v", again, err, h)
	}
}
