package router

import (
	"context"
	"math"
	"sync"
	"time"

	"polylog/core"
	"polylog/router/dispatch"
	"polylog/router/state"
)

// ConsumeSpec asks for the messages of a queue.
type ConsumeSpec struct {
	Queue core.QueueID // a named queue, or a partition of a topic
	Group string       // "": the queue's own
	// Prefetch bounds the deliveries that are not settled; 0: Buffer alone bounds those
	// that were not taken. After the leader changed, what is held from before does not
	// count.
	Prefetch int
	// Buffer bounds the deliveries that wait here to be taken; 256 when 0.
	Buffer int
	// Credit, where it is not 0, is how many deliveries there will be in all, before
	// Consumer.Grant.
	Credit int64
	// Idle says that there are none before the first Grant. Such a consumer keeps its group
	// at work, so that those who come and go need not wait for it.
	Idle      bool
	Priority  int           // a higher one is served first
	Lease     time.Duration // after that a delivery has failed; 0: as long as the consumer is there
	Exclusive bool          // no other consumer beside this one
	// Getter makes a consumer that gets a message with each call of Get, and no others. It
	// does not count as a consumer of the queue.
	Getter bool
	// Fence, where it is not 0, is the Token of a lease that the consumer stands under: it ends the
	// group's consumers under lower ones, of which its node may not know yet that they are lost, and what
	// those hold comes to it, in its place. Under a lower one it is refused with kind Fenced.
	Fence uint64
	// CountLost says that what the consumer holds when it is closed, or its node is lost,
	// has failed.
	CountLost bool
	// Wake is called when there may be something to take, maybe often for nothing. It must
	// not block and not call the router. Next works without it.
	Wake func()
}

// Receipt names a delivery.
type Receipt struct {
	Offset core.Offset
	Serial uint64
}

// Delivery is a message for a consumer.
type Delivery struct {
	Receipt
	// Redelivered is false only where the message was never delivered before.
	Redelivered bool
	Attempts    int // failed deliveries that counted
	Record      core.Record
	// Deaths are why a dead letter is here, the newest last; Exchange and RoutingKeys how it
	// came here, where it did by an exchange: instead of what the record says. It does not
	// expire any more by what the record says.
	Deaths      []Death
	Exchange    string
	RoutingKeys []string
}

// Outcome is what a consumer says of a delivery.
type Outcome = dispatch.Outcome

// The outcomes.
const (
	Done    = dispatch.Done    // it is settled
	Release = dispatch.Release // to be delivered again; nobody's fault
	Fail    = dispatch.Fail    // to be delivered again, and it counts
	Reject  = dispatch.Reject  // it is dead
)

// Consumer takes the messages of a queue, on any node of the cluster. It outlives the
// leader: when that changes, what was not settled is delivered again.
type Consumer struct {
	all  *consumers
	id   uint64
	spec ConsumeSpec

	signal   chan struct{} // there may be something to take
	attached chan error    // the first answer

	mu        sync.Mutex // guards what follows
	link      *link      // that it is attached by; nil: none
	inbox     []handed
	taken     int64 // since the last grant
	credit    int64 // what is left of ConsumeSpec.Credit; Unlimited when there was none
	answered  bool
	cancelled bool
	err       error  // why there are no more deliveries
	unwatch   func() // ends the wait for this node to apply; nil when it does not wait
	reader    recordReader
}

const (
	defaultBuffer = 256
	maxBuffer     = 1 << 16
)

