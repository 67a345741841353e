package manage

import (
	"errors"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// defaultExchange is the name in paths of the exchange without a name.
const defaultExchange = "amq.default"

// exchangeName undoes it.
func exchangeName(inPath string) string {
	if inPath == defaultExchange {
		return ""
	}
	return inPath
}

func jsonOfExchange(x *router.Exchange) object {
	return object{
		"name": x.Name.Name, "vhost": vhostOf(x.Name.Namespace), "type": x.Type, "durable": x.Durable, "auto_delete": x.AutoDelete,
		"internal": x.Internal, "arguments": jsonOfTable(x.Arguments), "user_who_performed_action": "guest",
	}
}

// exchangesOf are the exchanges of a namespace, the default one first.
func (c *call) exchangesOf(namespace string) (all []*router.Exchange, err error) {
	x, err := c.router.Exchange(core.Name{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	all = append(all, x)
	for after := ""; ; {
		some, err := c.router.Exchanges(namespace, after, namesAtOnce)
		if err != nil {
			return nil, err
		}
		for _, x := range some {
			if c.may(router.ResourceExchange, x.Name) {
				all = append(all, x)
			}
		}
		if len(some) < namesAtOnce {
			return all, nil
		}
		after = some[len(some)-1].Name.Name
	}
}

func listExchanges(c *call) (any, error) {
	namespaces, err := c.namespaces()
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, ns := range namespaces {
		xs, err := c.exchangesOf(ns)
		if err != nil {
			return nil, err
		}
		for _, x := range xs {
			all = append(all, entry{x.Name.Name, func(bool) (object, error) { return jsonOfExchange(x), nil }})
		}
	}
	return c.list(all)
}

// exchange is that of the path. A node that does not know it asks the leader first.
func (c *call) exchange(param string) (*router.Exchange, error) {
	n, err := c.name(param)
	if err != nil {
		return nil, err
	}
	n.Name = exchangeName(n.Name)
	if !c.may(router.ResourceExchange, n) {
		return nil, errNotFound
	}
	x, err := c.router.Exchange(n)
	if kind(err) == core.NotFound {
		if err := c.router.Sync(c.ctx); err != nil {
			return nil, err
		}
		if x, err = c.router.Exchange(n); kind(err) == core.NotFound {
			return nil, errNotFound
		}
	}
	return x, err
}

func getExchange(c *call) (any, error) {
	x, err := c.exchange("exchange")
	if err != nil {
		return nil, err
	}
	return jsonOfExchange(x), nil
}

// exchangeJSON is an exchange in requests.
type exchangeJSON struct {
	Name       string  `json:"name"`
	VHost      string  `json:"vhost"`
	Type       string  `json:"type"`
	Durable    boolean `json:"durable"`
	AutoDelete boolean `json:"auto_delete"`
	Internal   boolean `json:"internal"`
	Arguments  args    `json:"arguments"`
}

func putExchange(c *call) (any, error) {
	var x exchangeJSON
	if err := c.read(&x, maxDefinition); err != nil {
		return nil, err
	}
	if err := c.needVHost(); err != nil {
		return nil, err
	}
	_, err := c.exchange("exchange")
	found := err == nil
	if err != nil && !errors.Is(err, errNotFound) {
		return nil, err
	}
	x.Name = exchangeName(c.params.Get("exchange"))
	if err := c.as(c.params.Get("vhost"), func(k *client) error { return k.declareExchange(&x) }); err != nil {
		return nil, err
	}
	return c.created(!found)
}

func (k *client) declareExchange(x *exchangeJSON) error {
	if x.Type == "" {
		x.Type = "direct"
	}
	if err := short(x.Name, x.Type); err != nil {
		return err
	}
	_, err := ask[*spec.ExchangeDeclareOk](k, 1, &spec.ExchangeDeclare{
		Exchange: x.Name, Type: x.Type, Durable: bool(x.Durable), AutoDelete: bool(x.AutoDelete), Internal: bool(x.Internal),
		Arguments: message.Table(x.Arguments),
	})
	return err
}

func deleteExchange(c *call) (any, error) {
	x, err := c.exchange("exchange")
	if err != nil {
		return nil, err
	}
	return nil, c.as(c.params.Get("vhost"), func(k *client) error {
		_, err := ask[*spec.ExchangeDeleteOk](k, 1, &spec.ExchangeDelete{Exchange: x.Name.Name, IfUnused: c.flag("if-unused")})
		return err
	})
}
