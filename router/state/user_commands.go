package state

import (
	"cmp"
	"maps"
	"slices"

	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
)

// SetUser creates a user or changes it. Somebody always remains who can log in and may make users:
// what would leave nobody is refused (Conflict), and so is a first user who could not.
//
// What passwords are verified by is made of them before this is proposed: the log never has one.
type SetUser struct {
	Name           string
	Must           Must
	SetTags        bool // else they stay as they are
	Tags           []string
	SetCredentials bool // else they stay as they are
	Credentials    []Credential
	Grants         []Grant // rights in some namespaces, in place of those that it has there
}

// Grant is what a user may do in a namespace: expressions on names.
type Grant struct{ Namespace, Configure, Write, Read string }

// Must is what has to be so for a user to be set.
type Must uint8

// The conditions.
const (
	MustNothing  Must = iota
	MustBeNew         // else Exists
	MustBeThere       // else NotFound
	MustBeFirst       // there is no user at all; else Conflict
	mustNothings      // how many there are
)

// Command encodes: name, condition byte, bool and tags, bool and credentials; where there are some, a count
// and grants.
func (c *SetUser) Command() core.Command {
	b := append(wire.AppendString(nil, c.Name), byte(c.Must))
	b = appendStrings(wire.AppendBool(b, c.SetTags), c.Tags)
	b = appendCredentials(wire.AppendBool(b, c.SetCredentials), c.Credentials)
	if len(c.Grants) > 0 {
		b = wire.AppendUvarint(b, uint64(len(c.Grants)))
		for _, g := range c.Grants {
			b = wire.AppendString(wire.AppendString(b, g.Namespace), g.Configure)
			b = wire.AppendString(wire.AppendString(b, g.Write), g.Read)
		}
	}
	return core.Command{Code: CodeSetUser, Head: b}
}

func decodeSetUser(body []byte) (c SetUser, err error) {
	r := wire.NewReader(body)
	c = SetUser{Name: r.String(), Must: Must(r.Byte()), SetTags: r.Bool(), Tags: readStrings(&r), SetCredentials: r.Bool(), Credentials: readCredentials(&r)}
	if r.Err() == nil && r.Len() > 0 {
		for range r.Count(4) {
			c.Grants = append(c.Grants, Grant{r.String(), r.String(), r.String(), r.String()})
		}
	}
	return c, r.Close()
}

// hidden is the command as it can be shown.
func (c SetUser) hidden() SetUser {
	c.Credentials = slices.Clone(c.Credentials)
	for i := range c.Credentials {
		k := &c.Credentials[i]
		k.Salt, k.StoredKey, k.ServerKey = nil, nil, nil
	}
	return c
}

func (c *SetUser) check() error {
	if err := checkUserName(c.Name); err != nil {
		return err
	}
	if c.Must >= mustNothings {
		return core.E(core.Invalid, "set user: there is no condition %d", c.Must)
	}
	if err := checkTags(c.Tags); err != nil {
		return err
	}
	seen := ScramMechanism(0)
	for i := range c.Credentials {
		if err := c.Credentials[i].check(); err != nil {
			return err
		}
		if c.Credentials[i].Mechanism <= seen {
			return core.E(core.Invalid, "credentials are not in the order of their mechanisms, one of each")
		}
		seen = c.Credentials[i].Mechanism
	}
	return nil
}

