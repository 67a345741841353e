package kafka

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
)

func TestMetadata(t *testing.T) {
	f := start(t, func(o *Options) { o.Advertised, o.Rack = "broker.example:19092", "r1" })
	a, b := f.topic("a", 2, nil), f.topic("b", 1, nil)
	c := f.dial()
	names := func(resp *kmsg.MetadataResponse) string {
		var s []string
		for _, t := range resp.Topics {
			name := "-"
			if t.Topic != nil {
				name = *t.Topic
			}
			s = append(s, fmt.Sprintf("%s:%d:%d", name, t.ErrorCode, len(t.Partitions)))
		}
		return strings.Join(s, " ")
	}
	named := func(ns ...string) []kmsg.MetadataRequestTopic {
		ts := []kmsg.MetadataRequestTopic{}
		for _, n := range ns {
			ts = append(ts, kmsg.MetadataRequestTopic{Topic: &n})
		}
		return ts
	}
	for _, tc := range []struct {
		name    string
		version int16
		topics  []kmsg.MetadataRequestTopic
		auto    bool
		want    string
	}{
		{"v0 empty is all", 0, named(), false, "a:0:2 b:0:1"},
		{"v1 null is all", 1, nil, false, "a:0:2 b:0:1"},
		{"v1 empty is none", 1, named(), false, ""},
		{"repeated names count once", 9, named("b", "b", "a"), false, "b:0:1 a:0:2"},
		{"unknown", 9, named("nope"), false, "nope:3:0"},
		{"illegal name", 9, named("a b"), true, "a b:17:0"},
		{"by id", 12, []kmsg.MetadataRequestTopic{{TopicID: a.ID}, {TopicID: core.TopicID{9}}}, true, "a:0:2 -:100:0"},
		{"created when asked for", 9, named("new"), true, "new:0:1"},
		{"v3 always creates", 3, named("newer"), false, "newer:0:1"},
		{"collision is not created", 9, named("n.w", "n_w"), true, "n.w:0:1 n_w:3:0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := kmsg.NewPtrMetadataRequest()
			req.Version, req.Topics, req.AllowAutoTopicCreation = tc.version, tc.topics, tc.auto
			resp := ask[*kmsg.MetadataResponse](c, req)
			got := names(resp)
			if tc.name == "collision is not created" && got == "n.w:3:0 n_w:0:1" { // either may come first
				got = tc.want
			}
			if got != tc.want {
				t.Fatalf("%q, want %q", got, tc.want)
			}
			want := kmsg.MetadataResponseBroker{NodeID: 1, Host: "broker.example", Port: 19092}
			if tc.version > 0 {
				want.Rack = new("r1")
			}
			if diff := cmp.Diff([]kmsg.MetadataResponseBroker{want}, resp.Brokers, cmp.AllowUnexported(kmsg.Tags{})); diff != "" {
				t.Fatal(diff)
			}
		})
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.Topics, req.IncludeTopicAuthorizedOperations = 13, named("b"), true
	got := ask[*kmsg.MetadataResponse](c, req)
	p := got.Topics[0].Partitions[0]
	if got.Topics[0].TopicID != b.ID || got.Topics[0].AuthorizedOperations != 0xdf8 || p.Leader != 1 || p.LeaderEpoch != 1 || !cmp.Equal(p.ISR, []int32{1}) {
		t.Fatalf("%+v", got.Topics[0])
	}
	// AutoMQ#3460: while there is no leader, the likely one is named.
	f.log.SetLeader(false)
	if p := ask[*kmsg.MetadataResponse](c, req).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.Leader != 1 {
		t.Fatalf("%+v", p)
	}
}

// TestAutoCreateOff leaves unknown topics unknown.
func TestAutoCreateOff(t *testing.T) {
	f := start(t, nil)
	set(t, f.router, "auto.create.topics.enable", "false")
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = 9, true
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: new("x")}}
	if got := ask[*kmsg.MetadataResponse](f.dial(), req); got.Topics[0].ErrorCode != codeUnknownTopicOrPartition {
		t.Fatalf("code %d", got.Topics[0].ErrorCode)
	}
}

func set(t *testing.T, r *router.Router, key, value string) {
	t.Helper()
	err := r.AlterBrokerConfig(t.Context(), router.Principal{}, []router.ConfigChange{{Key: key, Value: value}}, false, false)
	if err != nil {
		t.Fatal(err)
	}
}

