package router

import (
	"context"

	"polylog/core"
	"polylog/router/state"
)

// Subscription is a named position on a topic or a queue, for consumers that come and go.
type Subscription = state.Subscription

// SeekTo is where a partition's part of a subscription begins.
type SeekTo = state.SeekTo

// SubscriptionSpec asks for a subscription.
type SubscriptionSpec struct {
	Name   core.Name
	Topic  *Topic      // nil: of a queue
	Queue  *Queue      // which must have a group of its own
	From   core.Offset // FromStart or FromEnd, of a new one on a topic
	Config AckConfig
}

// SetSubscription creates a subscription, or changes the attributes of the one that is there,
// and gives partitions that its topic got meanwhile their group. Error kinds: Invalid,
// Denied, NotFound, Limit (partitions, groups), Conflict (it is of something else, or what is
// decided at its creation differs).
func (r *Router) SetSubscription(ctx context.Context, p Principal, s SubscriptionSpec) (sub *Subscription, created bool, err error) {
	if err := r.auth.Authorize(p, OpRead, namedGroup(s.Name)); err != nil {
		return nil, false, err
	}
	if err := checkName("subscription", s.Name.Name); err != nil {
		return nil, false, err
	}
	if err := checkAckConfig(&s.Config); err != nil {
		return nil, false, err
	}
	cmd := state.SetSubscription{Name: s.Name, From: s.From, Config: s.Config}
	switch {
	case s.Topic != nil:
		cmd.Topic = s.Topic.ID
		err = r.auth.Authorize(p, OpRead, topicResource(s.Topic.Name))
	case s.Queue != nil:
		cmd.Queue = s.Queue.ID
		err = r.auth.Authorize(p, OpRead, queueResource(s.Queue.Name))
	default:
		err = core.E(core.Invalid, "subscription %s is of neither a topic nor a queue", s.Name)
	}
	if err == nil {
		err = r.authorizeDeadLetter(p, &s.Config)
		// That of one that is there cannot be changed, and was asked for when it was made.
		if old, found := r.KnownSubscription(s.Name); err != nil && found == nil && old != nil && old.DeadLetter == s.Config.DeadLetter {
			err = nil
		}
	}
	if err != nil {
		return nil, false, err
	}
	res, err := r.propose(ctx, cmd.Command())
	if err != nil {
		return nil, false, err
	}
	sub, err = r.Subscription(ctx, s.Name)
	return sub, len(res.Body) == 1 && res.Body[0] == 1, err
}

// AuthorizeReceive checks that p may have the messages of a subscription: it needs to read it, and
// what it is of. Error kinds: Denied, NotFound (its queue is gone).
func (r *Router) AuthorizeReceive(p Principal, s *Subscription) error {
	if err := r.auth.Authorize(p, OpRead, namedGroup(s.Name)); err != nil {
		return err
	}
	if s.Topic.IsZero() {
		return r.authorizeRead(p, s.Queue)
	}
	t, ok := r.state.TopicByID(s.Topic)
	if !ok {
		return nil // there is nothing to receive
	}
	return r.auth.Authorize(p, OpRead, topicResource(t.Name))
}

// Subscription finds a subscription. One that this node does not know it asks the leader for.
func (r *Router) Subscription(ctx context.Context, n core.Name) (*Subscription, error) {
	s, err := r.KnownSubscription(n)
	if err != nil || s != nil {
		return s, err
	}
	if err := r.Sync(ctx); err != nil {
		return nil, err
	}
	if s, err = r.KnownSubscription(n); err == nil && s == nil {
		err = core.E(core.NotFound, "subscription %s does not exist", n)
	}
	return s, err
}

// KnownSubscription is a subscription as this node has it; nil where it has none.
func (r *Router) KnownSubscription(n core.Name) (*Subscription, error) {
	return state.ReadSubscription(r.state.Store(), n)
}

// Subscriptions are up to limit of a namespace, by name, after from.
func (r *Router) Subscriptions(namespace, from string, limit int) ([]*Subscription, error) {
	return state.ReadSubscriptions(r.state.Store(), namespace, from, limit)
}

// DeleteSubscription deletes a subscription. Error kinds: NotFound, Denied.
func (r *Router) DeleteSubscription(ctx context.Context, p Principal, n core.Name) error {
	if err := r.auth.Authorize(p, OpDelete, namedGroup(n)); err != nil {
		return err
	}
	cmd := state.DeleteSubscription{Name: n}
	_, err := r.propose(ctx, cmd.Command())
	return err
}

// SeekSubscription moves a subscription on a topic: partitions that are not named in to begin
// at from. What was delivered and not settled before is delivered again or not at all, as the
// new position says. Error kinds: NotFound, Denied, Unsupported (on a queue).
func (r *Router) SeekSubscription(ctx context.Context, p Principal, n core.Name, from core.Offset, to []SeekTo) error {
	if err := r.auth.Authorize(p, OpRead, namedGroup(n)); err != nil {
		return err
	}
	cmd := state.SeekSubscription{Name: n, From: from, To: to}
	_, err := r.propose(ctx, cmd.Command())
	return err
}