// Consume begins to consume. ctx is for the beginning only. Error kinds: NotFound, Denied,
// Invalid, Conflict (exclusive), Unavailable.
func (r *Router) Consume(ctx context.Context, p Principal, spec ConsumeSpec) (*Consumer, error) {
	if err := r.authorizeRead(p, spec.Queue); err != nil {
		return nil, err
	}
	if err := r.state.Supports(state.CodeSettle); err != nil {
		return nil, err
	}
	if spec.Buffer == 0 {
		spec.Buffer = defaultBuffer
	}
	switch {
	case spec.Prefetch < 0 || spec.Credit < 0 || spec.Lease < 0:
		return nil, core.E(core.Invalid, "consume: prefetch %d, credit %d, lease %s", spec.Prefetch, spec.Credit, spec.Lease)
	case spec.Buffer < 1 || spec.Buffer > maxBuffer:
		return nil, core.E(core.Invalid, "consume: buffer of %d, want 1 to %d", spec.Buffer, maxBuffer)
	case spec.Priority < math.MinInt32 || spec.Priority > math.MaxInt32:
		return nil, core.E(core.Invalid, "consume: priority %d", spec.Priority)
	}
	c := &Consumer{
		all: &r.consumers, spec: spec, credit: spec.Credit,
		signal: make(chan struct{}, 1), attached: make(chan error, 1),
	}
	if spec.Credit == 0 && !spec.Idle {
		c.credit = dispatch.Unlimited
	}
	c.reader.init(r, spec.Queue)
	if err := r.consumers.add(c); err != nil {
		return nil, err
	}
	select {
	case err := <-c.attached:
		if err != nil {
			c.Close()
			return nil, err
		}
		return c, nil
	case <-ctx.Done():
		c.Close()
		return nil, core.E(core.Unavailable, "consume: %v", context.Cause(ctx))
	}
}

// spec for the dispatcher. Whoever has a bounded prefetch needs no other bound. REQUIRES:
// c.mu.
func (c *Consumer) attachSpec() attachSpec {
	s := &c.spec
	a := attachSpec{
		priority: s.Priority, prefetch: s.Prefetch, credit: dispatch.Unlimited, leaseMS: s.Lease.Milliseconds(),
		exclusive: s.Exclusive, countLost: s.CountLost, getter: s.Getter, fence: s.Fence,
	}
	if c.windowed() {
		a.credit = int64(s.Buffer)
	}
	if c.credit != dispatch.Unlimited {
		a.credit = c.credit
	}
	return a
}

// windowed reports whether the dispatcher gets credit for what was taken out of the buffer.
func (c *Consumer) windowed() bool {
	s := &c.spec
	return c.credit == dispatch.Unlimited && !s.Getter && (s.Prefetch == 0 || s.Prefetch > s.Buffer)
}

// Next waits for a delivery and takes it. The error is Take's, or of kind Unavailable when
// ctx ends.
func (c *Consumer) Next(ctx context.Context) (Delivery, error) {
	var one [1]Delivery
	for {
		ds, err := c.Take(one[:0], 1)
		if err != nil {
			return Delivery{}, err
		}
		if len(ds) == 1 {
			return ds[0], nil
		}
		select {
		case <-c.signal:
		case <-ctx.Done():
			return Delivery{}, core.E(core.Unavailable, "no delivery: %v", context.Cause(ctx))
		}
	}
}

// Get takes the next message of the queue, if there is one, for a ConsumeSpec.Getter; and says
// how many more can be delivered. One goroutine may get at a time. After an error of kind
// Uncertain a message may have been delivered that did not come.
func (c *Consumer) Get(ctx context.Context) (d Delivery, ok bool, ready int64, err error) {
	for {
		a, err := c.all.ask(ctx, toHub{kind: hubGet, consumer: c.id, queue: c.spec.Queue, group: c.spec.Group})
		if err != nil || len(a.deliveries) == 0 {
			return d, false, a.counts.Ready, err
		}
		c.mu.Lock()
		c.inbox = append(c.inbox, a.deliveries...)
		c.mu.Unlock()
		for {
			var one [1]Delivery
			ds, err := c.Take(one[:0], 1)
			if err != nil {
				return d, false, 0, err
			}
			if len(ds) == 1 {
				return ds[0], true, a.counts.Ready, nil
			}
			c.mu.Lock()
			left := len(c.inbox)
			c.mu.Unlock()
			if left == 0 {
				break // it was gone: the next one
			}
			select {
			case <-c.signal: // this node has to apply it first
			case <-ctx.Done():
				return d, false, 0, core.E(core.Unavailable, "no delivery: %v", context.Cause(ctx))
			}
		}
	}
}

