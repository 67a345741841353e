package kafka

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
)

// describePartitionsMax bounds the partitions of one answer; the cursor leads on.
const describePartitionsMax = 2000

// describeTopicPartitions is Metadata in pages, ordered by topic name.
func describeTopicPartitions(ctx context.Context, c *call, req *kmsg.DescribeTopicPartitionsRequest) *kmsg.DescribeTopicPartitionsResponse {
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	limit := describePartitionsMax
	if n := int(req.ResponsePartitionLimit); n > 0 {
		limit = min(limit, n)
	}
	var names []string
	for i := range req.Topics {
		names = append(names, req.Topics[i].Topic)
	}
	if len(req.Topics) == 0 {
		for _, t := range c.srv.router.Topics(c.srv.opts.Namespace) {
			if c.may(router.OpDescribe, t.Name) == nil {
				names = append(names, t.Name.Name)
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	from := int32(0)
	if req.Cursor != nil {
		names = slices.DeleteFunc(names, func(n string) bool { return strings.Compare(n, req.Cursor.Topic) < 0 })
		if len(names) > 0 && names[0] == req.Cursor.Topic {
			from = max(req.Cursor.Partition, 0)
		}
	}
	cl := c.cluster()
	for _, name := range names {
		if limit == 0 {
			resp.NextCursor = nextCursor(name, 0)
			return resp
		}
		if !c.grow(ctx, elementBytes+2*len(name)) {
			return resp
		}
		t := c.describedTopic(name)
		if t.topic == nil {
			resp.Topics = append(resp.Topics, t.resp)
			continue
		}
		n := len(t.topic.Partitions)
		end := min(n, int(from)+limit)
		for i := int(from); i < end; i++ {
			if !c.grow(ctx, 2*elementBytes) {
				return resp
			}
			p := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
			// Java's admin client trips over null, which the protocol allows here.
			p.EligibleLeaderReplicas, p.LastKnownELR = []int32{}, []int32{}
			p.Partition, p.LeaderID, p.LeaderEpoch = int32(i), cl.leader, cl.epoch
			p.Replicas, p.ISR, p.OfflineReplicas = cl.voters, cl.inSync, cl.away
			t.resp.Partitions = append(t.resp.Partitions, p)
			limit--
		}
		resp.Topics = append(resp.Topics, t.resp)
		if end < n {
			resp.NextCursor = nextCursor(name, int32(end))
			return resp
		}
		from = 0
	}
	return resp
}

func nextCursor(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	cursor := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	cursor.Topic, cursor.Partition = topic, partition
	return &cursor
}

type describedTopic struct {
	topic *router.Topic // nil when it cannot be described
	resp  kmsg.DescribeTopicPartitionsResponseTopic
}

func (c *call) describedTopic(name string) describedTopic {
	d := describedTopic{resp: kmsg.NewDescribeTopicPartitionsResponseTopic()}
	d.resp.Topic = &name
	t, code := c.topicFor(router.OpDescribe, name, core.TopicID{}, false)
	switch {
	case t == nil && code != codeTopicAuthorizationFailed && router.CheckTopicName(name) != nil:
		d.resp.ErrorCode = codeInvalidTopic
	case t == nil:
		d.resp.ErrorCode = code
	default:
		d.topic = t
		d.resp.TopicID, d.resp.IsInternal = t.ID, t.Internal
		d.resp.AuthorizedOperations = c.topicOperations(t.Name)
	}
	return d
}
