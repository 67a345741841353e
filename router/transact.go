package router

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"polylog/core"
	"polylog/core/ackset"
	"polylog/router/state"
)

// TxOp is a part of a transaction: a message that is published, or what is said of deliveries.
type TxOp struct {
	To    Address
	Batch []byte // as of PublishTo; nil: it is about deliveries

	Queue    core.QueueID
	Group    string
	Outcome  Outcome
	Receipts []Receipt
}

// Transact publishes messages and settles deliveries in one entry of the log: all of it is
// done, or nothing. done is called once, maybe before Transact returns, and must not block;
// with one Routed for each message, in order. Deliveries are released after the rest is
// committed: that is nothing for the log. done is called after that, and after what their queues
// have too much of by what came back is dead. What is said of deliveries of a queue that is gone
// is nothing either.
//
// With an error nothing was done, and the Routed of the message that it is about, where
// there is one, has it. Error kinds: those of PublishTo and of Settle, and Limit: a queue is
// full and refuses, or the transaction is too large; Conflict: a delivery is no longer who
// has its receipt's, as after a change of the leader.
//
// A transaction without deliveries is proposed before Transact returns; others ask the
// dispatcher first.
func (r *Router) Transact(p Principal, ops []TxOp, done func([]Routed, error)) {
	t := &transaction{r: r, done: done, groups: map[groupKey]*txGroup{}}
	failed, err := t.gather(p, ops)
	switch {
	case err != nil:
		t.refuse(failed, err)
	case len(t.order) > 0:
		if !r.claims.start(t.claimAndPropose) {
			t.refuse(-1, core.E(core.Closed, "the router is closed"))
		}
	default:
		t.propose()
	}
}

// transaction is a Transact under way.
type transaction struct {
	r      *Router
	done   func([]Routed, error)
	cmd    state.Transact
	to     []*Address // of the messages
	bytes  int        // of the messages
	groups map[groupKey]*txGroup
	order  []*txGroup
}

// txGroup is what a transaction says of the deliveries of one group.
type txGroup struct {
	state.GroupSettle
	receipts []Receipt // all of them
	released []Receipt
	failed   []Receipt
	gone     bool // with its queue
}

// gather puts the command together, or refuses what can be refused before it is in the log;
// failed is the message that the refusal is about, or -1.
func (t *transaction) gather(p Principal, ops []TxOp) (failed int, err error) {
	if err := t.r.state.Supports(state.CodeTransact); err != nil {
		return -1, err
	}
	for i := range ops {
		op := &ops[i]
		if op.Batch == nil {
			if err := t.settle(p, op); err != nil {
				return -1, err
			}
			continue
		}
		if err := t.r.checkPublish(p, &op.To, op.Batch); err != nil {
			return len(t.to), err
		}
		t.bytes += len(op.Batch)
		if t.bytes > state.MaxTransactedBytes || len(t.to) == state.MaxTransacted {
			return len(t.to), core.E(core.Limit, "a transaction of more than %d messages or %d bytes", state.MaxTransacted, state.MaxTransactedBytes)
		}
		t.to = append(t.to, &op.To)
		t.cmd.Publishes = append(t.cmd.Publishes, state.PublishCommand(op.To.Exchange, op.To.Keys, op.Batch))
	}
	return -1, nil
}

func (t *transaction) settle(p Principal, op *TxOp) error {
	if err := t.r.authorizeRead(p, op.Queue); err != nil {
		return err
	}
	if len(op.Receipts) == 0 {
		return nil
	}
	key := groupKey{op.Queue, op.Group}
	g := t.groups[key]
	if g == nil {
		g = &txGroup{GroupSettle: state.GroupSettle{Queue: op.Queue, Group: op.Group}}
		t.groups[key] = g
		t.order = append(t.order, g)
	}
	g.receipts = append(g.receipts, op.Receipts...)
	if op.Outcome == Release {
		g.released = append(g.released, op.Receipts...)
		return nil
	}
	for _, r := range op.Receipts {
		switch o := r.Offset; op.Outcome {
		case Reject:
			g.Rejected = append(g.Rejected, o)
		case Fail:
			g.Failed = append(g.Failed, state.FailedDelivery{Offset: o, Counted: true})
			g.failed = append(g.failed, r)
		default:
			if n := len(g.Done); n > 0 && g.Done[n-1].End == o {
				g.Done[n-1].End++
			} else {
				g.Done = append(g.Done, ackset.Span{First: o, End: o + 1})
			}
		}
	}
	return nil
}

// claimAndPropose proposes the transaction if the deliveries are who says so's. For as long as that may take they are
// nobody else's, even if their consumer goes.
func (t *transaction) claimAndPropose(ctx context.Context) {
	begin := time.Now()
	for _, g := range t.order {
		if err := t.claim(ctx, g); err != nil {
			t.refuse(-1, err)
			return
		}
	}
	if time.Since(begin) > claimTime/2 {
		t.refuse(-1, core.E(core.Unavailable, "transaction: the leader took too long to say whose the deliveries are"))
		return
	}
	t.propose()
}

// claims are the goroutines of transactions that ask the dispatcher.
type claims struct {
	ctx  context.Context //nolint:containedctx // ends when the router closes
	stop context.CancelFunc

	mu     sync.Mutex // guards what follows
	closed bool
	wg     sync.WaitGroup // added to under mu
}

func (c *claims) init() { c.ctx, c.stop = context.WithCancel(context.Background()) }

