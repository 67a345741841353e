package router

import (
	"context"
	"maps"
	"slices"

	"polylog/core"
	"polylog/router/login"
	"polylog/router/state"
)

// User is somebody who can log in.
type User = state.User

// Rights are what a user may do in a namespace.
type Rights = state.Rights

// ScramCredential is what a password is verified by.
type ScramCredential = state.Credential

// ScramMechanism is a hash that SCRAM is used with.
type ScramMechanism = state.ScramMechanism

// The tags that mean something, and the mechanisms.
const (
	TagAdministrator = state.TagAdministrator
	TagMonitoring    = state.TagMonitoring
	TagPolicymaker   = state.TagPolicymaker
	TagManagement    = state.TagManagement
	// TagImpersonator lets a user publish in others' names, as in RabbitMQ
	// (https://www.rabbitmq.com/docs/validated-user-id).
	TagImpersonator = "impersonator"

	ScramSHA256 = state.ScramSHA256
	ScramSHA512 = state.ScramSHA512
)

// UserChange says what is to become of a user.
type UserChange struct {
	New, There bool // it must be new, or must be there
	Tags       *[]string
	// Password is the new one; empty: it is to have none, and can log in by a certificate only.
	Password *string
	// Credentials are in place of Password, for who has it from elsewhere.
	Credentials *[]ScramCredential
	Rights      []Grant // in place of those in their namespaces; others stay
}

// Grant is what a user is to be allowed in a namespace.
type Grant = state.Grant

// Everything is all rights in a namespace.
func Everything(namespace string) Grant {
	return Grant{Namespace: namespace, Configure: ".*", Write: ".*", Read: ".*"}
}

func userResource(name string) Resource {
	return Resource{Kind: ResourceUser, Name: core.Name{Name: name}}
}

// authorizeUsers checks that p may make and change users. While there are none, whoever is on this
// machine may.
func (r *Router) authorizeUsers(p Principal, name string) error {
	if !r.state.HasUsers() && !p.itself && !isLoopback(p.Host) {
		return core.E(core.Denied, "the first user is made from the broker's own machine, or by its settings")
	}
	return r.auth.Authorize(p, OpAlter, userResource(name))
}

// SetUser creates a user, or changes what the change says. A user may change its own password.
// Error kinds: Invalid, Denied, Exists, NotFound, Limit, Conflict (it is, or would have been, the
// only one who can make users; there are users, and it was to be the first).
func (r *Router) SetUser(ctx context.Context, p Principal, name string, c UserChange) (created bool, err error) {
	own := !c.New && c.Tags == nil && c.Credentials == nil && len(c.Rights) == 0 && p.Name == name && p.login > 0 && r.current(&p)
	if !own {
		if err := r.authorizeUsers(p, name); err != nil {
			return false, err
		}
	}
	for i := range c.Rights {
		if err := c.Rights[i].Check(); err != nil {
			return false, err
		}
	}
	cmd := state.SetUser{Name: name, Grants: c.Rights}
	switch {
	case !r.state.HasUsers():
		cmd.Must = state.MustBeFirst // whoever else makes one meanwhile has not asked us
	case c.New:
		cmd.Must = state.MustBeNew
	case c.There, own:
		cmd.Must = state.MustBeThere
	}
	if c.Tags != nil {
		cmd.SetTags, cmd.Tags = true, *c.Tags
	}
	switch {
	case c.Credentials != nil:
		cmd.SetCredentials, cmd.Credentials = true, *c.Credentials
	case c.Password != nil && *c.Password == "":
		cmd.SetCredentials = true
	case c.Password != nil:
		if cmd.Credentials, err = login.Credentials(*c.Password); err != nil {
			return false, err
		}
		cmd.SetCredentials = true
	}
	res, err := r.propose(ctx, cmd.Command())
	if err == nil && cmd.Must == state.MustBeFirst {
		r.logger.Info("there are users from now on, and everybody has to log in", "first", name)
	}
	return err == nil && len(res.Body) == 1 && res.Body[0] == 1, err
}

// SaltedPassword is a password as SCRAM's clients may hand it over: Salted is Hi(password, Salt,
// Iterations) of RFC 5802, section 3.
type SaltedPassword struct {
	Mechanism    ScramMechanism
	Iterations   int
	Salt, Salted []byte
}

