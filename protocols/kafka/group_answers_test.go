package kafka

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/protocols/kafka/group"
	"polylog/router"
)

// groupKeys are the APIs of groups.
var groupKeys = []kmsg.Key{
	kmsg.OffsetCommit, kmsg.OffsetFetch, kmsg.FindCoordinator, kmsg.JoinGroup, kmsg.Heartbeat, kmsg.LeaveGroup,
	kmsg.SyncGroup, kmsg.DescribeGroups, kmsg.ListGroups, kmsg.DeleteGroups, kmsg.OffsetDelete,
	kmsg.ConsumerGroupHeartbeat, kmsg.ConsumerGroupDescribe,
}

// TestGroupVersions sends every version of every API of groups for a group that does not
// exist, with a topic that does not: each is answered in its version.
func TestGroupVersions(t *testing.T) {
	f := start(t, quick)
	c := f.dial()
	for _, key := range groupKeys {
		a := f.server.apis.lookup(key.Int16())
		for v := a.min; v <= a.max; v++ {
			req := key.Request()
			req.SetVersion(v)
			switch r := req.(type) {
			case *kmsg.OffsetCommitRequest:
				r.Group, r.Topics = "nope", []kmsg.OffsetCommitRequestTopic{{Topic: "no", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
			case *kmsg.OffsetFetchRequest:
				r.Group, r.Topics = "nope", []kmsg.OffsetFetchRequestTopic{{Topic: "no", Partitions: []int32{0}}}
				r.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "nope", MemberEpoch: -1, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "no", Partitions: []int32{0}}}}}
			case *kmsg.FindCoordinatorRequest:
				r.CoordinatorKey, r.CoordinatorKeys = "nope", []string{"nope", "other"}
			case *kmsg.JoinGroupRequest:
				r.Group, r.MemberID, r.SessionTimeoutMillis = "nope", "m", 10_000
			case *kmsg.DescribeGroupsRequest:
				r.Groups = []string{"nope"}
			case *kmsg.DeleteGroupsRequest:
				r.Groups = []string{"nope"}
			case *kmsg.LeaveGroupRequest:
				r.Group, r.MemberID, r.Members = "nope", "m", []kmsg.LeaveGroupRequestMember{{MemberID: "m"}}
			case *kmsg.SyncGroupRequest:
				r.Group, r.MemberID = "nope", "m"
			case *kmsg.HeartbeatRequest:
				r.Group, r.MemberID = "nope", "m"
			case *kmsg.OffsetDeleteRequest:
				r.Group = "nope"
			case *kmsg.ConsumerGroupHeartbeatRequest:
				r.Group, r.MemberID, r.MemberEpoch = "nope", "m", 1
			case *kmsg.ConsumerGroupDescribeRequest:
				r.Groups = []string{"nope"}
			}
			c.send(req)
			switch r := answer[kmsg.Response](c, req).(type) {
			case *kmsg.OffsetCommitResponse:
				want := codeUnknownTopicOrPartition
				if v >= offsetCommitTopicID {
					want = codeUnknownTopicID
				}
				wantCode(t, req, r.Topics[0].Partitions[0].ErrorCode, want)
			case *kmsg.OffsetFetchResponse:
				wantNoOffset(t, req, r)
			case *kmsg.FindCoordinatorResponse:
				wantCode(t, req, r.ErrorCode, codeNone)
				if v < 4 && (r.NodeID != 1 || r.Host != "127.0.0.1") || v >= 4 && (len(r.Coordinators) != 2 || r.Coordinators[1].NodeID != 1 || r.Coordinators[1].Key != "other") {
					t.Errorf("FindCoordinator version %d: %+v", v, r)
				}
			case *kmsg.JoinGroupResponse:
				wantCode(t, req, r.ErrorCode, codeUnknownMemberID)
			case *kmsg.HeartbeatResponse:
				wantCode(t, req, r.ErrorCode, codeUnknownMemberID)
			case *kmsg.SyncGroupResponse:
				wantCode(t, req, r.ErrorCode, codeUnknownMemberID)
			case *kmsg.LeaveGroupResponse:
				if v < 3 {
					wantCode(t, req, r.ErrorCode, codeUnknownMemberID)
				} else {
					wantCode(t, req, r.ErrorCode, codeNone)
					wantCode(t, req, r.Members[0].ErrorCode, codeUnknownMemberID)
				}
			case *kmsg.DescribeGroupsResponse:
				want := codeNone
				if v >= 6 {
					want = codeGroupIDNotFound
				}
				wantCode(t, req, r.Groups[0].ErrorCode, want)
				if r.Groups[0].State != "Dead" || (r.Groups[0].ErrorMessage != nil) != (v >= 6) {
					t.Errorf("DescribeGroups version %d: %+v", v, r.Groups[0])
				}
			case *kmsg.ListGroupsResponse:
				if r.ErrorCode != codeNone || len(r.Groups) != 0 {
					t.Errorf("ListGroups version %d: %+v", v, r)
				}
			case *kmsg.DeleteGroupsResponse:
				wantCode(t, req, r.Groups[0].ErrorCode, codeGroupIDNotFound)
			case *kmsg.OffsetDeleteResponse:
				wantCode(t, req, r.ErrorCode, codeGroupIDNotFound)
			case *kmsg.ConsumerGroupHeartbeatResponse:
				wantCode(t, req, r.ErrorCode, codeUnknownMemberID)
			case *kmsg.ConsumerGroupDescribeResponse:
				wantCode(t, req, r.Groups[0].ErrorCode, codeGroupIDNotFound)
			}
		}
	}
}

