package router

import (
	"fmt"

	"polylog/core"
	"polylog/router/state"
)

// userRights is the Authorizer that knows the users in the log. While there are none it allows
// everything. Tags give no rights to what is in a namespace, as in RabbitMQ.
type userRights struct {
	state    *state.State
	required bool // that there are some
}

// asksWho reports whether everybody has to be a user: there are some, or are to be. required says that
// they are, until the first one is there; that all were deleted later opens the broker.
func asksWho(s *state.State, required bool) bool {
	return s.HasUsers() || required && !s.HadUsers()
}

// Authorize implements Authorizer. What it allows costs no allocation.
func (a userRights) Authorize(p Principal, op Operation, res Resource) error {
	if p.itself || p.trusted || !asksWho(a.state, a.required) {
		return nil
	}
	u := a.state.User(p.Name)
	if !p.isStill(u) {
		return core.E(core.Denied, "%s", p.whyNotSomebody())
	}
	tags := u
	if p.anonymous {
		tags = nobody // whoever comes without a password administrates nothing
	}
	if allows(u, tags, op, res) {
		return nil
	}
	return &RefusedError{p.Name, op, res}
}

// RefusedError is that a user has no right to do something. It is of kind Denied.
type RefusedError struct {
	User string
	Op   Operation
	Resource
}

// Error says who may not do what.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("user %q may not %s %s", e.User, e.Op, e.Resource)
}

// Unwrap gives it its kind.
func (e *RefusedError) Unwrap() error { return core.Denied }

// nobody has no tags.
var nobody = &state.User{}

// isStill reports whether the principal is the user u as it was when it logged in.
func (p *Principal) isStill(u *state.User) bool {
	switch {
	case u == nil:
		return false
	case p.behalf:
		return p.created == u.Created
	}
	return p.anonymous || p.login == u.Login
}

func (p *Principal) whyNotSomebody() string {
	if p.behalf {
		return "user \"" + p.Name + "\" is gone"
	}
	if p.Name == "" || p.login == 0 {
		return "this broker has users: log in"
	}
	return "user \"" + p.Name + "\" is gone, or its password was changed: log in again"
}

// allows reports whether a user may do something. tagged is the user whose tags count.
func allows(u, tagged *state.User, op Operation, res Resource) bool {
	looks := op == OpDescribe || op == OpDescribeConfigs
	administrates := tagged.HasTag(state.TagAdministrator)
	monitors := administrates || tagged.HasTag(state.TagMonitoring)
	switch res.Kind {
	case ResourceUser:
		return administrates
	case ResourceCluster:
		// Whoever may write somewhere may be an idempotent producer: what it writes to asks again.
		return administrates || looks && monitors || op == OpWrite
	case ResourceNamespace:
		_, inside := u.Rights[res.Name.Name]
		switch op {
		case OpRead: // to be in it at all
			return inside
		case OpDescribe, OpDescribeConfigs:
			return inside || monitors
		case OpAlter, OpAlterConfigs: // its policies
			return administrates || inside && tagged.HasTag(state.TagPolicymaker)
		case OpWrite, OpCreate, OpDelete:
		}
		return administrates
	case ResourceTopic, ResourceGroup, ResourceQueue, ResourceExchange:
	}
	if looks && monitors {
		return true
	}
	namespace, name := res.Name.Namespace, res.Name.Name
	if namespace == "" { // Kafka's groups
		namespace = core.DefaultNamespace
	}
	if name == "" && res.Kind == ResourceExchange {
		name = defaultExchange
	}
	g, ok := u.Rights[namespace]
	if !ok {
		return false
	}
	switch op {
	case OpRead:
		return g.Read.Matches(name)
	case OpWrite:
		return g.Write.Matches(name)
	case OpDescribe, OpDescribeConfigs:
		return g.Read.Matches(name) || g.Write.Matches(name) || g.Configure.Matches(name)
	case OpCreate, OpDelete, OpAlter, OpAlterConfigs:
	}
	return g.Configure.Matches(name)
}

// defaultExchange is what rights call the exchange without a name, as in RabbitMQ.
const defaultExchange = "amq.default"