// AlterCredentials sets and deletes, all or nothing, what a user's password is verified by, one
// mechanism for itself; the others stay as they are. A user that is not there is made, without tags and
// rights. Error kinds: Invalid, Denied, NotFound (a credential to be deleted), Limit, Conflict (nobody
// could make users any more).
func (r *Router) AlterCredentials(ctx context.Context, p Principal, name string, put []SaltedPassword, drop []ScramMechanism) error {
	if err := r.authorizeUsers(p, name); err != nil {
		return err
	}
	// What is there is read and written again: one change at a time.
	r.admin.Lock()
	defer r.admin.Unlock()
	all := map[ScramMechanism]ScramCredential{}
	if u := r.state.User(name); u != nil {
		for _, c := range u.Credentials {
			all[c.Mechanism] = c
		}
	}
	for _, m := range drop {
		if _, ok := all[m]; !ok {
			return core.E(core.NotFound, "user %q has no credential of this mechanism", name)
		}
		delete(all, m)
	}
	for _, s := range put {
		if size := s.Mechanism.Size(); size == 0 || len(s.Salted) != size {
			return core.E(core.Invalid, "a salted password of %d bytes, want %d", len(s.Salted), size)
		}
		all[s.Mechanism] = login.FromSalted(s.Mechanism, s.Salt, s.Iterations, s.Salted)
	}
	var sorted []ScramCredential
	for _, m := range slices.Sorted(maps.Keys(all)) {
		sorted = append(sorted, all[m])
	}
	_, err := r.SetUser(ctx, p, name, UserChange{Credentials: &sorted})
	return err
}

// DeleteUser deletes a user and ends its connections. The last one of all goes only where last is
// true, and no other does then: the broker asks nobody who they are afterwards. Error kinds: Denied, NotFound, Conflict.
func (r *Router) DeleteUser(ctx context.Context, p Principal, name string, last bool) error {
	if err := r.auth.Authorize(p, OpAlter, userResource(name)); err != nil {
		return err
	}
	cmd := state.DeleteUser{Name: name, Last: last}
	_, err := r.propose(ctx, cmd.Command())
	return err
}

// SetRights says what a user may do in a namespace: three regular expressions on names. Error
// kinds: Denied, NotFound (user, namespace), Invalid, Limit.
func (r *Router) SetRights(ctx context.Context, p Principal, user, namespace, configure, write, read string) (created bool, err error) {
	if err := r.auth.Authorize(p, OpAlter, userResource(user)); err != nil {
		return false, err
	}
	grant := Grant{Namespace: namespace, Configure: configure, Write: write, Read: read}
	if err := grant.Check(); err != nil {
		return false, err
	}
	cmd := state.SetRights{User: user, Namespace: namespace, Configure: configure, Write: write, Read: read}
	res, err := r.propose(ctx, cmd.Command())
	return err == nil && len(res.Body) == 1 && res.Body[0] == 1, err
}

// ClearRights takes a user's rights in a namespace. Error kinds: Denied, NotFound.
func (r *Router) ClearRights(ctx context.Context, p Principal, user, namespace string) error {
	if err := r.auth.Authorize(p, OpAlter, userResource(user)); err != nil {
		return err
	}
	cmd := state.SetRights{User: user, Namespace: namespace, Clear: true}
	_, err := r.propose(ctx, cmd.Command())
	return err
}

// User finds a user; nil where this node knows none of that name.
func (r *Router) User(name string) *User { return r.state.User(name) }

// Users are all users, by name.
func (r *Router) Users() []*User { return r.state.Users() }

// IsTagged reports whether a principal has a tag; while there are no users everybody has all.
func (r *Router) IsTagged(p Principal, tag string) bool {
	if !r.HasUsers() || p.itself {
		return true
	}
	u := r.state.User(p.Name)
	return !p.anonymous && p.isStill(u) && u.HasTag(tag)
}

// CheckUserID refuses (Denied) a message that p publishes under a user id that is not p's. While there
// are no users nothing is checked, and Vouches is false.
func (r *Router) CheckUserID(p Principal, id string) error {
	if id == "" || id == p.Name || !p.Vouches() || r.IsTagged(p, TagImpersonator) {
		return nil
	}
	return core.E(core.Denied, "user %q may not publish as user %q", p.Name, id)
}
