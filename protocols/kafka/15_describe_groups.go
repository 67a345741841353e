package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/protocols/kafka/group"
	"polylog/router"
)

func describeGroups(ctx context.Context, c *call, req *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	seen := once[string]{}
	for _, id := range req.Groups {
		if !seen.first(id) {
			continue
		}
		d := c.describeGroup(ctx, id, req.Version)
		if c.answer.err != nil {
			break
		}
		if req.IncludeAuthorizedOperations && d.ErrorCode == codeNone {
			d.AuthorizedOperations = c.groupOperations(id)
		}
		resp.Groups = append(resp.Groups, d)
	}
	return resp
}

func (c *call) describeGroup(ctx context.Context, id string, version int16) kmsg.DescribeGroupsResponseGroup {
	rg := kmsg.NewDescribeGroupsResponseGroup()
	rg.Group = id
	if !c.grow(ctx, elementBytes+len(id)) {
		return rg
	}
	if rg.ErrorCode = c.authorizeGroup(router.OpDescribe, id); rg.ErrorCode != codeNone {
		return rg
	}
	var d group.Description
	var known, consumer bool
	rg.ErrorCode = c.srv.groups.do(ctx, func(_ time.Time, g *group.Coordinator) {
		d, known = g.Describe(id)
		_, consumer = g.DescribeConsumers(id)
	})
	if rg.ErrorCode != codeNone {
		return rg
	}
	if !known {
		stored, ok, err := c.srv.router.Group(id)
		switch {
		case err != nil:
			rg.ErrorCode = groupCode(err)
			return rg
		case ok && !consumer:
			d.Listing = storedGroup(stored)
		default:
			d.State = group.Dead.String()
			if version >= 6 {
				rg.ErrorCode = codeGroupIDNotFound
				rg.ErrorMessage = new(fmt.Sprintf("there is no classic group %s", id))
			}
		}
	}
	rg.State, rg.ProtocolType, rg.Protocol = d.State, d.ProtocolType, d.Protocol
	for _, m := range d.Members {
		if !c.grow(ctx, elementBytes+len(m.ID)+len(m.Instance)+len(m.ClientID)+len(m.ClientHost)+len(m.Metadata)+len(m.Assignment)) {
			break
		}
		rm := kmsg.NewDescribeGroupsResponseGroupMember()
		rm.MemberID, rm.InstanceID = m.ID, nullable(m.Instance)
		rm.ClientID, rm.ClientHost = m.ClientID, m.ClientHost
		rm.ProtocolMetadata, rm.MemberAssignment = m.Metadata, m.Assignment
		rg.Members = append(rg.Members, rm)
	}
	return rg
}

// storedGroup is a group that has nothing but committed offsets.
func storedGroup(g router.Group) group.Listing {
	return group.Listing{ID: g.Name, ProtocolType: g.ProtocolType, State: group.Empty.String()}
}

var groupBits = []aclBit{
	{router.OpRead, 1 << aclRead},
	{router.OpDelete, 1 << aclDelete},
	{router.OpDescribe, 1 << aclDescribe},
}

func (c *call) groupOperations(id string) (bits int32) {
	for _, b := range groupBits {
		if c.authorizeGroup(b.op, id) == codeNone {
			bits |= b.bits
		}
	}
	return bits
}