func wantCode(t testing.TB, req kmsg.Request, got, want int16) {
	t.Helper()
	if got != want {
		t.Errorf("%s version %d answers %d, want %d", kmsg.NameForKey(req.Key()), req.GetVersion(), got, want)
	}
}

// wantNoOffset checks the answer for a topic without offsets: no error (for a topic id
// that is unknown there is one), offset -1, epoch -1, metadata "".
func wantNoOffset(t testing.TB, req kmsg.Request, r *kmsg.OffsetFetchResponse) {
	t.Helper()
	wantCode(t, req, r.ErrorCode, codeNone)
	if r.Version < offsetFetchGroups {
		p := r.Topics[0].Partitions[0]
		if p.ErrorCode != codeNone || p.Offset != -1 || p.LeaderEpoch != -1 || p.Metadata == nil || *p.Metadata != "" {
			t.Errorf("OffsetFetch version %d: %+v", r.Version, p)
		}
		return
	}
	want := codeNone
	if r.Version >= offsetFetchTopicID {
		want = codeUnknownTopicID
	}
	p := r.Groups[0].Topics[0].Partitions[0]
	wantCode(t, req, r.Groups[0].ErrorCode, codeNone)
	wantCode(t, req, p.ErrorCode, want)
	if p.Offset != -1 || p.LeaderEpoch != -1 || p.Metadata == nil || *p.Metadata != "" {
		t.Errorf("OffsetFetch version %d: %+v", r.Version, p)
	}
}

// commitOne is an OffsetCommit of one partition.
func commitOne(version int16, id string, t *router.Topic, partition int32, offset int64, metadata string) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = version, id, group.NoGeneration
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, offset, 3, &metadata
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: t.Name.Name, TopicID: t.ID, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	return req
}

func (c *client) committed(req *kmsg.OffsetCommitRequest) int16 {
	c.t.Helper()
	return ask[*kmsg.OffsetCommitResponse](c, req).Topics[0].Partitions[0].ErrorCode
}

