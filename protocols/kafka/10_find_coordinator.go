package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/router"
)

// Coordinator types.
const (
	coordinatorGroup       = 0
	coordinatorTransaction = 1
)

// findCoordinator names the leader, which coordinates everything.
func findCoordinator(ctx context.Context, c *call, req *kmsg.FindCoordinatorRequest) *kmsg.FindCoordinatorResponse {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if req.Version < 4 {
		f := c.coordinatorOf(req.CoordinatorType, req.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage = f.ErrorCode, f.ErrorMessage
		resp.NodeID, resp.Host, resp.Port = f.NodeID, f.Host, f.Port
		return resp
	}
	seen := once[string]{}
	for _, key := range req.CoordinatorKeys {
		if !seen.first(key) {
			continue
		}
		if !c.grow(ctx, 2*elementBytes+len(key)) {
			break
		}
		resp.Coordinators = append(resp.Coordinators, c.coordinatorOf(req.CoordinatorType, key))
	}
	return resp
}

func (c *call) coordinatorOf(kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	f := kmsg.NewFindCoordinatorResponseCoordinator()
	f.Key, f.NodeID, f.Port = key, -1, -1
	fail := func(code int16, msg string) kmsg.FindCoordinatorResponseCoordinator {
		f.ErrorCode, f.ErrorMessage = code, &msg
		return f
	}
	switch kind {
	case coordinatorGroup:
		if code := c.authorizeGroup(router.OpDescribe, key); code != codeNone {
			return fail(code, "not authorized to access the group")
		}
	case coordinatorTransaction:
	default:
		return fail(codeInvalidRequest, "no coordinators of this type")
	}
	cl := c.cluster()
	leader, ok := cl.leaderNode()
	if !ok {
		return fail(codeCoordinatorNotAvailable, "there is no leader right now")
	}
	f.NodeID, f.Host, f.Port = leader.id, leader.host, leader.port
	return f
}
