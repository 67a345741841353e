package index

import (
	"fmt"

	"polylog/core"
	"polylog/core/wire"
)

// Head is what is known of a queue without looking at its runs.
type Head struct {
	Start, End    core.Offset // live offsets are [Start, End); 0 <= Start <= End
	Bytes         int64       // sum of Len of the live runs
	Runs          int64       // live runs, one that Start falls into included
	MaxTime       int64       // largest MaxTime of the live runs; -1 when there is none
	MaxTimeOffset core.Offset // offset of the first live run with that time; -1 when there is none
}

// headRecord is a queue's head as the base has it. All numbers are varints
// (zigzag for the signed times and -1):
//
//	+-------+-------------+-------+------+---------+-----------------+---------------+------+
//	| start | end - start | bytes | runs | maxTime | maxTimeOffset+1 | start - first | peak |
//	+-------+-------------+-------+------+---------+-----------------+---------------+------+
type headRecord struct {
	Head
	// first is the offset of the first live run: first <= Start, and < Start when
	// Start falls inside that run; equal to End when there is none.
	first core.Offset
	// peak is the largest timestamp that was ever appended. Unlike MaxTime it never
	// falls, which makes it good to bisect by.
	peak int64
}

func newHeadRecord() headRecord {
	return headRecord{Head: Head{MaxTime: -1, MaxTimeOffset: -1}, peak: -1}
}

func (h *headRecord) appendTo(dst []byte) []byte {
	dst = wire.AppendUvarint(dst, uint64(h.Start))
	dst = wire.AppendUvarint(dst, uint64(h.End-h.Start))
	dst = wire.AppendUvarint(dst, uint64(h.Bytes))
	dst = wire.AppendUvarint(dst, uint64(h.Runs))
	dst = wire.AppendVarint(dst, h.MaxTime)
	dst = wire.AppendUvarint(dst, uint64(h.MaxTimeOffset+1))
	dst = wire.AppendUvarint(dst, uint64(h.Start-h.first))
	return wire.AppendVarint(dst, h.peak)
}

func decodeHead(b []byte) (headRecord, error) {
	r := wire.NewReader(b)
	var h headRecord
	h.Start = core.Offset(r.Uvarint())
	h.End = h.Start + core.Offset(r.Uvarint())
	h.Bytes = int64(r.Uvarint())
	h.Runs = int64(r.Uvarint())
	h.MaxTime = r.Varint()
	h.MaxTimeOffset = core.Offset(r.Uvarint()) - 1
	h.first = h.Start - core.Offset(r.Uvarint())
	h.peak = r.Varint()
	if err := r.Close(); err != nil {
		return headRecord{}, core.E(core.Corrupt, "queue head: %v", err)
	}
	if err := h.check(); err != nil {
		return headRecord{}, core.E(core.Corrupt, "queue head: %v", err)
	}
	return h, nil
}

func (h *headRecord) check() error {
	switch {
	case h.first < 0 || h.first > h.Start || h.Start > h.End:
		return fmt.Errorf("first %d, start %d, end %d", h.first, h.Start, h.End)
	case h.Bytes < 0 || h.Runs < 0:
		return fmt.Errorf("%d bytes in %d runs", h.Bytes, h.Runs)
	case (h.Runs == 0) != (h.Start == h.End):
		return fmt.Errorf("%d runs in [%d, %d)", h.Runs, h.Start, h.End)
	case h.Runs == 0 && (h.first != h.End || h.MaxTimeOffset != -1):
		return fmt.Errorf("empty, but first %d, max time at %d", h.first, h.MaxTimeOffset)
	case h.Runs > 0 && (h.MaxTimeOffset < h.first || h.MaxTimeOffset >= h.End):
		return fmt.Errorf("max time at %d, outside [%d, %d)", h.MaxTimeOffset, h.first, h.End)
	}
	return nil
}

// add accounts for r, appended at End.
func (h *headRecord) add(r core.Run) {
	if h.Runs == 0 || r.MaxTime > h.MaxTime {
		h.MaxTime, h.MaxTimeOffset = r.MaxTime, r.Offset
	}
	h.End = r.End()
	h.Bytes += int64(r.Len)
	h.Runs++
	h.peak = max(h.peak, r.MaxTime)
}
