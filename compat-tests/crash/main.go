// Command crash kills the broker under load, again and again, and looks for what was lost. The
// load goes on through every kill: idempotent and plain producers that wait for all
// acknowledgements, and a consumer group that commits what it was shown. After each restart, and of
// everything at the end:
//
//   - each acknowledged record is at the offset that its acknowledgement told;
//   - offsets are dense from 0, and what was ever seen at an offset is there still;
//   - a record of an idempotent producer is there once, in its producer's order;
//   - committed group offsets are not behind what was acknowledged.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/compat/harness"
	"polylog/compat/harness/crash"
	"polylog/compat/harness/ledger"
)

func main() {
	crash.Main("../../bin/polylog", 30, func(b *harness.Broker, seed uint64) crash.Load {
		led := ledger.New()
		return &topics{
			Ledger: led, seed: seed,
			load:     &load{addr: b.Addr, Load: ledger.Load{Ledger: led}},
			verifier: &verifier{addr: b.Addr, ledger: led, upTo: map[ledger.Partition]int64{}},
		}
	})
}

// topics are Kafka topics under load.
type topics struct {
	*ledger.Ledger
	load     *load
	verifier *verifier
	seed     uint64
	stop     context.CancelFunc // ends the consumers
}

func (t *topics) Start(ctx context.Context, _ func() error) error {
	if err := createTopics(ctx, t.load.addr); err != nil {
		return err
	}
	for i, topic := range []string{idempotentTopic, idempotentTopic, plainTopic, plainTopic} {
		if err := t.load.produce(ctx, int64(i+1), topic, t.seed); err != nil {
			return err
		}
	}
	consuming, stop := context.WithCancel(ctx)
	t.stop = stop
	for i := range 2 {
		if err := t.load.consume(consuming, i+1); err != nil {
			return err
		}
	}
	return nil
}

func (t *topics) Progress(ctx context.Context) error {
	for least := t.load.Acked.Load() + 200; t.load.Acked.Load() < least; {
		if !harness.Pause(ctx, 10*time.Millisecond) {
			_, wrong := t.Wrong()
			return fmt.Errorf("the load does not get on: %d records acknowledged; %v", t.load.Acked.Load(), wrong)
		}
	}
	return nil
}

func (t *topics) Killed() {}

func (t *topics) Check(ctx context.Context) error { return t.verifier.check(ctx, false) }

func (t *topics) Finish(ctx context.Context) error {
	t.load.Stop()
	for t.Missing(idempotentTopic, ledger.Group) > 0 && harness.Pause(ctx, 50*time.Millisecond) {
	}
	if n := t.Missing(idempotentTopic, ledger.Group); n > 0 {
		t.Fail("%d acknowledged records were never shown to the group", n)
	}
	t.stop()
	t.load.consumer.Wait()
	return t.verifier.check(ctx, true)
}

func (t *topics) Summary() string {
	faults, _ := t.Wrong()
	return fmt.Sprintf("%d records acknowledged of %d sent, %d faults", t.load.Acked.Load(), t.load.Sent.Load(), faults)
}

func createTopics(ctx context.Context, addr string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	r, err := kadm.NewClient(cl).CreateTopics(ctx, parts, 1, nil, idempotentTopic, plainTopic)
	if err != nil {
		return err
	}
	return r.Error()
}
