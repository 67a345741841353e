// Command franz is the driver for github.com/twmb/franz-go.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/compat/kafka/clients/proto"
)

// quick lets a topic be known soon after it was made: the default trusts metadata for five seconds.
var quick = kgo.MetadataMinAge(20 * time.Millisecond)

type driver struct {
	proto.Driver
	adm *kadm.Client

	members proto.Members

	mu      sync.Mutex
	writers map[string]*kgo.Client // idempotent producers, one a topic, so that sequences go on
}

func main() {
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(os.Args[1], ",")...), quick)
	if err != nil {
		panic(err)
	}
	d := &driver{adm: kadm.NewClient(cl), writers: map[string]*kgo.Client{}}
	d.Bootstrap = os.Args[1]
	d.Ops = map[string]func(proto.Args) (proto.Args, error){
		"hello":   proto.Hello("github.com/twmb/franz-go"),
		"produce": d.produce, "consume": d.consume, "join": d.join, "leave": d.members.Leave,
		"create": d.create, "delete": d.delete, "topics": d.topics, "describe": d.describe,
		"addparts": d.addParts, "getconfig": d.getConfig, "setconfig": d.setConfig,
		"groups": d.groups, "describegroup": d.describeGroup, "offsets": d.offsets,
		"setoffset": d.setOffset, "deletegroup": d.deleteGroup,
		"deleterecords": d.deleteRecords, "bounds": d.bounds,
	}
	d.Run()
}

func (d *driver) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(opts, kgo.SeedBrokers(strings.Split(d.Bootstrap, ",")...), quick)...)
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func (d *driver) produce(a proto.Args) (proto.Args, error) {
	opts := []kgo.Opt{
		kgo.ProducerBatchCompression(codecs[a["codec"]]), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(5 * time.Millisecond),
	}
	var cl *kgo.Client
	if a["idempotent"] == "1" {
		d.mu.Lock()
		cl = d.writers[a["topic"]]
		d.mu.Unlock()
	} else {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	if cl == nil {
		var err error
		if cl, err = d.client(opts...); err != nil {
			return nil, err
		}
		if a["idempotent"] == "1" {
			d.mu.Lock()
			d.writers[a["topic"]] = cl
			d.mu.Unlock()
		} else {
			defer cl.Close()
		}
	}
	var recs []*kgo.Record
	for i := a.Int("from"); i < a.Int("from")+a.Int("count"); i++ {
		r := &kgo.Record{
			Topic: a["topic"], Partition: int32(i % a.Int("parts")), Key: proto.Key(i), Value: proto.Value(i),
			Headers: []kgo.RecordHeader{{Key: "n", Value: proto.Header(i)}},
		}
		if a.Has("ts") {
			r.Timestamp = time.UnixMilli(a.Int("ts") + i)
		}
		recs = append(recs, r)
	}
	return nil, cl.ProduceSync(context.Background(), recs...).FirstErr()
}

func (d *driver) consume(a proto.Args) (proto.Args, error) {
	at := kgo.NewOffset().At(a.Int("offset"))
	if a.Has("time") {
		at = kgo.NewOffset().AfterMilli(a.Int("time"))
	}
	cl, err := d.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{a["topic"]: {int32(a.Int("part")): at}}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var recs []string
	for int64(len(recs)) < a.Int("count") {
		f := cl.PollFetches(context.Background())
		if err := f.Err(); err != nil {
			return nil, err
		}
		for _, r := range f.Records() {
			recs = append(recs, proto.Itoa(r.Offset)+":"+proto.Name(r.Value))
		}
	}
	return proto.Args{"recs": strings.Join(recs[:a.Int("count")], ",")}, nil
}

func (d *driver) join(a proto.Args) (proto.Args, error) {
	var mu sync.Mutex // parts; rebalance callbacks and this goroutine
	var parts []string
	change := func(add bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
			mu.Lock()
			defer mu.Unlock()
			for t, ps := range m {
				for _, p := range ps {
					name := t + "-" + proto.Itoa(p)
					parts = slices.DeleteFunc(parts, func(s string) bool { return s == name })
					if add {
						parts = append(parts, name)
					}
				}
			}
			d.Assigned(a["member"], slices.Clone(parts))
		}
	}
	balancer := kgo.RangeBalancer()
	if a["assignor"] == "cooperative" {
		balancer = kgo.CooperativeStickyBalancer()
	}
	opts := []kgo.Opt{
		kgo.ConsumerGroup(a["group"]), kgo.ConsumeTopics(a["topic"]), kgo.Balancers(balancer), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.HeartbeatInterval(300 * time.Millisecond), kgo.SessionTimeout(proto.Session),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)),
	}
	if a.Has("instance") {
		opts = append(opts, kgo.InstanceID(a["instance"]))
	}
	cl, err := d.client(opts...)
	if err != nil {
		return nil, err
	}
	d.members.Join(a["member"], func(ctx context.Context) error {
		defer cl.CloseAllowingRebalance()
		for {
			f := cl.PollFetches(ctx)
			if ctx.Err() != nil {
				return nil
			}
			f.EachRecord(func(r *kgo.Record) { d.Rec(a["member"], r.Topic, r.Partition, r.Offset, r.Value) })
			// What was shown is committed, also when the order to leave has come meanwhile.
			err := errors.Join(f.Err(), cl.CommitUncommittedOffsets(context.WithoutCancel(ctx)))
			cl.AllowRebalance()
			if err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, a["member"], err)
			}
		}
	})
	return nil, nil
}
