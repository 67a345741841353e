package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/compat/kafka/clients/proto"
)

// reference is the runner's own eye on the broker: what a client under test says is
// compared with what another client sees.
type reference struct {
	addr string
	cl   *kgo.Client
	adm  *kadm.Client
}

func newReference(addr string) (*reference, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(addr, ",")...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		return nil, err
	}
	return &reference{addr: addr, cl: cl, adm: kadm.NewClient(cl)}, nil
}

func (r *reference) close() { r.cl.Close() }

// topic makes a topic, anew if it is there.
func (r *reference) topic(ctx context.Context, name string, parts int32) error {
	if _, err := r.adm.DeleteTopic(ctx, name); err == nil {
		if err := r.gone(ctx, name); err != nil {
			return err
		}
	}
	if _, err := r.adm.CreateTopic(ctx, parts, 1, nil, name); err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	if err := r.has(ctx, name, int(parts)); err != nil {
		return err
	}
	for ctx.Err() == nil { // and a leader may not know yet that it is one
		o, err := r.adm.ListEndOffsets(ctx, name)
		if err != nil {
			return err
		}
		if o.Error() == nil {
			return nil
		}
	}
	return ctx.Err()
}

// has waits until the topic is known with so many partitions, all of them led: Apache Kafka
// answers before its brokers have heard.
func (r *reference) has(ctx context.Context, name string, parts int) error {
	var led int
	for ctx.Err() == nil {
		m, err := r.adm.Metadata(ctx, name)
		if err != nil {
			return err
		}
		led = 0
		for _, p := range m.Topics[name].Partitions {
			if p.Err == nil && p.Leader >= 0 {
				led++
			}
		}
		if led == parts {
			return nil
		}
	}
	return fmt.Errorf("topic %s has %d led partitions, want %d: %w", name, led, parts, ctx.Err())
}

// gone waits until the topic is unknown; a broker may delete in the background.
func (r *reference) gone(ctx context.Context, name string) error {
	for ctx.Err() == nil {
		m, err := r.adm.Metadata(ctx, name)
		if err != nil {
			return err
		}
		t, ok := m.Topics[name]
		if gone := !ok || t.Err != nil; gone {
			return nil
		}
	}
	return fmt.Errorf("topic %s is still there: %w", name, ctx.Err())
}

// produce appends records from..from+n-1 as the drivers make them, to partition i%parts.
func (r *reference) produce(ctx context.Context, topic string, parts, from, n int64) error {
	var recs []*kgo.Record
	for i := from; i < from+n; i++ {
		recs = append(recs, record(topic, parts, i))
	}
	return r.cl.ProduceSync(ctx, recs...).FirstErr()
}

// fill makes a topic of one partition with records 0..n-1.
func (r *reference) fill(ctx context.Context, topic string, n int64) error {
	if err := r.topic(ctx, topic, 1); err != nil {
		return err
	}
	return r.produce(ctx, topic, 1, 0, n)
}

// fillTimed makes a topic of one partition with 100 records in four batches, one second apart.
func (r *reference) fillTimed(ctx context.Context, topic string) error {
	if err := r.topic(ctx, topic, 1); err != nil {
		return err
	}
	for from := int64(0); from < 100; from += 25 {
		var recs []*kgo.Record
		for i := from; i < from+25; i++ {
			k := record(topic, 1, i)
			k.Timestamp = time.UnixMilli(baseTime + i*1000)
			recs = append(recs, k)
		}
		if err := r.cl.ProduceSync(ctx, recs...).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// number is the i of key ki.
func number(key []byte) (int64, error) {
	return strconv.ParseInt(strings.TrimPrefix(string(key), "k"), 10, 64)
}

func record(topic string, parts, i int64) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: int32(i % parts), Key: proto.Key(i), Value: proto.Value(i)}
}