func TestCreateTopics(t *testing.T) {
	f := start(t, nil)
	f.topic("taken", 1, nil)
	f.topic("dot.ted", 1, nil)
	c := f.dial()
	assign := func(parts ...int32) (as []kmsg.CreateTopicsRequestTopicReplicaAssignment) {
		for _, p := range parts {
			as = append(as, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: p, Replicas: []int32{1}})
		}
		return as
	}
	config := func(k string, v *string) []kmsg.CreateTopicsRequestTopicConfig {
		return []kmsg.CreateTopicsRequestTopicConfig{{Name: k, Value: v}}
	}
	for _, tc := range []struct {
		name  string
		topic kmsg.CreateTopicsRequestTopic
		want  int16
		parts int32
	}{
		{"plain", kmsg.CreateTopicsRequestTopic{Topic: "a", NumPartitions: 3, ReplicationFactor: 1}, 0, 3},
		{"defaults", kmsg.CreateTopicsRequestTopic{Topic: "b", NumPartitions: -1, ReplicationFactor: -1}, 0, 1},
		{"assigned", kmsg.CreateTopicsRequestTopic{Topic: "c", NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: assign(0, 1)}, 0, 2},
		{"known key that does nothing", kmsg.CreateTopicsRequestTopic{Topic: "d", NumPartitions: 1, ReplicationFactor: 1, Configs: config("min.insync.replicas", new("2"))}, 0, 1},
		{"taken", kmsg.CreateTopicsRequestTopic{Topic: "taken", NumPartitions: 1, ReplicationFactor: 1}, codeTopicAlreadyExists, -1},
		{"collides", kmsg.CreateTopicsRequestTopic{Topic: "dot_ted", NumPartitions: 1, ReplicationFactor: 1}, codeInvalidTopic, -1},
		{"illegal", kmsg.CreateTopicsRequestTopic{Topic: "x/y", NumPartitions: 1, ReplicationFactor: 1}, codeInvalidTopic, -1},
		{"too long", kmsg.CreateTopicsRequestTopic{Topic: strings.Repeat("x", 250), NumPartitions: 1, ReplicationFactor: 1}, codeInvalidTopic, -1},
		{"no partitions", kmsg.CreateTopicsRequestTopic{Topic: "e", NumPartitions: 0, ReplicationFactor: 1}, codeInvalidPartitions, -1},
		{"too many partitions", kmsg.CreateTopicsRequestTopic{Topic: "e", NumPartitions: 10_001, ReplicationFactor: 1}, codePolicyViolation, -1},
		{"replication factor", kmsg.CreateTopicsRequestTopic{Topic: "e", NumPartitions: 1, ReplicationFactor: 2}, codeInvalidReplicationFactor, -1},
		{"assigned with a gap", kmsg.CreateTopicsRequestTopic{Topic: "e", NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: assign(0, 2)}, codeInvalidReplicaAssignment, -1},
		{"assigned and counted", kmsg.CreateTopicsRequestTopic{Topic: "e", NumPartitions: 2, ReplicationFactor: -1, ReplicaAssignment: assign(0, 1)}, codeInvalidRequest, -1},
		{"unknown key", kmsg.CreateTopicsRequestTopic{Topic: "e", NumPartitions: 1, ReplicationFactor: 1, Configs: config("nope", new("2"))}, codeInvalidConfig, -1},
		{"bad value", kmsg.CreateTopicsRequestTopic{Topic: "e", NumPartitions: 1, ReplicationFactor: 1, Configs: config("retention.ms", new("soon"))}, codeInvalidConfig, -1},
		{"null value", kmsg.CreateTopicsRequestTopic{Topic: "e", NumPartitions: 1, ReplicationFactor: 1, Configs: config("retention.ms", nil)}, codeInvalidConfig, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, validate := range []bool{true, false} {
				req := kmsg.NewPtrCreateTopicsRequest()
				req.Version, req.ValidateOnly = 7, validate
				req.Topics = []kmsg.CreateTopicsRequestTopic{tc.topic}
				got := ask[*kmsg.CreateTopicsResponse](c, req).Topics[0]
				if got.ErrorCode != tc.want || got.NumPartitions != tc.parts {
					t.Fatalf("validate %v: code %d with %d partitions, want %d with %d", validate, got.ErrorCode, got.NumPartitions, tc.want, tc.parts)
				}
				_, exists := f.router.Topic(core.TopicName(tc.topic.Topic))
				if want := tc.topic.Topic == "taken" || tc.want == 0 && !validate; exists != want {
					t.Fatalf("validate %v: exists %v", validate, exists)
				}
				if tc.want != 0 && (got.ErrorMessage == nil || *got.ErrorMessage == "") {
					t.Fatal("no message")
				}
				if tc.want == 0 && len(got.Configs) < 25 {
					t.Fatalf("%d configurations", len(got.Configs))
				}
			}
		})
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 2
	twice := kmsg.CreateTopicsRequestTopic{Topic: "twice", NumPartitions: 1, ReplicationFactor: 1}
	req.Topics = []kmsg.CreateTopicsRequestTopic{twice, twice}
	for _, got := range ask[*kmsg.CreateTopicsResponse](c, req).Topics {
		if got.ErrorCode != codeInvalidRequest {
			t.Fatalf("named twice: code %d", got.ErrorCode)
		}
	}
}

