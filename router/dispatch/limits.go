package dispatch

import (
	"math"

	"polylog/core"
	"polylog/core/ackset"
)

// ReturnOrder says where a message goes that came back.
type ReturnOrder uint8

// The orders.
const (
	ToOldPlace ReturnOrder = iota // where it was
	ToFront                       // ahead of all that are fresh, whatever their priority, in the order of return
	ToBack                        // behind all that are there, without its priority
)

// Limits bound a group, and can change. The zero value bounds nothing but lengths: see
// NoLimits.
type Limits struct {
	Failures  int   // one failure more, and a message is dead; 0: none
	MaxLength int64 // messages that can be delivered; -1: any number
	MaxBytes  int64 // bytes of them; -1: any number
	Returns   ReturnOrder
}

// NoLimits bounds nothing.
var NoLimits = Limits{MaxLength: -1, MaxBytes: -1}

// Known is what is known of messages without reading them. A function that is nil knows the
// same of all: no expiry, no size.
type Known struct {
	// Expiry is when a message expires, in ms: Never, or Immediately for one that only a
	// consumer that is ready gets, and once only.
	Expiry func(core.Offset) int64
	// Size is how many bytes a message counts for.
	Size func(core.Offset) int64
}

// Special times for Known.Expiry.
const (
	Never       = math.MaxInt64
	Immediately = 0
)

// SetLimits changes the limits, and what is known of messages.
func (g *Group) SetLimits(l Limits, k Known) {
	g.limits, g.head.known = l, false
	sized := (k.Size == nil) != (g.known.Size == nil)
	if g.known = k; sized {
		g.weighAll()
	}
}

// weighAll counts the bytes of what can be delivered.
func (g *Group) weighAll() {
	g.bytes = 0
	if g.known.Size == nil {
		return
	}
	for o := range g.waits.by {
		g.bytes += g.known.Size(o)
	}
	g.taken.Unsettled(0, g.end, func(sp ackset.Span) {
		for o := sp.First; o < sp.End; o++ {
			g.bytes += g.known.Size(o)
		}
	})
}

// arrived and departed keep count of what can be delivered.
func (g *Group) arrived(o core.Offset) {
	g.ready++
	if g.known.Size != nil {
		g.bytes += g.known.Size(o)
	}
}

func (g *Group) departed(o core.Offset) {
	g.ready--
	if g.known.Size != nil {
		g.bytes -= g.known.Size(o)
	}
}

// Rank gives a message that has just come, or was there when the group began, a priority other than
// 0, which is that of most and costs nothing. It is to be called before the message can be delivered.
func (g *Group) Rank(o core.Offset, priority int) {
	if priority == 0 || o >= g.end {
		return
	}
	w, back := g.waits.by[o]
	switch {
	case back && g.limits.Returns != ToOldPlace:
		return // it has lost it
	case back:
		g.waits.remove(o)
		w.priority = priority
		g.waits.add(w)
	case g.delayed[o] != 0:
	case g.taken.Contains(o):
		return
	default:
		g.taken.Add(o, o+1)
		g.waits.add(waiting{priority: priority, at: o, seq: math.MaxUint64, offset: o})
	}
	if g.ranks == nil {
		g.ranks = map[core.Offset]int{}
	}
	g.ranks[o] = priority
	g.head.known = false
}

// Expire takes out of those that can be delivered the messages at the head whose time is
// over, limit at most, and appends them to dst: they are to be proposed as expired, and their
// fate is awaited. Messages behind one that is not expired stay, of each priority.
func (g *Group) Expire(now int64, limit int, dst []core.Offset) []core.Offset {
	if g.known.Expiry == nil {
		return dst
	}
	for p, more := g.topPriority(), true; more; p, more = g.nextPriority(p) {
		for limit > 0 {
			o, some := g.headOf(p)
			if !some {
				break
			}
			at := g.expiryOf(p, o)
			if at > now || at == Immediately && o >= g.mark && g.front() != nil {
				break // in the second case somebody gets it as soon as the mark is committed
			}
			g.bury(o)
			dst = append(dst, o)
			limit--
		}
	}
	return dst
}

// Overflow takes out what makes the group too long, from the head, limit at most, and appends
// it to dst: it is to be proposed as dropped, and its fate is awaited.
func (g *Group) Overflow(limit int, dst []core.Offset) []core.Offset {
	for ; limit > 0; limit-- {
		long := g.limits.MaxLength >= 0 && g.ready > g.limits.MaxLength
		large := g.limits.MaxBytes >= 0 && g.bytes > g.limits.MaxBytes
		o, _, some := g.next()
		if !some || !long && !large {
			break
		}
		g.bury(o)
		dst = append(dst, o)
	}
	return dst
}

// bury takes a message that can be delivered out; its fate is awaited.
func (g *Group) bury(o core.Offset) {
	g.pull(o)
	g.fly(&flight{offset: o})
}

// pull takes a message out of those that can be delivered.
func (g *Group) pull(o core.Offset) {
	g.departed(o)
	if !g.waits.remove(o) {
		g.taken.Add(o, o+1)
	}
	g.head.known = false
}

// topPriority is the highest priority of messages that wait, and 0 at least.
func (g *Group) topPriority() int {
	w, _ := g.waits.first()
	return max(w.priority, 0)
}

// nextPriority is the next one below that messages have; 0 is always one.
func (g *Group) nextPriority(p int) (int, bool) {
	below, some := g.waits.below(p)
	if p > 0 {
		return max(below, 0), true
	}
	return below, some
}

// headOf is the first message of a priority.
func (g *Group) headOf(priority int) (o core.Offset, some bool) {
	w, ok := g.waits.firstOf(priority)
	if priority != 0 {
		return w.offset, ok
	}
	if o = g.taken.Floor(); ok && w.at <= o {
		return w.offset, true
	}
	return o, o < g.end
}

// expiryOf is when the head of a priority expires. That of the most common one is kept.
func (g *Group) expiryOf(priority int, o core.Offset) int64 {
	if priority != 0 {
		return g.known.Expiry(o)
	}
	if !g.head.known || g.head.offset != o {
		g.head = headExpiry{o, g.known.Expiry(o), true}
	}
	return g.head.at
}

// headExpiry is what is known of the head of priority 0.
type headExpiry struct {
	offset core.Offset
	at     int64
	known  bool
}

// nextExpiry is when a head expires; Never when none does.
func (g *Group) nextExpiry() int64 {
	at := int64(Never)
	if g.known.Expiry == nil {
		return at
	}
	for p, more := g.topPriority(), true; more; p, more = g.nextPriority(p) {
		if o, some := g.headOf(p); some {
			at = min(at, g.expiryOf(p, o))
		}
	}
	return at
}
