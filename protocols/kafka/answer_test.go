package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
)

// TestRepeatedNames answers once for each name, however often a request has it.
func TestRepeatedNames(t *testing.T) {
	const times = 500
	f := start(t, nil)
	topic := f.topic("t", 2, nil)
	c := f.dial()
	producer := core.Producer{ID: 7}
	c.produced(9, topic, 0, batchOf(t, core.CodecNone, producer, func(b *core.BatchBuilder) { b.Add(1, nil, []byte("x")) }))
	if got := c.committed(commitOne(8, "g", topic, 0, 5, "m")); got != codeNone {
		t.Fatalf("commit: code %d", got)
	}
	names := slices.Repeat([]string{"g"}, times)
	zeros := make([]int32, times)
	for _, tc := range []struct {
		name string
		ask  func() int
		want int
	}{
		{"DescribeGroups", func() int {
			req := kmsg.NewPtrDescribeGroupsRequest()
			req.Version, req.Groups = 4, names
			return len(ask[*kmsg.DescribeGroupsResponse](c, req).Groups)
		}, 1},
		{"ConsumerGroupDescribe", func() int {
			req := kmsg.NewPtrConsumerGroupDescribeRequest()
			req.Groups = names
			return len(ask[*kmsg.ConsumerGroupDescribeResponse](c, req).Groups)
		}, 1},
		{"FindCoordinator", func() int {
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.Version, req.CoordinatorKeys = 4, names
			return len(ask[*kmsg.FindCoordinatorResponse](c, req).Coordinators)
		}, 1},
		{"DescribeProducers", func() (n int) {
			req := kmsg.NewPtrDescribeProducersRequest()
			one := kmsg.DescribeProducersRequestTopic{Topic: "t", Partitions: zeros}
			req.Topics = []kmsg.DescribeProducersRequestTopic{one, one}
			for _, rt := range ask[*kmsg.DescribeProducersResponse](c, req).Topics {
				for _, p := range rt.Partitions {
					n += len(p.ActiveProducers)
				}
			}
			return n
		}, 1},
		{"DescribeLogDirs", func() (n int) {
			req := kmsg.NewPtrDescribeLogDirsRequest()
			one := kmsg.DescribeLogDirsRequestTopic{Topic: "t", Partitions: zeros}
			req.Version, req.Topics = 1, []kmsg.DescribeLogDirsRequestTopic{one, one}
			for _, rt := range ask[*kmsg.DescribeLogDirsResponse](c, req).Dirs[0].Topics {
				n += len(rt.Partitions)
			}
			return n
		}, 1},
		{"DescribeConfigs of names of one broker", func() (n int) {
			req := kmsg.NewPtrDescribeConfigsRequest()
			req.Version = 4
			for _, name := range []string{"1", "1", "+1", "01", "001", "-1", " 1"} {
				req.Resources = append(req.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: name})
			}
			for _, r := range ask[*kmsg.DescribeConfigsResponse](c, req).Resources {
				if len(r.Configs) > 0 {
					n++
				}
			}
			return n
		}, 1},
		{"OffsetFetch, whose repetitions are errors", func() (n int) {
			req := kmsg.NewPtrOffsetFetchRequest()
			req.Version = 8
			for _, name := range names {
				g := kmsg.NewOffsetFetchRequestGroup()
				g.Group = name
				req.Groups = append(req.Groups, g)
			}
			for _, g := range ask[*kmsg.OffsetFetchResponse](c, req).Groups {
				n += len(g.Topics)
				if len(g.Topics) == 0 && g.ErrorCode != codeInvalidRequest {
					t.Errorf("repeated group: code %d", g.ErrorCode)
				}
			}
			return n
		}, 1},
		{"ListOffsets, whose repetitions are errors", func() (n int) {
			req := kmsg.NewPtrListOffsetsRequest()
			req.Version, req.ReplicaID = 7, -1
			p := kmsg.NewListOffsetsRequestTopicPartition()
			req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: slices.Repeat([]kmsg.ListOffsetsRequestTopicPartition{p}, times)}}
			for _, p := range ask[*kmsg.ListOffsetsResponse](c, req).Topics[0].Partitions {
				if p.ErrorCode == codeNone {
					n++
				} else if p.ErrorCode != codeInvalidRequest {
					t.Errorf("repeated partition: code %d", p.ErrorCode)
				}
			}
			return n
		}, 1},
	} {
		if got := tc.ask(); got != tc.want {
			t.Errorf("%s: %d answers, want %d", tc.name, got, tc.want)
		}
	}
}

// small makes answers of more than a megabyte too large.
func small(o *Options) { o.MaxAnswerBytes, o.AnswerMemory = 1<<20, 1<<20 }

