package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/compat/faults/check"
	"polylog/compat/harness"
)

// operators is how many clients work on the same values.
const operators = 3

// ops are clients that change and read single values whose history must be linearizable: the
// offsets of groups, and whether topics are there. They never retry: what an operation that got no
// answer did is not known, and that is written down.
type ops struct {
	addrs   []string
	history *history
	seed    uint64

	wg   sync.WaitGroup
	mu   sync.Mutex
	done []check.Op
}

// start begins until ctx ends.
func (o *ops) start(ctx context.Context) error {
	for i := range operators {
		cl, err := kgo.NewClient(append(impatient(o.addrs), kgo.RequestRetries(0), kgo.RetryTimeout(time.Second))...)
		if err != nil {
			return err
		}
		rng := rand.New(rand.NewPCG(o.seed, uint64(100+i)))
		o.wg.Go(func() {
			defer cl.Close()
			epoch, unknown := time.Duration(0), 0
			for n := int64(0); harness.Pause(ctx, time.Duration(20+rng.IntN(60))*time.Millisecond); n++ {
				// Values change every few seconds, and few changes of one may stay without an answer: a
				// check's time grows fast with its history, and exponentially with these.
				if now := o.history.now() / (5 * time.Second); now != epoch {
					epoch, unknown = now, 0
				}
				value, name := fmt.Sprintf("value-%d", epoch), fmt.Sprintf("topic-%d", epoch)
				known := true
				switch what := rng.IntN(6); {
				case what < 2 || unknown == 2:
					o.fetch(ctx, cl, i, value)
				case what < 4:
					known = o.commit(ctx, cl, i, value, int64(i)*1_000_000+n)
				case what == 4:
					known = o.create(ctx, cl, i, name)
				default:
					known = o.delete(ctx, cl, i, name)
				}
				if !known {
					unknown++
				}
			}
		})
	}
	return nil
}

// undone says whether an error tells for certain that nothing happened: the broker says so, or the
// client never reached it.
func undone(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	for _, e := range []error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotController, kerr.NotLeaderForPartition} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// do runs one operation and writes down what came of it, if that is known. fn returns the value that
// it learned.
func (o *ops) do(ctx context.Context, client int, key string, kind check.Kind, value int64, fn func(context.Context) (int64, error)) (known bool) {
	op := check.Op{Client: client, Key: key, Kind: kind, Value: value, Call: o.history.now()}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	learned, err := fn(ctx)
	op.Return = o.history.now()
	switch {
	case undone(err), kind == check.Read && err != nil:
		return true
	case err != nil:
		op.Unknown = true
	case kind != check.Write:
		op.Value = learned
	}
	o.history.op(op)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done = append(o.done, op)
	return !op.Unknown
}

func (o *ops) commit(ctx context.Context, cl *kgo.Client, client int, group string, value int64) bool {
	return o.do(ctx, client, group, check.Write, value, func(ctx context.Context) (int64, error) {
		var offsets kadm.Offsets
		offsets.AddOffset(topic, 0, value, -1)
		r, err := kadm.NewClient(cl).CommitOffsets(ctx, group, offsets)
		if err == nil {
			err = r.Error()
		}
		return 0, err
	})
}

func (o *ops) fetch(ctx context.Context, cl *kgo.Client, client int, group string) {
	o.do(ctx, client, group, check.Read, 0, func(ctx context.Context) (int64, error) {
		r, err := kadm.NewClient(cl).FetchOffsets(ctx, group)
		if err == nil {
			err = r.Error()
		}
		if at, ok := r.Lookup(topic, 0); ok {
			return at.At, err
		}
		return check.Absent, err
	})
}

func (o *ops) create(ctx context.Context, cl *kgo.Client, client int, name string) bool {
	return o.do(ctx, client, name, check.Create, 0, func(ctx context.Context) (int64, error) {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = 1000
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, 1, -1
		req.Topics = append(req.Topics, t)
		r, err := req.RequestWith(ctx, cl)
		if err != nil {
			return 0, err
		}
		return found(kerr.ErrorForCode(r.Topics[0].ErrorCode), kerr.TopicAlreadyExists, 1, check.Absent)
	})
}

func (o *ops) delete(ctx context.Context, cl *kgo.Client, client int, name string) bool {
	return o.do(ctx, client, name, check.Delete, 0, func(ctx context.Context) (int64, error) {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis = 1000
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &name
		req.Topics, req.TopicNames = append(req.Topics, t), []string{name}
		r, err := req.RequestWith(ctx, cl)
		if err != nil {
			return 0, err
		}
		return found(kerr.ErrorForCode(r.Topics[0].ErrorCode), kerr.UnknownTopicOrPartition, check.Absent, 1)
	})
}

// found tells what was there before: one value if the refusal says so, another if all went well.
func found(err, refusal error, refused, well int64) (int64, error) {
	switch {
	case errors.Is(err, refusal):
		return refused, nil
	case err != nil:
		return 0, err
	default:
		return well, nil
	}
}
