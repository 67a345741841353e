package router

import (
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
// committed: that is nothing for the log.
//
// With an error nothing was done, and the Routed of the message that it is about, where
// there is one, has it. Error kinds: those of PublishTo and of Settle, and Limit: a queue is
// full and refuses, or the transaction is too large.
func (r *Router) Transact(p Principal, ops []TxOp, done func([]Routed, error)) {
	t := &transaction{r: r, done: done, groups: map[groupKey]*state.GroupSettle{}}
	if err := t.gather(p, ops); err != nil {
		t.refuse(len(t.cmd.Publishes), err)
		return
	}
	if len(t.cmd.Publishes) == 0 && len(t.order) == 0 {
		t.committed(nil)
		return
	}
	for _, g := range t.order {
		t.cmd.Settle.Groups = append(t.cmd.Settle.Groups, *g)
	}
	r.log.ProposeAsync(t.cmd.Command(), func(res core.Result, err error) {
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

// transaction is a Transact under way.
type transaction struct {
	r        *Router
	done     func([]Routed, error)
	cmd      state.Transact
	to       []*Address // of the messages
	bytes    int        // of the messages
	groups   map[groupKey]*state.GroupSettle
	order    []*state.GroupSettle
	releases []*TxOp
}

// gather puts the command together, or refuses what can be refused before it is in the log.
func (t *transaction) gather(p Principal, ops []TxOp) error {
	if err := t.r.state.Supports(state.CodeTransact); err != nil {
		return err
	}
	for i := range ops {
		op := &ops[i]
		if op.Batch == nil {
			if err := t.settle(p, op); err != nil {
				return err
			}
			continue
		}
		if err := t.r.checkPublish(p, &op.To, op.Batch); err != nil {
			return err
		}
		t.bytes += len(op.Batch)
		if t.bytes > state.MaxTransactedBytes || len(t.to) == state.MaxTransacted {
			return core.E(core.Limit, "a transaction of more than %d messages or %d bytes", state.MaxTransacted, state.MaxTransactedBytes)
		}
		t.to = append(t.to, &op.To)
		t.cmd.Publishes = append(t.cmd.Publishes, state.PublishCommand(op.To.Exchange, op.To.Keys, op.Batch))
	}
	return nil
}

func (t *transaction) settle(p Principal, op *TxOp) error {
	if err := t.r.authorizeRead(p, op.Queue); err != nil {
		return err
	}
	if op.Outcome == Release {
		t.releases = append(t.releases, op)
		return nil
	}
	key := groupKey{op.Queue, op.Group}
	g := t.groups[key]
	if g == nil {
		g = &state.GroupSettle{Queue: op.Queue, Group: op.Group}
		t.groups[key] = g
		t.order = append(t.order, g)
	}
	for _, r := range op.Receipts {
		switch o := r.Offset; op.Outcome {
		case Reject:
			g.Rejected = append(g.Rejected, o)
		case Fail:
			g.Failed = append(g.Failed, state.FailedDelivery{Offset: o, Counted: true})
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

// refuse says that nothing was done; failed is the message that it is about.
func (t *transaction) refuse(failed int, err error) {
	t.r.met.refused(err)
	routed := make([]Routed, max(len(t.to), failed+1))
	if failed >= 0 {
		routed[failed].Err = err
	}
	t.done(routed, err)
}

func (t *transaction) committed(queues []int) {
	routed := make([]Routed, len(queues))
	for i, n := range queues {
		routed[i].Queues = n
		t.r.met.routed(&routed[i])
	}
	t.r.met.produced.Add(float64(len(queues)))
	t.r.met.producedBytes.Add(float64(t.bytes))
	for _, op := range t.releases {
		t.r.consumers.settle(op.Queue, op.Group, Release, 0, op.Receipts, nil)
	}
	t.done(routed, nil)
}
