package kafka

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/protocols/kafka/group"
	"polylog/router"
)

// The types of groups.
const (
	typeClassic  = "classic"
	typeConsumer = "consumer"
)

// listGroups lists the groups in memory and, as Empty ones, those that only have
// committed offsets. Clients ask every broker and put the answers together: a node that
// does not coordinate has no groups, which is no error.
func listGroups(ctx context.Context, c *call, req *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	resp := kmsg.NewPtrListGroupsResponse()
	found := map[string]group.Listing{}
	resp.ErrorCode = c.srv.groups.do(ctx, func(_ time.Time, g *group.Coordinator) {
		g.List(func(l group.Listing) { found[l.ID] = l })
	})
	if resp.ErrorCode == codeNotCoordinator {
		cl := c.cluster()
		if _, ok := cl.otherLeader(); ok {
			resp.ErrorCode = codeNone
		} else { // some node must be the one
			resp.ErrorCode = codeCoordinatorNotAvailable
		}
		return resp
	}
	if resp.ErrorCode != codeNone {
		return resp
	}
	stored, err := c.srv.router.Groups()
	if resp.ErrorCode = groupCode(err); err != nil {
		return resp
	}
	for _, g := range stored {
		if _, known := found[g.Name]; !known {
			found[g.Name] = storedGroup(g)
		}
	}
	for id, l := range found {
		kind := typeClassic
		if l.Consumer {
			kind = typeConsumer
		}
		if !passes(req.StatesFilter, l.State) || !passes(req.TypesFilter, kind) ||
			c.authorizeGroup(router.OpDescribe, id) != codeNone {
			continue
		}
		if !c.grow(ctx, elementBytes+2*len(id)+len(l.ProtocolType)) {
			return resp
		}
		rg := kmsg.NewListGroupsResponseGroup()
		rg.Group, rg.ProtocolType, rg.GroupState, rg.GroupType = id, l.ProtocolType, l.State, kind
		resp.Groups = append(resp.Groups, rg)
	}
	slices.SortFunc(resp.Groups, func(a, b kmsg.ListGroupsResponseGroup) int { return strings.Compare(a.Group, b.Group) })
	return resp
}

// passes reports whether a filter, which allows everything when empty, allows v.
func passes(filter []string, v string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, v) })
}
