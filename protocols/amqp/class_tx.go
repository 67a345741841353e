package amqp

import (
	"context"
	"slices"
	"strconv"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

func (ch *channel) txSelect(_ context.Context, _ *spec.TxSelect) error {
	if ch.confirms.on {
		return soft(spec.PreconditionFailed, "cannot switch from confirm to tx mode")
	}
	if ch.tx == nil {
		ch.mu.Lock()
		ch.tx = &transaction{ch: ch}
		ch.mu.Unlock()
	}
	ch.send(&spec.TxSelectOk{})
	return nil
}

func (ch *channel) txCommit(ctx context.Context, _ *spec.TxCommit) error {
	if ch.tx == nil {
		return errNoTransaction()
	}
	if err := ch.tx.commit(ctx); err != nil {
		return err
	}
	ch.send(&spec.TxCommitOk{})
	return nil
}

func (ch *channel) txRollback(_ context.Context, _ *spec.TxRollback) error {
	if ch.tx == nil {
		return errNoTransaction()
	}
	ch.tx.rollback()
	ch.send(&spec.TxRollbackOk{})
	return nil
}

func errNoTransaction() error {
	return soft(spec.PreconditionFailed, "channel is not transactional")
}

// transaction is what a channel has published and answered since the last commit: the
// reader's own.
type transaction struct {
	ch        *channel
	publishes []*publishing
	keys      [][]string // of each, that it is routed by
	answers   []answer
	bytes     int // of the publishes
}

// answer is what a client said of deliveries.
type answer struct {
	outcome router.Outcome
	held    []held
}

// Bounds of a transaction, which is one entry of the log.
const (
	maxTxBytes     = 16 << 20
	maxTxPublishes = 10_000
)

// publish keeps a message for the commit.
func (t *transaction) publish(out *publishing, keys []string) error {
	if t.bytes+len(out.batch.b) > maxTxBytes || len(t.publishes) == maxTxPublishes {
		return soft(spec.PreconditionFailed, "a transaction of more than %d messages or %d bytes", maxTxPublishes, maxTxBytes)
	}
	if !t.ch.keep(out.cost) {
		return soft(spec.PreconditionFailed, "transactions that are open have half of the memory for messages")
	}
	t.bytes += len(out.batch.b)
	t.publishes, t.keys = append(t.publishes, out), append(t.keys, keys)
	return nil
}

// keep counts a publish of the channel's transaction in the memory of all; false where there is too little.
func (ch *channel) keep(n int) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.over { // nobody would give it back
		return true
	}
	counted, ok := ch.conn.srv.memory.keep(n)
	ch.kept += counted
	return ok
}

// letGo gives back what the channel's transaction has of the memory of all.
func (ch *channel) letGo() {
	ch.mu.Lock()
	n := ch.kept
	ch.kept = 0
	ch.mu.Unlock()
	ch.conn.srv.memory.letGo(n)
}

// settle keeps what was said of deliveries for the commit.
func (t *transaction) settle(o router.Outcome, hs []held) {
	if len(hs) > 0 {
		t.answers = append(t.answers, answer{o, hs})
	}
}

// transactional is a holder whose deliveries are settled in the log.
type transactional interface {
	txQueue() core.QueueID
}

// commit publishes and answers in one step, and waits until it is in the log.
func (t *transaction) commit(ctx context.Context) error {
	ch := t.ch
	publishes, keys, answers := t.publishes, t.keys, t.answers
	*t = transaction{ch: ch}
	defer ch.letGo()
	var ops []router.TxOp
	now := ch.conn.srv.now()
	for i, out := range publishes {
		out.postpone(now)
		ops = append(ops, router.TxOp{To: router.Address{Exchange: out.exchange, Keys: keys[i]}, Batch: out.batch.b})
	}
	var aside []func() // of streams, where an answer is room for more and nothing else
	for _, a := range answers {
		byHolder(a.held, func(h holder, rs []router.Receipt) {
			if q, ok := h.(transactional); ok {
				ops = append(ops, router.TxOp{Queue: q.txQueue(), Outcome: a.outcome, Receipts: rs})
			} else {
				aside = append(aside, func() { h.settle(a.outcome, rs, nil) })
			}
		})
	}
	routed, err := ch.transact(ctx, ops)
	if err != nil {
		for i := range routed {
			if routed[i].Err != nil && i < len(publishes) {
				return publishes[i].failure(routed[i].Err)
			}
		}
		if k := core.KindOf(err); k == core.Limit || k == core.Conflict { // a queue is full; a delivery is somebody else's by now
			return soft(spec.PreconditionFailed, "partial tx completion")
		}
		return err
	}
	for i, out := range publishes {
		if routed[i].Queues == 0 {
			out.giveBack()
		}
	}
	for _, settle := range aside {
		settle()
	}
	for _, a := range answers {
		ch.released(a.held)
	}
	return nil
}

// postpone has the time to live of a message begin now, with the commit, and not when it came.
func (out *publishing) postpone(now int64) {
	batch := out.batch.b
	if out.expires == 0 || now == out.at {
		return
	}
	expires := strconv.FormatInt(out.expires+now-out.at, 10)
	for r, err := range core.Records(batch, len(batch)) {
		if err != nil {
			return
		}
		i := slices.IndexFunc(r.Headers, func(h core.RecordHeader) bool { return h.Key == message.ExpiresAtHeader })
		if i < 0 || len(r.Headers[i].Value) != len(expires) {
			return // it is not of these centuries
		}
		copy(r.Headers[i].Value, expires) // which lies in the batch
	}
	core.SetBatchCRC(batch)
}

// transact waits for what becomes of a transaction.
func (ch *channel) transact(ctx context.Context, ops []router.TxOp) ([]router.Routed, error) {
	type outcome struct {
		routed []router.Routed
		err    error
	}
	done := make(chan outcome, 1)
	ch.conn.srv.router.Transact(ch.conn.principal, ops, func(routed []router.Routed, err error) { done <- outcome{routed, err} })
	select {
	case o := <-done:
		return o.routed, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// rollback forgets it all: deliveries count as unanswered again.
func (t *transaction) rollback() {
	ch := t.ch
	ch.mu.Lock()
	for _, a := range t.answers {
		ch.unacked.putBack(a.held)
	}
	ch.mu.Unlock()
	*t = transaction{ch: ch}
	ch.letGo()
}
