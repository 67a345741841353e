package commitlog

import (
	"testing"

	"polylog/core"
	"polylog/core/vfs"
)

// Zeros are written ahead of small groups, and not of large ones, which they would double.
func TestFillAheadOfSmallGroups(t *testing.T) {
	fs := vfs.NewMem()
	l, err := Open(Options{FS: fs, Dir: "log", SegmentBytes: 256 << 20, Flush: FlushSync, CacheBytes: -1, fill: fillStep})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	next := core.LogIndex(1)
	for _, c := range []struct {
		size   int
		filled bool
	}{{100, true}, {2 * fillGroup, false}, {100, true}} {
		for range 24 { // more than the mean remembers
			if err := l.Append([]Entry{{Index: next, Term: 1, Data: fillData(next, c.size)}}); err != nil {
				t.Fatal(err)
			}
			next++
		}
		l.fillMu.Lock()
		l.filler.filled = max(l.filler.filled, l.active.end) // what the background was at
		l.fillMu.Unlock()
		for l.fillOnce() {
		}
		l.fillMu.Lock()
		ahead := l.filler.filled - l.active.end
		l.fillMu.Unlock()
		if (ahead >= fillStep) != c.filled {
			t.Errorf("groups of %d bytes: %d bytes of zeros ahead", c.size, ahead)
		}
	}
}
