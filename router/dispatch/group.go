package dispatch

import (
	"github.com/tidwall/btree"

	"polylog/core"
	"polylog/core/ackset"
)

// Start is what is known of a group when a leader begins with it.
type Start struct {
	Settled      *ackset.Set // becomes the Group's
	Begin, End   core.Offset // of the queue
	Mark         core.Offset // what may have been delivered before is below it
	Failed       []Failed
	SingleActive bool // one consumer at a time
	Limits
	Known
}

// Failed is an offset that was delivered before and came back.
type Failed struct {
	Offset   core.Offset
	Attempts int   // failed deliveries that count
	Due      int64 // not before, ms; 0: at once
}

// Delivery is a message for a consumer.
type Delivery struct {
	Consumer    ConsumerID
	Offset      core.Offset
	Serial      uint64 // names this delivery of the offset
	Attempts    int    // failed deliveries that count
	Redelivered bool   // false: it was never delivered before
}

// How far marks go ahead of deliveries: the more, the fewer commands; and the more
// messages that nobody saw are flagged as redelivered after the leader failed.
const (
	minAhead = 1 << 10
	maxAhead = 1 << 14
)

// Group dispatches one group of one queue.
type Group struct {
	// taken has what is settled and what was given out since the start; its floor is the
	// next message that neither is.
	taken *ackset.Set
	end   core.Offset
	// before is where first deliveries begin: offsets below it may have been delivered
	// under an earlier leader.
	before core.Offset

	mark   core.Offset // committed under this leader: offsets below it may be delivered
	wanted core.Offset // mark, or a higher one that is proposed
	ahead  core.Offset
	high   core.Offset // offsets from here on were not delivered under this leader

	waits    waitingSet            // can be delivered, out of the order of fresh ones; all are in taken
	delayed  map[core.Offset]int64 // came back, not before; all are in taken
	flights  map[core.Offset]*flight
	attempts map[core.Offset]int // failed deliveries that count; of unsettled offsets
	ranks    map[core.Offset]int // priorities other than 0; of unsettled offsets
	returns  uint64              // counts what came back
	timers   *btree.BTreeG[timer]

	limits       Limits
	known        Known
	ready, bytes int64 // of what can be delivered
	head         headExpiry

	consumers map[ConsumerID]*consumer
	levels    []*level // by priority, the highest first
	joined    uint64   // counts Attach
	exclusive *consumer
	single    bool
	active    *consumer // who gets messages where single; nil when nobody consumes
}

// flight is an offset that is with a consumer, or whose fate is awaited.
type flight struct {
	offset     core.Offset
	serial     uint64
	by         *consumer // nil: its fate is awaited
	lease      int64     // its end, ms; 0: none
	claim      int64     // see Claim
	prev, next *flight   // of the same consumer, in the order of delivery
}

// timer is when a lease ends or a delay is over.
type timer struct {
	at     int64
	offset core.Offset
}

func (t timer) less(u timer) bool {
	return t.at < u.at || t.at == u.at && t.offset < u.offset
}

// New is a group without consumers.
func New(s Start) *Group {
	g := &Group{
		taken: s.Settled, end: s.End, before: min(s.Mark, s.End), ahead: minAhead,
		limits: s.Limits, known: s.Known, single: s.SingleActive,
		consumers: map[ConsumerID]*consumer{},
	}
	g.taken.Add(0, s.Begin)
	g.taken.Unsettled(0, g.end, func(sp ackset.Span) { g.ready += sp.Len() })
	g.weighAll()
	for _, f := range s.Failed {
		if f.Offset >= g.end || g.taken.Contains(f.Offset) {
			continue
		}
		g.pull(f.Offset)
		g.count(f.Offset, f.Attempts)
		g.giveBack(f.Offset, f.Due)
	}
	return g
}

// Grow says that the queue ends at end now.
func (g *Group) Grow(end core.Offset) {
	if g.known.Size != nil {
		for o := g.end; o < end; o++ {
			g.bytes += g.known.Size(o)
		}
	}
	if end > g.end {
		g.ready += int64(end - g.end)
		g.end = end
	}
	g.head.known = false
}

// next is the first offset that can be delivered; back says that it came back.
func (g *Group) next() (o core.Offset, back, some bool) {
	o = g.taken.Floor()
	fresh := o < g.end
	if w, some := g.waits.first(); some && (!fresh || w.priority > 0 || w.priority == 0 && w.at <= o) {
		return w.offset, w.back, true
	}
	return o, false, fresh
}

// Next makes the next delivery and calls it serial; false when nobody can take a message,
// or there is none for now.
func (g *Group) Next(now int64, serial uint64) (d Delivery, ok bool) {
	c := g.front()
	if c == nil {
		return d, false
	}
	return g.deliver(c, now, serial)
}

// deliver makes the next delivery to c, if there is one that may be made.
func (g *Group) deliver(c *consumer, now int64, serial uint64) (d Delivery, ok bool) {
	o, back, some := g.next()
	if !some || o >= g.mark || g.over(o, back, now) {
		return d, false
	}
	g.pull(o)
	g.high = max(g.high, o+1)
	d = Delivery{
		Consumer: c.ID, Offset: o, Serial: serial, Attempts: g.attempts[o],
		Redelivered: back || o < g.before,
	}
	if c.Credit > 0 {
		c.Credit--
	}
	f := &flight{offset: o, serial: serial}
	if c.Lease > 0 {
		f.lease = now + c.Lease
		g.setTimer(timer{f.lease, o})
	}
	g.fly(f)
	c.take(f)
	if c.at != nil {
		c.at.remove(c) // to the end of the line, if it can take more
	}
	g.update(c)
	return d, true
}

