package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/protocols/kafka/group"
	"polylog/router"
)

// errNotCoordinator is for who asks another node than the leader.
var errNotCoordinator = core.E(core.NotLeader, "this node does not coordinate Kafka's groups")

// LiveGroups calls fn for each group that is in memory, without its members, in no order. Error
// kind NotLeader, where this node does not coordinate the groups.
func (s *Server) LiveGroups(ctx context.Context, fn func(router.LiveGroup)) error {
	code := s.groups.do(ctx, func(_ time.Time, g *group.Coordinator) {
		g.List(func(l group.Listing) { fn(liveGroup(l)) })
	})
	if code != codeNone {
		return errNotCoordinator
	}
	return nil
}

// LiveGroup is a group with its members; false where it is not in memory. Errors as LiveGroups.
func (s *Server) LiveGroup(ctx context.Context, name string) (live router.LiveGroup, found bool, err error) {
	var classic group.Description
	var consumer group.ConsumerDescription
	var isClassic, isConsumer bool
	code := s.groups.do(ctx, func(_ time.Time, g *group.Coordinator) {
		classic, isClassic = g.Describe(name)
		consumer, isConsumer = g.DescribeConsumers(name)
	})
	switch {
	case code != codeNone:
		return live, false, errNotCoordinator
	case isClassic:
		live = liveGroup(classic.Listing)
		live.Protocol = classic.Protocol
		for _, m := range classic.Members {
			live.Members = append(live.Members, router.GroupMember{
				ID: m.ID, Instance: m.Instance, ClientID: m.ClientID, Host: m.ClientHost, Assigned: assignedClassic(m.Assignment),
			})
		}
	case isConsumer:
		live = liveGroup(consumer.Listing)
		live.Protocol = consumer.Assignor
		for _, m := range consumer.Members {
			live.Members = append(live.Members, router.GroupMember{
				ID: m.ID, Instance: m.Instance, ClientID: m.ClientID, Host: m.ClientHost, Assigned: s.assigned(m.Assigned),
			})
		}
	}
	return live, isClassic || isConsumer, nil
}

func liveGroup(l group.Listing) router.LiveGroup {
	g := router.LiveGroup{Name: l.ID, State: l.State, Type: typeClassic}
	if l.Consumer {
		g.Type = typeConsumer
	}
	return g
}

// assignedClassic reads what the leading member of a classic group has given to another one. What
// is in no form that clients have is left out.
func assignedClassic(b []byte) []router.Assigned {
	all := []router.Assigned{}
	var a kmsg.ConsumerMemberAssignment
	if len(b) == 0 || a.ReadFrom(b) != nil {
		return all
	}
	for _, t := range a.Topics {
		all = append(all, router.Assigned{Topic: t.Topic, Partitions: t.Partitions})
	}
	return all
}

func (s *Server) assigned(ps []group.Partition) []router.Assigned {
	all := []router.Assigned{}
	eachTopic(ps, func(id core.TopicID, indexes []int32) {
		if t, ok := s.router.TopicByID(id); ok {
			all = append(all, router.Assigned{Topic: t.Name.Name, Partitions: indexes})
		}
	})
	return all
}
