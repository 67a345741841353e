package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/router"
)

// incrementalAlterConfigs changes keys of resources and leaves the others.
func incrementalAlterConfigs(ctx context.Context, c *call, req *kmsg.IncrementalAlterConfigsRequest) *kmsg.IncrementalAlterConfigsResponse {
	ctx, cancel := within(ctx, 0)
	defer cancel()
	type key struct {
		kind kmsg.ConfigResourceType
		name string
	}
	named := make(map[key]int, len(req.Resources))
	for i := range req.Resources {
		named[key{req.Resources[i].ResourceType, req.Resources[i].ResourceName}]++
	}
	stale := c.fresh(ctx)
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	for i := range req.Resources {
		rr := &req.Resources[i]
		r := kmsg.NewIncrementalAlterConfigsResponseResource()
		r.ResourceType, r.ResourceName = rr.ResourceType, rr.ResourceName
		changes, err := configChanges(rr)
		if named[key{rr.ResourceType, rr.ResourceName}] > 1 {
			err = badRequest(codeInvalidRequest, "resource %s is named twice", rr.ResourceName)
		}
		if stale != nil {
			err = stale
		}
		if err == nil {
			err = c.alterConfig(ctx, rr.ResourceType, rr.ResourceName, changes, req.ValidateOnly, false)
		}
		if err != nil {
			r.ErrorCode, r.ErrorMessage = adminCode(err), message(err)
		}
		resp.Resources = append(resp.Resources, r)
	}
	return resp
}

// configChanges are a resource's changes in the router's words.
func configChanges(rr *kmsg.IncrementalAlterConfigsRequestResource) ([]router.ConfigChange, error) {
	seen := make(map[string]bool, len(rr.Configs))
	changes := make([]router.ConfigChange, 0, len(rr.Configs))
	for i := range rr.Configs {
		rc := &rr.Configs[i]
		if seen[rc.Name] {
			return nil, badRequest(codeInvalidRequest, "configuration %s is named twice", rc.Name)
		}
		seen[rc.Name] = true
		change := router.ConfigChange{Key: rc.Name, Op: router.ConfigOp(rc.Op)}
		switch {
		case rc.Op < 0 || change.Op > router.ConfigSubtract:
			return nil, badRequest(codeInvalidRequest, "unknown operation %d on configuration %s", rc.Op, rc.Name)
		case rc.Value != nil:
			change.Value = *rc.Value
		case change.Op != router.ConfigDelete:
			return nil, badRequest(codeInvalidConfig, "null value for configuration %s", rc.Name)
		}
		changes = append(changes, change)
	}
	return changes, nil
}