func TestDeleteTopicsAndCreatePartitions(t *testing.T) {
	f := start(t, nil)
	a, b := f.topic("a", 1, nil), f.topic("b", 1, nil)
	c := f.dial()
	more := kmsg.NewPtrCreatePartitionsRequest()
	more.Version = 3
	for _, tc := range []struct {
		topic string
		count int32
		want  int16
	}{{"a", 3, 0}, {"a", 3, codeInvalidPartitions}, {"a", 1, codeInvalidPartitions}, {"x", 3, codeUnknownTopicOrPartition}, {"a", 10_004, codePolicyViolation}} {
		more.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: tc.topic, Count: tc.count}}
		if got := ask[*kmsg.CreatePartitionsResponse](c, more).Topics[0]; got.ErrorCode != tc.want {
			t.Fatalf("%s to %d: code %d, want %d", tc.topic, tc.count, got.ErrorCode, tc.want)
		}
	}
	if p := c.produced(9, a, 2, batch(t, 0, 1, "x")); p.ErrorCode != 0 {
		t.Fatalf("produce to the new partition: code %d", p.ErrorCode)
	}
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.Version, del.TopicNames = 5, []string{"a", "x"}
	got := ask[*kmsg.DeleteTopicsResponse](c, del).Topics
	if got[0].ErrorCode != 0 || got[1].ErrorCode != codeUnknownTopicOrPartition {
		t.Fatalf("%+v", got)
	}
	del.Version, del.Topics = 6, []kmsg.DeleteTopicsRequestTopic{{TopicID: b.ID}, {TopicID: a.ID}}
	got = ask[*kmsg.DeleteTopicsResponse](c, del).Topics
	if got[0].ErrorCode != 0 || *got[0].Topic != "b" || got[1].ErrorCode != codeUnknownTopicID {
		t.Fatalf("%+v", got)
	}
	if p := c.produced(13, a, 0, batch(t, 0, 1, "x")); p.ErrorCode != codeUnknownTopicID {
		t.Fatalf("produce to a deleted topic: code %d", p.ErrorCode)
	}
}

