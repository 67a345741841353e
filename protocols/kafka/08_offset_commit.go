package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/protocols/kafka/group"
	"polylog/router"
)

// offsetCommitTopicID is the version that names topics by id.
const offsetCommitTopicID = 10

func offsetCommit(ctx context.Context, c *call, req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	resp := kmsg.NewPtrOffsetCommitResponse()
	refused := c.authorizeGroup(router.OpRead, req.Group)
	if refused == codeNone { // first: topics may be news to a node that does not coordinate
		refused = c.srv.groups.lead(ctx)
	}
	var commits []router.OffsetCommit
	var ps []group.Partition // what they are of
	var codes []*int16       // where to answer them
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		rt.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(t.Partitions))
		topic, code := c.topicFor(router.OpRead, t.Topic, t.TopicID, req.Version >= offsetCommitTopicID)
		for i, p := range t.Partitions {
			rp := &rt.Partitions[i]
			rp.Partition = p.Partition
			queue, ok := queueOf(topic, p.Partition)
			switch {
			case refused != codeNone:
				rp.ErrorCode = refused
			case code != codeNone:
				rp.ErrorCode = code
			case !ok:
				rp.ErrorCode = codeUnknownTopicOrPartition
			default:
				codes = append(codes, &rp.ErrorCode)
				ps = append(ps, group.Partition{Topic: topic.ID, Index: p.Partition})
				commits = append(commits, router.OffsetCommit{
					Queue: queue, Offset: core.Offset(p.Offset), LeaderEpoch: p.LeaderEpoch, Metadata: text(p.Metadata),
				})
			}
		}
		resp.Topics = append(resp.Topics, rt)
	}
	if len(commits) == 0 {
		return resp
	}
	errs, code := c.commit(ctx, req, commits, ps)
	for i, p := range codes {
		*p = code
		if code == codeNone && errs[i] != nil {
			*p = partitionCode(errs[i])
		}
	}
	return resp
}

// commit keeps offsets if the group lets the client: an error for each, or a code for
// all of them.
func (c *call) commit(ctx context.Context, req *kmsg.OffsetCommitRequest, commits []router.OffsetCommit, ps []group.Partition) ([]error, int16) {
	var answer group.Code
	var meta router.GroupMeta
	code := c.srv.groups.do(ctx, func(now time.Time, g *group.Coordinator) {
		answer = g.CheckCommit(now, req.Group, req.MemberID, text(req.InstanceID), req.Generation, ps)
		meta.ProtocolType = g.ProtocolType(req.Group)
	})
	if code != codeNone {
		return nil, code
	}
	if answer != group.None {
		return nil, int16(answer)
	}
	errs, err := c.srv.router.CommitOffsets(ctx, c.principal(), req.Group, commits, meta)
	return errs, groupCode(err)
}

// partitionCode is the code for what became of one partition's offset.
func partitionCode(err error) int16 {
	if core.KindOf(err) == core.TooLarge {
		return codeOffsetMetadataTooLarge
	}
	return code(err)
}
