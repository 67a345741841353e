package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/compat/harness"
	"polylog/compat/harness/ledger"
)

const (
	topic = "words"
	parts = 3
)

// load is what producers do all the while, whatever happens to the nodes.
type load struct {
	ledger.Load
	seeds []string // addresses
	seed  uint64   // of its randomness
}

// start makes the topic and starts producers, which never give up a record.
func (l *load) start(ctx context.Context, producers int) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(l.seeds...))
	if err != nil {
		return err
	}
	defer cl.Close()
	made, err := kadm.NewClient(cl).CreateTopics(ctx, parts, -1, nil, topic)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		return err
	}
	for num := range producers {
		if err := l.produce(ctx, int64(num+1)); err != nil {
			return err
		}
	}
	return nil
}

func (l *load) produce(ctx context.Context, num int64) error {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(l.seeds...), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(2*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(-1), kgo.RequestRetries(1<<20),
		kgo.RetryTimeout(2*time.Minute), kgo.ProduceRequestTimeout(10*time.Second), kgo.MetadataMinAge(50*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
	)
	if err != nil {
		return err
	}
	l.Start(ctx, &ledger.Producer{
		Num: num, Topic: topic, Partitions: parts, Seed: l.seed, Every: 10 * time.Millisecond, Burst: 8, Window: 300, Close: cl.Close,
		Size: func(rng *rand.Rand) int { return 20 + rng.IntN(500) },
		Send: func(p ledger.Partition, value []byte, done func(int64, error)) {
			cl.Produce(ctx, &kgo.Record{Topic: p.Topic, Partition: p.Num, Value: value}, func(r *kgo.Record, err error) { done(r.Offset, err) })
		},
	})
	return nil
}

// goesOn waits until the load has got somewhere, or what was done proves nothing.
func (l *load) goesOn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for least := l.Acked.Load() + 100; l.Acked.Load() < least; {
		if !harness.Pause(ctx, 10*time.Millisecond) {
			return fmt.Errorf("the load does not get on: %d of %d records acknowledged", l.Acked.Load(), l.Sent.Load())
		}
	}
	return nil
}

// verify stops the load, reads everything back and compares it with what was promised.
func (l *load) verify(ctx context.Context) error {
	l.Stop()
	least := l.Ledger.Ends()
	from := map[int32]kgo.Offset{}
	walks := map[int32]*ledger.Walk{}
	for p := range int32(parts) {
		from[p] = kgo.NewOffset().AtStart()
		walks[p] = l.Ledger.Walk(ledger.Partition{Topic: topic, Num: p}, 0, true, "read back")
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(l.seeds...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	behind := func() bool {
		for p, w := range walks {
			if end, _ := ends.Lookup(topic, p); w.Next() < end.Offset {
				return true
			}
		}
		return false
	}
	for behind() {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		f.EachRecord(func(r *kgo.Record) { walks[r.Partition].Record(r.Offset, r.Value) })
	}
	for p, w := range walks {
		w.End(least[ledger.Partition{Topic: topic, Num: p}])
	}
	return nil
}
