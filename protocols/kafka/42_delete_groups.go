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

func deleteGroups(ctx context.Context, c *call, req *kmsg.DeleteGroupsRequest) *kmsg.DeleteGroupsResponse {
	resp := kmsg.NewPtrDeleteGroupsResponse()
	for _, id := range req.Groups {
		rg := kmsg.NewDeleteGroupsResponseGroup()
		rg.Group, rg.ErrorCode = id, c.deleteGroup(ctx, id)
		resp.Groups = append(resp.Groups, rg)
	}
	return resp
}

func (c *call) deleteGroup(ctx context.Context, id string) int16 {
	if code := c.authorizeGroup(router.OpDelete, id); code != codeNone {
		return code
	}
	var known bool
	var answer group.Code
	code := c.srv.groups.do(ctx, func(_ time.Time, g *group.Coordinator) { known, answer = g.CheckDelete(id) })
	if code != codeNone {
		return code
	}
	if answer != group.None {
		return int16(answer)
	}
	err := c.srv.router.DeleteGroup(ctx, c.principal(), id)
	if errors.Is(err, core.NotFound) && known {
		return codeNone // it had no offsets
	}
	return groupCode(err)
}

// groupCode is the code for err where groups are concerned.
func groupCode(err error) int16 {
	switch core.KindOf(err) {
	case core.NotFound:
		return codeGroupIDNotFound
	case core.Denied:
		return codeGroupAuthorizationFailed
	case core.NotLeader, core.Closed:
		return codeNotCoordinator
	case core.Unavailable, core.Uncertain:
		return codeCoordinatorNotAvailable
	case core.TooLarge:
		return codeInvalidCommitOffsetSize
	default:
		return code(err)
	}
}
