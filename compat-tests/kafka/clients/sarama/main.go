// Command sarama is the driver for github.com/IBM/sarama.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"polylog/compat/kafka/clients/proto"
)

type driver struct {
	proto.Driver

	members proto.Members

	mu      sync.Mutex
	writers map[string]sarama.SyncProducer // idempotent ones, one a topic, so that sequences go on
}

func main() {
	d := &driver{writers: map[string]sarama.SyncProducer{}}
	d.Bootstrap = os.Args[1]
	d.Ops = map[string]func(proto.Args) (proto.Args, error){
		"hello":   proto.Hello("github.com/IBM/sarama"),
		"produce": d.produce, "consume": d.consume, "join": d.join, "leave": d.members.Leave,
		"create": d.create, "delete": d.delete, "topics": d.topics, "describe": d.describe,
		"addparts": d.addParts, "getconfig": d.getConfig, "setconfig": d.setConfig,
		"groups": d.groups, "describegroup": d.describeGroup, "offsets": d.offsets,
		"setoffset": d.setOffset, "deletegroup": d.deleteGroup,
		"deleterecords": d.deleteRecords, "bounds": d.bounds,
	}
	d.Run()
}

func (d *driver) seeds() []string { return []string{d.Bootstrap} }

func config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	return c
}

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func (d *driver) produce(a proto.Args) (proto.Args, error) {
	c := config()
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.Compression = codecs[a["codec"]]
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Flush.Frequency = 5 * time.Millisecond
	var p sarama.SyncProducer
	if a["idempotent"] == "1" {
		c.Producer.Idempotent = true
		c.Net.MaxOpenRequests = 1
		d.mu.Lock()
		p = d.writers[a["topic"]]
		d.mu.Unlock()
	}
	if p == nil {
		var err error
		if p, err = sarama.NewSyncProducer(d.seeds(), c); err != nil {
			return nil, err
		}
		if a["idempotent"] == "1" {
			d.mu.Lock()
			d.writers[a["topic"]] = p
			d.mu.Unlock()
		} else {
			defer p.Close()
		}
	}
	var msgs []*sarama.ProducerMessage
	for i := a.Int("from"); i < a.Int("from")+a.Int("count"); i++ {
		m := &sarama.ProducerMessage{
			Topic: a["topic"], Partition: int32(i % a.Int("parts")),
			Key: sarama.ByteEncoder(proto.Key(i)), Value: sarama.ByteEncoder(proto.Value(i)),
			Headers: []sarama.RecordHeader{{Key: []byte("n"), Value: proto.Header(i)}},
		}
		if a.Has("ts") {
			m.Timestamp = time.UnixMilli(a.Int("ts") + i)
		}
		msgs = append(msgs, m)
	}
	return nil, p.SendMessages(msgs)
}

func (d *driver) consume(a proto.Args) (proto.Args, error) {
	cl, err := sarama.NewClient(d.seeds(), config())
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	part, from := int32(a.Int("part")), a.Int("offset")
	if a.Has("time") {
		if from, err = cl.GetOffset(a["topic"], part, a.Int("time")); err != nil {
			return nil, err
		}
	}
	consumer, err := sarama.NewConsumerFromClient(cl)
	if err != nil {
		return nil, err
	}
	pc, err := consumer.ConsumePartition(a["topic"], part, from)
	if err != nil {
		return nil, err
	}
	defer pc.Close()
	var recs []string
	for m := range pc.Messages() {
		recs = append(recs, proto.Itoa(m.Offset)+":"+proto.Name(m.Value))
		if int64(len(recs)) == a.Int("count") {
			break
		}
	}
	return proto.Args{"recs": strings.Join(recs, ",")}, nil
}

func (d *driver) join(a proto.Args) (proto.Args, error) {
	if a["assignor"] != "" {
		return nil, proto.ErrUnsupported
	}
	c := config()
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	c.Consumer.Group.Session.Timeout = proto.Session
	c.Consumer.MaxWaitTime = 200 * time.Millisecond
	c.Consumer.Group.InstanceId = a["instance"]
	g, err := sarama.NewConsumerGroup(d.seeds(), a["group"], c)
	if err != nil {
		return nil, err
	}
	d.members.Join(a["member"], func(ctx context.Context) error {
		for ctx.Err() == nil {
			if err := g.Consume(ctx, []string{a["topic"]}, &handler{d: d, member: a["member"]}); err != nil {
				fmt.Fprintln(os.Stderr, a["member"], err)
				if errors.Is(err, sarama.ErrClosedConsumerGroup) {
					break
				}
			}
		}
		return g.Close()
	})
	return nil, nil
}

// handler is one generation of a member.
type handler struct {
	d      *driver
	member string
}

func (h *handler) Setup(s sarama.ConsumerGroupSession) error {
	var parts []string
	for t, ps := range s.Claims() {
		for _, p := range ps {
			parts = append(parts, t+"-"+proto.Itoa(p))
		}
	}
	h.d.Assigned(h.member, parts)
	return nil
}

func (h *handler) Cleanup(sarama.ConsumerGroupSession) error {
	h.d.Assigned(h.member, nil)
	return nil
}

func (h *handler) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	for m := range c.Messages() {
		h.d.Rec(h.member, m.Topic, m.Partition, m.Offset, m.Value)
		s.MarkMessage(m, "")
		s.Commit()
	}
	return nil
}