// over reports whether the time of the next message is over. One that only a ready consumer gets has had
// its consumer when it comes back.
func (g *Group) over(o core.Offset, back bool, now int64) bool {
	if g.known.Expiry == nil {
		return false
	}
	at := g.expiryOf(g.ranks[o], o)
	return at <= now && (at != Immediately || back)
}

func (g *Group) fly(f *flight) {
	if g.flights == nil {
		g.flights = map[core.Offset]*flight{}
	}
	g.flights[f.offset] = f
}

// forget drops what is known of an offset that is settled.
func (g *Group) forget(o core.Offset) {
	delete(g.attempts, o)
	delete(g.ranks, o)
}

// WantMark is a mark that has to be committed before, or soon before, more can be
// delivered; false when there is no need. The caller proposes it and calls Marked when it
// is committed.
func (g *Group) WantMark() (mark core.Offset, want bool) {
	o, _, some := g.next()
	if !some || len(g.consumers) == 0 || g.wanted != g.mark {
		return 0, false
	}
	next := max(g.taken.Floor(), o)
	switch {
	case o >= g.mark && g.mark > 0:
		g.ahead = min(2*g.ahead, maxAhead) // the mark was in the way
	case o < g.mark && (next >= g.end || g.mark-next > g.ahead/2):
		return 0, false
	}
	g.wanted = max(next+g.ahead, g.mark)
	return g.wanted, true
}

// Marked says that a mark is committed.
func (g *Group) Marked(mark core.Offset) {
	if mark == g.wanted {
		g.mark = mark
	}
}

// Leave is the mark for a group that nobody uses: exactly what was delivered is below it.
// From then on nothing is delivered until a new mark is committed. It is false where no
// mark was committed: nothing was delivered then.
func (g *Group) Leave() (mark core.Offset, need bool) {
	need = g.mark > 0
	g.mark, g.wanted = 0, 0
	return min(max(g.high, g.before), g.end), need
}

// Idle reports whether nobody consumes, nothing is with anybody, and no mark is proposed:
// then Leave has the last thing that is to be known of the group.
func (g *Group) Idle() bool {
	return len(g.consumers) == 0 && len(g.flights) == 0 && g.wanted == g.mark
}

// Counts are the messages that can be delivered, those that are with consumers, and those
// that wait for their time.
func (g *Group) Counts() (ready, unsettled, delayed int64) {
	return g.ready, int64(len(g.flights)), int64(len(g.delayed))
}

// Flying calls fn for the messages that are with consumers.
func (g *Group) Flying(fn func(core.Offset)) {
	for o, f := range g.flights {
		if f.by != nil {
			fn(o)
		}
	}
}

// Bytes are those of the messages that can be delivered, as Known.Size counts them.
func (g *Group) Bytes() int64 { return g.bytes }

// Purge takes every message that is with nobody and appends their spans to dst, in no
// order: they are to be settled.
func (g *Group) Purge(dst []ackset.Span) []ackset.Span {
	drop := func(o core.Offset) {
		g.forget(o)
		if n := len(dst); n > 0 && dst[n-1].End == o {
			dst[n-1].End++
			return
		}
		dst = append(dst, ackset.Span{First: o, End: o + 1})
	}
	if g.waits.order != nil {
		g.waits.order.Scan(func(w waiting) bool { drop(w.offset); return true })
	}
	g.waits = waitingSet{}
	for o, due := range g.delayed {
		g.timers.Delete(timer{due, o})
		drop(o)
	}
	g.delayed = nil
	g.taken.Unsettled(0, g.end, func(sp ackset.Span) { dst = append(dst, sp) })
	g.taken.Add(0, g.end)
	g.ready, g.bytes, g.head.known = 0, 0, false
	return dst
}

func (g *Group) setTimer(t timer) {
	if g.timers == nil {
		g.timers = btree.NewBTreeGOptions(timer.less, btree.Options{NoLocks: true})
	}
	g.timers.Set(t)
}

// giveBack makes an offset one that can be delivered, from due on where that is not 0.
func (g *Group) giveBack(o core.Offset, due int64) {
	if due == 0 {
		g.comeBack(o)
		return
	}
	if g.delayed == nil {
		g.delayed = map[core.Offset]int64{}
	}
	g.delayed[o] = due
	g.setTimer(timer{due, o})
}

// comeBack makes an offset that was delivered before one that can be delivered.
func (g *Group) comeBack(o core.Offset) {
	w := waiting{at: o, offset: o, back: true}
	switch g.limits.Returns {
	case ToOldPlace:
		w.priority = g.ranks[o]
	case ToFront:
		w.priority, w.at = ahead, 0
	case ToBack:
		w.at = g.end
	}
	if g.limits.Returns != ToOldPlace {
		g.returns++
		w.seq = g.returns
	}
	g.waits.add(w)
	g.arrived(o)
	g.head.known = false
}

func (g *Group) count(o core.Offset, attempts int) {
	if attempts == 0 {
		return
	}
	if g.attempts == nil {
		g.attempts = map[core.Offset]int{}
	}
	g.attempts[o] = attempts
}
