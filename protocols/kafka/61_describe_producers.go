package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
)

// describeProducers lists the idempotent producers of partitions.
func describeProducers(ctx context.Context, c *call, req *kmsg.DescribeProducersRequest) *kmsg.DescribeProducersResponse {
	resp := kmsg.NewPtrDescribeProducersResponse()
	seen := once[partition]{}
	for i := range req.Topics {
		rt := &req.Topics[i]
		t := kmsg.NewDescribeProducersResponseTopic()
		t.Topic = rt.Topic
		topic, unknown := c.topic(rt.Topic, core.TopicID{}, false)
		if topic != nil && c.may(router.OpRead, topic.Name) != nil {
			topic, unknown = nil, codeTopicAuthorizationFailed
		}
		for _, n := range rt.Partitions {
			if !seen.first(partition{rt.Topic, n}) {
				continue
			}
			if !c.grow(ctx, elementBytes) {
				return resp
			}
			p := kmsg.NewDescribeProducersResponseTopicPartition()
			p.Partition, p.ErrorCode = n, unknown
			if topic != nil {
				c.activeProducers(ctx, topic, &p)
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func (c *call) activeProducers(ctx context.Context, t *router.Topic, p *kmsg.DescribeProducersResponseTopicPartition) {
	q, ok := t.Queue(p.Partition)
	if !ok {
		p.ErrorCode = codeUnknownTopicOrPartition
		return
	}
	producers, err := c.srv.router.Producers(q)
	if err != nil {
		p.ErrorCode, p.ErrorMessage = code(err), message(err)
		return
	}
	if !c.grow(ctx, elementBytes*len(producers)) {
		return
	}
	for _, s := range producers {
		a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		a.ProducerID, a.ProducerEpoch, a.LastSequence, a.LastTimestamp = s.ID, int32(s.Epoch), s.LastSequence, s.Time
		a.CoordinatorEpoch, a.CurrentTxnStartOffset = -1, -1
		p.ActiveProducers = append(p.ActiveProducers, a)
	}
}
