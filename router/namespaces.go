package router

import (
	"context"

	"polylog/core"
	"polylog/router/state"
)

// Namespace is AMQP's virtual host.
type Namespace = state.Namespace

func namespaceResource(name string) Resource {
	return Resource{Kind: ResourceNamespace, Name: core.Name{Name: name}}
}

// CreateNamespace creates a namespace, or sets the attributes of the one of that name. Error
// kinds: Invalid, Denied, Conflict (one of that name is still being deleted).
func (r *Router) CreateNamespace(ctx context.Context, p Principal, name string, attributes map[string]string) (created bool, err error) {
	if err := r.auth.Authorize(p, OpCreate, namespaceResource(name)); err != nil {
		return false, err
	}
	if err := checkName("namespace", name); err != nil {
		return false, err
	}
	cmd := state.CreateNamespace{Name: name, Attributes: attributes}
	res, err := r.propose(ctx, cmd.Command())
	if err != nil {
		return false, err
	}
	return len(res.Body) == 1 && res.Body[0] == 1, nil
}

// DeleteNamespace deletes a namespace with its queues, exchanges and topics. It is gone at
// once; what it takes to remove them happens afterwards, in the background. Error kinds:
// NotFound, Denied (also for the default one).
func (r *Router) DeleteNamespace(ctx context.Context, p Principal, name string) error {
	if err := r.auth.Authorize(p, OpDelete, namespaceResource(name)); err != nil {
		return err
	}
	cmd := state.DeleteNamespace{Name: name}
	_, err := r.propose(ctx, cmd.Command())
	return err
}

// Namespace finds a namespace. The error is of kind NotFound when there is none.
func (r *Router) Namespace(name string) (*Namespace, error) {
	n, err := state.ReadNamespace(r.state.Store(), name)
	if err == nil && n == nil {
		err = &MissingError{namespaceResource(name)}
	}
	return n, err
}

// Namespaces are all namespaces, by name; those that are being deleted say so.
func (r *Router) Namespaces() ([]*Namespace, error) { return state.ReadNamespaces(r.state.Store()) }
