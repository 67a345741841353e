package dispatch

import "polylog/core"

// Outcome is what a consumer says of a delivery.
type Outcome uint8

// The outcomes.
const (
	Done    Outcome = iota // it is settled
	Release                // to be delivered again; nobody's fault
	Fail                   // to be delivered again, and it counts
	Reject                 // it is dead
)

// Verdict is what follows from an outcome.
type Verdict uint8

// The verdicts.
const (
	// Propose: the caller proposes it.
	Propose Verdict = iota
	// Await: the caller proposes it, and calls Decided when it is known what came of it.
	Await
	// Handled: nothing is to be proposed.
	Handled
	// Stale: the delivery is no longer the consumer's, and what it says of it, too late.
	Stale
)

// Settle says how a delivery ended. due, where it is not 0, is when the next one of a
// failed or released message is due, in ms.
//
// That a message is done counts from whomever it comes, as long as nobody else has it by
// now: an acknowledgement that comes after the lease ended, or after the leader changed,
// saves a redelivery.
func (g *Group) Settle(o core.Offset, serial uint64, outcome Outcome, due int64) Verdict {
	f := g.flights[o]
	switch {
	case f != nil && (f.serial != serial || f.by == nil):
		return Stale
	case f == nil && (outcome != Done || !g.withNobody(o)):
		return Stale
	case f == nil:
		g.removeUndelivered(o)
		return Propose
	}
	g.land(f)
	switch outcome {
	case Done:
		delete(g.flights, o)
		g.forget(o)
		return Propose
	case Release:
		delete(g.flights, o)
		if g.giveBack(o, due); due == 0 {
			return Handled
		}
		return Propose
	case Fail:
		if !g.fail(o, due) {
			return Propose
		}
	case Reject:
	}
	return Await
}

// fail counts a failure of an offset that has landed. The message is to be delivered again,
// unless that is one failure too many: then, await, its fate is to be decided.
func (g *Group) fail(o core.Offset, due int64) (await bool) {
	attempts := g.attempts[o] + 1
	if g.limits.Failures > 0 && attempts > g.limits.Failures {
		return true
	}
	delete(g.flights, o)
	g.count(o, attempts)
	g.giveBack(o, due)
	return false
}

// Failure is a delivery that failed without its consumer saying so: the caller proposes
// that, and that it counts, and calls Decided where Await says so.
type Failure struct {
	Offset core.Offset
	Await  bool
}

// withNobody reports whether an offset waits to be delivered.
func (g *Group) withNobody(o core.Offset) bool {
	_, delayed := g.delayed[o]
	return delayed || g.waits.has(o) || o < g.end && !g.taken.Contains(o)
}

// removeUndelivered takes an offset out of those that wait.
func (g *Group) removeUndelivered(o core.Offset) {
	if due, ok := g.delayed[o]; ok {
		delete(g.delayed, o)
		g.timers.Delete(timer{due, o})
	} else if g.withNobody(o) {
		g.pull(o)
	}
	g.forget(o)
}

// land takes a flight from its consumer; its fate is open.
func (g *Group) land(f *flight) {
	c := f.by
	c.drop(f)
	if f.lease != 0 {
		g.timers.Delete(timer{f.lease, f.offset})
		f.lease = 0
	}
	g.update(c)
	if c.flying == 0 {
		g.leave(c)
	}
}

// Decided says what became of an offset whose fate was awaited: it is to be delivered again,
// or it is gone.
func (g *Group) Decided(o core.Offset, again bool) {
	f := g.flights[o]
	if f == nil || f.by != nil {
		return
	}
	delete(g.flights, o)
	if again {
		g.giveBack(o, 0)
	} else {
		g.forget(o)
	}
}

// Gone says that an offset is settled, which this group did not know of.
func (g *Group) Gone(o core.Offset) {
	if g.flights[o] == nil {
		g.removeUndelivered(o)
	}
}

// Claim reports whether a delivery is still its consumer's. If it is, and the consumer goes, the message is not delivered
// again before until, in ms: somebody is about to say by the replicated state what became of it, and who does so calls
// Impose. Once nobody is any more, it is claimed again until 0.
func (g *Group) Claim(o core.Offset, serial uint64, until int64) bool {
	f := g.flights[o]
	if f == nil || f.serial != serial || f.by == nil {
		return false
	}
	f.claim = until
	return true
}

// Extend moves the end of a delivery's lease; false when the delivery is no longer the
// consumer's, or has no lease.
func (g *Group) Extend(o core.Offset, serial uint64, until int64) bool {
	f := g.flights[o]
	if f == nil || f.serial != serial || f.lease == 0 {
		return false
	}
	g.timers.Delete(timer{f.lease, o})
	f.lease = until
	g.setTimer(timer{until, o})
	return true
}

// Due is when Tick is to be called next, in ms; false: not at all.
func (g *Group) Due() (at int64, ok bool) {
	at = g.nextExpiry()
	if g.timers != nil {
		if t, some := g.timers.Min(); some {
			at = min(at, t.at)
		}
	}
	return at, at != Never
}

// Tick lets time pass: delays that are over are so, and deliveries whose leases have ended
// are appended to failed.
func (g *Group) Tick(now int64, failed []Failure) []Failure {
	for g.timers != nil {
		t, ok := g.timers.Min()
		if !ok || t.at > now {
			break
		}
		g.timers.Delete(t)
		if f := g.flights[t.offset]; f != nil {
			f.lease = 0
			g.land(f)
			failed = append(failed, Failure{t.offset, g.fail(t.offset, 0)})
			continue
		}
		delete(g.delayed, t.offset)
		g.comeBack(t.offset)
	}
	return failed
}
