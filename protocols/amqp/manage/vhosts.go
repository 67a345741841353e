package manage

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"polylog/core"
	"polylog/router"
)

// defaultVHost is what AMQP calls the default namespace.
const defaultVHost = "/"

// vhostOf is what AMQP calls a namespace.
func vhostOf(namespace string) string {
	if namespace == core.DefaultNamespace {
		return defaultVHost
	}
	return namespace
}

// namespaceOf is the namespace of a virtual host, which has to be there. A node that does not know
// it asks the leader first.
func (c *call) namespaceOf(vhost string) (string, error) {
	switch vhost {
	case defaultVHost:
		return core.DefaultNamespace, c.mayEnter(core.DefaultNamespace)
	case core.DefaultNamespace:
		return "", errNotFound
	}
	n, err := c.router.Namespace(vhost)
	if kind(err) == core.NotFound {
		if err := c.router.Sync(c.ctx); err != nil {
			return "", err
		}
		n, err = c.router.Namespace(vhost)
	}
	if kind(err) == core.NotFound || err == nil && n.Deleted {
		return "", errNotFound
	}
	if err == nil {
		err = c.mayEnter(vhost)
	}
	return vhost, err
}

// mayEnter checks that the user has rights in a namespace, or may see all of them.
func (c *call) mayEnter(namespace string) error {
	if !c.may(router.ResourceNamespace, core.Name{Name: namespace}) {
		return notAuthorised("User not authorised to access virtual host")
	}
	return nil
}

// namespaceName is the namespace that a virtual host would be.
func namespaceName(vhost string) string {
	if vhost == defaultVHost {
		return core.DefaultNamespace
	}
	return vhost
}

// namespace is that of the virtual host of the path.
func (c *call) namespace() (string, error) { return c.namespaceOf(c.params.Get("vhost")) }

// needVHost checks that the virtual host of the path is there, for who makes something in it.
func (c *call) needVHost() error {
	_, err := c.namespace()
	if errors.Is(err, errNotFound) {
		return &refusal{404, "not_found", "vhost_not_found"}
	}
	return err
}

// name is the thing of the path in the virtual host of the path.
func (c *call) name(param string) (core.Name, error) {
	namespace, err := c.namespace()
	return core.Name{Namespace: namespace, Name: c.params.Get(param)}, err
}

// namespaces are that of the path, or all where the path names none.
func (c *call) namespaces() ([]string, error) {
	if c.params.Get("vhost") != "" {
		n, err := c.namespace()
		return []string{n}, err
	}
	all, err := c.router.Namespaces()
	var names []string
	for _, n := range all {
		if !n.Deleted && c.may(router.ResourceNamespace, core.Name{Name: n.Name}) {
			names = append(names, n.Name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(vhostOf(a), vhostOf(b)) })
	return names, err
}

// Attributes of namespaces.
const (
	attrDescription = "description"
	attrTags        = "tags" // separated by commas
)

func (c *call) jsonOfVHost(n *router.Namespace) object {
	tags := slices.DeleteFunc(strings.Split(n.Attributes[attrTags], ","), func(s string) bool { return s == "" })
	description := n.Attributes[attrDescription]
	states := object{}
	for _, m := range c.router.Cluster().Members {
		states[nodeName(m.ID)] = map[bool]string{false: "running", true: "stopped"}[m.Away]
	}
	return object{
		"name": vhostOf(n.Name), "description": description, "tags": tags, "default_queue_type": "undefined",
		"metadata": object{"description": description, "tags": tags}, "tracing": false, "cluster_state": states,
	}
}

func listVHosts(c *call) (any, error) {
	all, err := c.router.Namespaces()
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, n := range all {
		if !n.Deleted && c.may(router.ResourceNamespace, core.Name{Name: n.Name}) {
			entries = append(entries, fixed(vhostOf(n.Name), c.jsonOfVHost(n)))
		}
	}
	sortEntries(entries)
	return c.list(entries)
}

func getVHost(c *call) (any, error) {
	name, err := c.namespace()
	if err != nil {
		return nil, err
	}
	n, err := c.router.Namespace(name)
	if err != nil {
		return nil, err
	}
	return c.jsonOfVHost(n), nil
}

// vhostJSON is a virtual host in requests.
type vhostJSON struct {
	Name        string          `json:"name"`
	Description *string         `json:"description"`
	Tags        json.RawMessage `json:"tags"` // a text with commas, or an array
	QueueType   string          `json:"default_queue_type"`
}

func (v *vhostJSON) attributes() (map[string]string, error) {
	out := map[string]string{}
	if v.Description != nil {
		out[attrDescription] = *v.Description
	}
	if len(v.Tags) > 0 && string(v.Tags) != "null" {
		tags, err := textsOf(v.Tags)
		if err != nil {
			return nil, err
		}
		out[attrTags] = strings.Join(tags, ",")
	}
	switch v.QueueType {
	case "", "undefined", "classic":
	default:
		return nil, badRequest("default_queue_type %s is not there yet: name the type when a queue is declared", v.QueueType)
	}
	return out, nil
}

func putVHost(c *call) (any, error) {
	var v vhostJSON
	if err := c.read(&v, maxDefinition); err != nil {
		return nil, err
	}
	created, err := c.setVHost(c.params.Get("vhost"), &v)
	if err != nil {
		return nil, err
	}
	return c.created(created)
}

// setVHost creates a virtual host, or changes it where something is said of it.
func (c *call) setVHost(name string, v *vhostJSON) (created bool, err error) {
	attributes, err := v.attributes()
	if err != nil {
		return false, err
	}
	namespace := name
	switch name {
	case defaultVHost:
		namespace = core.DefaultNamespace
	case core.DefaultNamespace:
		return false, badRequest("the namespace %s is the virtual host %s", name, defaultVHost)
	}
	if n, err := c.router.Namespace(namespace); err == nil && !n.Deleted && len(attributes) == 0 {
		return false, nil
	}
	return c.router.CreateNamespace(c.ctx, c.principal, namespace, attributes)
}

func deleteVHost(c *call) (any, error) {
	name, err := c.namespace()
	if err != nil {
		return nil, err
	}
	return nil, c.router.DeleteNamespace(c.ctx, c.principal, name)
}

// startVHost is for a virtual host that has failed on a node, which none does here.
func startVHost(c *call) (any, error) {
	_, err := c.namespace()
	return nil, err
}
