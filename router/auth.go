package router

import (
	"cmp"

	"polylog/core"
	"polylog/core/wire"
)

// Principal is who asks: a user's name, empty for anonymous, and the host that the
// request came from. Router.Login and its like make those of users.
type Principal struct {
	Name string
	Host string

	login     core.LogIndex // of the user when it logged in; see state.User
	anonymous bool          // it is Name because it has shown nothing
	itself    bool          // the broker: see Itself
	trusted   bool          // see Trusted
	behalf    bool          // see Behalf
	created   int64         // of the user on whose behalf it is, in ms
}

// Itself is the broker, for a purpose: it alone writes to internal topics and deletes them.
func Itself(purpose string) Principal { return Principal{Name: purpose, itself: true} }

// Trusted is somebody who is allowed what it asks for by something else than rights, for a purpose,
// such as a sender whom a hook believes.
func Trusted(purpose, host string) Principal {
	return Principal{Name: purpose, Host: host, trusted: true}
}

// IsUser reports whether it has shown that it is a user, which may be gone since.
func (p *Principal) IsUser() bool { return p.login > 0 }

// Vouches reports whether the broker knows who it is, so that it can stand for the user ids that
// CheckUserID takes from it.
func (p *Principal) Vouches() bool { return p.login > 0 || p.anonymous }

// AppendLogin appends who a principal is for another node, which believes it. What a principal is
// allowed without being a user is not among it.
func (p Principal) AppendLogin(b []byte) []byte {
	b = wire.AppendString(wire.AppendString(b, p.Name), p.Host)
	return wire.AppendBool(wire.AppendUvarint(b, uint64(p.login)), p.anonymous)
}

// ReadLogin reads what AppendLogin has appended.
func ReadLogin(r *wire.Reader) Principal {
	return Principal{Name: r.String(), Host: r.String(), login: core.LogIndex(r.Uvarint()), anonymous: r.Bool()}
}

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

var operationNames = [...]string{
	OpRead: "read", OpWrite: "write to", OpCreate: "create", OpDelete: "delete", OpAlter: "change", OpDescribe: "look at",
	OpDescribeConfigs: "look at the settings of", OpAlterConfigs: "change the settings of",
}

func (o Operation) String() string {
	if int(o) < len(operationNames) {
		return operationNames[o]
	}
	return "use"
}

// ResourceKind is the kind of thing that rights are given for.
type ResourceKind uint8

// The kinds of resources.
const (
	ResourceCluster ResourceKind = iota + 1
	ResourceTopic
	ResourceGroup // of Kafka's consumers; a subscription; a hook
	ResourceQueue
	ResourceExchange
	ResourceNamespace
	ResourceUser
)

var kindNames = [...]string{
	ResourceCluster: "cluster", ResourceTopic: "topic", ResourceGroup: "group", ResourceQueue: "queue",
	ResourceExchange: "exchange", ResourceNamespace: "namespace", ResourceUser: "user",
}

// Resource is one thing that rights are given for.
type Resource struct {
	Kind ResourceKind
	Name core.Name // zero for the cluster; of a namespace or a user, Name alone
}

func (r Resource) String() string {
	if r.Kind == ResourceCluster {
		return "the cluster"
	}
	if r.Kind == ResourceUser && r.Name.Name == "" {
		return "users"
	}
	if r.Name.Namespace == "" {
		return kindNames[r.Kind] + " " + r.Name.Name
	}
	if r.Kind == ResourceExchange {
		return kindNames[r.Kind] + " " + core.Name{Namespace: r.Name.Namespace, Name: cmp.Or(r.Name.Name, defaultExchange)}.String()
	}
	return kindNames[r.Kind] + " " + r.Name.String()
}

// Authorizer decides who may do what. Authorize returns nil, or an error of kind
// core.Denied. It is called on hot paths and must not block.
type Authorizer interface {
	Authorize(p Principal, op Operation, r Resource) error
}

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

// groupResource is a group of Kafka's consumers.
func groupResource(g string) Resource {
	return Resource{Kind: ResourceGroup, Name: core.Name{Name: g}}
}

// namedGroup is a subscription or a hook.
func namedGroup(n core.Name) Resource { return Resource{Kind: ResourceGroup, Name: n} }
