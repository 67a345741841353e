package manage

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// maxBindings bounds what one request looks at.
const maxBindings = 100_000

// propertiesKey tells the bindings between two things apart: the quoted key, and a hash of the
// arguments where there are some. Clients give it back as they got it.
func propertiesKey(key string, arguments message.Table) string {
	quoted := strings.ReplaceAll(url.QueryEscape(key), "~", "%7E")
	switch {
	case len(arguments) > 0:
		sum := sha256.Sum256(message.AppendTable(nil, arguments))
		return quoted + "~" + base64.RawURLEncoding.EncodeToString(sum[:6])
	case key == "":
		return "~"
	}
	return quoted
}

func jsonOfBinding(b *router.Binding) object {
	to := "queue"
	if b.ToExchange {
		to = "exchange"
	}
	return object{
		"source": b.Source.Name, "vhost": vhostOf(b.Source.Namespace), "destination": b.Destination.Name, "destination_type": to,
		"routing_key": b.Key, "arguments": jsonOfTable(b.Arguments), "properties_key": propertiesKey(b.Key, b.Arguments),
	}
}

// implicit is the binding by which the default exchange sends to a queue.
func implicit(queue core.Name) router.Binding {
	return router.Binding{Source: core.Name{Namespace: queue.Namespace}, Destination: queue, Key: queue.Name}
}

// bindingsFrom are the bindings that lead from an exchange. The default one has one for each queue.
func (c *call) bindingsFrom(x core.Name) ([]router.Binding, error) {
	if x.Name != "" {
		all, err := c.router.BindingsOf(router.BindingQuery{Source: &x, Limit: maxBindings + 1})
		if kind(err) == core.NotFound {
			return nil, nil // deleted just now
		}
		return all, err
	}
	var all []router.Binding
	for after := ""; ; {
		names, err := c.router.QueueNames(x.Namespace, after, namesAtOnce)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			all = append(all, implicit(core.Name{Namespace: x.Namespace, Name: name}))
		}
		if len(names) < namesAtOnce || len(all) > maxBindings {
			return all, nil
		}
		after = names[len(names)-1]
	}
}

// answerBindings answers a list of bindings.
func (c *call) answerBindings(bs []router.Binding) (any, error) {
	if len(bs) > maxBindings {
		return nil, badRequest("more than %d bindings: ask for those of an exchange or a queue", maxBindings)
	}
	all := make([]entry, 0, len(bs))
	for i := range bs {
		all = append(all, entry{bs[i].Source.Name, func(bool) (object, error) { return jsonOfBinding(&bs[i]), nil }})
	}
	return c.list(all)
}

func listBindings(c *call) (any, error) {
	namespaces, err := c.namespaces()
	if err != nil {
		return nil, err
	}
	all, err := c.bindingsOf(namespaces)
	if err != nil {
		return nil, err
	}
	return c.answerBindings(all)
}

// bindingsOf are all bindings of namespaces.
func (c *call) bindingsOf(namespaces []string) (all []router.Binding, err error) {
	for _, ns := range namespaces {
		xs, err := c.exchangesOf(ns)
		if err != nil {
			return nil, err
		}
		for _, x := range xs {
			if len(all) > maxBindings {
				return all, nil
			}
			bs, err := c.bindingsFrom(x.Name)
			if err != nil {
				return nil, err
			}
			all = append(all, bs...)
		}
	}
	return all, nil
}

func listBindingsOfSource(c *call) (any, error) {
	x, err := c.exchange("exchange")
	if err != nil {
		return nil, err
	}
	all, err := c.bindingsFrom(x.Name)
	if err != nil {
		return nil, err
	}
	return c.answerBindings(all)
}

func listBindingsOfDestination(c *call) (any, error) {
	x, err := c.exchange("exchange")
	if err != nil {
		return nil, err
	}
	all, err := c.router.BindingsOf(router.BindingQuery{Destination: &x.Name, ToExchange: true, Limit: maxBindings + 1})
	if err != nil {
		return nil, err
	}
	return c.answerBindings(all)
}

func listBindingsOfQueue(c *call) (any, error) {
	q, t, err := c.findQueue()
	if err != nil {
		return nil, err
	}
	name := core.Name{}
	if t != nil {
		name = t.Name
	} else {
		name = q.Name
	}
	all, err := c.router.BindingsOf(router.BindingQuery{Destination: &name, Limit: maxBindings + 1})
	if err != nil && kind(err) != core.NotFound {
		return nil, err
	}
	return c.answerBindings(append([]router.Binding{implicit(name)}, all...))
}

