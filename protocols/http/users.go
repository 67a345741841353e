package httpd

import (
	"maps"
	"slices"
	"time"

	"polylog/core"
	"polylog/router"
)

// userCalls are the calls about users.
var userCalls = []struct {
	method, path string
	do           handler
}{
	{"GET", "/v1/whoami", whoAmI},
	{"GET", "/v1/users", listUsers},
	{"GET", "/v1/users/{user}", getUser},
	{"PUT", "/v1/users/{user}", putUser},
	{"DELETE", "/v1/users/{user}", deleteUser},
	{"PUT", "/v1/users/{user}/rights/{namespace}", putRights},
	{"DELETE", "/v1/users/{user}/rights/{namespace}", deleteRights},
}

// userJSON is a user in answers.
type userJSON struct {
	Name        string       `json:"name"`
	Created     time.Time    `json:"created"`
	Tags        []string     `json:"tags"`
	HasPassword bool         `json:"hasPassword"` // else it can log in by a certificate only
	Rights      []rightsJSON `json:"rights"`
}

// rightsJSON are a user's rights in a namespace: regular expressions on names.
type rightsJSON struct {
	Namespace string `json:"namespace"`
	Configure string `json:"configure"`
	Write     string `json:"write"`
	Read      string `json:"read"`
}

func jsonOfUser(u *router.User) userJSON {
	j := userJSON{Name: u.Name, Created: time.UnixMilli(u.Created).UTC(), Tags: slices.Clone(u.Tags), HasPassword: len(u.Credentials) > 0, Rights: []rightsJSON{}}
	if j.Tags == nil {
		j.Tags = []string{}
	}
	for _, ns := range slices.Sorted(maps.Keys(u.Rights)) {
		g := u.Rights[ns]
		j.Rights = append(j.Rights, rightsJSON{ns, g.Configure.String(), g.Write.String(), g.Read.String()})
	}
	return j
}

// whoAmI says who the caller is to the broker.
func whoAmI(c *call) error {
	if err := c.onlyQuery(); err != nil {
		return err
	}
	answer := struct {
		Name     string   `json:"name"` // empty: nobody in particular
		Tags     []string `json:"tags"` // that count
		HasUsers bool     `json:"hasUsers"`
	}{c.principal.Name, []string{}, c.router.HasUsers()}
	for _, tag := range []string{router.TagAdministrator, router.TagManagement, router.TagMonitoring, router.TagPolicymaker} {
		if answer.HasUsers && c.router.IsTagged(c.principal, tag) {
			answer.Tags = append(answer.Tags, tag)
		}
	}
	return c.answer(200, answer)
}

func listUsers(c *call) error {
	if err := c.onlyQuery("limit", "cursor", "search"); err != nil {
		return err
	}
	if err := c.may(router.OpDescribe, router.ResourceUser, core.Name{}); err != nil {
		return err
	}
	limit, after, err := c.page()
	if err != nil {
		return err
	}
	answer := struct {
		Users []userJSON `json:"users"`
		Next  string     `json:"next,omitempty"`
	}{Users: []userJSON{}}
	found := c.search()
	for _, u := range c.router.Users() {
		if u.Name <= after || !found(u.Name) {
			continue
		}
		if len(answer.Users) == limit {
			answer.Next = answer.Users[limit-1].Name
			break
		}
		answer.Users = append(answer.Users, jsonOfUser(u))
	}
	return c.answer(200, answer)
}

// user finds the user of the path. A node that does not know it asks the leader first.
func (c *call) user() (*router.User, error) {
	name := c.params.Get("user")
	if u := c.router.User(name); u != nil {
		return u, nil
	}
	if err := c.router.Sync(c.ctx); err != nil {
		return nil, err
	}
	if u := c.router.User(name); u != nil {
		return u, nil
	}
	return nil, core.E(core.NotFound, "user %q does not exist", name)
}

func getUser(c *call) error {
	if err := c.onlyQuery(); err != nil {
		return err
	}
	if name := c.params.Get("user"); name != c.principal.Name || name == "" {
		if err := c.may(router.OpDescribe, router.ResourceUser, core.Name{Name: name}); err != nil {
			return err
		}
	}
	u, err := c.user()
	if err != nil {
		return err
	}
	return c.answer(200, jsonOfUser(u))
}

// userSpec is what a user is to be. What is left out stays as it is.
type userSpec struct {
	Password *string   `json:"password"` // empty: it is to have none
	Tags     *[]string `json:"tags"`
	// Rights are in place of those in the namespaces that they name.
	Rights []rightsJSON `json:"rights"`
}

// putUser makes a user, or changes it: with ?new=true it must be new, with ?new=false it must not.
func putUser(c *call) error {
	if err := c.onlyQuery("new"); err != nil {
		return err
	}
	var spec userSpec
	if err := c.definition(&spec); err != nil {
		return err
	}
	change := router.UserChange{Password: spec.Password, Tags: spec.Tags}
	for _, g := range spec.Rights {
		change.Rights = append(change.Rights, router.Grant(g))
	}
	if c.QueryArgs().Has("new") {
		is, err := c.flag("new")
		if err != nil {
			return err
		}
		change.New, change.There = is, !is
	}
	created, err := c.router.SetUser(c.ctx, c.principal, c.params.Get("user"), change)
	if err != nil {
		return err
	}
	u, err := c.user()
	if err != nil {
		return err
	}
	if created {
		return c.answer(201, jsonOfUser(u))
	}
	return c.answer(200, jsonOfUser(u))
}

// deleteUser deletes a user; the last one of all with ?last=true only.
func deleteUser(c *call) error {
	if err := c.onlyQuery("last"); err != nil {
		return err
	}
	last, err := c.flag("last")
	if err != nil {
		return err
	}
	if err := c.router.DeleteUser(c.ctx, c.principal, c.params.Get("user"), last); err != nil {
		return err
	}
	return c.noContent()
}

func putRights(c *call) error {
	if err := c.onlyQuery(); err != nil {
		return err
	}
	var spec struct {
		Configure string `json:"configure"`
		Write     string `json:"write"`
		Read      string `json:"read"`
	}
	if err := c.definition(&spec); err != nil {
		return err
	}
	if _, err := c.router.SetRights(c.ctx, c.principal, c.params.Get("user"), c.namespace, spec.Configure, spec.Write, spec.Read); err != nil {
		return err
	}
	return c.noContent()
}

func deleteRights(c *call) error {
	if err := c.onlyQuery(); err != nil {
		return err
	}
	if err := c.router.ClearRights(c.ctx, c.principal, c.params.Get("user"), c.namespace); err != nil {
		return err
	}
	return c.noContent()
}
