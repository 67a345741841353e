package manage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"polylog/core"
)

// definitions are what is imported. Fields that are only said to be passed over are raw.
type definitions struct {
	VHosts    []vhostJSON    `json:"vhosts"`
	Queues    []queueJSON    `json:"queues"`
	Exchanges []exchangeJSON `json:"exchanges"`
	Bindings  []bindingJSON  `json:"bindings"`
	Policies  []policyJSON   `json:"policies"`
	Operators []policyJSON   `json:"operator_policies"`

	Users       []userJSON       `json:"users"`
	Permissions []permissionJSON `json:"permissions"`

	Topics     []json.RawMessage `json:"topic_permissions"`
	Parameters []json.RawMessage `json:"parameters"`
	Globals    []json.RawMessage `json:"global_parameters"`
}

// exportDefinitions answers all that was declared, of the virtual host of the path or of all.
func exportDefinitions(c *call) (any, error) {
	namespaces, err := c.namespaces()
	if err != nil {
		return nil, err
	}
	one := c.params.Get("vhost") != ""
	out := object{
		"rabbit_version": version, "rabbitmq_version": version, "product_name": "Polylog", "product_version": version,
		"policies": []object{}, "operator_policies": []object{}, "queues": []object{}, "exchanges": []object{}, "bindings": []object{}, "parameters": []object{},
	}
	if !one {
		vhosts := []object{}
		for _, ns := range namespaces {
			n, err := c.router.Namespace(ns)
			if err != nil {
				return nil, err
			}
			v := c.jsonOfVHost(n)
			vhosts = append(vhosts, object{"name": v["name"], "description": v["description"], "tags": v["tags"]})
		}
		users, permissions := c.exportUsers(namespaces)
		out["vhosts"], out["permissions"], out["users"], out["topic_permissions"] = vhosts, permissions, users, []object{}
		out["global_parameters"] = []object{}
	}
	add := func(to string, o object, leave ...string) {
		for _, field := range leave {
			delete(o, field)
		}
		if one {
			delete(o, "vhost")
		}
		out[to] = append(out[to].([]object), o) //nolint:forcetypeassert // as made above
	}
	for _, ns := range namespaces {
		for _, operator := range []bool{false, true} {
			for _, p := range c.router.Policies(ns, operator) {
				add(map[bool]string{false: "policies", true: "operator_policies"}[operator], jsonOfPolicy(p))
			}
		}
		if err := c.exportNamespace(ns, add); err != nil {
			return nil, err
		}
	}
	c.Response.Header.Set("Content-Disposition", `attachment; filename="definitions.json"`)
	return out, nil
}

// exportNamespace adds queues, exchanges and bindings. What belongs to a connection, or to a topic, is
// not exported.
func (c *call) exportNamespace(ns string, add func(to string, o object, leave ...string)) error {
	entries, err := c.queueEntries([]string{ns})
	if err != nil {
		return err
	}
	if len(entries) > maxBindings {
		return badRequest("more than %d queues", maxBindings)
	}
	items, err := loadAll(entries, false)
	if err != nil {
		return err
	}
	for _, q := range items {
		if q["exclusive"] != true {
			add("queues", object{"name": q["name"], "vhost": q["vhost"], "type": q["type"], "durable": q["durable"], "auto_delete": q["auto_delete"], "arguments": q["arguments"]})
		}
	}
	xs, err := c.exchangesOf(ns)
	if err != nil {
		return err
	}
	for _, x := range xs {
		if x.Name.Name != "" && x.Topic == 0 && !strings.HasPrefix(x.Name.Name, "amq.") {
			add("exchanges", jsonOfExchange(x), "user_who_performed_action")
		}
		if x.Name.Name == "" {
			continue
		}
		bs, err := c.bindingsFrom(x.Name)
		if err != nil {
			return err
		}
		for i := range bs {
			if q, err := c.router.Queue(bs[i].Destination); !bs[i].ToExchange && err == nil && q.Owner != "" {
				continue
			}
			add("bindings", jsonOfBinding(&bs[i]), "properties_key")
		}
	}
	return nil
}

