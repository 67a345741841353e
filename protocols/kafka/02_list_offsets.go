package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
)

// The timestamps that mean something else (KIP-79, KIP-734, KIP-405, KIP-1005, KIP-1023).
const (
	offsetLatest          = -1
	offsetEarliest        = -2
	offsetMaxTimestamp    = -3
	offsetEarliestLocal   = -4
	offsetLatestTiered    = -5
	offsetEarliestPending = -6
)

// listOffsets finds offsets by time.
func listOffsets(ctx context.Context, c *call, req *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	limited, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	resp := kmsg.NewPtrListOffsetsResponse()
	refused := c.leads(limited)
	seen := once[partition]{}
	for i := range req.Topics {
		rt := &req.Topics[i]
		t := kmsg.NewListOffsetsResponseTopic()
		t.Topic = rt.Topic
		topic, code := c.topicFor(router.OpDescribe, rt.Topic, core.TopicID{}, false)
		for j := range rt.Partitions {
			if !c.grow(ctx, elementBytes) {
				return resp
			}
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition = rt.Partitions[j].Partition
			p.Timestamp, p.Offset, p.LeaderEpoch = -1, -1, -1
			switch {
			case !seen.first(partition{rt.Topic, p.Partition}): // as Kafka does
				p.ErrorCode = codeInvalidRequest
			case refused != codeNone:
				p.ErrorCode = refused
			case topic == nil:
				p.ErrorCode = code
			default:
				p.ErrorCode = c.listOffset(limited, topic, &rt.Partitions[j], req.IsolationLevel, &p)
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// leads is codeNone where this node leads and its state has everything that anybody was
// told is done: a node that was cut off may think that it leads, a while longer.
func (c *call) leads(ctx context.Context) int16 {
	r := c.srv.router
	if !r.IsLeader() {
		return codeNotLeaderOrFollower
	}
	return code(r.Sync(ctx))
}

// listOffset fills p's offset and timestamp, and returns its code.
func (c *call) listOffset(ctx context.Context, t *router.Topic, rp *kmsg.ListOffsetsRequestTopicPartition, isolation int8, p *kmsg.ListOffsetsResponseTopicPartition) int16 {
	r := c.srv.router
	q, ok := t.Queue(rp.Partition)
	if !ok {
		return codeUnknownTopicOrPartition
	}
	term := int32(r.Term())
	if code := leaderEpochCode(rp.CurrentLeaderEpoch, term); code != codeNone {
		return code
	}
	switch rp.Timestamp {
	case offsetLatest, offsetEarliest, offsetEarliestLocal:
		head, err := r.Head(q)
		if err != nil {
			return code(err)
		}
		p.LeaderEpoch = term
		switch {
		case rp.Timestamp != offsetLatest:
			p.Offset = int64(head.Start)
		case isolation == readCommitted:
			p.Offset = int64(head.Stable)
		default:
			p.Offset = int64(head.End)
		}
		return codeNone
	case offsetLatestTiered, offsetEarliestPending:
		return codeNone // nothing is in remote storage: -1
	}
	if rp.Timestamp < offsetMaxTimestamp {
		return codeInvalidRequest
	}
	// From here on a batch is looked into, which may mean inflating it.
	if err := enter(ctx, c.srv.inflating.heavy); err != nil {
		return code(err)
	}
	defer func() { <-c.srv.inflating.heavy }()
	find := func() (core.Offset, int64, bool, error) { return r.OffsetByTime(ctx, q, rp.Timestamp) }
	if rp.Timestamp == offsetMaxTimestamp {
		find = func() (core.Offset, int64, bool, error) { return r.OffsetOfMaxTime(ctx, q) }
	}
	off, ts, ok, err := find()
	if err != nil {
		return code(err)
	}
	if ok {
		p.Offset, p.Timestamp, p.LeaderEpoch = int64(off), ts, term
	}
	return codeNone
}
