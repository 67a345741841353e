package kafka

import (
	"bytes"
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/protocols/kafka/group"
	"polylog/router"
)

func syncGroup(ctx context.Context, c *call, req *kmsg.SyncGroupRequest) {
	refuse := func(code int16) { c.reply(syncResponse(group.Synced{Code: group.Code(code)})) }
	if code := c.authorizeGroup(router.OpRead, req.Group); code != codeNone {
		refuse(code)
		return
	}
	s := group.Sync{
		Group:        req.Group,
		Member:       req.MemberID,
		Instance:     text(req.InstanceID),
		Generation:   req.Generation,
		ProtocolType: req.ProtocolType,
		Protocol:     req.Protocol,
		Assignments:  make([]group.Assignment, len(req.GroupAssignment)),
	}
	for i, a := range req.GroupAssignment {
		s.Assignments[i] = group.Assignment{Member: a.MemberID, Data: bytes.Clone(a.MemberAssignment)}
	}
	c.park()
	code := c.srv.groups.do(ctx, func(now time.Time, g *group.Coordinator) {
		g.Sync(now, s, c.synced)
	})
	if code != codeNone {
		refuse(code)
	}
}

// synced answers a SyncGroup. Where there is no memory for the assignment, the member
// looks for its coordinator and joins again.
func (c *call) synced(s group.Synced) {
	if !c.tryGrow(len(s.Assignment)) {
		s = group.Synced{Code: group.CoordinatorUnavailable}
	}
	c.reply(syncResponse(s))
}

func syncResponse(s group.Synced) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode = int16(s.Code)
	resp.MemberAssignment = s.Assignment
	if s.Code == group.None {
		resp.ProtocolType, resp.Protocol = &s.ProtocolType, &s.Protocol
	}
	return resp
}