// start runs fn on a goroutine, with a context that ends when the router closes. It is false,
// and fn does not run, when that has begun.
func (c *claims) start(fn func(context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.wg.Go(func() { fn(c.ctx) })
	}
	return !c.closed
}

// close ends the goroutines and waits for them.
func (c *claims) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.wg.Wait()
}

const (
	// claimPatience is how long a transaction waits for the dispatcher to say whose its deliveries
	// are.
	claimPatience = 10 * time.Second
	// claimTime is for how long they are not delivered again then.
	claimTime = 30 * time.Second
)

// claim finds out whether all deliveries of a group are still those of who has the receipts,
// and all of one leader's. They stay so in its term for claimTime, even if their consumer goes.
func (t *transaction) claim(ctx context.Context, g *txGroup) error {
	ctx, cancel := context.WithTimeout(ctx, claimPatience)
	defer cancel()
	for rs := range slices.Chunk(g.receipts, receiptsPerMessage) {
		a, err := t.r.consumers.ask(ctx, toHub{kind: hubHold, queue: g.Queue, group: g.Group, n: claimTime.Milliseconds(), receipts: rs})
		switch {
		case core.KindOf(err) == core.NotFound:
			g.gone = true
			return nil
		case core.KindOf(err) == core.Uncertain:
			return core.E(core.Unavailable, "transaction: %v", err) // it is not even proposed
		case err != nil:
			return err
		case slices.Contains(a.kinds, core.Conflict):
			return core.E(core.Conflict, "a delivery of queue %d is another consumer's by now, or will be", g.Queue)
		}
	}
	term := g.receipts[0].term()
	if was := t.cmd.Settle.Term; was != 0 && was != term {
		return core.E(core.Conflict, "deliveries of terms %d and %d", was, term)
	}
	t.cmd.Settle.Term = term
	return t.address(g)
}

// address adds what exchanges have to know of messages that may be dead.
func (t *transaction) address(g *txGroup) error {
	if g.Group != "" || len(g.Rejected)+len(g.Failed) == 0 {
		return nil
	}
	def, err := t.r.queueDef(g.Queue)
	if err != nil || def == nil || !def.Effective().HasDeadLetter {
		return err
	}
	head, _, err := t.r.state.Store().Queue(g.Queue)
	if err != nil {
		return err
	}
	dead := slices.Clone(g.Rejected)
	for _, f := range g.Failed {
		dead = append(dead, f.Offset)
	}
	if slices.Max(dead) >= head.End {
		return core.E(core.Unavailable, "transaction: a message of queue %d is not here yet", g.Queue)
	}
	g.Letters = t.r.lettersOf(&g.GroupSettle)
	return nil
}

func (t *transaction) propose() {
	for _, g := range t.order {
		if !g.gone && len(g.receipts) > len(g.released) {
			t.cmd.Settle.Groups = append(t.cmd.Settle.Groups, g.GroupSettle)
		}
	}
	if len(t.cmd.Publishes) == 0 && len(t.cmd.Settle.Groups) == 0 {
		t.committed(nil)
		return
	}
	t.r.log.ProposeAsync(t.cmd.Command(), func(res core.Result, err error) {
		failed := -1
		if err == nil && res.Err != nil {
			failed, err = int(res.Offset), res.Err
			if res.Err.Kind == core.NotFound && failed >= 0 && failed < len(t.to) {
				err = missingExchange(t.to[failed].Exchange)
			}
		}
		var queues []int
		if err == nil {
			queues, err = state.DecodeTransacted(res.Body)
		}
		if err != nil {
			t.refuse(failed, err)
			return
		}
		t.committed(queues)
	})
}

// refuse says that nothing was done; failed is the message that it is about, or -1.
func (t *transaction) refuse(failed int, err error) {
	t.r.met.refused(err)
	if core.KindOf(err) != core.Uncertain {
		t.unclaim()
	}
	routed := make([]Routed, max(len(t.to), failed+1))
	if failed >= 0 {
		routed[failed].Err = err
	}
	t.done(routed, err)
}

// unclaim lets the deliveries go with their consumers again.
func (t *transaction) unclaim() {
	for _, g := range t.order {
		for rs := range slices.Chunk(g.receipts, receiptsPerMessage) {
			t.r.consumers.send(toHub{kind: hubHold, queue: g.Queue, group: g.Group, receipts: rs})
		}
	}
}

func (t *transaction) committed(queues []int) {
	routed := make([]Routed, len(queues))
	for i, n := range queues {
		routed[i].Queues = n
		t.r.met.routed(&routed[i])
	}
	t.r.met.produced.Add(float64(len(queues)))
	t.r.met.producedBytes.Add(float64(t.bytes))
	t.giveBack(func() { t.done(routed, nil) })
}

// giveBack releases what is to be, and calls done when what that leads to is in the log, or somebody else's to see
// to: the leader changed. Those that failed came back by the command itself. To release them once more does nothing
// to them, and is answered when the dispatcher has seen them, and what is too much by them is dead.
func (t *transaction) giveBack(done func()) {
	var left atomic.Int64
	left.Store(1)
	one := func() {
		if left.Add(-1) == 0 {
			done()
		}
	}
	for _, g := range t.order {
		if back := slices.Concat(g.released, g.failed); len(back) > 0 {
			left.Add(1)
			t.r.consumers.settle(g.Queue, g.Group, Release, 0, back, func([]core.Kind, error) { one() })
		}
	}
	one()
}
