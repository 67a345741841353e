// Command crash kills the broker under AMQP load, again and again, and looks for what was lost. Before
// that it kills one that holds a little of everything, and looks whether it is all as it was.
// Producers publish persistent messages with confirms, consumers acknowledge what they get, and all
// of them connect anew after each kill and go on. What must hold:
//
//   - a message that was confirmed is delivered;
//   - a message whose acknowledgement was committed in a transaction is not delivered again;
//   - nor is one that was acknowledged without, unless that was less than two seconds before a kill:
//     such acknowledgements have no answer, and nobody knows whether they arrived;
//   - a message that is delivered a second time says so in its redelivered flag;
//   - a consumer gets one producer's messages in their order, but for those that are flagged.
package main

import (
	"context"
	"fmt"

	"polylog/compat/amqp/load"
	"polylog/compat/harness"
	"polylog/compat/harness/crash"
)

func main() {
	crash.Main("../../../bin/polylog", 20, func(b *harness.Broker, seed uint64) crash.Load {
		l := load.New(b.AMQP)
		return &queues{Ledger: l.Ledger, load: l, seed: seed}
	})
}

// queues are AMQP queues under load.
type queues struct {
	*load.Ledger
	load *load.Load
	seed uint64
}

func (q *queues) Start(ctx context.Context, kill func() error) error {
	if err := survive(ctx, q.load, kill); err != nil {
		return fmt.Errorf("the first restart: %w", err)
	}
	if err := q.load.Declare(); err != nil {
		return err
	}
	q.load.Start(ctx, q.seed)
	return nil
}

func (q *queues) Progress(ctx context.Context) error { return q.load.Progress(ctx, 500) }

// Check has nothing but the load itself, which must get on.
func (q *queues) Check(ctx context.Context) error { return q.load.Progress(ctx, 200) }

func (q *queues) Finish(ctx context.Context) error { return q.load.Finish(ctx) }
