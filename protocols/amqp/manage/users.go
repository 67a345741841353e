package manage

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"polylog/core"
	"polylog/protocols/amqp"
	"polylog/router"
)

// Users, and their permissions, which are the rights of docs/security.md. While there are no users there
// is one to look at, guest, who may do everything.

const (
	guest = "guest"
	all   = ".*" // what guest may do things to
)

func guestJSON() object {
	return object{"name": guest, "password_hash": "", "hashing_algorithm": hashing, "tags": []string{router.TagAdministrator}, "limits": object{}}
}

// hashing is how RabbitMQ would have hashed passwords.
const hashing = "rabbit_password_hashing_sha256"

// jsonOfUser is a user. Its password_hash is empty, which is RabbitMQ's way of saying that there is
// nothing that it could verify a password by.
func jsonOfUser(u *router.User) object {
	tags := u.Tags
	if tags == nil {
		tags = []string{}
	}
	return object{"name": u.Name, "password_hash": "", "hashing_algorithm": hashing, "tags": tags, "limits": object{}}
}

func whoami(c *call) (any, error) {
	tags := []string{router.TagAdministrator}
	if c.router.HasUsers() {
		if tags = []string{}; c.router.User(c.user) != nil {
			tags = append(tags, c.router.User(c.user).Tags...)
		}
	}
	return object{"name": c.user, "tags": tags}, nil
}

func listUsers(c *call) (any, error) {
	if !c.router.HasUsers() {
		return c.list([]entry{fixed(guest, guestJSON())})
	}
	return c.listUsersWhere(func(*router.User) bool { return true })
}

// listWithoutPermissions are those who can log in and get nowhere.
func listWithoutPermissions(c *call) (any, error) {
	return c.listUsersWhere(func(u *router.User) bool { return len(u.Rights) == 0 })
}

func (c *call) listUsersWhere(wanted func(*router.User) bool) (any, error) {
	var entries []entry
	for _, u := range c.router.Users() {
		if wanted(u) {
			entries = append(entries, fixed(u.Name, jsonOfUser(u)))
		}
	}
	return c.list(entries)
}

// userOf is the user of a name, which has to be there. A node that does not know it asks the leader first.
func (c *call) userOf(name string) (*router.User, error) {
	if u := c.router.User(name); u != nil {
		return u, nil
	}
	if err := c.router.Sync(c.ctx); err != nil {
		return nil, err
	}
	if u := c.router.User(name); u != nil {
		return u, nil
	}
	return nil, errNotFound
}

func getUser(c *call) (any, error) {
	name := c.params.Get("user")
	if !c.router.HasUsers() && name == guest {
		return guestJSON(), nil
	}
	u, err := c.userOf(name)
	if err != nil {
		return nil, err
	}
	return jsonOfUser(u), nil
}

// userJSON is a user in requests and definitions.
type userJSON struct {
	Name          string                    `json:"name"`
	Password      *string                   `json:"password"`
	PasswordHash  *string                   `json:"password_hash"`
	Scram         []scramJSON               `json:"scram"`         // in our own exports
	Tags          json.RawMessage           `json:"tags"`          // a text with commas, or an array
	Administrator *boolean                  `json:"administrator"` // instead of tags, from old clients
	Permissions   map[string]permissionJSON `json:"permissions"`   // of a new user, by virtual host
}

// scramJSON is what a password is verified by (RFC 5802, section 3), in exports.
type scramJSON struct {
	Mechanism  string `json:"mechanism"`
	Iterations int    `json:"iterations"`
	Salt       []byte `json:"salt"`
	StoredKey  []byte `json:"stored_key"`
	ServerKey  []byte `json:"server_key"`
}

var scramNames = map[router.ScramMechanism]string{router.ScramSHA256: "SCRAM-SHA-256", router.ScramSHA512: "SCRAM-SHA-512"}

// change is what is to become of the user. Who says nothing of a password has none from then on, as in
// RabbitMQ.
func (u *userJSON) change() (c router.UserChange, err error) {
	tags, err := u.tags()
	if err != nil {
		return c, err
	}
	c.Tags = &tags
	switch {
	case u.Password != nil && u.PasswordHash != nil:
		return c, badRequest("both_password_and_password_hash_are_provided")
	case u.Password != nil && *u.Password == "":
		return c, badRequest("the password is empty: leave it out for a user who has none")
	case u.Password != nil:
		c.Password = u.Password
	case len(u.Scram) > 0:
		credentials := make([]router.ScramCredential, len(u.Scram))
		for i, s := range u.Scram {
			credentials[i] = router.ScramCredential{Iterations: s.Iterations, Salt: s.Salt, StoredKey: s.StoredKey, ServerKey: s.ServerKey}
			for m, name := range scramNames {
				if name == s.Mechanism {
					credentials[i].Mechanism = m
				}
			}
		}
		c.Credentials = &credentials
	case u.foreign():
		return c, badRequest("password_hash: this broker keeps SCRAM's keys, which cannot be made of RabbitMQ's hash: say the password, or an empty hash for a user who has none")
	default:
		c.Password = new("")
	}
	return c, nil
}