// TestConfigs holds redpanda#978, #16578 and #135: every key is there, with its synonyms.
func TestConfigs(t *testing.T) {
	f := start(t, nil)
	f.topic("t", 1, map[string]string{"retention.ms": "1000", "min.insync.replicas": "2"})
	c := f.dial()
	describe := func(kind kmsg.ConfigResourceType, name string, keys ...string) kmsg.DescribeConfigsResponseResource {
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.Version, req.IncludeSynonyms, req.IncludeDocumentation = 4, true, true
		req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name, ConfigNames: keys}}
		return ask[*kmsg.DescribeConfigsResponse](c, req).Resources[0]
	}
	value := func(key string) string {
		got := describe(kmsg.ConfigResourceTypeTopic, "t", key)
		return fmt.Sprintf("%s/%d", *got.Configs[0].Value, got.Configs[0].Source)
	}
	all := describe(kmsg.ConfigResourceTypeTopic, "t")
	if len(all.Configs) < 25 {
		t.Fatalf("%d configurations", len(all.Configs))
	}
	for _, e := range all.Configs {
		if e.ConfigType == 0 || e.Documentation == nil || *e.Documentation == "" || len(e.ConfigSynonyms) == 0 {
			t.Errorf("%s: %+v", e.Name, e)
		}
	}
	one := describe(kmsg.ConfigResourceTypeTopic, "t", "retention.ms").Configs
	if len(one) != 1 || one[0].Source != 1 || one[0].ConfigSynonyms[0].Name != "retention.ms" || one[0].ConfigSynonyms[1].Name != "log.retention.ms" && one[0].ConfigSynonyms[1].Name != "log.retention.hours" {
		t.Fatalf("%+v", one)
	}
	alter := func(kind kmsg.ConfigResourceType, name, key string, op kmsg.IncrementalAlterConfigOp, v *string) int16 {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version = 1
		req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
			ResourceType: kind, ResourceName: name,
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: key, Op: op, Value: v}},
		}}
		return ask[*kmsg.IncrementalAlterConfigsResponse](c, req).Resources[0].ErrorCode
	}
	topic, broker := kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker
	for _, tc := range []struct {
		name string
		kind kmsg.ConfigResourceType
		res  string
		key  string
		op   kmsg.IncrementalAlterConfigOp
		v    *string
		want int16
		then string // key's value and source on the topic
	}{
		{"set", topic, "t", "retention.ms", 0, new("5"), 0, "5/1"},
		{"delete", topic, "t", "retention.ms", 1, nil, 0, "604800000/5"},
		{"append", topic, "t", "cleanup.policy", 2, new("compact"), 0, "delete,compact/1"},
		{"subtract", topic, "t", "cleanup.policy", 3, new("delete"), 0, "compact/1"},
		{"append to what is no list", topic, "t", "retention.ms", 2, new("5"), codeInvalidConfig, "604800000/5"},
		{"unknown key", topic, "t", "nope", 0, new("5"), codeInvalidConfig, ""},
		{"bad value", topic, "t", "retention.ms", 0, new("x"), codeInvalidConfig, "604800000/5"},
		{"null value", topic, "t", "retention.ms", 0, nil, codeInvalidConfig, "604800000/5"},
		{"unknown topic", topic, "x", "retention.ms", 0, new("5"), codeUnknownTopicOrPartition, ""},
		{"broker default", broker, "", "log.retention.ms", 0, new("7"), 0, ""},
		{"what holds then", topic, "t", "flush.ms", 0, new("1"), 0, "1/1"},
		{"wrong broker", broker, "9", "log.retention.ms", 0, new("7"), codeInvalidRequest, ""},
		{"read-only", broker, "1", "broker.id", 0, new("7"), codeInvalidConfig, ""},
		{"wrong kind", kmsg.ConfigResourceTypeBrokerLogger, "1", "x", 0, new("7"), codeInvalidRequest, ""},
	} {
		if got := alter(tc.kind, tc.res, tc.key, tc.op, tc.v); got != tc.want {
			t.Fatalf("%s: code %d, want %d", tc.name, got, tc.want)
		}
		if tc.then != "" && value(tc.key) != tc.then {
			t.Fatalf("%s: %s, want %s", tc.name, value(tc.key), tc.then)
		}
	}
	if got := value("retention.ms"); got != "7/3" {
		t.Fatalf("broker's value on the topic: %s", got)
	}
	if got := describe(broker, ""); len(got.Configs) != 1 || got.Configs[0].Name != "log.retention.ms" {
		t.Fatalf("cluster-wide: %+v", got)
	}
	if got := describe(broker, "1"); len(got.Configs) < 40 {
		t.Fatalf("broker: %d configurations", len(got.Configs))
	}
	old := kmsg.NewPtrAlterConfigsRequest()
	old.Version = 2
	old.Resources = []kmsg.AlterConfigsRequestResource{{
		ResourceType: topic, ResourceName: "t",
		Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: new("9")}},
	}}
	if got := ask[*kmsg.AlterConfigsResponse](c, old).Resources[0].ErrorCode; got != 0 {
		t.Fatalf("alter: code %d", got)
	}
	if got := value("retention.ms") + " " + value("cleanup.policy"); got != "9/1 delete/5" {
		t.Fatalf("after replacing all: %s", got)
	}
}

