package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"polylog/compat/harness/ledger"
)

const (
	topic     = "records"
	parts     = 6
	producers = 4
	members   = 2
	groupName = "readers"
)

// records is what goes on all the time on a topic: idempotent producers that wait for all acknowledgements, and a
// consumer group that commits what it was shown.
type records struct {
	ledger.Load
	addrs     []string
	history   *history
	gaps      *gaps
	rate      int // records a second, all producers together
	seed      uint64
	consuming sync.WaitGroup
}

// impatient are the options of all clients: they notice a dead node in about a second and try again
// at once, so that a gap is the broker's and not theirs.
func impatient(addrs []string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(addrs...), kgo.Dialer(new(dialer).dial), kgo.RequestTimeoutOverhead(time.Second),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.MetadataMaxAge(5 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
	}
}

// dialer gives up after a second, and at once where it has just given up: the client would wait that
// long for each request that it had in flight to a node that was cut off, one after the other.
type dialer struct {
	mu     sync.Mutex
	failed map[string]timedOut
}

type timedOut struct {
	at  time.Time
	err error // the client must see a timeout, or it gives its records up
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	const patience = time.Second
	d.mu.Lock()
	last := d.failed[addr]
	d.mu.Unlock()
	if time.Since(last.at) < patience {
		return nil, last.err
	}
	c, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, network, addr)
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() && ctx.Err() == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.failed == nil {
			d.failed = map[string]timedOut{}
		}
		d.failed[addr] = timedOut{time.Now(), err}
	}
	return c, err
}

// withoutGreeting has a client send its requests first on a new connection, and not ask for the
// broker's versions: a paused process's connections open, and the client would wait for
// that answer once for each request that it had in flight there, before it moves any of
// them to the leader that it knows by then.
func withoutGreeting(ctx context.Context, addrs []string) (kgo.Opt, error) {
	cl, err := kgo.NewClient(impatient(addrs)...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	resp, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	versions := kversion.FromApiVersionsResponse(resp)
	versions.SetMaxKeyVersion(kmsg.NewPtrApiVersionsRequest().Key(), -1)
	return kgo.MaxVersions(versions), nil
}

// bodySize is small most times, and now and then large enough to stand alone in a log entry.
func bodySize(rng *rand.Rand) int {
	if rng.IntN(2000) == 0 {
		return 100_000
	}
	return 20 + rng.IntN(180)
}

// start begins everything; ctx ends the consumers, stop the producers.
func (l *records) start(ctx context.Context) error {
	for i := range producers {
		if err := l.produce(ctx, int64(i+1)); err != nil {
			return err
		}
	}
	for i := range members {
		if err := l.consume(ctx, i+1); err != nil {
			return err
		}
	}
	return nil
}

func (l *records) produce(ctx context.Context, num int64) error {
	versions, err := withoutGreeting(ctx, l.addrs)
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(append(impatient(l.addrs), versions,
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(2*time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.UnknownTopicRetries(-1), kgo.ProducerBatchMaxBytes(200_000), kgo.ProduceRequestTimeout(time.Second),
		kgo.RecordRetries(1<<30), kgo.RequestRetries(1<<20),
	)...)
	if err != nil {
		return err
	}
	const every = 10 * time.Millisecond
	l.Start(ctx, &ledger.Producer{
		Num: num, Topic: topic, Partitions: parts, Seed: l.seed, Window: 5000, Size: bodySize, Close: cl.Close,
		Every: every, Burst: 2 * max(1, l.rate/producers/int(time.Second/every)),
		Send: func(p ledger.Partition, value []byte, done func(int64, error)) {
			cl.Produce(ctx, &kgo.Record{Topic: p.Topic, Partition: p.Num, Value: value}, func(r *kgo.Record, err error) { done(r.Offset, err) })
		},
		Noted: func(p ledger.Partition, offset int64, id ledger.ID) {
			l.gaps.ack(time.Now())
			l.history.ack(p, offset, id)
		},
	})
	return nil
}

func (l *records) consume(ctx context.Context, num int) error {
	cl, err := kgo.NewClient(append(impatient(l.addrs),
		kgo.ConsumerGroup(groupName), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.HeartbeatInterval(500*time.Millisecond), kgo.SessionTimeout(6*time.Second), kgo.RebalanceTimeout(6*time.Second),
		kgo.FetchMaxWait(500*time.Millisecond),
	)...)
	if err != nil {
		return err
	}
	who := fmt.Sprintf("group member %d", num)
	l.consuming.Go(func() {
		defer cl.CloseAllowingRebalance()
		for ctx.Err() == nil {
			f := cl.PollRecords(ctx, 5000)
			for _, e := range f.Errors() {
				if strings.Contains(e.Err.Error(), "OFFSET_OUT_OF_RANGE") {
					l.Ledger.Fail("%s: %s-%d: %v", who, e.Topic, e.Partition, e.Err)
				}
			}
			ends := map[ledger.Partition]int64{}
			f.EachRecord(func(r *kgo.Record) {
				p := ledger.Partition{Topic: r.Topic, Num: r.Partition}
				if next, ok := ends[p]; ok && r.Offset != next {
					l.Ledger.Fail("%s: %s: offset %d where %d follows", who, p, r.Offset, next)
				}
				ends[p] = r.Offset + 1
				if id, err := ledger.Parse(r.Value); err != nil {
					l.Ledger.Fail("%s: %s: offset %d: %v", who, p, r.Offset, err)
				} else {
					l.Ledger.Note(p, r.Offset, id, ledger.Group, who)
				}
			})
			if len(ends) > 0 && cl.CommitUncommittedOffsets(ctx) == nil {
				for p, o := range ends {
					l.Ledger.Commit(p, o)
				}
			}
			cl.AllowRebalance()
		}
	})
	return nil
}
