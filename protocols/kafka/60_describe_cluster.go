package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	endpointBrokers            = 1
	codeMismatchedEndpoint     = 114
	codeUnsupportedEndpoint115 = 115
)

// describeCluster tells who is who. Controllers are not reachable by clients.
func describeCluster(_ context.Context, c *call, req *kmsg.DescribeClusterRequest) *kmsg.DescribeClusterResponse {
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.EndpointType = req.EndpointType
	if c.version >= 1 && req.EndpointType != endpointBrokers {
		resp.ErrorCode = codeUnsupportedEndpoint115
		if req.EndpointType == 2 {
			resp.ErrorCode = codeMismatchedEndpoint
		}
		return resp
	}
	cl := c.cluster()
	resp.ClusterID, resp.ControllerID = cl.id, cl.leader
	for _, n := range cl.nodes {
		resp.Brokers = append(resp.Brokers, kmsg.DescribeClusterResponseBroker{NodeID: n.id, Host: n.host, Port: n.port, Rack: n.rack})
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = c.clusterOperations()
	}
	return resp
}