// read takes every record of the topic from its start to its end as ListOffsets tells it.
func (r *reference) read(ctx context.Context, topic string) ([]*kgo.Record, error) {
	start, err := r.adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	end, err := r.adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	want := 0
	from := map[string]map[int32]kgo.Offset{topic: {}}
	end.Each(func(o kadm.ListedOffset) {
		s, _ := start.Lookup(topic, o.Partition)
		want += int(o.Offset - s.Offset)
		from[topic][o.Partition] = kgo.NewOffset().At(s.Offset)
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(r.addr, ",")...), kgo.ConsumePartitions(from), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var got []*kgo.Record
	for len(got) < want {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			return got, fmt.Errorf("read %s: %d of %d records: %w", topic, len(got), want, err)
		}
		got = append(got, f.Records()...)
	}
	return got, nil
}

// expect checks that the topic holds records 0..n-1 exactly, as the drivers make them:
// each in its partition, offsets dense from 0, contents whole, and the codec as asked.
func (r *reference) expect(ctx context.Context, topic string, parts, n int64, codec string, base int64) error {
	recs, err := r.read(ctx, topic)
	if err != nil {
		return err
	}
	if int64(len(recs)) != n {
		return fmt.Errorf("%d records in %s, want %d", len(recs), topic, n)
	}
	next := map[int32]int64{}
	codecs := map[string]uint8{"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
	seen := map[int64]bool{}
	for _, k := range recs {
		i, err := number(k.Key)
		if err != nil {
			return fmt.Errorf("key %q: %w", k.Key, err)
		}
		switch {
		case seen[i]:
			return fmt.Errorf("record %d twice", i)
		case string(k.Value) != string(proto.Value(i)):
			return fmt.Errorf("record %d has value %q", i, k.Value)
		case int64(k.Partition) != i%parts:
			return fmt.Errorf("record %d is in partition %d", i, k.Partition)
		case k.Offset != next[k.Partition]:
			return fmt.Errorf("offset %d of partition %d where %d follows", k.Offset, k.Partition, next[k.Partition])
		case k.Attrs.CompressionType() != codecs[codec]:
			return fmt.Errorf("record %d is compressed with codec %d, want %s", i, k.Attrs.CompressionType(), codec)
		case base != 0 && k.Timestamp.UnixMilli() != base+i:
			return fmt.Errorf("record %d has timestamp %d, want %d", i, k.Timestamp.UnixMilli(), base+i)
		case base != 0 && (len(k.Headers) != 1 || k.Headers[0].Key != "n" || string(k.Headers[0].Value) != string(proto.Header(i))):
			return fmt.Errorf("record %d has headers %v", i, k.Headers)
		}
		seen[i] = true
		next[k.Partition]++
	}
	return nil
}

// committed is the group's offsets on the topic, by partition.
func (r *reference) committed(ctx context.Context, group, topic string) (map[int32]int64, error) {
	o, err := r.adm.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	m := map[int32]int64{}
	for p, v := range o[topic] {
		if v.Err != nil {
			return nil, v.Err
		}
		m[p] = v.At
	}
	return m, nil
}

// drained checks that the group has committed the end of every partition of the topic.
func (r *reference) drained(ctx context.Context, group, topic string) error {
	end, err := r.adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	got, err := r.committed(ctx, group, topic)
	if err != nil {
		return err
	}
	var bad []string
	end.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 && got[o.Partition] != o.Offset {
			bad = append(bad, fmt.Sprintf("partition %d: committed %d, end %d", o.Partition, got[o.Partition], o.Offset))
		}
	})
	if len(bad) > 0 {
		slices.Sort(bad)
		return fmt.Errorf("group %s after all were consumed: %v", group, bad)
	}
	return nil
}

// describe is one group as DescribeGroups tells it.
func (r *reference) describe(ctx context.Context, group string) (kadm.DescribedGroup, error) {
	g, err := r.adm.DescribeGroups(ctx, group)
	if err != nil {
		return kadm.DescribedGroup{}, err
	}
	d := g[group]
	if d.Err != nil && !errors.Is(d.Err, kerr.GroupIDNotFound) {
		return d, d.Err
	}
	return d, nil
}
