package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/protocols/kafka/group"
	"polylog/router"
)

func offsetDelete(ctx context.Context, c *call, req *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	if resp.ErrorCode = c.authorizeGroup(router.OpDelete, req.Group); resp.ErrorCode != codeNone {
		return resp
	}
	if req.Group == "" {
		resp.ErrorCode = codeInvalidGroupID
		return resp
	}
	var known bool
	var subscribed func(string) bool
	var answer group.Code
	resp.ErrorCode = c.srv.groups.do(ctx, func(_ time.Time, g *group.Coordinator) {
		known, subscribed, answer = g.CheckDeleteOffsets(req.Group)
	})
	if resp.ErrorCode == codeNone && !known {
		switch _, stored, err := c.srv.router.Group(req.Group); {
		case err != nil:
			resp.ErrorCode = groupCode(err)
		case !stored:
			resp.ErrorCode = codeGroupIDNotFound
		}
	}
	if resp.ErrorCode == codeNone {
		resp.ErrorCode = int16(answer)
	}
	if resp.ErrorCode != codeNone {
		return resp
	}
	var qs []core.QueueID
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetDeleteResponseTopic()
		rt.Topic = t.Topic
		topic, refused := c.topicFor(router.OpRead, t.Topic, core.TopicID{}, false)
		if topic != nil && subscribed(t.Topic) {
			refused = codeGroupSubscribedToTopic
		}
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetDeleteResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, refused
			if refused == codeNone {
				if q, ok := queueOf(topic, p.Partition); ok {
					qs = append(qs, q)
				} else {
					rp.ErrorCode = codeUnknownTopicOrPartition
				}
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	if len(qs) > 0 {
		_, err := c.srv.router.DeleteOffsets(ctx, c.principal(), req.Group, qs)
		if err != nil && !errors.Is(err, core.NotFound) { // nothing there is what was wanted
			resp.ErrorCode, resp.Topics = groupCode(err), nil
		}
	}
	return resp
}

// queueOf is a partition's queue; false when there is no such topic or partition.
func queueOf(t *router.Topic, partition int32) (core.QueueID, bool) {
	if t == nil {
		return 0, false
	}
	return t.Queue(partition)
}
