package router

import (
	"cmp"

	"polylog/core"
)

// Head says where a queue begins and ends.
type Head struct {
	Start core.Offset // first offset that can be read
	End   core.Offset // the offset that the next record gets; Start == End: empty
	// Stable is the end for readers of committed records only: the first offset
	// of the earliest open transaction, else End.
	Stable        core.Offset
	Bytes         int64       // of the live batches
	MaxTime       int64       // largest timestamp, ms; meaningless when empty
	MaxTimeOffset core.Offset // of the run of records that holds it
}

// ReadOptions bound one read.
type ReadOptions struct {
	MaxBytes int
	// AtLeastOne returns the first batch even when it alone is larger than
	// MaxBytes, so that a reader with a small limit still gets on.
	AtLeastOne bool
	// Lend lets large batches stay where they lie in the log until they are sent.
	Lend bool
}

// Batch is a whole batch as it is stored. The offset and the leader epoch in its
// first 16 bytes are whatever the producer wrote: send Offset and Term instead.
// Data is shared and must not be changed.
type Batch struct {
	Offset core.Offset // of the batch's first record
	Term   core.Term
	Data   []byte      // all of it, or its header when Extent is set
	Extent core.Extent // all of it; Batches releases it
}

// Len is the length of the batch in bytes.
func (b *Batch) Len() int {
	if b.Extent == nil {
		return len(b.Data)
	}
	h, _ := core.ParseBatchHeader(b.Data) // checked by Read
	return h.TotalLen()
}

// Batches collects what Read finds; the zero value is ready. Read appends to
// Items, so one Batches can hold the answers for many queues.
type Batches struct {
	Items []Batch
	Bytes int // sum of the lengths of Items
	Held  int // how much of that is in memory

	runs    []core.Run
	buffers []*[]byte
}

const (
	// runsPerLook is how many runs are taken from the index at a time.
	runsPerLook = 64
	// gapAllowed is how many bytes of other queues are read along rather than
	// asking the log once more.
	gapAllowed = 4 << 10
	// lendFrom is the length in bytes from which a batch is lent. At 512 KiB that saves
	// three quarters of the CPU time of a fetch, at 16 KiB a fifth: there it is not worth
	// the checksum, which only batches that are read have compared each time.
	lendFrom = 64 << 10
)

// Head is where a queue begins and ends now. One that is empty may be unknown to the
// index: it learns of a queue with the first append.
func (r *Router) Head(q core.QueueID) (Head, error) {
	h, appended, err := r.state.Store().Queue(q)
	if err != nil {
		return Head{}, err
	}
	// In this order: the index forgets a queue only after its topic was deleted.
	if _, _, ok := r.state.TopicOfQueue(q); !ok {
		if def, err := r.queueDef(q); err != nil || def == nil {
			return Head{}, cmp.Or(err, error(core.E(core.NotFound, "queue %d does not exist", q)))
		}
	}
	if !appended {
		return Head{MaxTime: -1, MaxTimeOffset: -1}, nil
	}
	return Head{
		Start: h.Start, End: h.End, Stable: h.End,
		Bytes: h.Bytes, MaxTime: h.MaxTime, MaxTimeOffset: h.MaxTimeOffset,
	}, nil
}

// Read appends to dst whole batches of q, from the one that contains from on. The
// head is as of before the read; with an offset outside it the error is of kind
// OutOfRange and the head still set. An empty answer is no error.
//
// What is read from disk has its CRC checked: kind Corrupt. Of what is lent the header is
// checked, and the log checks the whole entry when it lends it for the first time. Items
// stay valid until dst.Release.
func (r *Router) Read(q core.QueueID, from core.Offset, o ReadOptions, dst *Batches) (Head, error) {
	head, err := r.Head(q)
	if err != nil {
		return head, err
	}
	if from < head.Start || from > head.End {
		return head, core.E(core.OutOfRange, "offset %d of queue %d is outside [%d, %d]", from, q, head.Start, head.End)
	}
	began := r.clock()
	items, bytes := len(dst.Items), dst.Bytes
	err = r.readRuns(q, from, head.End, o, dst)
	if err != nil && core.KindOf(err) == core.NotFound {
		now, err2 := r.Head(q)
		switch {
		case err2 != nil: // deleted meanwhile
		case now.Start > from: // retention was faster than we
			return now, core.E(core.OutOfRange, "offset %d of queue %d was trimmed, it starts at %d", from, q, now.Start)
		default:
			err = core.E(core.Corrupt, "queue %d: %v", q, err)
		}
	}
	if err != nil && len(dst.Items) > items {
		err = nil // what was read is good; the reader meets the error next
	}
	r.met.read(dst.Items[items:], dst.Bytes-bytes, r.clock().Sub(began), err)
	return head, err
}