// TestCommittedOffsets commits from outside a group and reads back in every version.
func TestCommittedOffsets(t *testing.T) {
	f := start(t, quick)
	c, topic := f.dial(), f.topic("t", 2, nil)
	for v := int16(2); v <= 10; v++ {
		req := commitOne(v, "g", topic, 0, int64(v), "note")
		wantCode(t, req, c.committed(req), codeNone)
		for fv := int16(1); fv <= 10; fv++ {
			fetch := kmsg.NewPtrOffsetFetchRequest()
			fetch.Version, fetch.Group = fv, "g"
			fetch.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0, 1, 2}}}
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group, g.Topics = "g", []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", TopicID: topic.ID, Partitions: []int32{0, 1, 2}}}
			all := kmsg.NewOffsetFetchRequestGroup()
			all.Group = "g" // no topics: everything
			fetch.Groups = []kmsg.OffsetFetchRequestGroup{g, all}
			r := ask[*kmsg.OffsetFetchResponse](c, fetch)
			if fv < offsetFetchGroups {
				ps := r.Topics[0].Partitions
				if p := ps[0]; len(ps) != 3 || p.Offset != int64(v) || *p.Metadata != "note" || fv >= 5 && v >= 6 && p.LeaderEpoch != 3 {
					t.Errorf("commit version %d, fetch version %d: %+v", v, fv, ps)
				}
				if ps[1].Offset != -1 || ps[2].Offset != -1 || ps[2].ErrorCode != codeNone {
					t.Errorf("fetch version %d: %+v", fv, ps)
				}
				continue
			}
			ps := r.Groups[0].Topics[0].Partitions
			if p := ps[0]; len(ps) != 3 || p.Offset != int64(v) || *p.Metadata != "note" || v >= 6 && p.LeaderEpoch != 3 {
				t.Errorf("commit version %d, fetch version %d: %+v", v, fv, ps)
			}
			if ts := r.Groups[1].Topics; len(ts) != 1 || len(ts[0].Partitions) != 1 || ts[0].Partitions[0].Offset != int64(v) {
				t.Errorf("fetch version %d of everything: %+v", fv, ts)
			}
		}
	}
	// Everything, as old clients ask for it.
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 7, "g"
	if r := ask[*kmsg.OffsetFetchResponse](c, req); len(r.Topics) != 1 || r.Topics[0].Topic != "t" || len(r.Topics[0].Partitions) != 1 {
		t.Errorf("everything: %+v", r)
	}
	for _, bad := range []struct {
		req  *kmsg.OffsetCommitRequest
		want int16
	}{
		{commitOne(9, "g", topic, 2, 1, ""), codeUnknownTopicOrPartition},
		{commitOne(9, "g", topic, -1, 1, ""), codeUnknownTopicOrPartition},
		{commitOne(9, "g", &router.Topic{Name: core.TopicName("no")}, 0, 1, ""), codeUnknownTopicOrPartition},
		{commitOne(10, "g", &router.Topic{ID: core.TopicID{1}}, 0, 1, ""), codeUnknownTopicID},
		{commitOne(9, "g", topic, 0, 1, strings.Repeat("x", 4096)), codeNone},
		{commitOne(9, "g", topic, 0, 1, strings.Repeat("x", 4097)), codeOffsetMetadataTooLarge},
		{commitOne(9, "", topic, 0, 1, ""), codeNone},
	} {
		wantCode(t, bad.req, c.committed(bad.req), bad.want)
	}
	stale := commitOne(9, "g", topic, 0, 1, "")
	stale.Generation, stale.MemberID = 4, "gone"
	wantCode(t, stale, c.committed(stale), codeUnknownMemberID)
}

// joinOne is a JoinGroup of a consumer of topic t.
func joinOne(version int16, id, member string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = version, id, member, group.ConsumerType
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 10_000
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = []string{"t"}
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: meta.AppendTo(nil)}}
	return req
}

