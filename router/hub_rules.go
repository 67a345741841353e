package router

import (
	"polylog/core"
	"polylog/router/dispatch"
	"polylog/router/state"
)

// groupRules is what the definition of a queue, with the policies over it, means for one of
// its groups.
type groupRules struct {
	limits     dispatch.Limits
	expires    bool // somebody counts on knowing whether it is used
	autoDelete bool
	rejects    bool // it refuses messages when it is full
	letters    bool // an exchange takes its dead letters

	generation uint64 // of the definitions that all this is from
	own        int    // delivery limit of the group itself
	def        *Queue // nil for a partition
	queue      state.QueueLimits
	reader     recordReader // finds runs
}

// load reads the definition.
func (u *groupRules) load(r *Router, key groupKey, deliveryLimit int) error {
	u.own = deliveryLimit
	u.reader.init(r, key.queue)
	u.generation = r.state.QueueGeneration()
	def, err := r.queueDef(key.queue)
	if err != nil {
		return err
	}
	u.limits = dispatch.NoLimits
	u.limits.Failures = deliveryLimit
	if u.def = def; def == nil {
		return nil
	}
	u.queue = def.Effective()
	if key.group != "" {
		return nil
	}
	l := &u.queue
	if u.limits.Failures == 0 {
		u.limits.Failures = max(l.DeliveryLimit, 0)
	}
	if def.Kind == state.Quorum {
		if u.limits.Returns = dispatch.ToFront; u.limits.Failures == 0 {
			u.limits.Returns = dispatch.ToBack
		}
	}
	if u.rejects = (l.HasMaxLength || l.HasMaxBytes) && l.Overflow != state.DropHead; !u.rejects {
		if l.HasMaxLength {
			u.limits.MaxLength = l.MaxLength
		}
		if l.HasMaxBytes {
			u.limits.MaxBytes = l.MaxBytes
		}
	}
	u.autoDelete = def.AutoDelete
	u.expires = def.AutoDelete || l.Expires > 0
	u.letters = l.HasDeadLetter
	return nil
}

// refresh reads the definition again where any has changed since, and reports whether it did.
func (u *groupRules) refresh(r *Router, key groupKey) bool {
	if r.state.QueueGeneration() == u.generation {
		return false
	}
	return u.load(r, key, u.own) == nil
}

// timed reports whether the queue may have timers.
func (u *groupRules) timed() bool {
	return u.def != nil && (u.expires || u.queue.HasTTL || u.def.Special)
}

// known is what the dispatcher can ask about messages.
func (u *groupRules) known() (k dispatch.Known) {
	if u.def == nil {
		return k
	}
	if u.queue.HasTTL || u.def.Special {
		k.Expiry = u.expiry
	}
	if u.queue.HasMaxBytes {
		k.Size = u.size
	}
	return k
}

// expiry is when a message expires, as the dispatcher says it.
func (u *groupRules) expiry(o core.Offset) int64 {
	run, ok, err := u.reader.run(o)
	if err != nil || !ok {
		return dispatch.Never // whoever reads it will find out
	}
	due := int64(dispatch.Never)
	if u.queue.HasTTL {
		due = run.MaxTime + u.queue.TTL
	}
	if u.def.Special {
		a, err := state.ReadAttributes(u.reader.r.state.Store(), u.def.ID, o)
		if err == nil && a.Expires > 0 {
			due = min(due, a.Expires)
		}
	}
	if due <= run.MaxTime {
		return dispatch.Immediately
	}
	return due
}

func (u *groupRules) size(o core.Offset) int64 {
	a, err := state.ReadAttributes(u.reader.r.state.Store(), u.def.ID, o)
	if err != nil {
		return 0
	}
	return a.Size
}

// bytesOf are the bytes that are with consumers, where the queue counts them.
func (u *groupRules) bytesOf(g *dispatch.Group) (n int64) {
	if u.queue.HasMaxBytes {
		g.Flying(func(o core.Offset) { n += u.size(o) })
	}
	return n
}

// rank tells the dispatcher the priorities of [from, to).
func (u *groupRules) rank(g *dispatch.Group, from, to core.Offset) {
	if u.def == nil || !u.def.Ranked(&u.queue) {
		return
	}
	// An error is the store's: this node is going down.
	_ = state.ScanAttributes(u.reader.r.state.Store(), u.def.ID, from, to, func(o core.Offset, a state.Attributes) bool {
		g.Rank(o, u.def.Rank(a))
		return true
	})
}
