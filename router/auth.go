package router

import "polylog/core"

// Principal is who asks: a user's name, empty for anonymous, and the host that the
// request came from.
type Principal struct {
	Name string
	Host string

	itself bool // the broker: see Itself
}

// Itself is the broker, for a purpose: it alone writes to internal topics and deletes them.
func Itself(purpose string) Principal { return Principal{Name: purpose, itself: true} }

// Operation is what a principal wants to do with a resource.
type Operation uint8

// The operations.
const (
	OpRead Operation = iota + 1
	OpWrite
	OpCreate
	OpDelete
	OpAlter
	OpDescribe
	OpDescribeConfigs
	OpAlterConfigs
)

// ResourceKind is the kind of thing that rights are given for.
type ResourceKind uint8

// The kinds of resources.
const (
	ResourceCluster ResourceKind = iota + 1
	ResourceTopic
	ResourceGroup
	ResourceQueue
	ResourceExchange
	ResourceNamespace
)

// Resource is one thing that rights are given for.
type Resource struct {
	Kind ResourceKind
	Name core.Name // zero for the cluster; of a namespace, Name alone
}

// Authorizer decides who may do what. Authorize returns nil, or an error of kind
// core.Denied. It is called on hot paths and must not block.
type Authorizer interface {
	Authorize(p Principal, op Operation, r Resource) error
}

type allowAll struct{}

func (allowAll) Authorize(Principal, Operation, Resource) error { return nil }

// Authorize asks the Authorizer. The router asks it itself in every method that
// takes a Principal; protocols call this where a method takes none, or where a
// request must be refused before its parts are looked at.
func (r *Router) Authorize(p Principal, op Operation, res Resource) error {
	if res.Kind == ResourceTopic {
		if t, ok := r.state.Topic(res.Name); ok {
			return r.authorizeTopic(p, op, t.Name, t.Internal)
		}
	}
	return r.auth.Authorize(p, op, res)
}

// authorizeTopic is Authorize for a topic that is there. What is in the broker's own is nobody else's
// affair.
func (r *Router) authorizeTopic(p Principal, op Operation, n core.Name, internal bool) error {
	if internal && !p.itself && (op == OpWrite || op == OpDelete) {
		return core.E(core.Denied, "topic %s is the broker's own: nobody else writes to it or deletes it", n)
	}
	return r.auth.Authorize(p, op, topicResource(n))
}

func topicResource(n core.Name) Resource { return Resource{Kind: ResourceTopic, Name: n} }

func groupResource(g string) Resource {
	return Resource{Kind: ResourceGroup, Name: core.Name{Name: g}}
}