// between are the bindings between the exchange and the destination of the path.
func (c *call) between() ([]router.Binding, error) {
	x, err := c.exchange("source")
	if err != nil {
		return nil, err
	}
	to := core.Name{Namespace: x.Name.Namespace, Name: c.params.Get("destination")}
	toExchange := c.toExchange()
	if x.Name.Name == "" {
		_, err := c.router.Queue(to)
		if toExchange || kind(err) == core.NotFound {
			return nil, nil
		}
		return []router.Binding{implicit(to)}, err
	}
	all, err := c.router.BindingsOf(router.BindingQuery{Source: &x.Name, Destination: &to, ToExchange: toExchange, Limit: maxBindings})
	if kind(err) == core.NotFound {
		return nil, errNotFound
	}
	return all, err
}

// toExchange reports whether the path's destination is an exchange: e, not q.
func (c *call) toExchange() bool { return c.params.Get("kind") == "e" }

func listBetween(c *call) (any, error) {
	all, err := c.between()
	if err != nil {
		return nil, err
	}
	return c.answerBindings(all)
}

// binding is the one of the path.
func (c *call) binding() (*router.Binding, error) {
	all, err := c.between()
	if err != nil {
		return nil, err
	}
	for i := range all {
		if c.isMeant(&all[i]) {
			return &all[i], nil
		}
	}
	return nil, errNotFound
}

// isMeant reports whether a binding is that of the path: by its properties key, or by its key alone, as
// RabbitMQ's own client for Java has it.
func (c *call) isMeant(b *router.Binding) bool {
	said := c.params.Get("properties")
	if said == propertiesKey(b.Key, b.Arguments) {
		return true
	}
	key, err := url.QueryUnescape(said)
	return err == nil && len(b.Arguments) == 0 && b.Key != "" && key == b.Key
}

func getBinding(c *call) (any, error) {
	b, err := c.binding()
	if err != nil {
		return nil, err
	}
	return jsonOfBinding(b), nil
}

// bindingJSON is a binding in requests.
type bindingJSON struct {
	Source          string `json:"source"`
	VHost           string `json:"vhost"`
	Destination     string `json:"destination"`
	DestinationType string `json:"destination_type"`
	RoutingKey      string `json:"routing_key"`
	Arguments       args   `json:"arguments"`
}

func bind(c *call) (any, error) {
	var b bindingJSON
	if err := c.read(&b, maxDefinition); err != nil {
		return nil, err
	}
	if err := c.needVHost(); err != nil {
		return nil, err
	}
	b.Source, b.Destination = exchangeName(c.params.Get("source")), c.params.Get("destination")
	if c.toExchange() {
		b.DestinationType = "exchange"
	}
	if err := c.as(c.params.Get("vhost"), func(k *client) error { return k.bind(&b) }); err != nil {
		return nil, err
	}
	key := propertiesKey(b.RoutingKey, message.Table(b.Arguments))
	c.Response.Header.Set(fasthttp.HeaderLocation, url.PathEscape(b.Destination)+"/"+url.PathEscape(key))
	return c.created(true)
}

func (k *client) bind(b *bindingJSON) error {
	err := short(b.Source, b.Destination, b.RoutingKey)
	if err != nil {
		return err
	}
	if b.DestinationType == "exchange" {
		_, err = ask[*spec.ExchangeBindOk](k, 1, &spec.ExchangeBind{Source: b.Source, Destination: b.Destination, RoutingKey: b.RoutingKey, Arguments: message.Table(b.Arguments)})
	} else {
		_, err = ask[*spec.QueueBindOk](k, 1, &spec.QueueBind{Exchange: b.Source, Queue: b.Destination, RoutingKey: b.RoutingKey, Arguments: message.Table(b.Arguments)})
	}
	return err
}

func unbind(c *call) (any, error) {
	b, err := c.binding()
	if err != nil {
		return nil, err
	}
	return nil, c.as(c.params.Get("vhost"), func(k *client) error {
		if b.ToExchange {
			_, err = ask[*spec.ExchangeUnbindOk](k, 1, &spec.ExchangeUnbind{Source: b.Source.Name, Destination: b.Destination.Name, RoutingKey: b.Key, Arguments: b.Arguments})
		} else {
			_, err = ask[*spec.QueueUnbindOk](k, 1, &spec.QueueUnbind{Exchange: b.Source.Name, Queue: b.Destination.Name, RoutingKey: b.Key, Arguments: b.Arguments})
		}
		return err
	})
}
