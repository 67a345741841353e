package kafka

import (
	"context"
	"regexp"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
)

// The feature that says that consumer groups of KIP-848 are served.
const (
	groupFeature      = "group.version"
	groupFeatureLevel = 1
)

var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// apiVersions tells the client what the server serves. It is answered in every state
// of a connection, and in version 0 when the client's own is unknown (KIP-511).
func apiVersions(_ context.Context, c *call, req *kmsg.ApiVersionsRequest) {
	resp := kmsg.NewPtrApiVersionsResponse()
	if a := c.srv.apis[kmsg.ApiVersions]; !a.serves(c.version) {
		resp.ErrorCode = codeUnsupportedVersion
		resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{a.range18()}
		c.replyVersion(resp, 0)
		return
	}
	if c.version >= 3 {
		if !softwareName.MatchString(req.ClientSoftwareName) || !softwareName.MatchString(req.ClientSoftwareVersion) {
			resp.ErrorCode = codeInvalidRequest
			c.reply(resp)
			return
		}
		c.softwareName, c.softwareVersion = req.ClientSoftwareName, req.ClientSoftwareVersion
	}
	if c.version >= 5 && !c.isUs(req) {
		resp.ErrorCode = codeRebootstrapRequired
		c.reply(resp)
		return
	}
	// Before version 4 clients take a feature that may be off (from version 0) amiss.
	if c.version >= 4 {
		resp.SupportedFeatures = []kmsg.ApiVersionsResponseSupportedFeature{{Name: groupFeature, MaxVersion: groupFeatureLevel}}
	}
	if c.version >= 3 {
		resp.FinalizedFeatures = []kmsg.ApiVersionsResponseFinalizedFeature{
			{Name: groupFeature, MinVersionLevel: groupFeatureLevel, MaxVersionLevel: groupFeatureLevel},
		}
		resp.FinalizedFeaturesEpoch = 0
	}
	for _, a := range c.srv.apis {
		if a != nil {
			resp.ApiKeys = append(resp.ApiKeys, a.range18())
		}
	}
	c.reply(resp)
}

func (a *api) range18() kmsg.ApiVersionsResponseApiKey {
	return kmsg.ApiVersionsResponseApiKey{ApiKey: a.key.Int16(), MinVersion: a.advertisedMin(), MaxVersion: a.max}
}

// isUs reports whether the client meant to reach this node, as far as it says (KIP-1242).
func (c *call) isUs(req *kmsg.ApiVersionsRequest) bool {
	info := c.srv.router.Cluster()
	return (req.ClusterID == nil || *req.ClusterID == info.ClusterID) && (req.NodeID < 0 || req.NodeID == core.BrokerID(info.NodeID))
}