// foreign reports whether passwords of the user were verified by what they cannot be verified by here.
func (u *userJSON) foreign() bool {
	return u.Password == nil && len(u.Scram) == 0 && u.PasswordHash != nil && *u.PasswordHash != ""
}

func (u *userJSON) tags() ([]string, error) {
	if len(u.Tags) == 0 || string(u.Tags) == "null" {
		switch {
		case u.Administrator == nil:
			return nil, badRequest("tags_not_present")
		case bool(*u.Administrator):
			return []string{router.TagAdministrator}, nil
		}
		return []string{}, nil
	}
	return textsOf(u.Tags)
}

func putUser(c *call) (any, error) {
	var u userJSON
	if err := c.read(&u, maxDefinition); err != nil {
		return nil, err
	}
	u.Name = c.params.Get("user")
	change, err := u.change()
	if err != nil {
		return nil, err
	}
	created, err := c.router.SetUser(c.ctx, c.principal, u.Name, change)
	if err != nil {
		return nil, err
	}
	for _, vhost := range slices.Sorted(maps.Keys(u.Permissions)) {
		if !created {
			break // they are for new ones
		}
		p := u.Permissions[vhost]
		p.User, p.VHost = u.Name, vhost
		if err := c.setPermission(c.principal, &p); err != nil {
			return nil, err
		}
	}
	return c.created(created)
}

func deleteUser(c *call) (any, error) {
	return nil, c.router.DeleteUser(c.ctx, c.principal, c.params.Get("user"), false)
}

// deleteUsers deletes several, and passes over those that are not there.
func deleteUsers(c *call) (any, error) {
	var body struct{ Users []string }
	if err := c.read(&body, maxDefinition); err != nil {
		return nil, err
	}
	if body.Users == nil {
		return nil, missing("users")
	}
	for _, name := range body.Users {
		if err := c.router.DeleteUser(c.ctx, c.principal, name, false); err != nil && kind(err) != core.NotFound {
			return nil, err
		}
	}
	return nil, nil
}

// permissionJSON are the rights of a user in a virtual host.
type permissionJSON struct {
	User      string  `json:"user"`
	VHost     string  `json:"vhost"`
	Configure *string `json:"configure"`
	Write     *string `json:"write"`
	Read      *string `json:"read"`
}

func jsonOfPermission(user, vhost, configure, write, read string) object {
	return object{"user": user, "vhost": vhost, "configure": configure, "write": write, "read": read}
}

// permissions are those of a user, by virtual host.
func permissions(u *router.User) (list []object) {
	for ns, g := range u.Rights {
		list = append(list, jsonOfPermission(u.Name, vhostOf(ns), g.Configure.String(), g.Write.String(), g.Read.String()))
	}
	slices.SortFunc(list, func(a, b object) int { return compare(a["vhost"], b["vhost"]) })
	return list
}

// listPermissions answers those of the path's user, in the path's virtual host, or all.
func listPermissions(c *call) (any, error) {
	name, vhost := c.params.Get("user"), c.params.Get("vhost")
	namespaces, err := c.namespaces()
	if err != nil {
		return nil, err
	}
	var entries []entry
	users := c.router.Users()
	switch {
	case !c.router.HasUsers() && (name == "" || name == guest):
		for _, ns := range namespaces {
			entries = append(entries, fixed(guest, jsonOfPermission(guest, vhostOf(ns), all, all, all)))
		}
	case name != "":
		u, err := c.userOf(name)
		if err != nil {
			return nil, err
		}
		users = []*router.User{u}
	}
	for _, u := range users {
		for _, p := range permissions(u) {
			if vhost == "" || p["vhost"] == vhost {
				entries = append(entries, fixed(u.Name, p))
			}
		}
	}
	return c.list(entries)
}

