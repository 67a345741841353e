package kafka

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

// docs/kafka-known-bugs.md lists these scenarios, and those that other tests hold.

// TestTermsTakeNoOffsets is redpanda#25918: what raft writes when another leader comes is
// not to be seen in a partition.
func TestTermsTakeNoOffsets(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	c := f.dial()
	const terms, each = 8, 5
	for term := range terms {
		f.log.SetLeader(false)
		f.log.SetTerm(core.Term(1 + term))
		f.log.SetLeader(true)
		for i := range each {
			want := int64(term*each + i)
			if p := c.produced(9, topic, 0, batch(t, 0, 1, "v")); p.ErrorCode != codeNone || p.BaseOffset != want {
				t.Fatalf("code %d at offset %d, want %d", p.ErrorCode, p.BaseOffset, want)
			}
		}
	}
	c.wantEnds(topic, 0, terms*each)
	commit := commitOne(9, "g", topic, 0, terms*each, "")
	wantCode(t, commit, c.committed(commit), codeNone)
	if _, vs := values(t, c.fetched(fetchOne(fetchMax, topic, 0, 0)).RecordBatches); len(vs) != terms*each {
		t.Fatalf("%d records, want %d", len(vs), terms*each)
	}
}

// wantEnds checks where partition 0 of a topic begins and ends.
func (c *client) wantEnds(topic *router.Topic, earliest, latest int64) {
	c.t.Helper()
	for ms, want := range map[int64]int64{offsetEarliest: earliest, offsetLatest: latest} {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID = 7, -1
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp = ms
		req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic.Name.Name, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
		got := ask[*kmsg.ListOffsetsResponse](c, req).Topics[0].Partitions[0]
		if got.ErrorCode != codeNone || got.Offset != want {
			c.t.Fatalf("offset %d is %d, code %d; want %d", ms, got.Offset, got.ErrorCode, want)
		}
	}
}

// TestIdleProducerGoesOn is redpanda#22670: a producer of whom nothing is remembered, as it
// was idle for longer than producer.id.expiration.ms, goes on with its next sequence.
func TestIdleProducerGoesOn(t *testing.T) {
	clock := routertest.NewClock(time.Now())
	f := startRouter(t, func(o *router.Options) { o.Clock = clock.Now }, nil)
	topic := f.topic("t", 1, nil)
	c := f.dial()
	send := func(seq int32) kmsg.ProduceResponseTopicPartition {
		return c.produced(9, topic, 0, batchOf(t, 0, core.Producer{ID: 7, Sequence: seq}, func(b *core.BatchBuilder) { b.Add(1, nil, nil) }))
	}
	for i, tc := range []struct {
		idle   time.Duration
		seq    int32
		code   int16
		offset int64
	}{
		{0, 0, codeNone, 0},
		{23 * time.Hour, 7, codeOutOfOrderSequence, -1}, // still remembered: a gap
		{23 * time.Hour, 7, codeNone, 1},
		{0, 8, codeNone, 2},
		{0, 7, codeNone, 1}, // and remembered again
		{0, 10, codeOutOfOrderSequence, -1},
	} {
		clock.Advance(tc.idle)
		if got := send(tc.seq); got.ErrorCode != tc.code || got.BaseOffset != tc.offset {
			t.Fatalf("step %d: code %d at %d, want %d at %d", i, got.ErrorCode, got.BaseOffset, tc.code, tc.offset)
		}
	}
	c.wantEnds(topic, 0, 3)
}

