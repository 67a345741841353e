package router

import (
	"context"

	"polylog/core"
	"polylog/router/state"
)

// OffsetCommit sets a group's position on a queue.
type OffsetCommit struct {
	Queue       core.QueueID
	Offset      core.Offset
	LeaderEpoch int32 // -1: none
	Metadata    string
}

// GroupMeta describes the group that commits.
type GroupMeta struct {
	ProtocolType string // "consumer", …; empty leaves what was said before
}

// GroupOffset is a committed position.
type GroupOffset struct {
	Queue       core.QueueID
	Topic       *Topic
	Partition   int32
	Offset      core.Offset
	LeaderEpoch int32
	Metadata    string
	CommitTime  int64 // ms
}

// Group is a group that has committed offsets.
type Group struct {
	Name         string
	ProtocolType string
	LastCommit   int64 // ms
}

// CommitOffsets keeps positions of a group, which comes into being with its first
// commit. There is one error for each commit, nil or of kind TooLarge (metadata) or
// NotFound (queue); the last result is an error of the whole. Without commits it
// says that the group lives on: its offsets count as used now.
func (r *Router) CommitOffsets(ctx context.Context, p Principal, group string, commits []OffsetCommit, meta GroupMeta) ([]error, error) {
	if err := r.auth.Authorize(p, OpRead, groupResource(group)); err != nil {
		return nil, err
	}
	limit := r.BrokerConfig().OffsetMetadataMaxBytes
	errs := make([]error, len(commits))
	cmd := state.CommitOffsets{Group: group, ProtocolType: meta.ProtocolType}
	at := make([]int, 0, len(commits)) // which commit each of cmd.Offsets is
	for i, c := range commits {
		if len(c.Metadata) > limit {
			errs[i] = core.E(core.TooLarge, "offset metadata of %d bytes, at most %d are kept", len(c.Metadata), limit)
			continue
		}
		cmd.Offsets = append(cmd.Offsets, state.OffsetCommit(c))
		at = append(at, i)
	}
	if len(at) == 0 && len(commits) > 0 {
		return errs, nil
	}
	res, err := r.propose(ctx, cmd.Command())
	if err != nil {
		return nil, err
	}
	for i, k := range state.DecodeKinds(res.Body) {
		if k != core.OK && i < len(at) {
			errs[at[i]] = core.E(k, "queue %d does not exist", cmd.Offsets[i].Queue)
		}
	}
	return errs, nil
}

// FetchOffset finds a group's position on a queue; ok is false when it has none.
func (r *Router) FetchOffset(group string, q core.QueueID) (o GroupOffset, ok bool, err error) {
	so, ok, err := state.ReadOffset(r.state.Store(), group, q)
	if err != nil || !ok {
		return o, false, err
	}
	o, ok = r.groupOffset(so)
	return o, ok, nil
}

// Offsets are all positions of a group; none when it does not exist.
func (r *Router) Offsets(group string) ([]GroupOffset, error) {
	found, err := state.ReadOffsets(r.state.Store(), group)
	if err != nil {
		return nil, err
	}
	offsets := make([]GroupOffset, 0, len(found))
	for _, so := range found {
		if o, ok := r.groupOffset(so); ok {
			offsets = append(offsets, o)
		}
	}
	return offsets, nil
}

// groupOffset adds the topic; false when it was deleted just now.
func (r *Router) groupOffset(o state.GroupOffset) (GroupOffset, bool) {
	t, partition, ok := r.TopicOfQueue(o.Queue)
	return GroupOffset{o.Queue, t, partition, o.Offset, o.LeaderEpoch, o.Metadata, o.Time}, ok
}

// Group finds a group that has committed.
func (r *Router) Group(name string) (Group, bool, error) {
	g, ok, err := state.ReadGroup(r.state.Store(), name)
	return Group{g.Name, g.ProtocolType, g.Time}, ok, err
}

// Groups are all groups that have committed, by name.
func (r *Router) Groups() (groups []Group, err error) {
	sn, err := r.state.Store().Snapshot()
	if err != nil {
		return nil, err
	}
	defer sn.Close()
	err = state.ReadGroups(sn, func(g state.Group) bool {
		groups = append(groups, Group{g.Name, g.ProtocolType, g.Time})
		return true
	})
	return groups, err
}

// DeleteGroup forgets a group and its positions. Whether members are left is for
// the protocol to know. NotFound when the group has never committed.
func (r *Router) DeleteGroup(ctx context.Context, p Principal, group string) error {
	if err := r.auth.Authorize(p, OpDelete, groupResource(group)); err != nil {
		return err
	}
	cmd := state.DeleteGroup{Group: group}
	_, err := r.propose(ctx, cmd.Command())
	return err
}

// DeleteOffsets forgets a group's positions on queues. There is one error for each
// queue, nil or NotFound; the last result is an error of the whole.
func (r *Router) DeleteOffsets(ctx context.Context, p Principal, group string, qs []core.QueueID) ([]error, error) {
	if err := r.auth.Authorize(p, OpDelete, groupResource(group)); err != nil {
		return nil, err
	}
	cmd := state.DeleteOffsets{Group: group, Queues: qs}
	res, err := r.propose(ctx, cmd.Command())
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(qs))
	for i, k := range state.DecodeKinds(res.Body) {
		if k != core.OK && i < len(errs) {
			errs[i] = core.E(k, "group %s has no offset on queue %d", group, qs[i])
		}
	}
	return errs, nil
}

// OnGroupActive says how to know whether a group has members, which keeps its
// offsets from expiring. fn must not block.
func (r *Router) OnGroupActive(fn func(group string) bool) {
	r.activeMu.Lock()
	defer r.activeMu.Unlock()
	r.active = fn
}

func (r *Router) groupActive(group string) bool {
	r.activeMu.Lock()
	fn := r.active
	r.activeMu.Unlock()
	return fn != nil && fn(group)
}
