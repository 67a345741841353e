package manage

import "polylog/protocols/amqp"

// Until there are users there is one, guest, who may do everything. It can be looked at, not
// changed.

const guest = "guest"

func userJSON() object {
	return object{"name": guest, "password_hash": "", "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": []string{"administrator"}, "limits": object{}}
}

func whoami(c *call) (any, error) {
	return object{"name": c.user, "tags": []string{"administrator"}}, nil
}

func listUsers(c *call) (any, error) { return c.list([]entry{fixed(guest, userJSON())}) }

// existing checks that the path's user is there.
func (c *call) existing() error {
	if c.params.Get("user") != guest {
		return errNotFound
	}
	return nil
}

func getUser(c *call) (any, error) {
	if err := c.existing(); err != nil {
		return nil, err
	}
	return userJSON(), nil
}

// permission is that of the one user in a virtual host.
func permission(vhost string) object {
	return object{"user": guest, "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*"}
}

func listPermissions(c *call) (any, error) {
	if c.params.Get("user") != "" {
		if err := c.existing(); err != nil {
			return nil, err
		}
	}
	namespaces, err := c.namespaces()
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, ns := range namespaces {
		all = append(all, fixed(guest, permission(vhostOf(ns))))
	}
	return c.list(all)
}

func getPermission(c *call) (any, error) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	if err := c.existing(); err != nil {
		return nil, err
	}
	return permission(vhostOf(ns)), nil
}

// putPermission takes what is so already: tools say it again and again.
func putPermission(c *call) (any, error) {
	var p struct{ Configure, Write, Read string }
	if err := c.read(&p, maxDefinition); err != nil {
		return nil, err
	}
	if _, err := c.namespace(); err != nil {
		return nil, err
	}
	if c.params.Get("user") == guest && p.Configure == ".*" && p.Write == ".*" && p.Read == ".*" {
		return nil, nil
	}
	return noUsers(c)
}

// noUsers refuses to change users and rights.
func noUsers(*call) (any, error) {
	return nil, badRequest("there are no users yet but %s, who may do everything and cannot be changed", guest)
}

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