func getPermission(c *call) (any, error) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	name := c.params.Get("user")
	if !c.router.HasUsers() && name == guest {
		return jsonOfPermission(guest, vhostOf(ns), all, all, all), nil
	}
	u, err := c.userOf(name)
	if err != nil {
		return nil, err
	}
	g, ok := u.Rights[ns]
	if !ok {
		return nil, errNotFound
	}
	return jsonOfPermission(name, vhostOf(ns), g.Configure.String(), g.Write.String(), g.Read.String()), nil
}

func putPermission(c *call) (any, error) {
	var p permissionJSON
	if err := c.read(&p, maxDefinition); err != nil {
		return nil, err
	}
	p.User, p.VHost = c.params.Get("user"), c.params.Get("vhost")
	if !c.router.HasUsers() && p.User == guest && p.isAll() {
		_, err := c.namespace()
		return nil, err // it is so already: tools say it again and again
	}
	was := c.router.User(p.User)
	if err := c.setPermission(c.principal, &p); err != nil {
		return nil, err
	}
	has := false
	if was != nil {
		_, has = was.Rights[namespaceName(p.VHost)]
	}
	return c.created(!has)
}

// isAll reports whether everything is allowed.
func (p *permissionJSON) isAll() bool {
	is := func(s *string) bool { return s != nil && *s == all }
	return is(p.Configure) && is(p.Write) && is(p.Read)
}

// setPermission gives a user rights, as somebody.
func (c *call) setPermission(as router.Principal, p *permissionJSON) error {
	var absent []string
	for name, v := range map[string]*string{"configure": p.Configure, "write": p.Write, "read": p.Read} {
		if v == nil {
			absent = append(absent, name)
		}
	}
	if len(absent) > 0 {
		slices.Sort(absent)
		return missing(absent...)
	}
	if p.VHost == core.DefaultNamespace { // which has another name here
		return badRequest("vhost_or_user_not_found")
	}
	_, err := c.router.SetRights(c.ctx, as, p.User, namespaceName(p.VHost), *p.Configure, *p.Write, *p.Read)
	if kind(err) == core.NotFound {
		return badRequest("vhost_or_user_not_found")
	}
	return err
}

func deletePermission(c *call) (any, error) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	u, err := c.userOf(c.params.Get("user"))
	if err != nil {
		return nil, err
	}
	if _, ok := u.Rights[ns]; !ok {
		return nil, errNotFound
	}
	return nil, c.router.ClearRights(c.ctx, c.principal, u.Name, ns)
}

// noTopicPermissions refuses rights that are not there.
func noTopicPermissions(*call) (any, error) {
	return nil, badRequest("there are no permissions for topics: rights are for names of exchanges and queues")
}

// noUserLimits refuses limits that are not there.
func noUserLimits(*call) (any, error) { return nil, badRequest("there are no limits of users") }

// noParameters refuses limits and parameters.
func noParameters(c *call) (any, error) {
	what := c.params.Get("component")
	if what == "" {
		what = "limits"
	}
	return nil, badRequest("Validation failed\n\ncomponent %.100s not found\n", what)
}

// none answers a list of what there is none of.
func none(c *call) (any, error) {
	if c.params.Get("vhost") != "" {
		if _, err := c.namespace(); err != nil {
			return nil, err
		}
	}
	return c.list(nil)
}

func notFound(*call) (any, error) { return nil, errNotFound }

// clusterID is the one global parameter.
const clusterID = "internal_cluster_id"

func globalParameters(c *call) (any, error) {
	return c.list([]entry{fixed(clusterID, object{"name": clusterID, "value": c.router.Cluster().ClusterID})})
}

func clusterName(c *call) (any, error) { return object{"name": c.router.Cluster().ClusterID}, nil }

func extensions(*call) (any, error) { return []object{}, nil }

func auth(*call) (any, error) {
	return object{"enable_uaa": false, "uaa_client_id": "", "uaa_location": "", "oauth_enabled": false}, nil
}

// version is what tools decide by.
const version = amqp.Version

// textsOf is a text with commas or an array of texts, without empty ones.
func textsOf(b json.RawMessage) ([]string, error) {
	var list []string
	var text string
	switch {
	case json.Unmarshal(b, &text) == nil:
		for s := range strings.SplitSeq(text, ",") {
			list = append(list, strings.TrimSpace(s))
		}
	case json.Unmarshal(b, &list) == nil:
	default:
		return nil, badRequest("tags are neither a text nor texts")
	}
	return slices.DeleteFunc(append([]string{}, list...), func(s string) bool { return s == "" }), nil
}