// importDefinitions declares what the body says, step by step. What is there already stays as it is.
func importDefinitions(c *call) (any, error) {
	var cancel context.CancelFunc
	c.ctx, cancel = context.WithTimeout(c.Server.ctx, importTimeout)
	defer cancel()
	var d definitions
	if err := c.read(&d, c.front.MaxBody()); err != nil {
		return nil, err
	}
	if only := c.params.Get("vhost"); only != "" {
		if _, err := c.namespace(); err != nil {
			return nil, err
		}
		d.into(only)
	}
	if err := c.declareAll(&d); err != nil {
		return nil, err
	}
	users, err := c.importUsers(&d)
	if err != nil {
		return nil, err
	}
	if left := strings.Join(append(users, d.left()...), ", "); left != "" {
		c.opts.Logger.Warn("definitions were imported, but for what there is not here", "left", left)
		c.Response.Header.Set("X-Not-Imported", left)
	}
	return nil, nil
}

// into says of everything that it is in a virtual host.
func (d *definitions) into(vhost string) {
	d.VHosts, d.Users, d.Permissions = nil, nil, nil
	for i := range d.Queues {
		d.Queues[i].VHost = vhost
	}
	for i := range d.Exchanges {
		d.Exchanges[i].VHost = vhost
	}
	for i := range d.Bindings {
		d.Bindings[i].VHost = vhost
	}
	for i := range d.Policies {
		d.Policies[i].VHost = vhost
	}
	for i := range d.Operators {
		d.Operators[i].VHost = vhost
	}
}

// left says what is not imported beside users: rights to topics, parameters of plug-ins and of the
// cluster but its id, which every export has.
func (d *definitions) left() (all []string) {
	isID := func(b json.RawMessage) bool {
		var p struct{ Name string }
		return json.Unmarshal(b, &p) == nil && p.Name == clusterID
	}
	all = leaving(all, len(d.Topics), "topic_permissions")
	all = leaving(all, len(d.Parameters), "parameters")
	return leaving(all, len(slices.DeleteFunc(d.Globals, isID)), "global_parameters")
}

// leaving adds how many of something there are, if there are any.
func leaving(all []string, n int, what string) []string {
	if n > 0 {
		all = append(all, fmt.Sprintf("%d %s", n, what))
	}
	return all
}

func (c *call) declareAll(d *definitions) error {
	for i := range d.VHosts {
		if _, err := c.setVHost(d.VHosts[i].Name, &d.VHosts[i]); err != nil {
			return err
		}
	}
	for operator, ps := range map[bool][]policyJSON{false: d.Policies, true: d.Operators} {
		for i := range ps {
			ns, err := c.vhostOfDefinition(ps[i].VHost)
			if err != nil {
				return err
			}
			p, err := ps[i].policy(ns, operator)
			if err != nil {
				return err
			}
			if err := c.setPolicy(p); err != nil {
				return err
			}
		}
	}
	vhosts := map[string]bool{}
	for _, q := range d.Queues {
		vhosts[q.VHost] = true
	}
	for _, x := range d.Exchanges {
		vhosts[x.VHost] = true
	}
	for _, b := range d.Bindings {
		vhosts[b.VHost] = true
	}
	for vhost := range vhosts {
		ns, err := c.vhostOfDefinition(vhost)
		if err != nil {
			return err
		}
		if err := c.as(vhost, func(k *client) error { return c.declareIn(k, ns, vhost, d) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) vhostOfDefinition(vhost string) (string, error) {
	ns, err := c.namespaceOf(vhost)
	if errors.Is(err, errNotFound) {
		return "", badRequest("Please create virtual host \"%s\" prior to importing definitions.", vhost)
	}
	return ns, err
}

// declareIn declares what is in one virtual host.
func (c *call) declareIn(k *client, ns, vhost string, d *definitions) error {
	for i := range d.Queues {
		q := &d.Queues[i]
		if q.VHost != vhost {
			continue
		}
		n := core.Name{Namespace: ns, Name: q.Name}
		if _, err := c.router.Queue(n); err == nil {
			continue
		}
		if _, ok := c.router.Topic(n); ok {
			continue
		}
		if err := k.declareQueue(q); err != nil {
			return err
		}
	}
	for i := range d.Exchanges {
		x := &d.Exchanges[i]
		if x.VHost != vhost {
			continue
		}
		if _, err := c.router.Exchange(core.Name{Namespace: ns, Name: x.Name}); err == nil {
			continue
		}
		if err := k.declareExchange(x); err != nil {
			return err
		}
	}
	for i := range d.Bindings {
		if b := &d.Bindings[i]; b.VHost == vhost {
			if err := k.bind(b); err != nil {
				return err
			}
		}
	}
	return nil
}
