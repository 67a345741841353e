package manage

import (
	"fmt"
	"slices"
	"strings"

	"polylog/core"
	"polylog/core/message"
	"polylog/router"
)

// targets are what policies apply to, by router.PolicyTarget.
var targets = [...]string{
	router.ToAll: "all", router.ToQueues: "queues", router.ToExchanges: "exchanges",
	router.ToClassicQueues: "classic_queues", router.ToQuorumQueues: "quorum_queues", router.ToStreams: "streams",
}

// policyKeys are those that RabbitMQ knows. Not all of them mean something here.
var policyKeys = strings.Fields(`alternate-exchange consumer-timeout dead-letter-exchange dead-letter-routing-key
	dead-letter-strategy delivery-limit expires federation-upstream federation-upstream-set federation-upstream-pattern
	ha-mode ha-params ha-promote-on-failure ha-promote-on-shutdown ha-sync-batch-size ha-sync-mode
	initial-cluster-size max-age max-in-memory-bytes max-in-memory-length max-length max-length-bytes message-ttl overflow
	queue-leader-locator queue-master-locator queue-mode queue-version stream-filter-size-bytes
	stream-max-segment-size-bytes target-group-size`)

// operatorKeys are those of operator policies.
var operatorKeys = strings.Fields(`delivery-limit expires ha-mode ha-params ha-sync-mode max-in-memory-bytes max-in-memory-length max-length
	max-length-bytes message-ttl overflow target-group-size`)

func jsonOfPolicy(p *router.Policy) object {
	return object{
		"vhost": vhostOf(p.Namespace), "name": p.Name, "pattern": p.Pattern, "apply-to": targets[p.ApplyTo],
		"definition": jsonOfTable(p.Definition), "priority": p.Priority,
	}
}

// Policies of users and of operators have the same calls.
func listPolicies(operator bool) handler {
	return func(c *call) (any, error) {
		namespaces, err := c.namespaces()
		if err != nil {
			return nil, err
		}
		var all []entry
		for _, ns := range namespaces {
			for _, p := range c.router.Policies(ns, operator) {
				all = append(all, fixed(p.Name, jsonOfPolicy(p)))
			}
		}
		sortEntries(all)
		return c.list(all)
	}
}

// policy is that of the path.
func (c *call) policy(operator bool) (*router.Policy, error) {
	n, err := c.name("policy")
	if err != nil {
		return nil, err
	}
	all := c.router.Policies(n.Namespace, operator)
	i := slices.IndexFunc(all, func(p *router.Policy) bool { return p.Name == n.Name })
	if i < 0 {
		return nil, errNotFound
	}
	return all[i], nil
}

func getPolicy(operator bool) handler {
	return func(c *call) (any, error) {
		p, err := c.policy(operator)
		if err != nil {
			return nil, err
		}
		return jsonOfPolicy(p), nil
	}
}

// policyJSON is a policy in requests.
type policyJSON struct {
	Name       string  `json:"name"`
	VHost      string  `json:"vhost"`
	Pattern    *string `json:"pattern"`
	ApplyTo    string  `json:"apply-to"`
	Definition *args   `json:"definition"`
	Priority   number  `json:"priority"`
}

func (j *policyJSON) policy(namespace string, operator bool) (p router.Policy, err error) {
	var lacks []string
	if j.Pattern == nil {
		lacks = append(lacks, "pattern")
	}
	if j.Definition == nil {
		lacks = append(lacks, "definition")
	}
	if len(lacks) > 0 {
		return p, missing(lacks...)
	}
	p = router.Policy{Namespace: namespace, Name: j.Name, Operator: operator, Pattern: *j.Pattern, Priority: int(j.Priority), Definition: message.Table(*j.Definition)}
	if j.ApplyTo != "" {
		i := slices.Index(targets[:], j.ApplyTo)
		if i < 0 {
			return p, badRequest("Validation failed\n\napply-to %.40s is none of %s\n", j.ApplyTo, strings.Join(targets[:], ", "))
		}
		p.ApplyTo = router.PolicyTarget(i)
	} else if operator {
		p.ApplyTo = router.ToQueues
	}
	known := policyKeys
	if operator {
		known = operatorKeys
	}
	for _, h := range p.Definition {
		if !slices.Contains(known, h.Name) {
			return p, badRequest("Validation failed\n\n[{%q,%s}] are not recognised policy settings\n", h.Name, h.Value)
		}
	}
	return p, nil
}

func putPolicy(operator bool) handler {
	return func(c *call) (any, error) {
		var j policyJSON
		if err := c.read(&j, maxDefinition); err != nil {
			return nil, err
		}
		n, err := c.name("policy")
		if err != nil {
			return nil, err
		}
		j.Name = n.Name
		p, err := j.policy(n.Namespace, operator)
		if err != nil {
			return nil, err
		}
		_, err = c.policy(operator)
		found := err == nil
		if err := c.setPolicy(p); err != nil {
			return nil, err
		}
		return c.created(!found)
	}
}

func (c *call) setPolicy(p router.Policy) error {
	err := c.router.SetPolicy(c.ctx, c.principal, p)
	if kind(err) == core.Invalid {
		return badRequest("Validation failed\n\n%v\n", err)
	}
	if err != nil {
		return fmt.Errorf("policy %q: %w", p.Name, err)
	}
	return nil
}

func deletePolicy(operator bool) handler {
	return func(c *call) (any, error) {
		p, err := c.policy(operator)
		if err != nil {
			return nil, err
		}
		return nil, c.router.DeletePolicy(c.ctx, c.principal, p.Namespace, p.Name, operator)
	}
}