// setUser's result has a byte: 1 when the user is new.
func (s *State) setUser(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeSetUser(body)
	if err != nil {
		return invalid("set user", err)
	}
	if err := cmd.check(); err != nil {
		return refused(core.KindOf(err), "%v", err)
	}
	was := s.users.all[cmd.Name]
	switch {
	case cmd.Must == MustBeNew && was != nil:
		return refused(core.Exists, "user %q exists already", cmd.Name)
	case cmd.Must == MustBeThere && was == nil:
		return core.Result{Err: noUser(cmd.Name)}
	case cmd.Must == MustBeFirst && len(s.users.all) > 0:
		return refused(core.Conflict, "there are users already")
	case was == nil && len(s.users.all) >= maxUsers:
		return refused(core.Limit, "there are %d users already", len(s.users.all))
	}
	is, created := &User{Name: cmd.Name, Created: c.time, Login: c.index}, []byte{1}
	if was != nil {
		copied := *was
		is, created[0] = &copied, 0
	}
	if cmd.SetTags {
		is.Tags = slices.Compact(slices.Sorted(slices.Values(cmd.Tags)))
	}
	if cmd.SetCredentials {
		is.Credentials, is.Login = cmd.Credentials, c.index
	}
	if e := s.leavesNobody(was, is); e != nil {
		return core.Result{Err: e}
	}
	if e := s.grant(tx, is, cmd.Grants); e != nil {
		return core.Result{Err: e}
	}
	tx.Set(userKey(is.Name), is.encode())
	s.users.replace(was, is)
	return core.Result{Body: created}
}

// leavesNobody is why was must not become is; nil: it may.
func (s *State) leavesNobody(was, is *User) *core.Error {
	switch {
	case is != nil && is.governs():
		return nil
	case len(s.users.all) == 0:
		return core.E(core.Conflict, "the first user has to be an %s with a password", TagAdministrator)
	case was != nil && was.governs() && s.users.rulers == 1:
		return core.E(core.Conflict, "user %q is the last %s with a password: nobody could change users any more", was.Name, TagAdministrator)
	}
	return nil
}

func noUser(name string) *core.Error { return core.E(core.NotFound, "user %q does not exist", name) }

// DeleteUser deletes a user with its rights. The last one of all goes only where that is wished
// for: the broker asks nobody who they are then.
type DeleteUser struct {
	Name string
	Last bool // it has to be the last one of all; else it must not be
}

// Command encodes: name, last bool.
func (c *DeleteUser) Command() core.Command {
	return core.Command{Code: CodeDeleteUser, Head: wire.AppendBool(wire.AppendString(nil, c.Name), c.Last)}
}

func decodeDeleteUser(body []byte) (c DeleteUser, err error) {
	r := wire.NewReader(body)
	c = DeleteUser{r.String(), r.Bool()}
	return c, r.Close()
}

