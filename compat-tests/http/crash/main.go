// Command crash kills the broker while it delivers webhooks, again and again, and looks for what was lost:
// an endpoint in this process gets messages by two subscriptions, one in order of each key (package load says
// what must hold), which many messages wait for all the while.
package main

import (
	"context"
	"errors"
	"flag"
	"time"

	"polylog/compat/harness"
	"polylog/compat/harness/crash"
	"polylog/compat/http/load"
)

const topic = "hooks"

func main() {
	backlog := flag.Int("backlog", 10_000, "messages that wait for delivery, in each subscription, at least, when the broker is killed")
	crash.Main("../../../bin/polylog", 20, func(b *harness.Broker, seed uint64) crash.Load {
		l := load.NewLedger(map[string]bool{"any": false, "ordered": true})
		return &webhooks{
			Ledger: l, backlog: *backlog,
			pub: load.Publisher{Client: &load.Client{Addrs: []string{b.HTTP}}, Ledger: l, Topic: topic, Keys: 50, Run: seed},
		}
	}, "--webhook-allow", "127.0.0.0/8")
}

// webhooks are subscriptions that are pushed.
type webhooks struct {
	*load.Ledger
	backlog int
	sink    *load.Sink
	pub     load.Publisher
	cancel  context.CancelFunc
	ended   chan error // of the goroutine that publishes
}

func (w *webhooks) Start(ctx context.Context, _ func() error) error {
	w.sink = load.NewSink(w.Ledger, 20*time.Millisecond, 100)
	c := w.pub.Client
	err := c.Call(ctx, "PUT", "/v1/topics/"+topic, map[string]any{"partitions": 4}, nil)
	for _, name := range []string{"any", "ordered"} {
		err = errors.Join(err, c.Call(ctx, "PUT", "/v1/subscriptions/"+name, map[string]any{
			"topic": topic, "maxDeliveries": 0, "retry": map[string]any{"minMs": 100, "maxMs": 500}, "push": w.sink.Push(name, name == "ordered"),
		}, nil))
	}
	if err != nil {
		return err
	}
	publish, cancel := context.WithCancel(ctx)
	w.cancel, w.ended = cancel, make(chan error, 1)
	go func() { w.ended <- w.publish(publish) }()
	return nil
}

// publish keeps the backlog until ctx ends.
func (w *webhooks) publish(ctx context.Context) error {
	for harness.Pause(ctx, 10*time.Millisecond) {
		for ctx.Err() == nil && w.Waiting() < w.backlog+1000 {
			if err := w.pub.Publish(context.WithoutCancel(ctx), 100); err != nil { // the last batch, too, is stored
				return err
			}
		}
	}
	return nil
}

// Progress waits for deliveries while more than the backlog waits.
func (w *webhooks) Progress(ctx context.Context) error {
	if err := w.deliver(ctx, 300); err != nil {
		return err
	}
	return harness.Await(ctx, time.Minute, func() bool { return w.Waiting() >= w.backlog })
}

func (w *webhooks) deliver(ctx context.Context, n int) error {
	least := w.Deliveries() + n
	return harness.Await(ctx, time.Minute, func() bool { return w.Deliveries() >= least })
}

func (w *webhooks) Killed() {}

// Check has nothing but the deliveries, which must go on.
func (w *webhooks) Check(ctx context.Context) error { return w.deliver(ctx, 100) }

// Finish waits until nothing waits any more.
func (w *webhooks) Finish(ctx context.Context) error {
	w.cancel()
	err := <-w.ended
	if err == nil {
		err = harness.Await(ctx, 2*time.Minute, func() bool { return w.Waiting() == 0 })
	}
	w.End()
	w.sink.Close()
	return err
}
