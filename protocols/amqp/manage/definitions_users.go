package manage

import (
	"slices"

	"polylog/core"
	"polylog/router"
)

// exportUsers are the users with what their passwords are verified by, and their permissions in
// namespaces.
func (c *call) exportUsers(namespaces []string) (users, granted []object) {
	users, granted = []object{}, []object{}
	if !c.router.HasUsers() {
		for _, ns := range namespaces {
			granted = append(granted, jsonOfPermission(guest, vhostOf(ns), all, all, all))
		}
		return append(users, guestJSON()), granted
	}
	for _, u := range c.router.Users() {
		o := jsonOfUser(u)
		var keys []scramJSON
		for i := range u.Credentials {
			k := &u.Credentials[i]
			keys = append(keys, scramJSON{scramNames[k.Mechanism], k.Iterations, k.Salt, k.StoredKey, k.ServerKey})
		}
		if keys != nil {
			o["scram"] = keys
		}
		users = append(users, o)
		for _, p := range permissions(u) {
			if slices.Contains(namespaces, namespaceName(p["vhost"].(string))) { //nolint:forcetypeassert // as made above
				granted = append(granted, p)
			}
		}
	}
	return users, granted
}

// importUsers makes the users that are not there, and gives permissions where the user has none. It says
// what is left out.
//
// RabbitMQ's hashes are of no use here: such users come without a password, and cannot log in by one
// until they are given one. Where the broker has no users it gets them only if one of them can be the
// first: nobody could log in otherwise.
func (c *call) importUsers(d *definitions) (left []string, err error) {
	// guest of an export without users is no user, and what it may do is nobody's right.
	d.Users = slices.DeleteFunc(d.Users, func(u userJSON) bool { return u.Name == guest && !u.hasPassword() && !u.foreign() })
	as := c.principal
	if !c.router.HasUsers() {
		first := slices.IndexFunc(d.Users, func(u userJSON) bool { return u.governs() })
		if first < 0 {
			others := slices.DeleteFunc(d.Permissions, func(p permissionJSON) bool { return p.User == guest })
			return leaving(leaving(nil, len(d.Users), "users"), len(others), "permissions"), nil
		}
		d.Users[0], d.Users[first] = d.Users[first], d.Users[0]
	}
	passwords, made := 0, map[string]bool{}
	for i := range d.Users {
		u := &d.Users[i]
		if made[u.Name] = true; c.router.User(u.Name) != nil {
			continue
		}
		if u.foreign() {
			u.PasswordHash = nil
			passwords++
		}
		change, err := u.change()
		if err != nil {
			return nil, err
		}
		change.New = true
		if _, err := c.router.SetUser(c.ctx, as, u.Name, change); err != nil && kind(err) != core.Exists {
			return nil, err
		}
		if !as.IsUser() {
			as = router.Itself("import of definitions") // whoever has made the first user makes the others
		}
	}
	nobodys := 0
	for i := range d.Permissions {
		p := &d.Permissions[i]
		u := c.router.User(p.User)
		if u == nil && !made[p.User] {
			if p.User != guest {
				nobodys++
			}
			continue
		}
		if u != nil {
			if _, has := u.Rights[namespaceName(p.VHost)]; has {
				continue
			}
		}
		if err := c.setPermission(as, p); err != nil {
			return nil, err
		}
	}
	return leaving(leaving(nil, passwords, "passwords"), nobodys, "permissions"), nil
}

func (u *userJSON) hasPassword() bool {
	return u.Password != nil && *u.Password != "" || len(u.Scram) > 0
}

// governs reports whether it can be the first user.
func (u *userJSON) governs() bool {
	tags, err := u.tags()
	return err == nil && u.hasPassword() && slices.Contains(tags, router.TagAdministrator)
}
