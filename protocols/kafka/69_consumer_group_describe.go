package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/protocols/kafka/group"
	"polylog/router"
)

// assignedBytes is what a partition may take in an assignment when it is its topic's
// only one: the topic's name has up to 249 bytes.
const assignedBytes = 320

// memberTypeConsumer says that a member speaks the new protocol.
const memberTypeConsumer = 1

func consumerGroupDescribe(ctx context.Context, c *call, req *kmsg.ConsumerGroupDescribeRequest) *kmsg.ConsumerGroupDescribeResponse {
	resp := kmsg.NewPtrConsumerGroupDescribeResponse()
	seen := once[string]{}
	for _, id := range req.Groups {
		if !seen.first(id) {
			continue
		}
		rg := c.describeConsumers(ctx, id)
		if c.answer.err != nil {
			break
		}
		if req.IncludeAuthorizedOperations && rg.ErrorCode == codeNone {
			rg.AuthorizedOperations = c.groupOperations(id)
		}
		resp.Groups = append(resp.Groups, rg)
	}
	return resp
}

func (c *call) describeConsumers(ctx context.Context, id string) kmsg.ConsumerGroupDescribeResponseGroup {
	rg := kmsg.NewConsumerGroupDescribeResponseGroup()
	rg.Group = id
	if !c.grow(ctx, elementBytes+len(id)) {
		return rg
	}
	if rg.ErrorCode = c.authorizeGroup(router.OpDescribe, id); rg.ErrorCode != codeNone {
		return rg
	}
	if id == "" {
		rg.ErrorCode = codeInvalidGroupID
		return rg
	}
	var d group.ConsumerDescription
	var known bool
	rg.ErrorCode = c.srv.groups.do(ctx, func(_ time.Time, g *group.Coordinator) { d, known = g.DescribeConsumers(id) })
	if rg.ErrorCode != codeNone {
		return rg
	}
	if !known {
		rg.ErrorCode = codeGroupIDNotFound
		rg.ErrorMessage = new(fmt.Sprintf("there is no consumer group %s", id))
		return rg
	}
	rg.State, rg.Epoch, rg.AssignmentEpoch, rg.AssignorName = d.State, d.Epoch, d.Epoch, d.Assignor
	for _, m := range d.Members {
		n := elementBytes + len(m.ID) + len(m.Instance) + len(m.Rack) + len(m.ClientID) + len(m.ClientHost) + len(m.Pattern) +
			assignedBytes*(len(m.Assigned)+len(m.Target))
		for _, t := range m.Topics {
			n += len(t)
		}
		if !c.grow(ctx, n) {
			break
		}
		rm := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		rm.MemberID, rm.InstanceID, rm.RackID = m.ID, nullable(m.Instance), nullable(m.Rack)
		rm.MemberEpoch, rm.ClientID, rm.ClientHost = m.Epoch, m.ClientID, m.ClientHost
		rm.SubscribedTopics, rm.SubscribedTopicRegex = m.Topics, nullable(m.Pattern)
		rm.Assignment.TopicPartitions = c.assignment(m.Assigned)
		rm.TargetAssignment.TopicPartitions = c.assignment(m.Target)
		rm.MemberType = memberTypeConsumer
		rg.Members = append(rg.Members, rm)
	}
	return rg
}

// assignment lists partitions by topic. Topics that are gone are left out.
func (c *call) assignment(ps []group.Partition) (out []kmsg.AssignmentTopicPartition) {
	eachTopic(ps, func(id core.TopicID, indexes []int32) {
		if t, _ := c.topic("", id, true); t != nil {
			rt := kmsg.NewAssignmentTopicPartition()
			rt.TopicID, rt.Topic, rt.Partitions = id, t.Name.Name, indexes
			out = append(out, rt)
		}
	})
	return out
}
