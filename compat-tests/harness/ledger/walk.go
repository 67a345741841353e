package ledger

// Walk follows somebody who reads a partition record by record.
type Walk struct {
	ledger *Ledger
	part   Partition
	next   int64
	once   bool
	who    string
	last   map[int64]ID // by producer
}

// Walk begins at the offset. once says that the partition's producers are idempotent: each record
// is there once, and in its producer's order.
func (l *Ledger) Walk(p Partition, from int64, once bool, who string) *Walk {
	return &Walk{ledger: l, part: p, next: from, once: once, who: who, last: map[int64]ID{}}
}

// Record takes the next record.
func (w *Walk) Record(offset int64, value []byte) {
	if offset != w.next {
		w.ledger.Fail("%s: %s: offset %d where %d follows", w.who, w.part, offset, w.next)
	}
	w.next = offset + 1
	id, err := Parse(value)
	if err != nil {
		w.ledger.Fail("%s: %s: offset %d: %v", w.who, w.part, offset, err)
		return
	}
	w.ledger.Note(w.part, offset, id, Read, w.who)
	if !w.once {
		return
	}
	if last, ok := w.last[id.Producer()]; ok && last.Seq() >= id.Seq() {
		w.ledger.Fail("%s: %s: offset %d: record %v follows %v of the same producer: it is out of order or there twice",
			w.who, w.part, offset, id, last)
	}
	w.last[id.Producer()] = id
}

// Next is the offset that must follow.
func (w *Walk) Next() int64 { return w.next }

// End says that nothing follows; least is the lowest end that the partition may have.
func (w *Walk) End(least int64) {
	if w.next < least {
		w.ledger.Fail("%s: %s ends at %d: records up to %d were acknowledged or shown", w.who, w.part, w.next, least-1)
	}
}