// TestGroupLife takes a group of one member through its life, in each version of JoinGroup
// with the versions of the other APIs that clients of its time use.
func TestGroupLife(t *testing.T) {
	f := start(t, quick)
	c, topic := f.dial(), f.topic("t", 1, nil)
	f.topic("u", 1, nil)
	for v := int16(0); v <= 9; v++ {
		req := joinOne(v, "g", "")
		j := ask[*kmsg.JoinGroupResponse](c, req)
		if v >= 4 {
			wantCode(t, req, j.ErrorCode, codeMemberIDRequired)
			j = ask[*kmsg.JoinGroupResponse](c, joinOne(v, "g", j.MemberID))
		}
		if j.ErrorCode != codeNone || j.LeaderID != j.MemberID || len(j.Members) != 1 || *j.Protocol != "range" || !strings.HasPrefix(j.MemberID, "test-") {
			t.Fatalf("JoinGroup version %d: %+v", v, j)
		}
		commit := commitOne(9, "g", topic, 0, 5, "")
		wantCode(t, commit, c.committed(commit), codeUnknownMemberID) // no generation, but members
		commit.Generation, commit.MemberID = j.Generation, j.MemberID
		wantCode(t, commit, c.committed(commit), codeRebalanceInProgress)

		syncReq := kmsg.NewPtrSyncGroupRequest()
		syncReq.Version, syncReq.Group, syncReq.MemberID, syncReq.Generation = min(v, 5), "g", j.MemberID, j.Generation
		syncReq.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: j.MemberID, MemberAssignment: []byte("mine")}}
		if s := ask[*kmsg.SyncGroupResponse](c, syncReq); s.ErrorCode != codeNone || string(s.MemberAssignment) != "mine" {
			t.Fatalf("SyncGroup version %d: %+v", syncReq.Version, s)
		}
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.Version, beat.Group, beat.MemberID, beat.Generation = min(v, 4), "g", j.MemberID, j.Generation
		wantCode(t, beat, ask[*kmsg.HeartbeatResponse](c, beat).ErrorCode, codeNone)
		beat.Generation++
		wantCode(t, beat, ask[*kmsg.HeartbeatResponse](c, beat).ErrorCode, codeIllegalGeneration)
		wantCode(t, commit, c.committed(commit), codeNone)

		f.wantGroup(c, "Stable", 1, min(v, 6))
		del := kmsg.NewPtrDeleteGroupsRequest()
		del.Version, del.Groups = min(v, 3), []string{"g"}
		wantCode(t, del, ask[*kmsg.DeleteGroupsResponse](c, del).Groups[0].ErrorCode, codeNonEmptyGroup)
		offsets := kmsg.NewPtrOffsetDeleteRequest()
		offsets.Group = "g"
		for _, name := range []string{"t", "u", "no"} {
			offsets.Topics = append(offsets.Topics, kmsg.OffsetDeleteRequestTopic{Topic: name, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}})
		}
		od := ask[*kmsg.OffsetDeleteResponse](c, offsets)
		for i, want := range []int16{codeGroupSubscribedToTopic, codeNone, codeUnknownTopicOrPartition} {
			wantCode(t, offsets, od.Topics[i].Partitions[0].ErrorCode, want)
		}

		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Version, leave.Group, leave.MemberID = min(v, 5), "g", j.MemberID
		leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: j.MemberID}}
		l := ask[*kmsg.LeaveGroupResponse](c, leave)
		wantCode(t, leave, l.ErrorCode, codeNone)
		if leave.Version >= 3 {
			wantCode(t, leave, l.Members[0].ErrorCode, codeNone)
		}
		f.wantGroup(c, "Empty", 0, min(v, 6))
		wantCode(t, offsets, ask[*kmsg.OffsetDeleteResponse](c, offsets).Topics[0].Partitions[0].ErrorCode, codeNone)
		if _, ok, err := f.router.FetchOffset("g", topic.Partitions[0]); ok || err != nil {
			t.Errorf("the offset is still there: %v", err)
		}
		wantCode(t, del, ask[*kmsg.DeleteGroupsResponse](c, del).Groups[0].ErrorCode, codeNone)
		wantCode(t, del, ask[*kmsg.DeleteGroupsResponse](c, del).Groups[0].ErrorCode, codeGroupIDNotFound)
	}
	bad := joinOne(9, "g", "")
	bad.SessionTimeoutMillis = 5999
	wantCode(t, bad, ask[*kmsg.JoinGroupResponse](c, bad).ErrorCode, codeInvalidSessionTimeout)
}

