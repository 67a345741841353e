package router

import (
	"sort"

	"polylog/core"
)

// recordReader reads single records of a queue from this node's log. It keeps the runs and
// the batch that it read last, since deliveries come in order, mostly.
type recordReader struct {
	r     *Router
	queue core.QueueID

	end     core.Offset // of the queue, when it was looked at last
	runs    []core.Run
	batch   core.Ref // whose records these are
	records []core.Record
	base    core.Offset // that the batch's producer wrote
	control bool        // its records are marks of transactions, not messages
}

func (rr *recordReader) init(r *Router, q core.QueueID) { rr.r, rr.queue = r, q }

// applied reports whether this node has applied what appended an offset.
func (rr *recordReader) applied(o core.Offset) (bool, error) {
	if o < rr.end {
		return true, nil
	}
	head, _, err := rr.r.state.Store().Queue(rr.queue)
	rr.end = head.End
	return o < rr.end, err
}

// read completes a delivery whose offset is applied here. It is false where the record is
// gone, because every group has settled it, or where its producer left a gap.
func (rr *recordReader) read(d *Delivery) (found bool, err error) {
	run, ok, err := rr.run(d.Offset)
	if err != nil || !ok {
		return false, err
	}
	if ref := (core.Ref{Index: run.Index, Pos: run.Pos, Len: run.Len}); ref != rr.batch {
		if err := rr.load(ref); err != nil {
			if core.KindOf(err) == core.NotFound {
				rr.runs = rr.runs[:0]
				_, ok, err2 := rr.run(d.Offset)
				if err2 == nil && !ok {
					return false, nil // gone since we looked
				}
				err = core.E(core.Corrupt, "%v", err)
			}
			return false, err
		}
	}
	delta := core.Offset(run.First) + d.Offset - run.Offset
	i := sort.Search(len(rr.records), func(i int) bool { return rr.records[i].Offset-rr.base >= delta })
	if i == len(rr.records) || rr.records[i].Offset-rr.base != delta {
		return false, nil
	}
	d.Record = rr.records[i]
	if i == len(rr.records)-1 {
		rr.forget() // what comes next is in another one
	}
	d.Record.Offset = d.Offset
	h, err := rr.history(d.Offset)
	d.Deaths, d.Exchange, d.RoutingKeys = h.Deaths, h.Exchange, h.Keys
	return err == nil, err
}

// forget lets go of the batch: a consumer that waits must not keep it in memory.
func (rr *recordReader) forget() { rr.batch, rr.records = core.Ref{}, nil }

// run is the run that an offset is in; false when it is no longer in the queue.
func (rr *recordReader) run(o core.Offset) (core.Run, bool, error) {
	find := func() (core.Run, bool) {
		i := sort.Search(len(rr.runs), func(i int) bool { return rr.runs[i].End() > o })
		if i == len(rr.runs) || rr.runs[i].Offset > o {
			return core.Run{}, false
		}
		return rr.runs[i], true
	}
	if run, ok := find(); ok {
		return run, true, nil
	}
	var err error
	rr.runs, err = rr.r.state.Store().Runs(rr.queue, o, runsPerLook, rr.runs[:0])
	if err != nil {
		rr.runs = rr.runs[:0]
		if core.KindOf(err) == core.NotFound {
			return core.Run{}, false, nil
		}
		return core.Run{}, false, err
	}
	run, ok := find()
	return run, ok, nil
}

// load reads a batch. What it keeps is not given back to a pool: deliveries alias it.
func (rr *recordReader) load(ref core.Ref) error {
	rr.forget()
	data, _, err := rr.r.log.ReadAt(ref.Index, ref.Pos, ref.Len, nil)
	if err != nil {
		return err
	}
	if err := checkBatch(data); err != nil {
		return core.E(core.Corrupt, "batch at %d of entry %d: %v", ref.Pos, ref.Index, err)
	}
	h, _ := core.ParseBatchHeader(data)
	records := make([]core.Record, 0, min(h.Count, 1<<16))
	for rec, err := range core.Records(data, core.MaxInflated) {
		if err != nil {
			return err
		}
		records = append(records, rec)
	}
	rr.batch, rr.records, rr.base, rr.control = ref, records, h.BaseOffset, h.Control()
	return nil
}