// TestWriterOutlivesLeaders is AutoMQ#3460: while leaders come and go, Metadata in every
// version names a likely leader of each partition without an error, and a client that
// writes all the time sees none.
func TestWriterOutlivesLeaders(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(f.addr), kgo.DefaultProduceTopic("t"), kgo.MetadataMinAge(10*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	metadata := f.dial()
	var sent sync.WaitGroup
	records := 0
	write := func() {
		sent.Add(1)
		records++
		cl.Produce(ctx, kgo.StringRecord(fmt.Sprint(records)), func(r *kgo.Record, err error) {
			defer sent.Done()
			if err != nil {
				t.Errorf("record %s: %v", r.Value, err)
			}
		})
	}
	write()
	sent.Wait() // it has its producer id
	for term := core.Term(2); term < 6; term++ {
		write()
		f.log.SetLeader(false)
		write()
		// The third attempt from now on has heard a refusal.
		heard := f.server.metrics.requests[kmsg.Produce].Load() + 3
		eventually(t, func() string { return "the client does not try" }, func() bool { return f.server.metrics.requests[kmsg.Produce].Load() >= heard })
		for version := int16(0); version <= 13; version++ {
			req := kmsg.NewPtrMetadataRequest()
			req.Version = version
			req.Topics = []kmsg.MetadataRequestTopic{{Topic: new("t"), TopicID: topic.ID}}
			rt := ask[*kmsg.MetadataResponse](metadata, req).Topics[0]
			if p := rt.Partitions[0]; rt.ErrorCode != codeNone || p.ErrorCode != codeNone || p.Leader != 1 {
				t.Fatalf("version %d: code %d, partition %+v", version, rt.ErrorCode, p)
			}
		}
		f.log.SetTerm(term)
		f.log.SetLeader(true)
		write()
	}
	sent.Wait()
	metadata.wantEnds(topic, 0, int64(records))
}

// TestVersionFloors holds the versions that clients use without asking, or insist on.
func TestVersionFloors(t *testing.T) {
	table := newAPITable()
	for _, tc := range []struct {
		client  string
		key     kmsg.Key
		version int16
	}{
		{"kafka-go", kmsg.FindCoordinator, 0},
		{"kafka-go", kmsg.Heartbeat, 0},
		{"kafka-go", kmsg.LeaveGroup, 0},
		{"kafka-go", kmsg.SyncGroup, 0},
		{"kafka-go", kmsg.ListGroups, 1},
		{"kafka-go", kmsg.OffsetFetch, 1},
		{"kafka-go", kmsg.OffsetCommit, 2},
		{"kafka-go", kmsg.JoinGroup, 1},
		{"kafka-go", kmsg.JoinGroup, 2},
		{"librdkafka", kmsg.OffsetForLeaderEpoch, 2},
		{"librdkafka", kmsg.ConsumerGroupHeartbeat, 1},
		{"aiokafka", kmsg.InitProducerID, 0},
	} {
		if a := table.lookup(tc.key.Int16()); a == nil || !a.serves(tc.version) {
			t.Errorf("%s version %d is not served, which %s needs", tc.key.Name(), tc.version, tc.client)
		}
	}
	for _, a := range table {
		if a != nil && a.key == kmsg.Produce && a.advertisedMin() != 0 {
			t.Errorf("Produce is advertised from %d on: librdkafka does not compress then", a.advertisedMin())
		}
	}
}

// TestConfigsOfNewTopic is redpanda#978, #16578 and #135: a topic can be created with
// min.insync.replicas, which means nothing here; the answer has every configuration of the
// topic, and DescribeConfigs has the same ones with where their values come from.
func TestConfigsOfNewTopic(t *testing.T) {
	const key = "min.insync.replicas"
	f := start(t, nil)
	c := f.dial()
	for version := int16(5); version <= 7; version++ {
		name := fmt.Sprint("t", version)
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Version = version
		create.Topics = []kmsg.CreateTopicsRequestTopic{{
			Topic: name, NumPartitions: 1, ReplicationFactor: 1,
			Configs: []kmsg.CreateTopicsRequestTopicConfig{{Name: key, Value: new("2")}},
		}}
		created := ask[*kmsg.CreateTopicsResponse](c, create).Topics[0]
		if created.ErrorCode != codeNone || created.NumPartitions != 1 || created.ReplicationFactor != 1 {
			t.Fatalf("version %d: %+v", version, created)
		}
		told := map[string]string{}
		for _, e := range created.Configs {
			told[e.Name] = fmt.Sprintf("%s from %d", *e.Value, e.Source)
		}
		for dv := int16(1); dv <= 4; dv++ {
			describe := kmsg.NewPtrDescribeConfigsRequest()
			describe.Version, describe.IncludeSynonyms = dv, true
			describe.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name}}
			described := map[string]string{}
			for _, e := range ask[*kmsg.DescribeConfigsResponse](c, describe).Resources[0].Configs {
				described[e.Name] = fmt.Sprintf("%s from %d", *e.Value, e.Source)
				var synonyms []string
				for _, s := range e.ConfigSynonyms {
					synonyms = append(synonyms, fmt.Sprintf("%s=%s from %d", s.Name, *s.Value, s.Source))
				}
				if want := []string{key + "=2 from 1", key + "=1 from 5"}; e.Name == key && !cmp.Equal(synonyms, want) {
					t.Errorf("synonyms %q, want %q", synonyms, want)
				}
				if len(synonyms) == 0 {
					t.Errorf("DescribeConfigs version %d: %s has no synonyms", dv, e.Name)
				}
			}
			if diff := cmp.Diff(described, told); diff != "" {
				t.Errorf("created in version %d, described in %d (-described +created):\n%s", version, dv, diff)
			}
		}
		if told[key] != "2 from 1" || told["cleanup.policy"] != "delete from 5" || len(told) < 30 {
			t.Errorf("version %d: %v", version, told)
		}
	}
}
