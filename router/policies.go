package router

import (
	"context"

	"polylog/core"
	"polylog/router/state"
)

// Policy lays limits over the queues, and settings over the exchanges, of a namespace whose
// names match its pattern.
type Policy = state.Policy

// PolicyTarget says what a policy applies to.
type PolicyTarget = state.PolicyTarget

// The targets.
const (
	ToAll           = state.ToAll
	ToQueues        = state.ToQueues
	ToExchanges     = state.ToExchanges
	ToClassicQueues = state.ToClassicQueues
	ToQuorumQueues  = state.ToQuorumQueues
	ToStreams       = state.ToStreams
)

func policyResource(namespace string) Resource {
	return Resource{Kind: ResourceNamespace, Name: core.Name{Name: namespace}}
}

// SetPolicy creates or replaces a policy. It holds for what is there as well as for what
// comes. Error kinds: Invalid, Denied, Limit.
func (r *Router) SetPolicy(ctx context.Context, p Principal, policy Policy) error {
	if err := r.auth.Authorize(p, OpAlter, policyResource(policy.Namespace)); err != nil {
		return err
	}
	if err := policy.Check(); err != nil {
		return err
	}
	cmd := state.SetPolicy{Policy: policy}
	_, err := r.propose(ctx, cmd.Command())
	return err
}

// DeletePolicy deletes a policy, the users' or the operators' of that name. Error kinds:
// NotFound, Denied.
func (r *Router) DeletePolicy(ctx context.Context, p Principal, namespace, name string, operator bool) error {
	if err := r.auth.Authorize(p, OpAlter, policyResource(namespace)); err != nil {
		return err
	}
	cmd := state.DeletePolicy{Namespace: namespace, Operator: operator, Name: name}
	_, err := r.propose(ctx, cmd.Command())
	return err
}

// Policies are the policies of a namespace, the users' or the operators'; of the highest
// priority first. They are not to be changed.
func (r *Router) Policies(namespace string, operator bool) []*Policy {
	return r.state.Policies(namespace, operator)
}

// PoliciesOf are the policies that apply to a queue: at most one of the users' and one of the
// operators', in this order.
func (r *Router) PoliciesOf(q *Queue) []*Policy { return r.state.PoliciesOf(q) }
