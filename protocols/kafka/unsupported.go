package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
)

// The APIs in this file are served so that tools get a plain answer: there is nothing
// to list, nothing to do, or the feature is off.

// describeACLs, createACLs and deleteACLs say that no authorizer is configured, which
// tools know how to take.
func describeACLs(context.Context, *call, *kmsg.DescribeACLsRequest) *kmsg.DescribeACLsResponse {
	resp := kmsg.NewPtrDescribeACLsResponse()
	resp.ErrorCode, resp.ErrorMessage = codeSecurityDisabled, new(noAuthorizer)
	return resp
}

const noAuthorizer = "no authorizer is configured"

func createACLs(_ context.Context, _ *call, req *kmsg.CreateACLsRequest) *kmsg.CreateACLsResponse {
	resp := kmsg.NewPtrCreateACLsResponse()
	for range req.Creations {
		resp.Results = append(resp.Results, kmsg.CreateACLsResponseResult{ErrorCode: codeSecurityDisabled, ErrorMessage: new(noAuthorizer)})
	}
	return resp
}

func deleteACLs(_ context.Context, _ *call, req *kmsg.DeleteACLsRequest) *kmsg.DeleteACLsResponse {
	resp := kmsg.NewPtrDeleteACLsResponse()
	for range req.Filters {
		resp.Results = append(resp.Results, kmsg.DeleteACLsResponseResult{ErrorCode: codeSecurityDisabled, ErrorMessage: new(noAuthorizer)})
	}
	return resp
}

// electLeaders has nothing to elect: the log's leader leads every partition.
func electLeaders(_ context.Context, c *call, req *kmsg.ElectLeadersRequest) *kmsg.ElectLeadersResponse {
	resp := kmsg.NewPtrElectLeadersResponse()
	if c.mayCluster(router.OpAlter) != nil {
		resp.ErrorCode = codeClusterAuthorizationFailed
		return resp
	}
	for i := range req.Topics {
		rt := &req.Topics[i]
		t := kmsg.NewElectLeadersResponseTopic()
		t.Topic = rt.Topic
		topic, _ := c.topic(rt.Topic, core.TopicID{}, false)
		for _, n := range rt.Partitions {
			p := kmsg.NewElectLeadersResponseTopicPartition()
			p.Partition, p.ErrorCode = n, codeUnknownTopicOrPartition
			if topic != nil {
				if _, ok := topic.Queue(n); ok {
					p.ErrorCode = codeElectionNotNeeded
				}
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func listPartitionReassignments(_ context.Context, c *call, _ *kmsg.ListPartitionReassignmentsRequest) *kmsg.ListPartitionReassignmentsResponse {
	resp := kmsg.NewPtrListPartitionReassignmentsResponse()
	if c.mayCluster(router.OpDescribe) != nil {
		resp.ErrorCode = codeClusterAuthorizationFailed
	}
	return resp
}

func describeClientQuotas(_ context.Context, c *call, _ *kmsg.DescribeClientQuotasRequest) *kmsg.DescribeClientQuotasResponse {
	resp := kmsg.NewPtrDescribeClientQuotasResponse()
	if c.mayCluster(router.OpDescribeConfigs) != nil {
		resp.ErrorCode = codeClusterAuthorizationFailed
		return resp
	}
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{} // not null, which means failure
	return resp
}
