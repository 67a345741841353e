package amqp

import (
	"cmp"
	"context"
	"slices"

	"polylog/core"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

func (ch *channel) txSelect(_ context.Context, _ *spec.TxSelect) error {
	if ch.confirms.on {
		return soft(spec.PreconditionFailed, "cannot switch from confirm to tx mode")
	}
	if ch.tx == nil {
		ch.tx = &transaction{ch: ch}
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
func (t *transaction) publish(out *publishing) error {
	if t.bytes+len(out.batch) > maxTxBytes || len(t.publishes) == maxTxPublishes {
		return soft(spec.PreconditionFailed, "a transaction of more than %d messages or %d bytes", maxTxPublishes, maxTxBytes)
	}
	t.bytes += len(out.batch)
	t.publishes = append(t.publishes, out)
	return nil
}

// settle keeps what was said of deliveries for the commit.
func (t *transaction) settle(o router.Outcome, hs []held) {
	if len(hs) > 0 {
		t.answers = append(t.answers, answer{o, hs})
	}
}

// commit publishes and answers, and waits until all of it is in the log.
func (t *transaction) commit(ctx context.Context) error {
	ch := t.ch
	publishes, answers := t.publishes, t.answers
	*t = transaction{ch: ch}
	routed, err := ch.publishAll(ctx, publishes)
	if err != nil {
		return err
	}
	rejected := false
	for i, out := range publishes {
		switch r := &routed[i]; {
		case r.Err != nil:
			return out.failure(r.Err)
		case r.Queues == 0:
			out.giveBack()
		}
		rejected = rejected || routed[i].Rejected
	}
	if err := ch.settleAll(ctx, answers); err != nil {
		return err
	}
	if rejected {
		return soft(spec.PreconditionFailed, "partial tx completion")
	}
	return nil
}

// publishAll publishes messages and waits for what became of each.
func (ch *channel) publishAll(ctx context.Context, all []*publishing) ([]router.Routed, error) {
	type outcome struct {
		i int
		router.Routed
	}
	outcomes := make(chan outcome, len(all))
	for i, out := range all {
		ch.conn.srv.router.PublishTo(ch.conn.principal, out.address, out.batch, func(r router.Routed) { outcomes <- outcome{i, r} })
	}
	routed := make([]router.Routed, len(all))
	for range all {
		select {
		case o := <-outcomes:
			routed[o.i] = o.Routed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return routed, nil
}

// confirmer is a holder that says when a settlement is in the log.
type confirmer interface {
	confirm(o router.Outcome, rs []router.Receipt, done func([]core.Kind, error))
}

// settleAll says what became of deliveries and waits until that is in the log.
func (ch *channel) settleAll(ctx context.Context, answers []answer) error {
	var asked []func(done func([]core.Kind, error))
	for _, a := range answers {
		byHolder(a.held, func(h holder, rs []router.Receipt) {
			if c, ok := h.(confirmer); ok {
				asked = append(asked, func(done func([]core.Kind, error)) { c.confirm(a.outcome, rs, done) })
			} else {
				h.settle(a.outcome, rs)
			}
		})
	}
	settled := make(chan error, len(asked))
	for _, ask := range asked {
		ask(func(kinds []core.Kind, err error) {
			if err == nil && slices.Contains(kinds, core.Conflict) { // another consumer has it by now
				err = soft(spec.PreconditionFailed, "partial tx completion")
			}
			settled <- err
		})
	}
	var failed error
	for range asked {
		select {
		case err := <-settled:
			failed = cmp.Or(failed, err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for _, a := range answers {
		ch.released(a.held)
	}
	return failed
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
}
