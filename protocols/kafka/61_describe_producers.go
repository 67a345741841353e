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
	refused := c.leads(ctx)
	seen := once[partition]{}
	var queues []core.QueueID // of the partitions without an error, in order
	for i := range req.Topics {
		rt := &req.Topics[i]
		t := kmsg.NewDescribeProducersResponseTopic()
		t.Topic = rt.Topic
		topic, unknown := c.topicFor(router.OpRead, rt.Topic, core.TopicID{}, false)
		for _, n := range rt.Partitions {
			if !seen.first(partition{rt.Topic, n}) {
				continue
			}
			if !c.grow(ctx, elementBytes) {
				return resp
			}
			p := kmsg.NewDescribeProducersResponseTopicPartition()
			p.Partition, p.ErrorCode = n, unknown
			if refused != codeNone {
				p.ErrorCode = refused
			} else if topic != nil {
				if q, ok := topic.Queue(n); ok {
					queues = append(queues, q)
				} else {
					p.ErrorCode = codeUnknownTopicOrPartition
				}
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	c.addProducers(ctx, resp, queues)
	return resp
}

// addProducers fills in the producers of the partitions that have no error.
func (c *call) addProducers(ctx context.Context, resp *kmsg.DescribeProducersResponse, queues []core.QueueID) {
	// One more than fits, so that too many end in grow.
	limit := int((c.srv.opts.MaxAnswerBytes-c.answer.bytes)/elementBytes) + 1
	producers, err := c.srv.router.Producers(queues, limit)
	if core.KindOf(err) == core.TooLarge {
		c.grow(ctx, elementBytes*(limit+1))
		return
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			if p.ErrorCode != codeNone {
				continue
			}
			q := queues[0]
			queues = queues[1:]
			if err != nil {
				p.ErrorCode, p.ErrorMessage = code(err), message(err)
				continue
			}
			if !c.grow(ctx, elementBytes*len(producers[q])) {
				return
			}
			for _, s := range producers[q] {
				a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
				a.ProducerID, a.ProducerEpoch, a.LastSequence, a.LastTimestamp = s.ID, int32(s.Epoch), s.LastSequence, s.Time
				a.CoordinatorEpoch, a.CurrentTxnStartOffset = -1, -1
				p.ActiveProducers = append(p.ActiveProducers, a)
			}
		}
	}
}
