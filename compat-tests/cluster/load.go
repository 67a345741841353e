package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/compat/harness/ledger"
)

const (
	topic = "words"
	parts = 3
)

// load is what producers do all the while, whatever happens to the nodes.
type load struct {
	ledger    *ledger.Ledger
	seeds     []string // addresses
	seed      uint64   // of its randomness
	stopping  atomic.Bool
	producers sync.WaitGroup
	sent      atomic.Int64
	acked     atomic.Int64
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
	rng := rand.New(rand.NewPCG(l.seed, uint64(num)))
	l.producers.Go(func() {
		defer cl.Close()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		var inFlight sync.WaitGroup
		window := make(chan struct{}, 300)
		for seq := int64(0); !l.stopping.Load() && ctx.Err() == nil; {
			<-tick.C
			for range 1 + rng.IntN(8) {
				id := ledger.NewID(num, seq)
				seq++
				p := ledger.Partition{Topic: topic, Num: int32(rng.IntN(parts))}
				l.ledger.Sent(p, id)
				window <- struct{}{}
				inFlight.Add(1)
				l.sent.Add(1)
				r := &kgo.Record{Topic: topic, Partition: p.Num, Value: ledger.Value(id, 20+rng.IntN(500))}
				cl.Produce(ctx, r, func(r *kgo.Record, err error) {
					defer func() { <-window; inFlight.Done() }()
					if err != nil {
						if !errors.Is(err, context.Canceled) {
							l.ledger.Fail("producer %d: record %v was given up: %v", num, id, err)
						}
						return
					}
					l.acked.Add(1)
					l.ledger.Note(p, r.Offset, id, ledger.Ack, fmt.Sprintf("producer %d", num))
				})
			}
		}
		inFlight.Wait()
	})
	return nil
}

// goesOn waits until the load has got somewhere, or what was done proves nothing.
func (l *load) goesOn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for least := l.acked.Load() + 100; l.acked.Load() < least; {
		if !pause(ctx, 10*time.Millisecond) {
			return fmt.Errorf("the load does not get on: %d of %d records acknowledged", l.acked.Load(), l.sent.Load())
		}
	}
	return nil
}

// verify stops the load, reads everything back and compares it with what was promised.
func (l *load) verify(ctx context.Context) error {
	l.stopping.Store(true)
	l.producers.Wait()
	least := l.ledger.Ends()
	from := map[int32]kgo.Offset{}
	walks := map[int32]*ledger.Walk{}
	for p := range int32(parts) {
		from[p] = kgo.NewOffset().AtStart()
		walks[p] = l.ledger.Walk(ledger.Partition{Topic: topic, Num: p}, 0, true, "read back")
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
