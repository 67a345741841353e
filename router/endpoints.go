package router

import (
	"context"

	"polylog/core"
	"polylog/router/state"
)

// SecretAttribute is the attribute of a subscription that descriptions of the log leave out.
const SecretAttribute = state.SecretAttribute

// NoteEndpoint keeps a note of up to 4 KiB about the endpoint that a subscription pushes to.
// The error is of kind NotFound where the subscription is gone, or another one of its name is
// there by now.
func (r *Router) NoteEndpoint(ctx context.Context, s *Subscription, note []byte) error {
	cmd := state.NoteEndpoint{Name: s.Name, Created: s.Created, Note: note}
	_, err := r.propose(ctx, cmd.Command())
	return err
}

// Endpoint is the note about a subscription's endpoint; nil when there is none.
func (r *Router) Endpoint(n core.Name) ([]byte, error) {
	return state.ReadEndpoint(r.state.Store(), n)
}

// SubscriptionChanges rises with every change of a subscription, of the note about one's
// endpoint, and of users and their rights, that this node has applied.
func (r *Router) SubscriptionChanges() uint64 {
	return r.state.SubscriptionChanges() + r.state.UsersRevision()
}

// SubscriptionsSeen is up to where somebody knows what changed; the zero one knows nothing.
type SubscriptionsSeen struct {
	any                   bool
	subscriptions, rights uint64
}

// SubscriptionsChanged are the subscriptions that changed since seen, or the note about whose endpoint did, and
// brings seen up to now. all says that any may have.
func (r *Router) SubscriptionsChanged(seen *SubscriptionsSeen) (names []core.Name, all bool) {
	rights := r.state.UsersRevision()
	names, now, known := r.state.SubscriptionsChanged(seen.subscriptions)
	all = !known || !seen.any || seen.rights != rights
	*seen = SubscriptionsSeen{true, now, rights}
	return names, all
}

// Failed is an offset that came back to its group, or was put off.
type Failed = state.Failed

// Failed are the offsets of a queue that a group has not settled and that came back to it, or
// were put off, in their order.
func (r *Router) Failed(q core.QueueID, group string) ([]Failed, error) {
	acks, err := r.state.Acks(q, group)
	if err != nil {
		return nil, err
	}
	return acks.Failed, nil
}
