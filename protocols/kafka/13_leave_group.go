package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/protocols/kafka/group"
	"polylog/router"
)

func leaveGroup(ctx context.Context, c *call, req *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	resp := kmsg.NewPtrLeaveGroupResponse()
	if resp.ErrorCode = c.authorizeGroup(router.OpRead, req.Group); resp.ErrorCode != codeNone {
		return resp
	}
	if req.Group == "" {
		resp.ErrorCode = codeInvalidGroupID
		return resp
	}
	who := []group.Leaver{{Member: req.MemberID}}
	if req.Version >= 3 {
		who = make([]group.Leaver, len(req.Members))
		for i, m := range req.Members {
			who[i] = group.Leaver{Member: m.MemberID, Instance: text(m.InstanceID), Reason: text(m.Reason)}
		}
	}
	var answers []group.Code
	resp.ErrorCode = c.srv.groups.do(ctx, func(now time.Time, g *group.Coordinator) {
		answers = g.Leave(now, req.Group, who)
	})
	if resp.ErrorCode != codeNone {
		return resp
	}
	if req.Version < 3 {
		resp.ErrorCode = int16(answers[0])
		return resp
	}
	for i, m := range req.Members {
		rm := kmsg.NewLeaveGroupResponseMember()
		rm.MemberID, rm.InstanceID, rm.ErrorCode = m.MemberID, m.InstanceID, int16(answers[i])
		resp.Members = append(resp.Members, rm)
	}
	return resp
}