// Take appends to dst up to limit deliveries that are there, without waiting. One goroutine
// may take at a time. Their records may be kept. After an error there will be no more:
// kind NotFound (the queue or group was deleted), Closed, Corrupt (a message cannot be read
// here; others may be able to).
func (c *Consumer) Take(dst []Delivery, limit int) ([]Delivery, error) {
	taken, skipped := len(dst), int64(0)
	for ; limit > 0; limit-- {
		h, ok, err := c.pop()
		if err != nil {
			return dst, err
		}
		if !ok {
			break
		}
		d := Delivery{Receipt: h.Receipt, Redelivered: h.redelivered, Attempts: h.attempts}
		found, err := c.reader.read(&d)
		if err != nil {
			c.finish(core.E(core.KindOf(err), "queue %d: %v", c.spec.Queue, err))
			c.all.remove(c)
			return dst, err
		}
		if !found { // settled by everybody meanwhile, or a gap that its producer left
			c.all.send(toHub{kind: hubSettle, queue: c.spec.Queue, group: c.spec.Group, receipts: []Receipt{h.Receipt}})
			skipped++
			limit++
			continue
		}
		dst = append(dst, d)
	}
	c.grant(int64(len(dst)-taken) + skipped)
	c.Grant(skipped) // where that is what there will be in all, nobody had them
	return dst, nil
}

// Forget lets go of the batch of which Take has given some messages, but not the last one: whoever
// goes on with another of many consumers need not keep one for each. It is for who takes.
func (c *Consumer) Forget() { c.reader.forget() }

// pop takes the first delivery off the inbox, once this node has applied it.
func (c *Consumer) pop() (h handed, ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.inbox) == 0 {
		return h, false, c.err
	}
	h = c.inbox[0]
	here, err := c.reader.applied(h.Offset)
	if err == nil && !here {
		if c.unwatch == nil {
			c.unwatch = c.all.r.Watch([]core.QueueID{c.spec.Queue}, c.notify)
		}
		here, err = c.reader.applied(h.Offset) // maybe just before the watch
	}
	if err != nil || !here {
		return h, false, err
	}
	if c.unwatch != nil {
		c.unwatch()
		c.unwatch = nil
	}
	if c.inbox = c.inbox[1:]; len(c.inbox) == 0 {
		c.inbox = nil
	}
	return h, true, nil
}

// grant tells the dispatcher that there is room again, when it is worth a message.
func (c *Consumer) grant(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken += n; !c.windowed() || c.cancelled || c.taken == 0 || c.taken < int64(c.spec.Buffer)/2 {
		return
	}
	c.sendLocked(toHub{kind: hubGrant, n: c.taken})
	c.taken = 0
}

// Grant allows n more deliveries to a consumer with ConsumeSpec.Credit.
func (c *Consumer) Grant(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.credit == dispatch.Unlimited || n <= 0 {
		return
	}
	c.credit += n
	c.sendLocked(toHub{kind: hubGrant, n: n})
}

// Settle says what became of deliveries. after is when failed or released ones are due
// again. done, which may be nil, is called when that is committed, and must not block:
// with one kind for each receipt, core.Conflict for a delivery that is no longer the
// consumer's and OK else; or with an error of the whole, after which the messages may or
// may not be delivered again.
func (c *Consumer) Settle(o Outcome, after time.Duration, rs []Receipt, done func([]core.Kind, error)) {
	c.all.settle(c.spec.Queue, c.spec.Group, o, after, rs, done)
}

// Ack settles deliveries and waits for that to be committed.
func (c *Consumer) Ack(ctx context.Context, rs ...Receipt) ([]core.Kind, error) {
	a, err := c.all.ask(ctx, toHub{kind: hubSettle, queue: c.spec.Queue, group: c.spec.Group, receipts: rs})
	return a.kinds, err
}

// Settle is Consumer.Settle for whoever has receipts of a group and no consumer any more.
func (r *Router) Settle(p Principal, q core.QueueID, group string, o Outcome, after time.Duration, rs []Receipt, done func([]core.Kind, error)) {
	if err := r.authorizeRead(p, q); err != nil {
		done(nil, err)
		return
	}
	r.consumers.settle(q, group, o, after, rs, done)
}