func (r *Router) readRuns(q core.QueueID, from, end core.Offset, o ReadOptions, dst *Batches) error {
	left := o.MaxBytes
	first := o.AtLeastOne
	for from < end {
		runs, err := r.state.Store().Runs(q, from, runsPerLook, dst.runs[:0])
		dst.runs = runs
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			return nil
		}
		if runs[0].Offset > from {
			return core.E(core.NotFound, "offset %d of queue %d was trimmed", from, q)
		}
		fit := 0
		for _, run := range runs {
			if run.Offset >= end || (int(run.Len) > left && !first) {
				break
			}
			first = false
			left -= int(run.Len)
			fit++
		}
		for rest := runs[:fit]; len(rest) > 0; {
			n := stretch(rest)
			lent := false
			if o.Lend && rest[0].Len >= lendFrom {
				n = 1
				if lent, err = r.lend(&rest[0], dst); err != nil {
					return err
				}
			}
			if !lent {
				if err := r.readStretch(rest[:n], dst); err != nil {
					return err
				}
			}
			rest = rest[n:]
		}
		if fit < len(runs) {
			return nil
		}
		from = runs[len(runs)-1].End()
	}
	return nil
}

// stretch is how many of the runs to read at once: those of one log entry, as long
// as little of other queues lies between.
func stretch(runs []core.Run) int {
	n := 1
	for n < len(runs) && runs[n].Index == runs[0].Index {
		end := runs[n-1].Pos + runs[n-1].Len
		if runs[n].Pos < end || runs[n].Pos-end > gapAllowed {
			break
		}
		n++
	}
	return n
}

// lend appends a batch as an extent, unless the log has it in memory.
func (r *Router) lend(run *core.Run, dst *Batches) (bool, error) {
	front := make([]byte, core.BatchHeaderLen)
	ext, term, err := r.log.Lend(run.Index, run.Pos, run.Len, front)
	if err != nil || ext == nil {
		return false, err
	}
	if err := checkFront(front, int(run.Len)); err != nil {
		ext.Release()
		return false, core.E(core.Corrupt, "batch at %d of entry %d: %v", run.Pos, run.Index, err)
	}
	dst.Items = append(dst.Items, Batch{run.Offset - core.Offset(run.First), term, front, ext})
	dst.Bytes += int(run.Len)
	return true, nil
}

// readStretch reads runs that lie close together in one log entry.
func (r *Router) readStretch(runs []core.Run, dst *Batches) error {
	start := runs[0].Pos
	last := &runs[len(runs)-1]
	n := last.Pos + last.Len - start
	buf := getBuffer(int(n))
	data, term, err := r.log.ReadAt(runs[0].Index, start, n, (*buf)[:n])
	if err == nil && len(data) != int(n) {
		err = core.E(core.Corrupt, "entry %d: %d bytes at %d, want %d", runs[0].Index, len(data), start, n)
	}
	if err != nil {
		putBuffer(buf)
		return err
	}
	fromDisk := sameMemory(data, *buf)
	if fromDisk {
		dst.buffers = append(dst.buffers, buf)
	} else {
		putBuffer(buf)
	}
	for i := range runs {
		run := &runs[i]
		b := data[run.Pos-start:][:run.Len:run.Len]
		if fromDisk {
			if err := checkBatch(b); err != nil {
				return core.E(core.Corrupt, "batch at %d of entry %d: %v", run.Pos, run.Index, err)
			}
		}
		dst.Items = append(dst.Items, Batch{run.Offset - core.Offset(run.First), term, b, nil})
		dst.Bytes += len(b)
		dst.Held += len(b)
	}
	return nil
}

// checkFront checks the header of a batch of n bytes.
func checkFront(front []byte, n int) error {
	h, ok := core.ParseBatchHeader(front)
	switch {
	case !ok || h.TotalLen() != n:
		return core.E(core.Corrupt, "length of %d in %d bytes", h.TotalLen(), n)
	case h.Magic != core.BatchMagic:
		return core.E(core.Corrupt, "magic byte %d, want %d", h.Magic, core.BatchMagic)
	}
	return nil
}

func checkBatch(b []byte) error {
	if err := checkFront(b, len(b)); err != nil {
		return err
	}
	h, _ := core.ParseBatchHeader(b)
	if crc := core.BatchCRC(b); crc != h.CRC {
		return core.E(core.Corrupt, "CRC is %08x, want %08x", crc, h.CRC)
	}
	return nil
}

func sameMemory(a, b []byte) bool {
	return cap(a) > 0 && cap(b) > 0 && &a[:1][0] == &b[:1][0]
}

// Release gives the buffers back and empties dst for its next use. Items' Data and Extent
// must not be touched afterwards, so call it after the socket write.
func (b *Batches) Release() {
	for i, buf := range b.buffers {
		putBuffer(buf)
		b.buffers[i] = nil
	}
	for i := range b.Items {
		if ext := b.Items[i].Extent; ext != nil {
			ext.Release()
		}
	}
	clear(b.Items)
	b.Items, b.buffers, b.Bytes, b.Held = b.Items[:0], b.buffers[:0], 0, 0
}
