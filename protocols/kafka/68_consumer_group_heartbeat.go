package kafka

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/protocols/kafka/group"
	"polylog/router"
)

func consumerGroupHeartbeat(ctx context.Context, c *call, req *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	if resp.ErrorCode = c.authorizeGroup(router.OpRead, req.Group); resp.ErrorCode != codeNone {
		return resp
	}
	for _, name := range req.SubscribedTopicNames {
		if c.may(router.OpDescribe, c.topicName(name)) != nil {
			resp.ErrorCode = codeTopicAuthorizationFailed
			return resp
		}
	}
	b := group.Beat{
		Group:      req.Group,
		Member:     req.MemberID,
		ClientID:   c.clientID,
		ClientHost: c.clientHost(),
		User:       c.principal().Name,
		Epoch:      req.MemberEpoch,
		Instance:   req.InstanceID,
		Rack:       req.RackID,
		Rebalance:  req.RebalanceTimeoutMillis,
		Names:      req.SubscribedTopicNames,
		Assignor:   req.ServerAssignor,
		Reported:   req.Topics != nil,
		NoID:       req.Version == 0,
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			b.Owned = append(b.Owned, group.Partition{Topic: t.TopicID, Index: p})
		}
	}
	// What takes long is done beside the groups' lock.
	if req.SubscribedTopicRegex != nil {
		var err error
		if b.Pattern, err = group.CompilePattern(*req.SubscribedTopicRegex); err != nil {
			resp.ErrorCode, resp.ErrorMessage = int16(group.InvalidRegex), message(err)
			return resp
		}
	}
	resp.ErrorCode = c.srv.groups.do(ctx, func(now time.Time, g *group.Coordinator) { b.Looked = g.PatternDue(now, &b) })
	if resp.ErrorCode != codeNone {
		return resp
	}
	if b.Looked != nil {
		b.Found = c.matching(b.Looked)
	}
	var r group.Beaten
	resp.ErrorCode = c.srv.groups.do(ctx, func(now time.Time, g *group.Coordinator) {
		r = g.ConsumerHeartbeat(now, b, subscribable{c.session})
	})
	if resp.ErrorCode != codeNone {
		return resp
	}
	resp.ErrorCode, resp.ErrorMessage = int16(r.Code), nullable(r.Message)
	resp.MemberID, resp.MemberEpoch = nullable(r.Member), r.Epoch
	resp.HeartbeatIntervalMillis = int32(r.Interval.Milliseconds())
	if r.Changed {
		resp.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{}
		eachTopic(r.Assigned, func(id core.TopicID, ps []int32) {
			rt := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
			rt.TopicID, rt.Partitions = id, ps
			resp.Assignment.Topics = append(resp.Assignment.Topics, rt)
		})
	}
	return resp
}

// eachTopic calls fn with the partitions of each topic in a sorted list.
func eachTopic(ps []group.Partition, fn func(id core.TopicID, ps []int32)) {
	for i := 0; i < len(ps); {
		id := ps[i].Topic
		var indexes []int32
		for ; i < len(ps) && ps[i].Topic == id; i++ {
			indexes = append(indexes, ps[i].Index)
		}
		fn(id, indexes)
	}
}

// subscribable are the topics that members of groups can have.
type subscribable struct{ s *session }

// Topic finds a topic by its name.
func (t subscribable) Topic(name string) (group.Topic, bool) {
	found, _ := t.s.topic(name, core.TopicID{}, false)
	if found == nil {
		return group.Topic{}, false
	}
	return assignable(found), true
}

// matching are the names of the topics, in order, that a pattern matches and the client may know of.
// Internal ones are not matched.
func (c *call) matching(p *group.Pattern) (names []string) {
	for _, t := range c.srv.router.Topics(c.srv.opts.Namespace) {
		if !t.Internal && p.Match(t.Name.Name) && c.may(router.OpDescribe, t.Name) == nil {
			names = append(names, t.Name.Name)
		}
	}
	slices.Sort(names)
	return names
}

func assignable(t *router.Topic) group.Topic {
	return group.Topic{ID: t.ID, Name: t.Name.Name, Partitions: int32(len(t.Partitions))}
}
