package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/compat/harness/ledger"
)

const (
	idempotentTopic = "idempotent"
	plainTopic      = "plain"
	parts           = 3
	groupName       = "readers"
)

// load is what goes on against the broker while it is killed: it never stops to wait for it.
type load struct {
	addr     string
	ledger   *ledger.Ledger
	producer sync.WaitGroup
	consumer sync.WaitGroup
	stopping atomic.Bool
	sent     atomic.Int64
	acked    atomic.Int64 // for pacing the kills
}

// bodySize varies: mostly small, now and then large enough to stand alone in a log entry.
func bodySize(rng *rand.Rand) int {
	if rng.IntN(500) == 0 {
		return 100_000
	}
	return 20 + rng.IntN(180)
}

// produce runs one producer until the load stops; then it waits for everything that it has sent.
func (l *load) produce(ctx context.Context, num int64, topic string, seed uint64) error {
	opts := []kgo.Opt{
		kgo.SeedBrokers(l.addr), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(2 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(-1), kgo.ProducerBatchMaxBytes(200_000),
		kgo.RetryBackoffFn(func(int) time.Duration { return 30 * time.Millisecond }), kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.RetryTimeout(2 * time.Minute), kgo.RequestRetries(1 << 20), kgo.ProduceRequestTimeout(10 * time.Second),
	}
	if topic == plainTopic {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, uint64(num)))
	l.producer.Go(func() {
		defer cl.Close()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		var inflight sync.WaitGroup
		window := make(chan struct{}, 500)
		for seq := int64(0); !l.stopping.Load() && ctx.Err() == nil; {
			<-tick.C
			for range 1 + rng.IntN(20) {
				id := ledger.NewID(num, seq)
				seq++
				p := ledger.Partition{Topic: topic, Num: int32(rng.IntN(parts))}
				l.ledger.Sent(p, id)
				window <- struct{}{}
				inflight.Add(1)
				l.sent.Add(1)
				r := &kgo.Record{Topic: p.Topic, Partition: p.Num, Value: ledger.Value(id, bodySize(rng))}
				cl.Produce(ctx, r, func(r *kgo.Record, err error) {
					defer func() { <-window; inflight.Done() }()
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
		inflight.Wait()
	})
	return nil
}

// consume runs one member of the group until ctx ends.
func (l *load) consume(ctx context.Context, num int) error {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(l.addr), kgo.ConsumerGroup(groupName), kgo.ConsumeTopics(idempotentTopic), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Balancers(kgo.RangeBalancer()),
		kgo.HeartbeatInterval(300*time.Millisecond), kgo.SessionTimeout(6*time.Second), kgo.RebalanceTimeout(6*time.Second),
		kgo.FetchMaxWait(200*time.Millisecond), kgo.MetadataMinAge(50*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 30 * time.Millisecond }),
	)
	if err != nil {
		return err
	}
	who := fmt.Sprintf("group member %d", num)
	l.consumer.Go(func() {
		defer cl.CloseAllowingRebalance()
		for ctx.Err() == nil {
			f := cl.PollRecords(ctx, 2000)
			for _, e := range f.Errors() {
				if strings.Contains(e.Err.Error(), "OFFSET_OUT_OF_RANGE") {
					l.ledger.Fail("%s: %s-%d: %v", who, e.Topic, e.Partition, e.Err)
				}
			}
			recs := f.Records()
			ends := map[ledger.Partition]int64{}
			for _, r := range recs {
				p := ledger.Partition{Topic: r.Topic, Num: r.Partition}
				if id, err := ledger.Parse(r.Value); err != nil {
					l.ledger.Fail("%s: %s: offset %d: %v", who, p, r.Offset, err)
				} else {
					l.ledger.Note(p, r.Offset, id, ledger.Group, who)
				}
				ends[p] = r.Offset + 1
			}
			if len(recs) > 0 && cl.CommitRecords(ctx, recs...) == nil {
				for p, o := range ends {
					l.ledger.Commit(p, o)
				}
			}
			cl.AllowRebalance()
		}
	})
	return nil
}