func TestListOffsets(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	c := f.dial()
	// kop#334 and kop#135: times 2, 4, 6, 8, two to a batch.
	for _, codec := range []int{core.CodecNone, core.CodecZstd} {
		first := int64(2 + 4*min(codec, 1))
		c.produced(9, topic, 0, batchOf(t, codec, core.Nobody, func(b *core.BatchBuilder) {
			b.Add(first, nil, []byte("a"))
			b.Add(first+2, nil, []byte("b"))
		}))
	}
	list := func(version int16, ms int64) string {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID = version, -1
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp = ms
		req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
		got := ask[*kmsg.ListOffsetsResponse](c, req).Topics[0].Partitions[0]
		return fmt.Sprintf("%d@%d!%d", got.Offset, got.Timestamp, got.ErrorCode)
	}
	for _, tc := range []struct {
		ms   int64
		want string
	}{
		{-1, "4@-1!0"},
		{-2, "0@-1!0"},
		{-3, "3@8!0"},
		{-4, "0@-1!0"},
		{-5, "-1@-1!0"},
		{-6, "-1@-1!0"},
		{-7, "-1@-1!42"},
		{0, "0@2!0"},
		{2, "0@2!0"},
		{3, "1@4!0"},
		{5, "2@6!0"},
		{7, "3@8!0"},
		{8, "3@8!0"},
		{9, "-1@-1!0"},
	} {
		for version := int16(1); version <= 11; version++ {
			if got := list(version, tc.ms); got != tc.want {
				t.Errorf("version %d, %d: %s, want %s", version, tc.ms, got, tc.want)
			}
		}
	}
	del := kmsg.NewPtrDeleteRecordsRequest()
	del.Version = 2
	for _, tc := range []struct {
		before, low int64
		want        int16
	}{{3, 3, 0}, {9, -1, codeOffsetOutOfRange}, {-1, 4, 0}} {
		del.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: tc.before}}}}
		got := ask[*kmsg.DeleteRecordsResponse](c, del).Topics[0].Partitions[0]
		if got.ErrorCode != tc.want || got.LowWatermark != tc.low {
			t.Fatalf("delete before %d: %+v", tc.before, got)
		}
		if tc.before == 3 && list(11, -2) != "3@-1!0" {
			t.Fatalf("earliest is %s", list(11, -2))
		}
	}
	if got := list(11, -3); got != "-1@-1!0" {
		t.Fatalf("max timestamp of an empty partition: %s", got)
	}
}

// TestLeaderEpochs follows records over two terms.
func TestLeaderEpochs(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	c := f.dial()
	c.produced(9, topic, 0, batch(t, 0, 1, "a", "b"))
	f.log.SetTerm(5)
	c.produced(9, topic, 0, batch(t, 0, 1, "c"))
	for _, tc := range []struct {
		asked, current int32
		want           string
	}{
		{1, -1, "1/2!0"}, {3, 5, "1/2!0"}, {5, 5, "5/3!0"}, {6, -1, "-1/-1!0"}, {5, 4, "-1/-1!74"}, {5, 6, "-1/-1!75"},
	} {
		for version := int16(2); version <= 4; version++ {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			req.Version, req.ReplicaID = version, -1
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			p.LeaderEpoch, p.CurrentLeaderEpoch = tc.asked, tc.current
			req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}}}
			got := ask[*kmsg.OffsetForLeaderEpochResponse](c, req).Topics[0].Partitions[0]
			if s := fmt.Sprintf("%d/%d!%d", got.LeaderEpoch, got.EndOffset, got.ErrorCode); s != tc.want {
				t.Errorf("epoch %d, current %d: %s, want %s", tc.asked, tc.current, s, tc.want)
			}
		}
	}
	req := fetchOne(fetchMax, topic, 0, 3)
	req.Topics[0].Partitions[0].LastFetchedEpoch = 1 // which ended at 2
	got := c.fetched(req)
	if got.DivergingEpoch.Epoch != 1 || got.DivergingEpoch.EndOffset != 2 || len(got.RecordBatches) != 0 {
		t.Fatalf("%+v", got)
	}
}