// TestAnswerTooLarge closes the connection instead of making an answer beyond the limit.
func TestAnswerTooLarge(t *testing.T) {
	f := start(t, small)
	topic := f.topic("t", 8000, nil)
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 9
	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	dirs.Version = 1
	offsets := kmsg.NewPtrOffsetFetchRequest()
	offsets.Version = 8
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = "g"
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic.Name.Name, Partitions: make([]int32, 1000)}}
	offsets.Groups = []kmsg.OffsetFetchRequestGroup{g}
	if got := f.dial().committed(commitOne(8, "g", topic, 0, 5, strings.Repeat("m", 4000))); got != codeNone {
		t.Fatalf("commit: code %d", got)
	}
	for _, req := range []kmsg.Request{metadata, dirs, offsets} {
		t.Run(kmsg.NameForKey(req.Key()), func(t *testing.T) {
			c := f.dial()
			c.t = t
			c.send(req)
			c.closed()
		})
	}
	// A client that asks for one thing too many learns which.
	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.Version, configs.IncludeDocumentation, configs.IncludeSynonyms = 4, true, true
	for i := range 500 {
		name := fmt.Sprintf("%0100d", i)
		f.topic(name, 1, nil)
		configs.Resources = append(configs.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name})
	}
	counts := map[int16]int{}
	size := 0
	for _, r := range ask[*kmsg.DescribeConfigsResponse](f.dial(), configs).Resources {
		counts[r.ErrorCode]++
		if r.ErrorCode == codeNone && len(r.Configs) < 25 {
			t.Errorf("%s: %d configurations", r.ResourceName, len(r.Configs))
		}
		for _, e := range r.Configs {
			size += len(e.Name) + len(*e.Documentation)
		}
	}
	if counts[codeNone] == 0 || counts[codeInvalidRequest] == 0 || len(counts) != 2 || size > 1<<20 {
		t.Fatalf("codes %v, %d bytes of text", counts, size)
	}
}

// TestAnswersShareMemory lets large answers wait for each other.
func TestAnswersShareMemory(t *testing.T) {
	f := start(t, small)
	f.topic("t", 6000, nil)
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	if !f.server.answerBytes.TryAcquire(1) {
		t.Fatal("answers hold memory")
	}
	cs := make([]*client, 4)
	for i := range cs {
		cs[i] = f.dial()
		cs[i].send(req)
	}
	waitFor(t, func() bool { return f.pending() == len(cs) })
	f.server.answerBytes.Release(1)
	for _, c := range cs {
		if got := answer[*kmsg.MetadataResponse](c, req); len(got.Topics[0].Partitions) != 6000 {
			t.Fatalf("%d partitions", len(got.Topics[0].Partitions))
		}
	}
}

// TestCloseCutsHandlersOff ends while a handler still builds an endless answer, and even
// while one hangs.
func TestCloseCutsHandlersOff(t *testing.T) {
	f := start(t, func(o *Options) { o.closeGrace = time.Millisecond })
	running := make(chan struct{}, 2)
	release := make(chan struct{})
	f.server.apis[kmsg.DescribeCluster].handle = now(func(ctx context.Context, c *call, _ *kmsg.DescribeClusterRequest) kmsg.Response {
		running <- struct{}{}
		for c.grow(ctx, 0) {
		}
		return nil
	})
	f.server.apis[kmsg.ListGroups].handle = now(func(context.Context, *call, *kmsg.ListGroupsRequest) kmsg.Response {
		running <- struct{}{}
		<-release
		return kmsg.NewPtrListGroupsResponse()
	})
	ended, cut := context.WithCancel(context.Background())
	cut()
	f.dial().send(kmsg.NewPtrListGroupsRequest())
	f.dial().send(kmsg.NewPtrDescribeClusterRequest())
	<-running
	<-running
	if err := f.server.Close(ended); !errors.Is(err, errStuck) {
		t.Errorf("close: %v", err)
	}
	waitFor(t, func() bool { return f.conns() == 1 }) // the handler that looks at its context is gone
	close(release)
}

// TestGroupAnswersShareMemory refuses large answers of groups while there is no memory for
// them, in a way after which the member comes again.
func TestGroupAnswersShareMemory(t *testing.T) {
	f := start(t, func(o *Options) { small(o); quick(o) })
	c := f.dial()
	ask[*kmsg.HeartbeatResponse](c, kmsg.NewPtrHeartbeatRequest()) // larger frames are welcome then
	join := joinOne(3, "g", "")
	join.Protocols[0].Metadata = append(join.Protocols[0].Metadata, make([]byte, answerFree)...)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group = 3, "g"
	var member string
	for _, full := range []bool{true, false} {
		held := int64(0)
		if full {
			held = f.server.opts.AnswerMemory - answerFree
		}
		if !f.server.answerBytes.TryAcquire(held) {
			t.Fatal("answers hold memory")
		}
		join.MemberID = member
		j := ask[*kmsg.JoinGroupResponse](c, join)
		member = j.MemberID
		if full {
			wantCode(t, join, j.ErrorCode, codeCoordinatorNotAvailable)
		} else {
			wantCode(t, join, j.ErrorCode, codeNone)
			if len(j.Members) != 1 || len(j.Members[0].ProtocolMetadata) != len(join.Protocols[0].Metadata) {
				t.Fatalf("%d members", len(j.Members))
			}
		}
		f.server.answerBytes.Release(held)
		sync.Generation = j.Generation
	}
	sync.MemberID = member
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: member, MemberAssignment: make([]byte, answerFree+1)}}
	held := f.server.opts.AnswerMemory - answerFree
	waitFor(t, func() bool { return f.server.answerBytes.TryAcquire(held) }) // the last answer is written
	wantCode(t, sync, ask[*kmsg.SyncGroupResponse](c, sync).ErrorCode, codeCoordinatorNotAvailable)
	f.server.answerBytes.Release(held)
	sync.GroupAssignment = nil // it is known already
	if s := ask[*kmsg.SyncGroupResponse](c, sync); s.ErrorCode != codeNone || len(s.MemberAssignment) != answerFree+1 {
		t.Fatalf("code %d, %d bytes", s.ErrorCode, len(s.MemberAssignment))
	}
}
