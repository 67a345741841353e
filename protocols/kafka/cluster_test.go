package kafka

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
	"polylog/router/state"
)

// TestFollowerSendsAway holds that a node that does not lead serves neither records nor
// offsets, and that it says who does (KIP-951) where the version has a place for it.
func TestFollowerSendsAway(t *testing.T) {
	a := start(t, nil)
	topic := a.topic("t", 1, nil)
	b := a.join("2", nil)
	c := b.dial()
	a.dial().produced(produceMax, topic, 0, batch(t, 0, 1, "x"))

	p := ask[*kmsg.ProduceResponse](c, produceOne(produceMax, topic, 0, batch(t, 0, 1, "y")))
	if got := p.Topics[0].Partitions[0]; got.ErrorCode != codeNotLeaderOrFollower || got.CurrentLeader.LeaderID != 1 || len(p.Brokers) != 1 || p.Brokers[0].NodeID != 1 {
		t.Fatalf("produce: %+v", p)
	}
	f := ask[*kmsg.FetchResponse](c, fetchOne(fetchMax, topic, 0, 0))
	if got := f.Topics[0].Partitions[0]; got.ErrorCode != codeNotLeaderOrFollower || len(got.RecordBatches) != 0 || got.CurrentLeader.LeaderID != 1 || len(f.Brokers) != 1 || f.Brokers[0].NodeID != 1 {
		t.Fatalf("fetch: %+v", f)
	}
	old := ask[*kmsg.FetchResponse](c, fetchOne(fetchHints-1, topic, 0, 0))
	if got := old.Topics[0].Partitions[0]; got.ErrorCode != codeNotLeaderOrFollower || got.CurrentLeader.LeaderID != -1 || len(old.Brokers) != 0 {
		t.Fatalf("fetch without hints: %+v", old)
	}
	list := kmsg.NewPtrListOffsetsRequest()
	list.Version = 7
	lp := kmsg.NewListOffsetsRequestTopicPartition()
	lp.Timestamp = offsetLatest
	list.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{lp}}}
	if got := ask[*kmsg.ListOffsetsResponse](c, list); got.Topics[0].Partitions[0].ErrorCode != codeNotLeaderOrFollower {
		t.Fatalf("list offsets: %+v", got)
	}
	end := kmsg.NewPtrOffsetForLeaderEpochRequest()
	end.Version = 3
	end.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{CurrentLeaderEpoch: -1}}}}
	if got := ask[*kmsg.OffsetForLeaderEpochResponse](c, end); got.Topics[0].Partitions[0].ErrorCode != codeNotLeaderOrFollower {
		t.Fatalf("offset for leader epoch: %+v", got)
	}
	// There is nothing to say where the leader is not known.
	a.log.SetLeader(false)
	p = ask[*kmsg.ProduceResponse](c, produceOne(produceMax, topic, 0, batch(t, 0, 1, "y")))
	if got := p.Topics[0].Partitions[0]; got.ErrorCode != codeNotLeaderOrFollower || got.CurrentLeader.LeaderID != -1 || len(p.Brokers) != 0 {
		t.Fatalf("produce without leader: %+v", p)
	}
	f = ask[*kmsg.FetchResponse](c, fetchOne(fetchMax, topic, 0, 0))
	if got := f.Topics[0].Partitions[0]; got.ErrorCode != codeNotLeaderOrFollower || got.CurrentLeader.LeaderID != -1 || len(f.Brokers) != 0 {
		t.Fatalf("fetch without leader: %+v", f)
	}
}

