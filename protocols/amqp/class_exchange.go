package amqp

import (
	"context"
	"strings"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// The handlers of class exchange. The specification is
// https://www.rabbitmq.com/amqp-0-9-1-reference; texts are RabbitMQ's.

// exchangeTypes are the types that can be declared.
var exchangeTypes = map[string]bool{
	"direct": true, "fanout": true, "topic": true, "headers": true,
	"x-consistent-hash": true, "x-modulus-hash": true, "x-random": true, typeDelayed: true,
}

const (
	typeDelayed    = "x-delayed-message"
	argDelayedType = "x-delayed-type"
	argAlternate   = "alternate-exchange"
)

func errDefaultExchange() error {
	return soft(spec.AccessRefused, "operation not permitted on the default exchange")
}

func (ch *channel) exchangeDeclare(ctx context.Context, m *spec.ExchangeDeclare) error {
	name := stripped(m.Exchange)
	if m.Passive {
		if name == "" {
			return errDefaultExchange()
		}
		if err := ch.conn.mayExchange(router.OpDescribe, name); err != nil {
			return err
		}
		if err := ch.conn.needExchange(ctx, name); err != nil {
			return err
		}
	} else if err := ch.declareExchange(ctx, name, m); err != nil {
		return err
	}
	ch.reply(m.NoWait, &spec.ExchangeDeclareOk{})
	return nil
}

// reply sends an answer unless the client does not wait for it.
func (ch *channel) reply(noWait bool, m spec.Method) {
	if !noWait {
		ch.send(m)
	}
}

// needExchange looks that there is an exchange. A node that follows asks the leader before it says
// that there is none.
func (c *conn) needExchange(ctx context.Context, name string) error {
	n := c.inNamespace(name)
	_, err := c.srv.router.Exchange(n)
	if core.KindOf(err) != core.NotFound {
		return err
	}
	if err := c.srv.router.Sync(ctx); err != nil {
		return err
	}
	if _, err = c.srv.router.Exchange(n); core.KindOf(err) == core.NotFound {
		return c.noExchange(name)
	}
	return err
}

func (ch *channel) declareExchange(ctx context.Context, name string, m *spec.ExchangeDeclare) error {
	c := ch.conn
	thing := c.exchangeText(name)
	switch {
	case !exchangeTypes[m.Type]:
		return soft(spec.PreconditionFailed, "unknown exchange type '%s'", m.Type)
	case name == "":
		return errDefaultExchange()
	}
	if err := c.mayExchange(router.OpCreate, name); err != nil {
		return err
	}
	if strings.HasPrefix(name, reservedPrefix) {
		x, err := c.srv.router.Exchange(c.inNamespace(name))
		if core.KindOf(err) == core.NotFound {
			return soft(spec.AccessRefused, "exchange name '%s' contains reserved prefix 'amq.*'", name)
		}
		if err != nil {
			return err
		}
		return sameExchange(x, m, thing)
	}
	if v := argument(m.Arguments, argAlternate); v != nil && v.Kind() != message.KindString {
		return soft(spec.PreconditionFailed, "invalid type '%s' for arg '%s' in %s", typeName(v.Kind()), argAlternate, thing)
	}
	if m.Type == typeDelayed {
		v := argument(m.Arguments, argDelayedType)
		if v == nil || v.Kind() != message.KindString || !exchangeTypes[v.Str()] || v.Str() == typeDelayed {
			return soft(spec.PreconditionFailed, "Invalid argument, 'x-delayed-type' must be an existing exchange type")
		}
	}
	x, created, err := c.srv.router.DeclareExchange(ctx, c.principal, c.inNamespace(name), router.ExchangeConfig{
		Type: m.Type, Durable: m.Durable, AutoDelete: m.AutoDelete, Internal: m.Internal, Arguments: m.Arguments,
	})
	switch {
	case err != nil:
		return c.refused(err, "configure", thing)
	case created:
		return nil
	}
	return sameExchange(x, m, thing)
}

// sameExchange compares an exchange with a declaration of it.
func sameExchange(x *router.Exchange, m *spec.ExchangeDeclare, thing string) error {
	if err := sameField("type", thing, x.Type, m.Type); err != nil {
		return err
	}
	if err := sameField("durable", thing, x.Durable, m.Durable); err != nil {
		return err
	}
	if err := sameField("auto_delete", thing, x.AutoDelete, m.AutoDelete); err != nil {
		return err
	}
	if err := sameField("internal", thing, x.Internal, m.Internal); err != nil {
		return err
	}
	names := []string{argAlternate}
	if x.Type == typeDelayed {
		names = append(names, argDelayedType)
	}
	for _, name := range names {
		if err := equivalent(name, thing, argument(x.Arguments, name), argument(m.Arguments, name)); err != nil {
			return err
		}
	}
	return nil
}

func (ch *channel) exchangeDelete(ctx context.Context, m *spec.ExchangeDelete) error {
	c := ch.conn
	name := stripped(m.Exchange)
	thing := c.exchangeText(name)
	switch {
	case name == "":
		return errDefaultExchange()
	case strings.HasPrefix(name, reservedPrefix):
		return soft(spec.AccessRefused, "deletion of system %s not allowed", thing)
	}
	err := c.srv.router.DeleteExchange(ctx, c.principal, c.inNamespace(name), m.IfUnused)
	switch core.KindOf(err) {
	case core.OK, core.NotFound: // what is not there counts as deleted
	case core.Conflict:
		return soft(spec.PreconditionFailed, "%s in use", thing)
	default:
		return c.refused(err, "configure", thing)
	}
	ch.reply(m.NoWait, &spec.ExchangeDeleteOk{})
	return nil
}

func (ch *channel) exchangeBind(ctx context.Context, m *spec.ExchangeBind) error {
	err := ch.bind(ctx, ch.conn.srv.router.Bind, m.Source, m.Destination, m.RoutingKey, m.Arguments)
	if err != nil {
		return err
	}
	ch.reply(m.NoWait, &spec.ExchangeBindOk{})
	return nil
}

func (ch *channel) exchangeUnbind(ctx context.Context, m *spec.ExchangeUnbind) error {
	err := ch.bind(ctx, ch.conn.srv.router.Unbind, m.Source, m.Destination, m.RoutingKey, m.Arguments)
	if err != nil {
		return err
	}
	ch.reply(m.NoWait, &spec.ExchangeUnbindOk{})
	return nil
}

// changeBinding is Router.Bind or Unbind.
type changeBinding func(context.Context, router.Principal, router.Binding) error

// bind binds or unbinds an exchange to another one.
func (ch *channel) bind(ctx context.Context, change changeBinding, source, destination, key string, args message.Table) error {
	destination = stripped(destination)
	if destination == "" {
		return errDefaultExchange()
	}
	return ch.change(ctx, change, router.Binding{ToExchange: true, Destination: ch.conn.inNamespace(destination), Key: key, Arguments: args}, source)
}

// change creates or removes a binding from an exchange.
func (ch *channel) change(ctx context.Context, change changeBinding, b router.Binding, source string) error {
	c := ch.conn
	if source = stripped(source); source == "" {
		return errDefaultExchange()
	}
	if err := checkMatch(b.Arguments); err != nil {
		return err
	}
	b.Source = c.inNamespace(source)
	err := change(ctx, c.principal, b)
	switch core.KindOf(err) { //nolint:exhaustive // the others are as they are
	case core.NotFound:
		return c.missing(err)
	case core.Denied:
		to := c.queueText(b.Destination.Name)
		if b.ToExchange {
			to = c.exchangeText(b.Destination.Name)
		}
		return c.refused(err, "write", to)
	}
	return err
}

// checkMatch checks the way of matching that a headers exchange is asked for.
func checkMatch(args message.Table) error {
	v := argument(args, "x-match")
	switch {
	case v == nil:
	case v.Kind() != message.KindString:
		return soft(spec.PreconditionFailed, "Invalid x-match field type %s (value %s); expected longstr", typeName(v.Kind()), plainText(*v))
	default:
		switch v.Str() {
		case "all", "any", "all-with-x", "any-with-x":
		default:
			return soft(spec.PreconditionFailed, "Invalid x-match field value <<\"%s\">>; expected all, any, all-with-x, or any-with-x", v.Str())
		}
	}
	return nil
}
