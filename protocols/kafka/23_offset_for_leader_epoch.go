package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
)

// offsetForLeaderEpoch tells where the records of an epoch end, so that a client sees
// whether what it has read was ever taken back.
func offsetForLeaderEpoch(ctx context.Context, c *call, req *kmsg.OffsetForLeaderEpochRequest) *kmsg.OffsetForLeaderEpochResponse {
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	refused := c.leads(ctx)
	for i := range req.Topics {
		rt := &req.Topics[i]
		t := kmsg.NewOffsetForLeaderEpochResponseTopic()
		t.Topic = rt.Topic
		topic, code := c.topicFor(router.OpDescribe, rt.Topic, core.TopicID{}, false)
		for j := range rt.Partitions {
			if !c.grow(ctx, elementBytes) {
				return resp
			}
			rp := &rt.Partitions[j]
			p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			p.Partition, p.LeaderEpoch, p.EndOffset = rp.Partition, -1, -1
			switch {
			case refused != codeNone:
				p.ErrorCode = refused
			case topic == nil:
				p.ErrorCode = code
			default:
				p.ErrorCode = c.epochEnd(topic, rp, &p)
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func (c *call) epochEnd(t *router.Topic, rp *kmsg.OffsetForLeaderEpochRequestTopicPartition, p *kmsg.OffsetForLeaderEpochResponseTopicPartition) int16 {
	r := c.srv.router
	q, ok := t.Queue(rp.Partition)
	if !ok {
		return codeUnknownTopicOrPartition
	}
	if code := leaderEpochCode(rp.CurrentLeaderEpoch, int32(r.Term())); code != codeNone {
		return code
	}
	if rp.LeaderEpoch < 0 {
		return codeNone // undefined: -1, -1
	}
	epoch, end, err := r.EpochEnd(q, core.Term(rp.LeaderEpoch))
	switch core.KindOf(err) {
	case core.OK:
		p.LeaderEpoch, p.EndOffset = int32(epoch), int64(end)
		return codeNone
	case core.OutOfRange: // an epoch that is yet to come: undefined, too
		return codeNone
	default:
		return code(err)
	}
}