// Extend moves the ends of deliveries' leases to a time from now on. There is one kind for
// each: OK, or Conflict where it is too late.
func (r *Router) Extend(ctx context.Context, p Principal, q core.QueueID, group string, lease time.Duration, rs []Receipt) ([]core.Kind, error) {
	if err := r.authorizeRead(p, q); err != nil {
		return nil, err
	}
	a, err := r.consumers.ask(ctx, toHub{kind: hubExtend, queue: q, group: group, n: lease.Milliseconds(), receipts: rs})
	return a.kinds, err
}

// Cancel ends deliveries. What was delivered stays with the consumer until it settles it,
// the lease ends, or Close. What was not taken goes back. Others that want to be alone with the queue
// need not wait for any of that.
func (c *Consumer) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopLocked() {
		c.sendLocked(toHub{kind: hubCancel}) // once more: see dispatch.Group.Cancel
	}
}

// stopLocked ends deliveries; false when they have ended. What was not taken goes back.
func (c *Consumer) stopLocked() bool {
	if c.cancelled {
		return false
	}
	c.cancelled = true
	c.sendLocked(toHub{kind: hubCancel})
	if rs := c.emptyLocked(); len(rs) > 0 {
		c.all.send(toHub{kind: hubSettle, queue: c.spec.Queue, group: c.spec.Group, outcome: Release, receipts: rs})
	}
	if c.err == nil {
		c.err = core.E(core.Closed, "the consumer was cancelled")
	}
	c.notify()
	return true
}

// Close ends the consumer. Deliveries that it has not settled are delivered again, unless
// they have leases: those run on. What was not taken goes back at once. Others that want to be alone
// with the queue get what it holds first. It may be called again.
func (c *Consumer) Close() {
	c.mu.Lock()
	c.stopLocked()
	c.mu.Unlock()
	if c.spec.Lease == 0 {
		c.all.remove(c)
		return
	}
	// What was delivered before the dispatcher heard of the end is still on its way, under a
	// lease: receive gives it back. Any answer comes after it.
	c.all.request(toHub{kind: hubExtend, queue: c.spec.Queue, group: c.spec.Group}, func(fromHub) { c.all.remove(c) })
}

// emptyLocked empties the inbox.
func (c *Consumer) emptyLocked() (rs []Receipt) {
	for _, h := range c.inbox {
		rs = append(rs, h.Receipt)
	}
	c.inbox, c.taken = nil, 0
	if c.unwatch != nil {
		c.unwatch()
		c.unwatch = nil
	}
	return rs
}

// notify wakes whoever takes.
func (c *Consumer) notify() {
	select {
	case c.signal <- struct{}{}:
	default:
	}
	if c.spec.Wake != nil {
		c.spec.Wake()
	}
}

// receive puts deliveries into the inbox.
func (c *Consumer) receive(l *link, hs []handed) {
	c.mu.Lock()
	if c.link != l {
		c.mu.Unlock()
		return // of a link that was lost
	}
	if !c.cancelled {
		c.inbox = append(c.inbox, hs...)
		if c.credit > 0 {
			c.credit = max(c.credit-int64(len(hs)), 0)
		}
		hs = nil
	}
	c.mu.Unlock()
	if len(hs) > 0 { // they crossed with the cancel
		rs := make([]Receipt, len(hs))
		for i := range hs {
			rs[i] = hs[i].Receipt
		}
		c.all.send(toHub{kind: hubSettle, queue: c.spec.Queue, group: c.spec.Group, outcome: Release, receipts: rs})
	}
	c.notify()
}

// answer is what became of an attach: of the first one for Consume, else a reason to end.
func (c *Consumer) answer(err error) {
	if k := core.KindOf(err); k == core.NotLeader || k == core.Unavailable {
		return // the link is about to be lost; the next one has another answer
	}
	c.mu.Lock()
	first := !c.answered
	c.answered = true
	c.mu.Unlock()
	if first {
		c.attached <- err
	}
	if err != nil {
		c.finish(err)
	}
}

// finish ends deliveries with an error.
func (c *Consumer) finish(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	c.cancelled = true
	c.emptyLocked()
	c.mu.Unlock()
	c.notify()
}

// disconnected forgets what was not taken: it will be delivered again.
func (c *Consumer) disconnected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := int64(len(c.inbox)); c.credit != dispatch.Unlimited {
		c.credit += n
	}
	c.link = nil
	c.emptyLocked()
}
