package dispatch

import (
	"math"
	"slices"

	"polylog/core"
)

// ConsumerID names a consumer of a group, as its caller likes.
type ConsumerID uint64

// Unlimited is the credit of a consumer that its prefetch alone limits, or nothing.
const Unlimited = -1

// Consumer is who takes messages.
type Consumer struct {
	ID       ConsumerID
	Priority int   // a higher one is served first
	Prefetch int   // unsettled deliveries at a time; 0: any number
	Credit   int64 // deliveries that it takes before it grants more; Unlimited
	Lease    int64 // ms until a delivery has failed; 0: as long as the consumer is there
	// Exclusive consumers are alone.
	Exclusive bool
	// Getter consumers get a message with each call of Get, and no others. They are no
	// company to an exclusive one, and never the active one.
	Getter bool
}

// consumer is a Consumer at work.
type consumer struct {
	Consumer
	joined      uint64 // the order of Attach
	flying      int    // flights
	first, last *flight
	cancelled   bool // takes no more
	yielded     bool // others need not wait until it has settled what it holds

	at         *level // where it waits for its turn; nil when it can take nothing
	prev, next *consumer
}

// level is the consumers of one priority that can take a message, in turn.
type level struct {
	priority    int
	first, last *consumer
}

// Attach adds a consumer. The error is of kind Conflict where an exclusive one is there, or
// it wants to be one and is not alone.
func (g *Group) Attach(c Consumer) error {
	if g.consumers[c.ID] != nil {
		return core.E(core.Exists, "consumer %d is there already", c.ID)
	}
	if !c.Getter && (g.exclusive != nil || c.Exclusive && g.others() > 0) {
		return core.E(core.Conflict, "an exclusive consumer shares its queue with nobody")
	}
	g.joined++
	n := &consumer{Consumer: c, joined: g.joined}
	if c.Exclusive {
		g.exclusive = n
	}
	g.consumers[c.ID] = n
	g.chooseActive()
	g.update(n)
	return nil
}

// Consumers is how many there are, those included that were cancelled and still hold
// deliveries.
func (g *Group) Consumers() int { return len(g.consumers) }

// others is how many consumers an exclusive one would have to share with.
func (g *Group) others() (n int) {
	for _, c := range g.consumers {
		if !c.Getter && c.hasPlace() {
			n++
		}
	}
	return n
}

// Active is how many consumers there are that get messages by themselves, or would, with
// credit.
func (g *Group) Active() (n int) {
	for _, c := range g.consumers {
		if !c.cancelled && !c.Getter {
			n++
		}
	}
	return n
}

// Served reports whether a consumer can take a message: what waits is then for it, and not for a
// Getter.
func (g *Group) Served() bool { return g.front() != nil }

// Get makes the next delivery to a Getter and calls it serial; false when there is none for
// now.
func (g *Group) Get(id ConsumerID, now int64, serial uint64) (d Delivery, ok bool) {
	c := g.consumers[id]
	if c == nil || !c.Getter || c.cancelled {
		return d, false
	}
	return g.deliver(c, now, serial)
}

// Grant gives a consumer credit for n more deliveries.
func (g *Group) Grant(id ConsumerID, n int64) {
	if c := g.consumers[id]; c != nil && c.Credit != Unlimited && n > 0 {
		c.Credit = min(c.Credit, math.MaxInt64-n) + n
		g.update(c)
	}
}

// Cancel ends deliveries to a consumer. What it holds stays with it; when it has settled
// all, it is gone. Until then nobody else is exclusive or the active one, so that the order stays;
// unless it is cancelled once more, which gives its place up.
func (g *Group) Cancel(id ConsumerID) {
	c := g.consumers[id]
	if c == nil {
		return
	}
	c.cancelled, c.yielded = true, c.cancelled
	g.update(c)
	g.leave(c)
}

// leave forgets a cancelled consumer that holds nothing, and lets another one have its
// place once that is free.
func (g *Group) leave(c *consumer) {
	if c.cancelled && c.flying == 0 {
		delete(g.consumers, c.ID)
	}
	if g.exclusive == c && !c.hasPlace() {
		g.exclusive = nil
	}
	g.chooseActive()
}

