package index

import (
	"math"

	"polylog/core"
	"polylog/core/wire"
)

// A queue's runs are stored in chunks. The run at offset o belongs to chunk
// o>>spanBits, whatever wrote it when, so that a checkpoint needs to know nothing
// about earlier ones: it appends segments to chunks with Pebble's Merge, whose
// default operator concatenates. A chunk's value is one or more segments:
//
//	segment:
//	+--------+-------+------+---------+------+------------+-----------+------+------+---
//	| length | first | runs | offsets | peak | peak - own | lastIndex | run  | run  | …
//	| of the | offset|      | spanned |      | max time   |           |      |      |
//	| rest   |       |      |         |      |            |           |      |      |
//	+--------+-------+------+---------+------+------------+-----------+------+------+---
//
//	run:
//	+-------+--------------+-----+-----+--------------+----------------+
//	| count | index - prev | pos | len | first record | maxTime - prev |
//	+-------+--------------+-----+-----+--------------+----------------+
//
// All numbers are uvarints, peak and the differences in a run zigzag varints. prev
// is lastIndex and peak for the first run of a segment, else the run before. peak is
// the largest timestamp that the queue has seen up to the end of the segment; it
// never falls along a queue. Offsets are dense, so that runs carry none.
const (
	// spanBits makes a chunk of at most 1,024 runs of single records, about 10 KiB,
	// and of a few runs for queues of large batches.
	spanBits = 10
	// segmentRuns bounds what a reader decodes to find one run.
	segmentRuns = 128
	// minRunLen is the least length of an encoded run.
	minRunLen = 6
)

// segment is a decoded segment header and its undecoded runs.
type segment struct {
	first, end core.Offset // of its runs
	peak, own  int64
	lastIndex  core.LogIndex
	runs       int
	body       []byte
}

// appendSegment encodes runs, which are contiguous and not empty; peak is the
// largest timestamp before them. It returns the new peak.
func appendSegment(dst []byte, runs []core.Run, peak int64) ([]byte, int64) {
	own := int64(math.MinInt64)
	for i := range runs {
		own = max(own, runs[i].MaxTime)
	}
	peak = max(peak, own)
	last := &runs[len(runs)-1]

	b := make([]byte, 0, 48+14*len(runs))
	b = wire.AppendUvarint(b, uint64(runs[0].Offset))
	b = wire.AppendUvarint(b, uint64(len(runs)))
	b = wire.AppendUvarint(b, uint64(last.End()-runs[0].Offset))
	b = wire.AppendVarint(b, peak)
	b = wire.AppendUvarint(b, uint64(peak)-uint64(own))
	b = wire.AppendUvarint(b, uint64(last.Index))
	index, ms := last.Index, peak
	for i := range runs {
		r := &runs[i]
		b = wire.AppendUvarint(b, uint64(r.Count))
		b = wire.AppendVarint(b, int64(r.Index-index))
		b = wire.AppendUvarint(b, uint64(r.Pos))
		b = wire.AppendUvarint(b, uint64(r.Len))
		b = wire.AppendUvarint(b, uint64(r.First))
		b = wire.AppendVarint(b, int64(uint64(r.MaxTime)-uint64(ms)))
		index, ms = r.Index, r.MaxTime
	}
	return wire.AppendBytes(dst, b), peak
}

// nextSegment takes the first segment off a chunk.
func nextSegment(chunk []byte) (s segment, rest []byte, err error) {
	r := wire.NewReader(chunk)
	body := r.Bytes()
	if r.Err() != nil {
		return s, nil, core.E(core.Corrupt, "chunk: %v", r.Err())
	}
	rest = r.Rest()
	r = wire.NewReader(body)
	s.first = core.Offset(r.Uvarint())
	runs := r.Uvarint()
	spanned := r.Uvarint()
	s.peak = r.Varint()
	s.own = int64(uint64(s.peak) - r.Uvarint())
	s.lastIndex = core.LogIndex(r.Uvarint())
	s.body = r.Rest()
	if r.Err() != nil {
		return s, nil, core.E(core.Corrupt, "segment header: %v", r.Err())
	}
	if s.first < 0 || runs == 0 || runs > uint64(len(s.body)/minRunLen) || spanned > uint64(math.MaxInt64-s.first) {
		return s, nil, core.E(core.Corrupt, "segment: first offset %d, %d runs over %d offsets in %d bytes",
			s.first, runs, spanned, len(s.body))
	}
	s.runs, s.end = int(runs), s.first+core.Offset(spanned)
	return s, rest, nil
}

// each calls fn for the runs of s until it returns false.
func (s *segment) each(fn func(core.Run) bool) error {
	r := wire.NewReader(s.body)
	run := core.Run{Offset: s.first, MaxTime: s.peak, Ref: core.Ref{Index: s.lastIndex}}
	for range s.runs {
		count := r.Uvarint()
		run.Index += core.LogIndex(r.Varint())
		pos, length, first := r.Uvarint(), r.Uvarint(), r.Uvarint()
		run.MaxTime = int64(uint64(run.MaxTime) + uint64(r.Varint()))
		if r.Err() != nil {
			return core.E(core.Corrupt, "run at offset %d: %v", run.Offset, r.Err())
		}
		if count == 0 || max(count, pos, length, first) > math.MaxUint32 || count > uint64(s.end-run.Offset) {
			return core.E(core.Corrupt, "run at offset %d: count %d, position %d, length %d, first record %d; segment ends at %d",
				run.Offset, count, pos, length, first, s.end)
		}
		run.Count, run.Pos, run.Len, run.First = uint32(count), uint32(pos), uint32(length), uint32(first)
		if !fn(run) {
			return nil
		}
		run.Offset = run.End()
	}
	if err := r.Close(); err != nil {
		return core.E(core.Corrupt, "segment at offset %d: %v", s.first, err)
	}
	if run.Offset != s.end {
		return core.E(core.Corrupt, "segment at offset %d ends at %d, its header says %d", s.first, run.Offset, s.end)
	}
	return nil
}

// lastSegment is the header of a chunk's last segment.
func lastSegment(chunk []byte) (s segment, err error) {
	for len(chunk) > 0 || s.runs == 0 {
		if s, chunk, err = nextSegment(chunk); err != nil {
			return s, err
		}
	}
	return s, nil
}
