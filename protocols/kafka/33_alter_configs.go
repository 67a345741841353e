package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/router"
)

// alterConfigs replaces the configuration of resources: keys that are not named go back
// to their defaults.
func alterConfigs(ctx context.Context, c *call, req *kmsg.AlterConfigsRequest) *kmsg.AlterConfigsResponse {
	ctx, cancel := within(ctx, 0)
	defer cancel()
	stale := c.fresh(ctx)
	resp := kmsg.NewPtrAlterConfigsResponse()
	for i := range req.Resources {
		rr := &req.Resources[i]
		r := kmsg.NewAlterConfigsResponseResource()
		r.ResourceType, r.ResourceName = rr.ResourceType, rr.ResourceName
		var changes []router.ConfigChange
		err := stale
		for j := range rr.Configs {
			if rr.Configs[j].Value == nil {
				err = badRequest(codeInvalidConfig, "null value for configuration %s", rr.Configs[j].Name)
				break
			}
			changes = append(changes, router.ConfigChange{Key: rr.Configs[j].Name, Op: router.ConfigSet, Value: *rr.Configs[j].Value})
		}
		if err == nil {
			err = c.alterConfig(ctx, rr.ResourceType, rr.ResourceName, changes, req.ValidateOnly, true)
		}
		if err != nil {
			r.ErrorCode, r.ErrorMessage = adminCode(err), message(err)
		}
		resp.Resources = append(resp.Resources, r)
	}
	return resp
}

// alterConfig changes one resource.
func (c *call) alterConfig(ctx context.Context, kind kmsg.ConfigResourceType, name string, changes []router.ConfigChange, validateOnly, replaceAll bool) error {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		if err := router.CheckTopicName(name); err != nil {
			return badRequest(codeInvalidTopic, "%s", err.Error())
		}
		return c.srv.router.AlterTopicConfig(ctx, c.principal(), c.topicName(name), changes, validateOnly, replaceAll)
	case kmsg.ConfigResourceTypeBroker:
		if err := c.mayCluster(router.OpAlterConfigs); err != nil {
			return &requestError{codeClusterAuthorizationFailed, err}
		}
		if err := c.checkBrokerName(name); err != nil {
			return err
		}
		return c.srv.router.AlterBrokerConfig(ctx, c.principal(), changes, validateOnly, replaceAll)
	default:
		return badRequest(codeInvalidRequest, "configuration of resource type %d cannot be changed", kind)
	}
}
