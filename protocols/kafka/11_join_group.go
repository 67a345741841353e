package kafka

import (
	"bytes"
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/protocols/kafka/group"
	"polylog/router"
)

func joinGroup(ctx context.Context, c *call, req *kmsg.JoinGroupRequest) {
	refuse := func(code int16) {
		c.reply(joinResponse(req.Version, group.Joined{Code: group.Code(code), Generation: -1, Member: req.MemberID}))
	}
	if code := c.authorizeGroup(router.OpRead, req.Group); code != codeNone {
		refuse(code)
		return
	}
	j := group.Join{
		Group:        req.Group,
		Member:       req.MemberID,
		Instance:     text(req.InstanceID),
		ClientID:     c.clientID,
		ClientHost:   c.clientHost(),
		Session:      time.Duration(req.SessionTimeoutMillis) * time.Millisecond,
		Rebalance:    time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond,
		ProtocolType: req.ProtocolType,
		Protocols:    make([]group.Protocol, len(req.Protocols)),
		Reason:       text(req.Reason),
		NeedsID:      req.Version >= 4, // KIP-394
		CanSkip:      req.Version >= 9, // KIP-814
	}
	for i, p := range req.Protocols {
		j.Protocols[i] = group.Protocol{Name: p.Name, Metadata: bytes.Clone(p.Metadata)}
	}
	c.park()
	code := c.srv.groups.do(ctx, func(now time.Time, g *group.Coordinator) {
		g.Join(now, j, func(r group.Joined) { c.joined(req.Version, r) })
	})
	if code != codeNone {
		refuse(code)
	}
}

// joined answers a JoinGroup. That to the leader has what all members sent; where there is
// no memory for it, it joins again.
func (c *call) joined(version int16, j group.Joined) {
	size := 0
	for _, m := range j.Members {
		size += elementBytes + 2*len(m.Member) + 2*len(m.Instance) + len(m.Metadata)
	}
	if !c.tryGrow(size) {
		j = group.Joined{Code: group.CoordinatorUnavailable, Generation: -1, Member: j.Member}
	}
	c.reply(joinResponse(version, j))
}

func joinResponse(version int16, j group.Joined) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode = int16(j.Code)
	resp.Generation = j.Generation
	resp.MemberID = j.Member
	resp.LeaderID = j.Leader
	resp.SkipAssignment = j.Skip
	if j.Code == group.None {
		resp.ProtocolType = &j.ProtocolType
	}
	if j.Code == group.None || version < 7 { // not nullable before
		resp.Protocol = &j.Protocol
	}
	for _, m := range j.Members {
		rm := kmsg.NewJoinGroupResponseMember()
		rm.MemberID, rm.InstanceID, rm.ProtocolMetadata = m.Member, nullable(m.Instance), m.Metadata
		resp.Members = append(resp.Members, rm)
	}
	return resp
}
