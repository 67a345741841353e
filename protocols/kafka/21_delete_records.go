package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
)

// deleteRecords moves the start of partitions, for good.
func deleteRecords(ctx context.Context, c *call, req *kmsg.DeleteRecordsRequest) *kmsg.DeleteRecordsResponse {
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	stale := c.fresh(ctx)
	resp := kmsg.NewPtrDeleteRecordsResponse()
	var trims []router.TrimRequest
	var at [][2]int // where each trim's answer goes: topic and partition in resp
	for i := range req.Topics {
		rt := &req.Topics[i]
		t := kmsg.NewDeleteRecordsResponseTopic()
		t.Topic = rt.Topic
		topic, unknown := c.topicFor(router.OpDelete, rt.Topic, core.TopicID{}, false)
		for j := range rt.Partitions {
			p := kmsg.NewDeleteRecordsResponseTopicPartition()
			p.Partition, p.LowWatermark = rt.Partitions[j].Partition, -1
			p.ErrorCode = unknown
			if stale != nil {
				p.ErrorCode = code(stale)
			} else if topic != nil {
				if q, ok := topic.Queue(p.Partition); ok {
					trims = append(trims, router.TrimRequest{Queue: q, Before: core.Offset(rt.Partitions[j].Offset)})
					at = append(at, [2]int{i, j})
				} else {
					p.ErrorCode = codeUnknownTopicOrPartition
				}
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	if len(trims) == 0 {
		return resp
	}
	results, err := c.srv.router.Trim(ctx, c.principal(), trims)
	for k := range trims {
		p := &resp.Topics[at[k][0]].Partitions[at[k][1]]
		switch {
		case err != nil:
			p.ErrorCode = code(err)
		case results[k].Err != nil:
			p.ErrorCode = code(results[k].Err)
		default:
			p.LowWatermark = int64(results[k].Start)
		}
	}
	return resp
}
