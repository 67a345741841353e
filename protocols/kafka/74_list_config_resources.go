package kafka

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/router"
)

// listConfigResources names what has a configuration. Version 0 asks for client metrics
// only, of which there are none.
func listConfigResources(ctx context.Context, c *call, req *kmsg.ListConfigResourcesRequest) *kmsg.ListConfigResourcesResponse {
	resp := kmsg.NewPtrListConfigResourcesResponse()
	if c.version == 0 {
		return resp
	}
	if c.mayCluster(router.OpDescribeConfigs) != nil {
		resp.ErrorCode = codeClusterAuthorizationFailed
		return resp
	}
	wanted := func(t kmsg.ConfigResourceType) bool {
		return len(req.ResourceTypes) == 0 || slices.Contains(req.ResourceTypes, int8(t))
	}
	add := func(t kmsg.ConfigResourceType, name string) {
		r := kmsg.NewListConfigResourcesResponseConfigResource()
		r.Name, r.Type = name, int8(t)
		resp.ConfigResources = append(resp.ConfigResources, r)
	}
	for _, t := range req.ResourceTypes {
		switch kmsg.ConfigResourceType(t) {
		case kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger,
			kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig:
		default:
			resp.ErrorCode = codeUnsupportedVersion
			return resp
		}
	}
	if wanted(kmsg.ConfigResourceTypeTopic) {
		for _, t := range c.srv.router.Topics(c.srv.opts.Namespace) {
			if !c.grow(ctx, elementBytes) {
				return resp
			}
			add(kmsg.ConfigResourceTypeTopic, t.Name.Name)
		}
	}
	for _, n := range c.cluster().nodes {
		for _, t := range []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger} {
			if wanted(t) {
				add(t, strconv.Itoa(int(n.id)))
			}
		}
	}
	return resp
}