func (s *State) deleteUser(tx txn, body []byte) core.Result {
	cmd, err := decodeDeleteUser(body)
	if err != nil {
		return invalid("delete user", err)
	}
	was := s.users.all[cmd.Name]
	switch {
	case was == nil:
		return core.Result{Err: noUser(cmd.Name)}
	case cmd.Last && len(s.users.all) > 1:
		return refused(core.Conflict, "user %q is not the last: there are %d", cmd.Name, len(s.users.all))
	case !cmd.Last:
		if e := s.leavesNobody(was, nil); e != nil {
			return core.Result{Err: e}
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(was.Rights)) {
		tx.Delete(rightsKey(namespace, was.Name))
	}
	tx.Delete(userKey(was.Name))
	s.users.replace(was, nil)
	return core.Result{}
}

// SetRights gives a user rights in a namespace, or takes them.
type SetRights struct {
	User, Namespace        string
	Clear                  bool // there are to be none
	Configure, Write, Read string
}

// Command encodes: user, namespace, clear bool, the three expressions.
func (c *SetRights) Command() core.Command {
	b := wire.AppendBool(wire.AppendString(wire.AppendString(nil, c.User), c.Namespace), c.Clear)
	b = wire.AppendString(wire.AppendString(wire.AppendString(b, c.Configure), c.Write), c.Read)
	return core.Command{Code: CodeSetRights, Head: b}
}

func decodeSetRights(body []byte) (c SetRights, err error) {
	r := wire.NewReader(body)
	c = SetRights{User: r.String(), Namespace: r.String(), Clear: r.Bool(), Configure: r.String(), Write: r.String(), Read: r.String()}
	return c, r.Close()
}

// setRights' result has a byte: 1 when there were none before.
func (s *State) setRights(tx txn, body []byte) core.Result {
	cmd, err := decodeSetRights(body)
	if err != nil {
		return invalid("set rights", err)
	}
	was := s.users.all[cmd.User]
	if was == nil {
		return core.Result{Err: noUser(cmd.User)}
	}
	_, had := was.Rights[cmd.Namespace]
	is := *was
	if cmd.Clear {
		is.Rights = maps.Clone(was.Rights)
		if !had {
			return refused(core.NotFound, "user %q has no rights in namespace %q", cmd.User, cmd.Namespace)
		}
		delete(is.Rights, cmd.Namespace)
		tx.Delete(rightsKey(cmd.Namespace, is.Name))
		s.users.replace(was, &is)
		return core.Result{}
	}
	if e := s.grant(tx, &is, []Grant{{cmd.Namespace, cmd.Configure, cmd.Write, cmd.Read}}); e != nil {
		return core.Result{Err: e}
	}
	s.users.replace(was, &is)
	created := []byte{1}
	if had {
		created[0] = 0
	}
	return core.Result{Body: created}
}

// grant gives a user, which is a copy that nobody else has, rights; all of them, or none.
func (s *State) grant(tx txn, u *User, grants []Grant) *core.Error {
	if len(grants) == 0 {
		return nil
	}
	rights, added := maps.Clone(u.Rights), 0
	if rights == nil {
		rights = map[string]Rights{}
	}
	for i := range grants {
		g, err := grants[i].rights()
		if err != nil {
			return core.E(core.KindOf(err), "%v", err)
		}
		namespace := grants[i].Namespace
		_, had := rights[namespace]
		switch {
		case s.routing.vhosts[namespace] == nil:
			return noNamespace(namespace)
		case !had && (len(rights) >= maxUserRights || s.users.rights+added >= maxRightsOfUsers):
			return core.E(core.Limit, "user %q has rights in %d namespaces already, and all users in %d", u.Name, len(rights), s.users.rights+added)
		case !had:
			added++
		}
		rights[namespace] = g
	}
	for i := range grants {
		namespace := grants[i].Namespace
		g := rights[namespace]
		for _, x := range []Expression{g.Configure, g.Write, g.Read} {
			if err := x.compiles(); err != nil {
				s.complainOf("rights of user "+u.Name, x.text, err)
			}
		}
		tx.Set(rightsKey(namespace, u.Name), g.encode())
	}
	u.Rights = rights
	return nil
}

// Check refuses, before they are proposed, expressions that do not compile. The error is of kind Invalid.
func (g *Grant) Check() error {
	to, err := g.rights()
	if err != nil {
		return err
	}
	for _, x := range []Expression{to.Configure, to.Write, to.Read} {
		if err := x.compiles(); err != nil {
			return core.E(core.Invalid, "expression %q: %v", x.text, err)
		}
	}
	return nil
}

// rights are what the grant gives. They may have expressions that do not compile here.
func (g *Grant) rights() (to Rights, err error) {
	if err := cmp.Or(checkExpression(g.Configure), checkExpression(g.Write), checkExpression(g.Read)); err != nil {
		return Rights{}, err
	}
	return Rights{expression(g.Configure), expression(g.Write), expression(g.Read)}, nil
}

// sweepRightsOf removes rights in a namespace, up to limit.
func (s *State) sweepRightsOf(tx txn, namespace string, limit int) (int, error) {
	prefix := rightsPrefix(namespace)
	keys, err := scanKeys(index.Reader(tx), prefix, after(prefix), max(limit, 1))
	for _, k := range keys {
		tx.Delete(k)
		if was := s.users.all[string(k[len(prefix):])]; was != nil {
			is := *was
			is.Rights = maps.Clone(was.Rights)
			delete(is.Rights, namespace)
			s.users.replace(was, &is)
		}
	}
	return len(keys), err
}