// wantGroup checks how group g is described and listed.
func (f *fixture) wantGroup(c *client, state string, members int, version int16) {
	f.t.Helper()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version, req.Groups, req.IncludeAuthorizedOperations = version, []string{"g"}, true
	d := ask[*kmsg.DescribeGroupsResponse](c, req).Groups[0]
	if d.ErrorCode != codeNone || d.State != state || d.ProtocolType != group.ConsumerType || len(d.Members) != members {
		f.t.Errorf("DescribeGroups version %d: %+v", version, d)
	}
	if version >= 3 && d.AuthorizedOperations != 1<<aclRead|1<<aclDelete|1<<aclDescribe {
		f.t.Errorf("DescribeGroups version %d: operations %b", version, d.AuthorizedOperations)
	}
	for _, m := range d.Members {
		if m.ClientID != "test" || m.ClientHost != "/127.0.0.1" || string(m.MemberAssignment) != "mine" || len(m.ProtocolMetadata) == 0 {
			f.t.Errorf("DescribeGroups version %d: %+v", version, m)
		}
	}
	list := kmsg.NewPtrListGroupsRequest()
	list.Version = min(version, 5)
	for _, filter := range []struct {
		states, types []string
		found         bool
	}{
		{nil, nil, true},
		{[]string{"dead", strings.ToLower(state)}, []string{"Classic"}, true},
		{[]string{"PreparingRebalance"}, nil, version < 4},
		{nil, []string{"consumer"}, version < 5},
	} {
		list.StatesFilter, list.TypesFilter = filter.states, filter.types
		found := false
		for _, g := range ask[*kmsg.ListGroupsResponse](c, list).Groups {
			found = found || g.Group == "g" && g.ProtocolType == group.ConsumerType &&
				(version < 4 || g.GroupState == state) && (version < 5 || g.GroupType == typeClassic)
		}
		if found != filter.found {
			f.t.Errorf("ListGroups version %d with %+v finds it: %v", list.Version, filter, found)
		}
	}
}

// TestOffsetsOnly: a group that only has offsets is not in memory, and is listed as Empty.
func TestOffsetsOnly(t *testing.T) {
	f := start(t, quick)
	c, topic := f.dial(), f.topic("t", 1, nil)
	for _, id := range []string{"a", "b", "c"} {
		req := commitOne(9, id, topic, 0, 1, "")
		wantCode(t, req, c.committed(req), codeNone)
	}
	f.server.groups.mu.Lock()
	stats := f.server.groups.coord.Stats()
	f.server.groups.mu.Unlock()
	if stats != (group.Stats{}) {
		t.Errorf("%+v, want nothing in memory", stats)
	}
	list := kmsg.NewPtrListGroupsRequest()
	list.Version, list.StatesFilter = 5, []string{"Empty"}
	if r := ask[*kmsg.ListGroupsResponse](c, list); len(r.Groups) != 3 || r.Groups[2].Group != "c" {
		t.Errorf("%+v", r.Groups)
	}
}

// TestFollowerSyncsFirst is nisshi#679: the follower's SyncGroup waits for the leader's,
// and brings an assignment. Each is a connection, as with real clients; a third member
// whose client vanishes in the middle of a JoinGroup stays a member.
func TestFollowerSyncsFirst(t *testing.T) {
	f := start(t, func(o *Options) { o.Groups = group.Config{InitialDelay: time.Minute} })
	f.topic("t", 1, nil)
	a, b := f.dial(), f.dial()
	a.send(joinOne(3, "g", ""))
	f.waitFor(1) // the first member leads
	b.send(joinOne(3, "g", ""))
	gone := f.dial()
	gone.send(joinOne(3, "g", ""))
	f.waitFor(3)
	_ = gone.nc.Close()
	f.server.groups.tick(time.Now().Add(time.Minute)) // the delay is over
	ja, jb := answer[*kmsg.JoinGroupResponse](a, joinOne(3, "", "")), answer[*kmsg.JoinGroupResponse](b, joinOne(3, "", ""))
	leader, follower := a, b
	if jb.LeaderID == jb.MemberID {
		leader, follower, ja, jb = b, a, jb, ja
	}
	if len(ja.Members) != 3 || len(jb.Members) != 0 || ja.Generation != jb.Generation {
		t.Fatalf("leader %+v, follower %+v, want 3 members known to the leader alone", ja, jb)
	}
	s := kmsg.NewPtrSyncGroupRequest()
	s.Version, s.Group, s.Generation, s.MemberID = 3, "g", jb.Generation, jb.MemberID
	follower.send(s)
	waitFor(t, func() bool { return f.pending() == 1 })
	s.MemberID = ja.MemberID
	s.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: jb.MemberID, MemberAssignment: []byte("yours")}}
	if r := ask[*kmsg.SyncGroupResponse](leader, s); r.ErrorCode != codeNone || len(r.MemberAssignment) != 0 {
		t.Errorf("leader: %+v", r)
	}
	if r := answer[*kmsg.SyncGroupResponse](follower, s); r.ErrorCode != codeNone || string(r.MemberAssignment) != "yours" {
		t.Errorf("follower: %+v", r)
	}
}