// hasPlace reports whether others that want to be alone have to wait for a consumer.
func (c *consumer) hasPlace() bool { return !c.cancelled || !c.yielded && c.flying > 0 }

// Detach removes a consumer. What it held goes back, what is claimed later; where that counts as a failure, it is
// appended to failed, but for what is claimed: it may be done.
func (g *Group) Detach(id ConsumerID, counts bool, failed []Failure) []Failure {
	c := g.consumers[id]
	if c == nil {
		return failed
	}
	for f := c.first; f != nil; f = c.first {
		g.land(f)
		if counts && f.claim == 0 {
			failed = append(failed, Failure{f.offset, g.fail(f.offset, 0)})
			continue
		}
		delete(g.flights, f.offset)
		g.giveBack(f.offset, f.claim)
	}
	c.cancelled = true
	g.update(c)
	g.leave(c)
	return failed
}

// chooseActive sees to it that where one consumer at a time gets messages, it is one of the
// highest priority. Another one takes its place only when it holds nothing, so that
// the order stays, or has given its place up.
func (g *Group) chooseActive() {
	if !g.single {
		return
	}
	var best *consumer
	for _, c := range g.consumers {
		if !c.cancelled && !c.Getter && (best == nil || c.Priority > best.Priority || c.Priority == best.Priority && c.joined < best.joined) {
			best = c
		}
	}
	was := g.active
	if was != nil && was.hasPlace() && (was.flying > 0 || best.Priority <= was.Priority) {
		g.update(was) // it may have to stop, or may go on
		return
	}
	if g.active = best; was != nil {
		g.update(was)
	}
	if best != nil {
		g.update(best)
	}
}

// takes reports whether a consumer can take a message.
func (g *Group) takes(c *consumer) bool {
	switch {
	case c.cancelled || c.Getter || c.Credit == 0 || c.Prefetch > 0 && c.flying >= c.Prefetch:
		return false
	case g.single:
		return g.active == c && !g.outranked(c)
	}
	return true
}

// outranked reports whether a consumer of a higher priority waits for c's place.
func (g *Group) outranked(c *consumer) bool {
	for _, o := range g.consumers {
		if !o.cancelled && !o.Getter && o.Priority > c.Priority {
			return true
		}
	}
	return false
}

// update puts a consumer in line, or takes it out.
func (g *Group) update(c *consumer) {
	switch takes := g.takes(c); {
	case takes && c.at == nil:
		g.levelOf(c.Priority).push(c)
	case !takes && c.at != nil:
		c.at.remove(c)
	}
}

// front is whose turn it is; nil when nobody can take a message.
func (g *Group) front() *consumer {
	for _, l := range g.levels {
		if l.first != nil {
			return l.first
		}
	}
	return nil
}

func (g *Group) levelOf(priority int) *level {
	i, ok := slices.BinarySearchFunc(g.levels, priority, func(l *level, p int) int { return p - l.priority })
	if !ok {
		// Levels that nobody is at any more would else be looked at for ever.
		g.levels = slices.DeleteFunc(g.levels, func(l *level) bool { return l.first == nil })
		i, _ = slices.BinarySearchFunc(g.levels, priority, func(l *level, p int) int { return p - l.priority })
		g.levels = slices.Insert(g.levels, i, &level{priority: priority})
	}
	return g.levels[i]
}

func (l *level) push(c *consumer) {
	c.at, c.prev, c.next = l, l.last, nil
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
}

func (l *level) remove(c *consumer) {
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.at, c.prev, c.next = nil, nil, nil
}

// take gives a consumer a flight.
func (c *consumer) take(f *flight) {
	f.by, f.prev, f.next = c, c.last, nil
	if c.last == nil {
		c.first = f
	} else {
		c.last.next = f
	}
	c.last = f
	c.flying++
}

// drop is the opposite of take.
func (c *consumer) drop(f *flight) {
	if f.prev == nil {
		c.first = f.next
	} else {
		f.prev.next = f.next
	}
	if f.next == nil {
		c.last = f.prev
	} else {
		f.next.prev = f.prev
	}
	f.by, f.prev, f.next = nil, nil, nil
	c.flying--
}
