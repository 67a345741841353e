package kafka

import (
	"context"
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
	b := group.Beat{
		Group:      req.Group,
		Member:     req.MemberID,
		ClientID:   c.clientID,
		ClientHost: c.clientHost(),
		Epoch:      req.MemberEpoch,
		Instance:   req.InstanceID,
		Rack:       req.RackID,
		Rebalance:  req.RebalanceTimeoutMillis,
		Names:      req.SubscribedTopicNames,
		Pattern:    req.SubscribedTopicRegex,
		Assignor:   req.ServerAssignor,
		Reported:   req.Topics != nil,
		NoID:       req.Version == 0,
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			b.Owned = append(b.Owned, group.Partition{Topic: t.TopicID, Index: p})
		}
	}
	var r group.Beaten
	resp.ErrorCode = c.srv.groups.do(ctx, func(now time.Time, g *group.Coordinator) {
		r = g.ConsumerHeartbeat(now, b, visibleTopics{c})
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

// visibleTopics are the topics that a client may know of.
type visibleTopics struct{ c *call }

// Topic finds a topic by its name.
func (v visibleTopics) Topic(name string) (group.Topic, bool) {
	t, _ := v.c.topicFor(router.OpDescribe, name, core.TopicID{}, false)
	if t == nil {
		return group.Topic{}, false
	}
	return assignable(t), true
}

// All calls fn for every topic that is not internal.
func (v visibleTopics) All(fn func(group.Topic)) {
	for _, t := range v.c.srv.router.Topics(v.c.srv.opts.Namespace) {
		if !t.Internal && v.c.may(router.OpDescribe, t.Name) == nil {
			fn(assignable(t))
		}
	}
}

func assignable(t *router.Topic) group.Topic {
	return group.Topic{ID: t.ID, Name: t.Name.Name, Partitions: int32(len(t.Partitions))}
}
