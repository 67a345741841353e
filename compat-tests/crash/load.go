package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
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
	ledger.Load
	addr     string
	consumer sync.WaitGroup
}

// bodySize varies: mostly small, now and then large enough to stand alone in a log entry.
func bodySize(rng *rand.Rand) int {
	if rng.IntN(500) == 0 {
		return 100_000
	}
	return 20 + rng.IntN(180)
}

// produce starts one producer.
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
	l.Start(ctx, &ledger.Producer{
		Num: num, Topic: topic, Partitions: parts, Seed: seed, Every: 5 * time.Millisecond, Burst: 20, Window: 500, Size: bodySize, Close: cl.Close,
		Send: func(p ledger.Partition, value []byte, done func(int64, error)) {
			cl.Produce(ctx, &kgo.Record{Topic: p.Topic, Partition: p.Num, Value: value}, func(r *kgo.Record, err error) { done(r.Offset, err) })
		},
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
					l.Ledger.Fail("%s: %s-%d: %v", who, e.Topic, e.Partition, e.Err)
				}
			}
			recs := f.Records()
			ends := map[ledger.Partition]int64{}
			for _, r := range recs {
				p := ledger.Partition{Topic: r.Topic, Num: r.Partition}
				if id, err := ledger.Parse(r.Value); err != nil {
					l.Ledger.Fail("%s: %s: offset %d: %v", who, p, r.Offset, err)
				} else {
					l.Ledger.Note(p, r.Offset, id, ledger.Group, who)
				}
				ends[p] = r.Offset + 1
			}
			if len(recs) > 0 && cl.CommitRecords(ctx, recs...) == nil {
				for p, o := range ends {
					l.Ledger.Commit(p, o)
				}
			}
			cl.AllowRebalance()
		}
	})
	return nil
}
