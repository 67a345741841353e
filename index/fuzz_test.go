package index

import (
	"math"
	"testing"

	"polylog/core"
)

func decodeChunk(chunk []byte) (runs []core.Run, peaks []int64, err error) {
	for len(chunk) > 0 {
		s, rest, err := nextSegment(chunk)
		if err != nil {
			return nil, nil, err
		}
		err = s.each(func(r core.Run) bool {
			runs = append(runs, r)
			return true
		})
		if err != nil {
			return nil, nil, err
		}
		peaks = append(peaks, s.peak)
		chunk = rest
	}
	return runs, peaks, nil
}

func extremeRuns() []core.Run {
	first := core.Run{Offset: 0, MaxTime: math.MaxInt64, Ref: core.Ref{Index: math.MaxUint64, Pos: math.MaxUint32, Len: math.MaxUint32, First: math.MaxUint32, Count: math.MaxUint32}}
	second := core.Run{Offset: first.End(), MaxTime: math.MinInt64, Ref: core.Ref{Index: 0, Count: 1}}
	third := core.Run{Offset: second.End(), MaxTime: -1, Ref: core.Ref{Index: 7, Count: 3}}
	return []core.Run{first, second, third}
}

func TestSegments(t *testing.T) {
	want := extremeRuns()
	chunk, peak := appendSegment(nil, want[2:], -1)
	if peak != -1 {
		t.Fatalf("peak %d", peak)
	}
	chunk, peak = appendSegment(chunk, want, peak)
	if peak != math.MaxInt64 {
		t.Fatalf("peak %d", peak)
	}
	chunk, peak = appendSegment(chunk, want[1:], peak)
	if peak != math.MaxInt64 {
		t.Fatalf("a peak must not fall, %d", peak)
	}
	got, _, err := decodeChunk(chunk)
	all := append(append(append([]core.Run{}, want[2]), want...), want[1:]...)
	if err != nil || len(got) != len(all) {
		t.Fatalf("%d runs, %v", len(got), err)
	}
	for i := range all {
		if got[i] != all[i] {
			t.Errorf("run %d: %+v, want %+v", i, got[i], all[i])
		}
	}
	last, err := lastSegment(chunk)
	if err != nil || last.first != want[1].Offset || last.end != want[2].End() || last.lastIndex != 7 || last.own != -1 {
		t.Fatalf("last segment %+v %v", last, err)
	}
}

// FuzzChunk feeds the decoder of chunks. What it accepts must be contiguous within a
// segment and come back the same when it is encoded again.
func FuzzChunk(f *testing.F) {
	seed, peak := appendSegment(nil, extremeRuns(), 0)
	f.Add(seed)
	seed, _ = appendSegment(seed, extremeRuns()[1:], peak)
	f.Add(seed)
	f.Fuzz(func(t *testing.T, chunk []byte) {
		if _, err := lastSegment(chunk); err != nil && core.KindOf(err) != core.Corrupt {
			t.Fatalf("error without a kind: %v", err)
		}
		for len(chunk) > 0 {
			s, rest, err := nextSegment(chunk)
			if err != nil {
				return
			}
			chunk = rest
			var runs []core.Run
			next := s.first
			err = s.each(func(r core.Run) bool {
				if r.Offset != next || r.Count == 0 || r.End() <= r.Offset {
					t.Fatalf("run %+v, expected at %d", r, next)
				}
				next = r.End()
				runs = append(runs, r)
				return true
			})
			if err != nil {
				if core.KindOf(err) != core.Corrupt {
					t.Fatalf("error without a kind: %v", err)
				}
				continue
			}
			again, _ := appendSegment(nil, runs, math.MinInt64)
			back, _, err := decodeChunk(again)
			if err != nil || len(back) != len(runs) {
				t.Fatalf("%d runs came back as %d: %v", len(runs), len(back), err)
			}
			for i := range runs {
				if runs[i] != back[i] {
					t.Fatalf("%+v came back as %+v", runs[i], back[i])
				}
			}
		}
	})
}

func FuzzHead(f *testing.F) {
	h := newHeadRecord()
	f.Add(h.appendTo(nil))
	for _, r := range extremeRuns() {
		r.Offset = h.End
		h.add(r)
	}
	h.Start, h.first = 5, 0
	f.Add(h.appendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHead(b)
		if err != nil {
			if core.KindOf(err) != core.Corrupt {
				t.Fatalf("error without a kind: %v", err)
			}
			return
		}
		if again, err := decodeHead(h.appendTo(nil)); err != nil || again != h {
			t.Fatalf("%+v came back as %+v, %v", h, again, err)
		}
	})
}

func FuzzMeta(f *testing.F) {
	f.Add((&meta{applied: 5, confIndex: 3, conf: []byte("abc")}).appendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			if k := core.KindOf(err); k != core.Corrupt && k != core.Unsupported {
				t.Fatalf("error without a kind: %v", err)
			}
			return
		}
		again, err := decodeMeta(m.appendTo(nil))
		if err != nil || again.applied != m.applied || again.confIndex != m.confIndex || string(again.conf) != string(m.conf) {
			t.Fatalf("%+v came back as %+v, %v", m, again, err)
		}
	})
}

func FuzzBucket(f *testing.F) {
	f.Add(bucketKey(3), []byte{7})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		bucket, runs, err := decodeBucket(key, value)
		if err == nil && (runs <= 0 || string(bucketKey(bucket)[1:]) != string(key[1:])) {
			t.Fatalf("%x %x: bucket %d with %d runs", key, value, bucket, runs)
		}
	})
}