// TestFollowerOfGroups holds that a node that does not lead coordinates no group.
func TestFollowerOfGroups(t *testing.T) {
	a := start(t, quick)
	a.topic("t", 1, nil)
	b := a.join("2", quick)
	c := b.dial()
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKeys = 4, []string{"g"}
	if got := ask[*kmsg.FindCoordinatorResponse](c, find).Coordinators[0]; got.NodeID != 1 || fmt.Sprintf("%s:%d", got.Host, got.Port) != a.addr {
		t.Fatalf("coordinator %+v, want node 1 at %s", got, a.addr)
	}
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group, commit.Generation = 8, "g", -1
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 1}}}}
	if got := ask[*kmsg.OffsetCommitResponse](c, commit); got.Topics[0].Partitions[0].ErrorCode != codeNotCoordinator {
		t.Fatalf("commit: %+v", got)
	}
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Version, fetch.Group = 7, "g"
	if got := ask[*kmsg.OffsetFetchResponse](c, fetch); got.ErrorCode != codeNotCoordinator {
		t.Fatalf("offset fetch: %+v", got)
	}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group = 5, "g"
	if got := ask[*kmsg.JoinGroupResponse](c, join); got.ErrorCode != codeNotCoordinator {
		t.Fatalf("join: %+v", got)
	}
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Version, beat.Group = 4, "g"
	if got := ask[*kmsg.HeartbeatResponse](c, beat); got.ErrorCode != codeNotCoordinator {
		t.Fatalf("heartbeat: %+v", got)
	}
	// Who lists the groups asks all brokers: one that coordinates none has none.
	list := kmsg.NewPtrListGroupsRequest()
	list.Version = 4
	if got := ask[*kmsg.ListGroupsResponse](c, list); got.ErrorCode != codeNone || len(got.Groups) != 0 {
		t.Fatalf("list groups: %+v", got)
	}
	a.log.SetLeader(false)
	if got := ask[*kmsg.ListGroupsResponse](c, list); got.ErrorCode != codeCoordinatorNotAvailable {
		t.Fatalf("list groups without leader: %+v", got)
	}
}

