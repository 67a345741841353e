package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/protocols/kafka/group"
	"polylog/router"
)

// From these versions on there are: errors beside those of partitions, several groups
// in a request, and topics by id.
const (
	offsetFetchErrors  = 2
	offsetFetchGroups  = 8
	offsetFetchTopicID = 10
)

func offsetFetch(ctx context.Context, c *call, req *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	resp := kmsg.NewPtrOffsetFetchResponse()
	if req.Version >= offsetFetchGroups {
		type key struct {
			group string
			all   bool
		}
		seen := once[key]{}
		for i := range req.Groups {
			if g := &req.Groups[i]; !seen.first(key{g.Group, g.Topics == nil}) {
				rg := kmsg.NewOffsetFetchResponseGroup() // no client asks so
				rg.Group, rg.ErrorCode = req.Groups[i].Group, codeInvalidRequest
				if !c.grow(ctx, elementBytes+len(rg.Group)) {
					return resp
				}
				resp.Groups = append(resp.Groups, rg)
				continue
			}
			resp.Groups = append(resp.Groups, c.groupOffsets(ctx, &req.Groups[i]))
		}
		return resp
	}
	g := oldOffsetFetch(req)
	rg := c.groupOffsets(ctx, &g)
	if rg.ErrorCode != codeNone && req.Version < offsetFetchErrors {
		rg.Topics = allPartitions(&g, rg.ErrorCode)
	}
	resp.ErrorCode = rg.ErrorCode
	for _, t := range rg.Topics {
		rt := kmsg.NewOffsetFetchResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch = p.Partition, p.Offset, p.LeaderEpoch
			rp.Metadata, rp.ErrorCode = p.Metadata, p.ErrorCode
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// oldOffsetFetch is a request for one group in the form of one for several.
func oldOffsetFetch(req *kmsg.OffsetFetchRequest) kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = req.Group
	if req.Topics != nil {
		g.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, len(req.Topics))
	}
	for i, t := range req.Topics {
		g.Topics[i] = kmsg.OffsetFetchRequestGroupTopic{Topic: t.Topic, Partitions: t.Partitions}
	}
	return g
}

// groupOffsets answers for one group. Null topics mean all that it has offsets for. What
// has no offset, be it an unknown group, topic or partition, is no error: its offset is -1.
func (c *call) groupOffsets(ctx context.Context, g *kmsg.OffsetFetchRequestGroup) kmsg.OffsetFetchResponseGroup {
	rg := kmsg.NewOffsetFetchResponseGroup()
	rg.Group = g.Group
	if !c.grow(ctx, elementBytes+len(rg.Group)) {
		return rg
	}
	if rg.ErrorCode = c.authorizeGroup(router.OpDescribe, g.Group); rg.ErrorCode != codeNone {
		return rg
	}
	if rg.ErrorCode = c.srv.groups.current(ctx); rg.ErrorCode != codeNone {
		return rg
	}
	var answer group.Code
	rg.ErrorCode = c.srv.groups.do(ctx, func(_ time.Time, gs *group.Coordinator) {
		answer = gs.CheckFetch(g.Group, text(g.MemberID), g.MemberEpoch)
	})
	if rg.ErrorCode == codeNone {
		rg.ErrorCode = int16(answer)
	}
	if rg.ErrorCode != codeNone {
		return rg
	}
	var err error
	if g.Topics == nil {
		rg.Topics, err = c.allOffsets(ctx, g.Group)
	} else {
		rg.Topics, err = c.someOffsets(ctx, g)
	}
	if rg.ErrorCode = groupCode(err); err != nil {
		c.srv.log.Error("cannot read offsets of consumer group", "group", g.Group, "err", err)
		rg.Topics = nil
	}
	return rg
}

func (c *call) allOffsets(ctx context.Context, id string) ([]kmsg.OffsetFetchResponseGroupTopic, error) {
	offsets, err := c.srv.router.Offsets(id)
	if err != nil {
		return nil, err
	}
	var topics []kmsg.OffsetFetchResponseGroupTopic
	at := map[core.TopicID]int{}
	for _, o := range offsets {
		t := o.Topic
		if t == nil || t.Name.Namespace != c.srv.opts.Namespace || c.may(router.OpDescribe, t.Name) != nil {
			continue
		}
		if !c.grow(ctx, elementBytes+2*len(o.Metadata)) {
			return nil, nil
		}
		i, ok := at[t.ID]
		if !ok {
			i = len(topics)
			at[t.ID] = i
			rt := kmsg.NewOffsetFetchResponseGroupTopic()
			rt.Topic, rt.TopicID = t.Name.Name, t.ID
			topics = append(topics, rt)
		}
		topics[i].Partitions = append(topics[i].Partitions, committed(o.Partition, &o))
	}
	return topics, nil
}

func (c *call) someOffsets(ctx context.Context, g *kmsg.OffsetFetchRequestGroup) ([]kmsg.OffsetFetchResponseGroupTopic, error) {
	topics := make([]kmsg.OffsetFetchResponseGroupTopic, len(g.Topics))
	for i, t := range g.Topics {
		rt := &topics[i]
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		topic, code := c.topicFor(router.OpDescribe, t.Topic, t.TopicID, c.version >= offsetFetchTopicID)
		if code == codeUnknownTopicOrPartition {
			code = codeNone
		}
		for _, p := range t.Partitions {
			if !c.grow(ctx, elementBytes) {
				return nil, nil
			}
			rp := committed(p, nil)
			rp.ErrorCode = code
			if q, ok := queueOf(topic, p); ok && code == codeNone {
				o, found, err := c.srv.router.FetchOffset(g.Group, q)
				if err != nil {
					return nil, err
				}
				if found && c.grow(ctx, 2*len(o.Metadata)) {
					rp = committed(p, &o)
				}
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
	}
	return topics, nil
}

// committed is a partition's part of the answer; o is nil where there is no offset.
func committed(partition int32, o *router.GroupOffset) kmsg.OffsetFetchResponseGroupTopicPartition {
	rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	rp.Partition, rp.Offset, rp.Metadata = partition, -1, new("")
	if o != nil {
		rp.Offset, rp.LeaderEpoch, rp.Metadata = int64(o.Offset), o.LeaderEpoch, &o.Metadata
	}
	return rp
}

// allPartitions answers every partition with one code, for versions that have no other
// place for it.
func allPartitions(g *kmsg.OffsetFetchRequestGroup, code int16) []kmsg.OffsetFetchResponseGroupTopic {
	topics := make([]kmsg.OffsetFetchResponseGroupTopic, len(g.Topics))
	for i, t := range g.Topics {
		topics[i].Topic = t.Topic
		for _, p := range t.Partitions {
			rp := committed(p, nil)
			rp.ErrorCode = code
			topics[i].Partitions = append(topics[i].Partitions, rp)
		}
	}
	return topics
}
