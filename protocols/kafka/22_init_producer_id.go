package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
)

// initProducerID gives an idempotent producer its identity. Transactional ones are
// refused with a code that no client retries on.
func initProducerID(ctx context.Context, c *call, req *kmsg.InitProducerIDRequest) *kmsg.InitProducerIDResponse {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if req.TransactionalID != nil {
		resp.ErrorCode = codeUnsupportedVersion
		if *req.TransactionalID == "" {
			resp.ErrorCode = codeInvalidRequest
		}
		return resp
	}
	if c.mayCluster(router.OpWrite) != nil {
		resp.ErrorCode = codeClusterAuthorizationFailed
		return resp
	}
	ctx, cancel := context.WithTimeout(ctx, autoCreateWait)
	defer cancel()
	id, err := c.srv.router.NewProducerID(ctx)
	switch core.KindOf(err) {
	case core.OK:
		resp.ProducerID, resp.ProducerEpoch = id, 0
	case core.Unavailable, core.Uncertain, core.NotLeader, core.Closed:
		// An id more or less does no harm: try again. COORDINATOR_NOT_AVAILABLE would have Java's producer
		// look for the coordinator of a transactional id that it does not have (KAFKA-14417).
		resp.ErrorCode = codeCoordinatorLoadInProgress
	default:
		resp.ErrorCode = code(err)
	}
	return resp
}