// waitFor waits until group g has n members.
func (f *fixture) waitFor(n int) {
	f.t.Helper()
	eventually(f.t, func() string { return "members are missing" }, func() bool {
		f.server.groups.mu.Lock()
		defer f.server.groups.mu.Unlock()
		return f.server.groups.coord.Stats().Members == n
	})
}

// TestNotCoordinator: a node that does not lead says so, to those that wait as well.
func TestNotCoordinator(t *testing.T) {
	f := start(t, nil)
	c, parked, topic := f.dial(), f.dial(), f.topic("t", 1, nil)
	parked.send(joinOne(3, "g", ""))
	f.waitFor(1)
	f.log.SetLeader(false)
	wantCode(t, joinOne(3, "", ""), answer[*kmsg.JoinGroupResponse](parked, joinOne(3, "", "")).ErrorCode, codeNotCoordinator)
	commit := commitOne(9, "g", topic, 0, 1, "")
	wantCode(t, commit, c.committed(commit), codeNotCoordinator)
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Version, fetch.Group = 7, "g"
	wantCode(t, fetch, ask[*kmsg.OffsetFetchResponse](c, fetch).ErrorCode, codeNotCoordinator)
	fetch.Version = 1
	fetch.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	wantCode(t, fetch, ask[*kmsg.OffsetFetchResponse](c, fetch).Topics[0].Partitions[0].ErrorCode, codeNotCoordinator)
	join := joinOne(9, "g", "")
	wantCode(t, join, ask[*kmsg.JoinGroupResponse](c, join).ErrorCode, codeNotCoordinator)
	list := kmsg.NewPtrListGroupsRequest()
	wantCode(t, list, ask[*kmsg.ListGroupsResponse](c, list).ErrorCode, codeCoordinatorNotAvailable)
}

// TestDoubtKeepsMembers: a leader that a majority has not answered for a moment sends members
// away, and goes on with them as they were; in another term it begins without them.
func TestDoubtKeepsMembers(t *testing.T) {
	f := start(t, quick)
	f.topic("t", 1, nil)
	c := f.dial()
	j := ask[*kmsg.JoinGroupResponse](c, joinOne(3, "g", ""))
	syncReq := kmsg.NewPtrSyncGroupRequest()
	syncReq.Version, syncReq.Group, syncReq.MemberID, syncReq.Generation = 3, "g", j.MemberID, j.Generation
	wantCode(t, syncReq, ask[*kmsg.SyncGroupResponse](c, syncReq).ErrorCode, codeNone)
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Version, beat.Group, beat.MemberID, beat.Generation = 3, "g", j.MemberID, j.Generation
	want := func(code int16) {
		t.Helper()
		wantCode(t, beat, ask[*kmsg.HeartbeatResponse](c, beat).ErrorCode, code)
	}
	want(codeNone)

	f.log.SetFresh(false)
	want(codeNotCoordinator)
	if _, closed := f.server.groups.tick(time.Now().Add(time.Hour)); closed {
		t.Fatal("the groups are closed")
	}
	f.log.SetFresh(true)
	want(codeNone) // the same member, in the same generation; nobody has expired meanwhile

	f.log.SetFresh(false)
	want(codeNotCoordinator)
	f.log.SetTerm(f.log.Term() + 1)
	f.log.SetFresh(true)
	want(codeUnknownMemberID)
}

// TestCloseAnswersTheParked: who waits in a group does not hold up the end of the server.
func TestCloseAnswersTheParked(t *testing.T) {
	f := start(t, nil)
	c := f.dial()
	c.send(joinOne(3, "g", ""))
	f.waitFor(1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := f.server.Close(ctx); err != nil || ctx.Err() != nil {
		t.Error(err, ctx.Err())
	}
	wantCode(t, joinOne(3, "", ""), answer[*kmsg.JoinGroupResponse](c, joinOne(3, "", "")).ErrorCode, codeNotCoordinator)
	c.closed()
}