// TestSmallAPIs asks what has a short answer, in each version.
func TestSmallAPIs(t *testing.T) {
	f := start(t, func(o *Options) { o.DataDir = "/data" })
	topic := f.topic("t", 3, nil)
	f.topic("u", 1, nil)
	c := f.dial()
	c.produced(9, topic, 1, batch(t, 0, 1, "x"))
	cluster := kmsg.NewPtrDescribeClusterRequest()
	for cluster.Version = 0; cluster.Version <= 2; cluster.Version++ {
		cluster.IncludeClusterAuthorizedOperations = true
		got := ask[*kmsg.DescribeClusterResponse](c, cluster)
		if got.ErrorCode != 0 || got.ClusterID != f.log.ClusterID() || got.ControllerID != 1 || len(got.Brokers) != 1 || hostPort(got.Brokers[0].Host, got.Brokers[0].Port) != f.addr || got.ClusterAuthorizedOperations <= 0 {
			t.Fatalf("%+v", got)
		}
	}
	cluster.Version, cluster.EndpointType = 1, 2
	if got := ask[*kmsg.DescribeClusterResponse](c, cluster); got.ErrorCode != codeMismatchedEndpoint {
		t.Fatalf("controllers: code %d", got.ErrorCode)
	}

	pages := kmsg.NewPtrDescribeTopicPartitionsRequest()
	pages.ResponsePartitionLimit = 2
	var seen []string
	for range 3 {
		got := ask[*kmsg.DescribeTopicPartitionsResponse](c, pages)
		for _, rt := range got.Topics {
			for _, p := range rt.Partitions {
				seen = append(seen, *rt.Topic+strconv.Itoa(int(p.Partition)))
				if p.EligibleLeaderReplicas == nil || p.LastKnownELR == nil {
					t.Error("lists are null, which Java's admin client does not take")
				}
			}
		}
		if got.NextCursor == nil {
			break
		}
		pages.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: got.NextCursor.Topic, Partition: got.NextCursor.Partition}
	}
	if diff := cmp.Diff([]string{"t0", "t1", "t2", "u0"}, seen); diff != "" {
		t.Fatal(diff)
	}

	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	for dirs.Version = 1; dirs.Version <= 5; dirs.Version++ {
		got := ask[*kmsg.DescribeLogDirsResponse](c, dirs)
		if len(got.Dirs) != 1 || got.Dirs[0].Dir != "/data" || len(got.Dirs[0].Topics) != 2 || got.Dirs[0].Topics[0].Partitions[1].Size == 0 {
			t.Fatalf("%+v", got)
		}
	}

	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Version, elect.Topics = 2, []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{0, 9}}}
	if got := ask[*kmsg.ElectLeadersResponse](c, elect).Topics[0].Partitions; got[0].ErrorCode != codeElectionNotNeeded || got[1].ErrorCode != codeUnknownTopicOrPartition {
		t.Fatalf("%+v", got)
	}

	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0, 9}}}
	c.produced(9, topic, 0, batchOf(t, 0, core.Producer{ID: 77, Epoch: 3, Sequence: 8}, func(b *core.BatchBuilder) { b.Add(1, nil, nil) }))
	parts := ask[*kmsg.DescribeProducersResponse](c, producers).Topics[0].Partitions
	if len(parts[0].ActiveProducers) != 1 || parts[0].ActiveProducers[0].ProducerID != 77 || parts[0].ActiveProducers[0].LastSequence != 8 || parts[1].ErrorCode != codeUnknownTopicOrPartition {
		t.Fatalf("%+v", parts)
	}

	acls := kmsg.NewPtrDescribeACLsRequest()
	acls.Version = 3
	if got := ask[*kmsg.DescribeACLsResponse](c, acls); got.ErrorCode != codeSecurityDisabled {
		t.Fatalf("code %d", got.ErrorCode)
	}
	if got := ask[*kmsg.SASLHandshakeResponse](c, kmsg.NewPtrSASLHandshakeRequest()); got.ErrorCode != codeIllegalSASLState {
		t.Fatalf("code %d", got.ErrorCode)
	}
	if got := ask[*kmsg.ListPartitionReassignmentsResponse](c, kmsg.NewPtrListPartitionReassignmentsRequest()); got.ErrorCode != 0 || len(got.Topics) != 0 {
		t.Fatalf("%+v", got)
	}
	if got := ask[*kmsg.DescribeClientQuotasResponse](c, kmsg.NewPtrDescribeClientQuotasRequest()); got.ErrorCode != 0 || got.Entries == nil {
		t.Fatalf("%+v", got)
	}
	resources := kmsg.NewPtrListConfigResourcesRequest()
	resources.Version = 1
	if got := ask[*kmsg.ListConfigResourcesResponse](c, resources); len(got.ConfigResources) != 4 {
		t.Fatalf("%+v", got)
	}
}

func hostPort(host string, port int32) string { return fmt.Sprintf("%s:%d", host, port) }

// TestAutoCreateIsBounded makes some of the topics that a request names, and the others
// when it comes again.
func TestAutoCreateIsBounded(t *testing.T) {
	f := start(t, nil)
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = 9, true
	for i := range maxAutoCreate + 5 {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: new(fmt.Sprint("auto", i))})
	}
	for _, want := range []int{5, 0} {
		unknown := 0
		for _, topic := range ask[*kmsg.MetadataResponse](f.dial(), req).Topics {
			if topic.ErrorCode == codeUnknownTopicOrPartition {
				unknown++
			}
		}
		if unknown != want {
			t.Fatalf("%d topics are unknown, want %d", unknown, want)
		}
	}
}
