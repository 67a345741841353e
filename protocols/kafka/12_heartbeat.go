package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/protocols/kafka/group"
	"polylog/router"
)

func heartbeat(ctx context.Context, c *call, req *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	resp := kmsg.NewPtrHeartbeatResponse()
	if resp.ErrorCode = c.authorizeGroup(router.OpRead, req.Group); resp.ErrorCode != codeNone {
		return resp
	}
	var answer group.Code
	resp.ErrorCode = c.srv.groups.do(ctx, func(now time.Time, g *group.Coordinator) {
		answer = g.Heartbeat(now, req.Group, req.MemberID, text(req.InstanceID), req.Generation)
	})
	if resp.ErrorCode == codeNone {
		resp.ErrorCode = int16(answer)
	}
	return resp
}