// TestAnyNodeAdministrates holds that requests which change something are done at any node,
// and that no node refuses one for what it has not heard of yet.
func TestAnyNodeAdministrates(t *testing.T) {
	a := start(t, nil)
	b := a.join("2", nil)
	c, other := a.dial(), b.dial()

	ids := map[int64]bool{}
	for range 3 {
		for _, cl := range []*client{c, other} {
			id := ask[*kmsg.InitProducerIDResponse](cl, initProducer())
			if id.ErrorCode != codeNone || ids[id.ProducerID] {
				t.Fatalf("producer id %+v, after %v", id, ids)
			}
			ids[id.ProducerID] = true
		}
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version = 5
	ct := kmsg.NewCreateTopicsRequestTopic()
	ct.Topic, ct.NumPartitions, ct.ReplicationFactor = "t", 1, 2
	create.Topics = []kmsg.CreateTopicsRequestTopic{ct}
	if got := ask[*kmsg.CreateTopicsResponse](other, create); got.Topics[0].ErrorCode != codeNone {
		t.Fatalf("create at the follower: %+v", got)
	}
	drop := kmsg.NewPtrDeleteTopicsRequest()
	drop.Version, drop.TopicNames = 4, []string{"u"}
	ct.Topic = "u"
	create.Topics = []kmsg.CreateTopicsRequestTopic{ct}
	b.log.Hold() // does not hear of u
	if got := ask[*kmsg.CreateTopicsResponse](c, create); got.Topics[0].ErrorCode != codeNone {
		t.Fatalf("create: %+v", got)
	}
	other.send(drop)
	meta := kmsg.NewPtrMetadataRequest()
	meta.Version = 9
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = new("u")
	meta.Topics = []kmsg.MetadataRequestTopic{mt}
	third := b.dial()
	third.send(meta)
	waitFor(t, func() bool { return b.log.Waiting() == 2 })
	b.log.Release()
	if got := answer[*kmsg.DeleteTopicsResponse](other, drop); got.Topics[0].ErrorCode != codeNone {
		t.Fatalf("delete at a follower that was behind: %+v", got)
	}
	// Deleted by now, or not: but not unknown for being news.
	if got := answer[*kmsg.MetadataResponse](third, meta); len(got.Topics) != 1 {
		t.Fatalf("metadata: %+v", got)
	}
	a.log.SetLeader(false)
	if got := ask[*kmsg.CreateTopicsResponse](other, create); got.Topics[0].ErrorCode != codeNotController {
		t.Fatalf("create without leader: %+v", got)
	}
}

// TestProduceIsNeverForwarded holds that what was taken up here, and inflated while another node came to
// lead, is refused like what came before it: forwarded, a producer's second batch would be stored as its first.
func TestProduceIsNeverForwarded(t *testing.T) {
	a := start(t, nil)
	topic := a.topic("t", 1, nil)
	b := a.join("2", nil)
	lane := make(chan struct{})
	a.server.inflating.light = lane
	c := a.dial()
	req := produceOne(9, topic, 0, batch(t, core.CodecZstd, 1, "x"))
	c.send(req)
	<-lane // it was let in, and is being inflated
	b.log.SetLeader(true)
	lane <- struct{}{}
	if p := answer[*kmsg.ProduceResponse](c, req).Topics[0].Partitions[0]; p.ErrorCode != codeNotLeaderOrFollower {
		t.Errorf("code %d at offset %d", p.ErrorCode, p.BaseOffset)
	}
	if head, err := b.router.Head(topic.Partitions[0]); err != nil || head.End != 0 {
		t.Errorf("%d records are stored, %v", head.End, err)
	}
}

// TestProducerIDWithoutLeader has the code that clients try again on. They must not look for a coordinator:
// an idempotent producer has no transactional id to look for it by.
func TestProducerIDWithoutLeader(t *testing.T) {
	f := start(t, nil)
	f.log.SetLeader(false)
	if got := ask[*kmsg.InitProducerIDResponse](f.dial(), initProducer()); got.ErrorCode != codeCoordinatorLoadInProgress {
		t.Errorf("code %d", got.ErrorCode)
	}
}

func initProducer() *kmsg.InitProducerIDRequest {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version = 4
	return req
}

// TestMetadataOfCluster holds that every node names all brokers with the address that each
// has announced, and the leader of every partition.
func TestMetadataOfCluster(t *testing.T) {
	a := start(t, nil)
	a.topic("t", 2, nil)
	b := a.join("2", nil)
	look := func(f *fixture) (brokers map[int32]string, leaders []int32, replicas [][]int32) {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 9
		resp := ask[*kmsg.MetadataResponse](f.dial(), req)
		brokers = map[int32]string{}
		for _, n := range resp.Brokers {
			brokers[n.NodeID] = fmt.Sprintf("%s:%d", n.Host, n.Port)
		}
		for _, p := range resp.Topics[0].Partitions {
			leaders, replicas = append(leaders, p.Leader), append(replicas, p.ISR)
		}
		return brokers, append(leaders, resp.ControllerID), replicas
	}
	want := map[int32]string{1: a.addr, 2: b.addr}
	for lead, leader := range map[int32]*fixture{1: a, 2: b} {
		leader.log.SetLeader(true)
		for _, f := range []*fixture{a, b} {
			brokers, leaders, replicas := look(f)
			if diff := cmp.Diff(want, brokers); diff != "" {
				t.Fatal(diff)
			}
			if diff := cmp.Diff([]int32{lead, lead, lead}, leaders); diff != "" {
				t.Fatal(diff)
			}
			if diff := cmp.Diff([][]int32{{1, 2}, {1, 2}}, replicas); diff != "" {
				t.Fatal(diff)
			}
		}
	}
}

// TestMetadataOfAwayMember holds that a member whom the leader does not reach is no broker to
// ask and no in-sync replica, at any node.
func TestMetadataOfAwayMember(t *testing.T) {
	a := start(t, nil)
	a.topic("t", 1, nil)
	b := a.join("2", nil)
	dead := router.Candidate{New: true, Clock: time.Now(), Member: state.Member{
		ID: "9", Instance: "i", Addr: "h:1", MaxLevel: state.MaxLevel, Endpoints: map[string]string{endpointName: "h:2"},
	}}
	if err := a.router.AddMember(t.Context(), &dead); err != nil { // nobody runs it
		t.Fatal(err)
	}
	look := func(f *fixture) (brokers []int32, p kmsg.MetadataResponseTopicPartition) {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 9
		resp := ask[*kmsg.MetadataResponse](f.dial(), req)
		for _, n := range resp.Brokers {
			brokers = append(brokers, n.NodeID)
		}
		slices.Sort(brokers)
		return brokers, resp.Topics[0].Partitions[0]
	}
	if brokers, p := look(a); !slices.Equal(brokers, []int32{1, 2, 9}) || len(p.OfflineReplicas) != 0 {
		t.Errorf("before anybody has looked: brokers %v, offline %v", brokers, p.OfflineReplicas)
	}
	if err := a.router.NoteMembers(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*fixture{a, b} {
		brokers, p := look(f)
		if !slices.Equal(brokers, []int32{1, 2}) || !slices.Equal(p.Replicas, []int32{1, 2, 9}) || !slices.Equal(p.ISR, []int32{1, 2}) || !slices.Equal(p.OfflineReplicas, []int32{9}) {
			t.Errorf("brokers %v, replicas %v, in sync %v, offline %v", brokers, p.Replicas, p.ISR, p.OfflineReplicas)
		}
	}
}

// TestLeaderChangeEndsWaits holds that who waits at a node for records or for a group's
// members hears at once that it leads no more.
func TestLeaderChangeEndsWaits(t *testing.T) {
	a := start(t, nil) // its groups wait 3 s for members
	topic := a.topic("t", 1, nil)
	b := a.join("2", nil)
	poll := fetchOne(fetchMax, topic, 0, 0)
	poll.MinBytes, poll.MaxWaitMillis = 1, 3_600_000
	consumer := a.dial()
	consumer.send(poll)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 3, "g", 10_000, 3_600_000
	join.ProtocolType, join.Protocols = "consumer", []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	member := a.dial()
	member.send(join)
	waitFor(t, func() bool { return a.pending() == 2 })
	b.log.SetLeader(true)
	resp := answer[*kmsg.FetchResponse](consumer, poll)
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode != codeNotLeaderOrFollower || p.CurrentLeader.LeaderID != 2 || p.HighWatermark != -1 {
		t.Fatalf("long poll: %+v", resp)
	}
	if got := answer[*kmsg.JoinGroupResponse](member, join); got.ErrorCode != codeNotCoordinator {
		t.Fatalf("join: %+v", got)
	}
}

// TestGroupMovesToNewLeader holds that members of a group find the next coordinator, and
// go on behind what they committed at the one before.
func TestGroupMovesToNewLeader(t *testing.T) {
	a := start(t, quick)
	topic := a.topic("t", 1, nil)
	b := a.join("2", quick)
	a.dial().produced(produceMax, topic, 0, batch(t, 0, 1, "a", "b"))
	c := a.consume(kgo.SeedBrokers(a.addr, b.addr), kgo.DisableAutoCommit())
	eventually(t, func() string { return fmt.Sprint(c.values()) }, func() bool { return cmp.Equal(c.values(), []string{"a", "b"}) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	b.log.SetLeader(true)
	b.dial().produced(produceMax, topic, 0, batch(t, 0, 1, "c"))
	eventually(t, func() string { return fmt.Sprint(c.values()) }, func() bool { return len(c.values()) >= 3 })
	c.stop()
	// Another member begins where the first one was.
	d := b.consume(kgo.SeedBrokers(b.addr))
	b.dial().produced(produceMax, topic, 0, batch(t, 0, 1, "d"))
	eventually(t, func() string { return fmt.Sprint(d.values()) }, func() bool { return len(d.values()) >= 2 })
	if got := d.values(); !cmp.Equal(got, []string{"c", "d"}) {
		t.Fatalf("the second member read %q, want what came after the commit", got)
	}
	if got := c.values(); !cmp.Equal(got, []string{"a", "b", "c"}) {
		t.Fatalf("the first member read %q", got)
	}
}
