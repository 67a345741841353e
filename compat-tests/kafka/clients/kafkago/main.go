// Command kafkago is the driver for github.com/segmentio/kafka-go.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"polylog/compat/kafka/clients/proto"
)

var ctx = context.Background()

// quick lets a topic be known soon after it was made: the default trusts metadata for six seconds.
var quick = &kafka.Transport{MetadataTTL: 100 * time.Millisecond}

type driver struct {
	proto.Driver
	cl *kafka.Client

	members proto.Members
}

func main() {
	d := &driver{cl: &kafka.Client{Addr: kafka.TCP(os.Args[1]), Transport: quick}}
	d.Bootstrap = os.Args[1]
	d.Ops = map[string]func(proto.Args) (proto.Args, error){
		"hello":   proto.Hello("github.com/segmentio/kafka-go"),
		"produce": d.produce, "consume": d.consume, "join": d.join, "leave": d.members.Leave,
		"create": d.create, "delete": d.delete, "topics": d.topics, "describe": d.describe,
		"addparts": d.addParts, "getconfig": d.getConfig, "setconfig": d.setConfig,
		"groups": d.groups, "describegroup": d.describeGroup, "offsets": d.offsets,
		"setoffset": d.setOffset, "deletegroup": d.deleteGroup, "bounds": d.bounds,
	}
	d.Run()
}

var codecs = map[string]kafka.Compression{
	"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

// byKey finds a record's partition from its number.
type byKey struct{ parts int64 }

func (b byKey) Balance(m kafka.Message, parts ...int) int {
	var i int64
	if _, err := fmt.Sscanf(string(m.Key), "k%d", &i); err != nil {
		panic(err)
	}
	return parts[i%b.parts]
}

func (d *driver) produce(a proto.Args) (proto.Args, error) {
	if a["idempotent"] == "1" {
		return nil, proto.ErrUnsupported
	}
	t := &kafka.Transport{} // of its own, so that it asks anew which topics there are
	defer t.CloseIdleConnections()
	w := &kafka.Writer{
		Addr: kafka.TCP(d.Bootstrap), Topic: a["topic"], Balancer: byKey{a.Int("parts")},
		Compression: codecs[a["codec"]], RequiredAcks: kafka.RequireAll, Transport: t, BatchTimeout: 5 * time.Millisecond,
	}
	var msgs []kafka.Message
	for i := a.Int("from"); i < a.Int("from")+a.Int("count"); i++ {
		m := kafka.Message{
			Key: proto.Key(i), Value: proto.Value(i), Headers: []kafka.Header{{Key: "n", Value: proto.Header(i)}},
		}
		if a.Has("ts") {
			m.Time = time.UnixMilli(a.Int("ts") + i)
		}
		msgs = append(msgs, m)
	}
	return nil, errors.Join(w.WriteMessages(ctx, msgs...), w.Close())
}

func (d *driver) consume(a proto.Args) (proto.Args, error) {
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{d.Bootstrap}, Topic: a["topic"], Partition: int(a.Int("part")), MaxWait: 200 * time.Millisecond,
	})
	defer r.Close()
	var err error
	if a.Has("time") {
		err = r.SetOffsetAt(ctx, time.UnixMilli(a.Int("time")))
	} else {
		err = r.SetOffset(a.Int("offset"))
	}
	if err != nil {
		return nil, err
	}
	var recs []string
	for int64(len(recs)) < a.Int("count") {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			return nil, err
		}
		recs = append(recs, proto.Itoa(m.Offset)+":"+proto.Name(m.Value))
	}
	return proto.Args{"recs": strings.Join(recs, ",")}, nil
}

// join uses ConsumerGroup, which shows generations, and a Reader for each assigned partition.
func (d *driver) join(a proto.Args) (proto.Args, error) {
	if a.Has("instance") || a.Has("assignor") {
		return nil, proto.ErrUnsupported
	}
	g, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: a["group"], Brokers: []string{d.Bootstrap}, Topics: []string{a["topic"]},
		HeartbeatInterval: 300 * time.Millisecond, SessionTimeout: proto.Session, RebalanceTimeout: proto.Session,
		JoinGroupBackoff: 200 * time.Millisecond, StartOffset: kafka.FirstOffset,
	})
	if err != nil {
		return nil, err
	}
	d.members.Join(a["member"], func(ctx context.Context) error {
		for ctx.Err() == nil {
			gen, err := g.Next(ctx)
			if err != nil {
				if ctx.Err() == nil {
					fmt.Fprintln(os.Stderr, a["member"], err)
				}
				continue
			}
			var parts []string
			for t, as := range gen.Assignments {
				for _, as := range as {
					parts = append(parts, t+"-"+proto.Itoa(as.ID))
					gen.Start(func(ctx context.Context) { d.follow(ctx, a["member"], t, as, gen) })
				}
			}
			d.Assigned(a["member"], parts)
		}
		return g.Close()
	})
	return nil, nil
}

// follow shows and commits one partition's records for one generation.
func (d *driver) follow(ctx context.Context, member, topic string, as kafka.PartitionAssignment, gen *kafka.Generation) {
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{d.Bootstrap}, Topic: topic, Partition: as.ID, MaxWait: 200 * time.Millisecond,
	})
	defer r.Close()
	err := r.SetOffset(as.Offset)
	for err == nil {
		var m kafka.Message
		if m, err = r.ReadMessage(ctx); err == nil {
			d.Rec(member, topic, int32(m.Partition), m.Offset, m.Value)
			err = gen.CommitOffsets(map[string]map[int]int64{topic: {m.Partition: m.Offset + 1}})
		}
	}
	if ctx.Err() == nil && !errors.Is(err, kafka.ErrGenerationEnded) {
		fmt.Fprintln(os.Stderr, member, topic, as.ID, err)
	}
}
