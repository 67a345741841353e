package amqp

import (
	"context"
	"math"
	"strings"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// The handlers of class queue.

func (ch *channel) queueDeclare(ctx context.Context, m *spec.QueueDeclare) error {
	name := stripped(m.Queue)
	if isReplyQueue(name) {
		return ch.declaredReplies(ctx, m)
	}
	var q *router.Queue
	var created bool
	var err error
	if m.Passive {
		if name, err = ch.named(name); err != nil {
			return err
		}
		if err := ch.conn.mayQueue(router.OpDescribe, name); err != nil {
			return err
		}
		q, err = ch.conn.accessible(ctx, name)
		if t := ch.conn.streamInstead(err, name); t != nil {
			return ch.declaredStream(ctx, t, m.NoWait)
		}
		if err == nil {
			err = ch.use(ctx, q)
		}
	} else {
		q, created, err = ch.declareQueue(ctx, name, m)
	}
	if err != nil || q == nil {
		return err
	}
	ch.lastQueue = q.Name.Name
	switch {
	case m.NoWait:
		return nil
	case created: // there was nothing in it: no need to ask its dispatcher
		ch.send(&spec.QueueDeclareOk{Queue: q.Name.Name})
		return nil
	}
	return ch.declared(ctx, q)
}

// declared answers a declaration.
func (ch *channel) declared(ctx context.Context, q *router.Queue) error {
	counts, err := ch.conn.srv.router.CountQueue(ctx, q.ID, "")
	if core.KindOf(err) == core.NotFound {
		return ch.conn.noQueue(q.Name.Name)
	}
	if err != nil {
		return err
	}
	ch.send(&spec.QueueDeclareOk{Queue: q.Name.Name, MessageCount: number(counts.Ready), ConsumerCount: number(int64(counts.Consumers))})
	return nil
}

// number is a count as methods have it.
func number(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// use has the time begin anew after which a queue that nobody uses is deleted: a passive declaration is a
// use as others are.
func (ch *channel) use(ctx context.Context, q *router.Queue) error {
	if q.Effective().Expires == 0 {
		return nil
	}
	_, _, err := ch.conn.srv.router.DeclareQueue(ctx, ch.conn.principal, q.Name, q.QueueConfig)
	if core.KindOf(err) == core.Denied { // who may not declare it does not keep it either
		return nil
	}
	return err
}

// declareQueue finds or creates a queue, and says which. It is nil when it is a stream, and the client
// has its answer.
func (ch *channel) declareQueue(ctx context.Context, name string, m *spec.QueueDeclare) (q *router.Queue, created bool, err error) {
	c := ch.conn
	fresh := name == ""
	switch {
	case fresh:
		if kind, err := queueKind(m.Arguments, c.queueText(name)); err == nil && kind != router.Classic {
			return nil, false, soft(spec.PreconditionFailed, "Cannot declare a server-named queue for type %s", kindNames[kind].title)
		}
		name = serverNamed("amq.gen-")
	case strings.HasPrefix(name, reservedPrefix):
		return nil, false, soft(spec.AccessRefused, "queue name '%s' contains reserved prefix 'amq.*'", name)
	}
	if err := c.mayQueue(router.OpCreate, name); err != nil {
		return nil, false, err
	}
	if !fresh {
		// What there is already is compared before the arguments are checked, as in
		// RabbitMQ.
		q, err := c.srv.router.Queue(c.inNamespace(name))
		if err == nil {
			err = ch.sameQueue(q, m)
		} else if t := c.streamInstead(err, name); t != nil {
			err = equivalent(argType, c.queueText(name), &streamType, orClassic(argument(m.Arguments, argType)))
		} else {
			err = nil
		}
		if err != nil {
			return nil, false, err
		}
	}
	config, err := ch.queueConfig(ctx, name, m)
	switch {
	case err != nil:
		return nil, false, err
	case config.Kind == router.Stream:
		return nil, false, ch.declareStream(ctx, name, m)
	}
	q, created, err = c.srv.router.DeclareQueue(ctx, c.principal, c.inNamespace(name), config)
	if err != nil {
		return nil, false, c.refused(err, "configure", c.queueText(name))
	}
	if !created {
		err = ch.sameQueue(q, m)
	}
	return q, created, err
}

// queueConfig is what a declaration asks for.
func (ch *channel) queueConfig(ctx context.Context, name string, m *spec.QueueDeclare) (config router.QueueConfig, err error) {
	c := ch.conn
	thing := c.queueText(name)
	if v := argument(m.Arguments, argDeadExchange); v != nil && v.Kind() != message.KindString {
		return config, soft(spec.PreconditionFailed, "invalid type '%s' for arg '%s' in %s", typeName(v.Kind()), argDeadExchange, thing)
	}
	kind, err := queueKind(m.Arguments, thing)
	if err != nil {
		return config, err
	}
	if err := checkQueueArguments(kind, m.Arguments, thing); err != nil {
		return config, err
	}
	if kind != router.Classic {
		switch {
		case m.AutoDelete:
			return config, invalidProperty("auto-delete", thing)
		case m.Exclusive:
			return config, invalidProperty("exclusive-owner", thing)
		case !m.Durable:
			return config, invalidProperty("non-durable", thing)
		}
	}
	config = router.QueueConfig{
		Kind: kind, Durable: m.Durable && !m.Exclusive, AutoDelete: m.AutoDelete,
		Limits: limitsOf(m.Arguments), Arguments: m.Arguments,
	}
	config.SingleActive = singleActive(m.Arguments)
	if m.Exclusive {
		if err := c.own(ctx); err != nil {
			return config, err
		}
		config.Owner = c.name
	}
	return config, nil
}

func invalidProperty(property, thing string) error {
	return soft(spec.PreconditionFailed, "invalid property '%s' for %s", property, thing)
}

// sameQueue compares a queue with a declaration of it. Who owns it comes first.
func (ch *channel) sameQueue(q *router.Queue, m *spec.QueueDeclare) error {
	c := ch.conn
	thing := c.queueText(q.Name.Name)
	owner := ""
	if m.Exclusive {
		owner = c.name
	}
	if q.Owner != owner {
		return c.locked(q.Name.Name)
	}
	if err := sameField("durable", thing, q.Durable, m.Durable && !m.Exclusive); err != nil {
		return err
	}
	if err := sameField("auto_delete", thing, q.AutoDelete, m.AutoDelete); err != nil {
		return err
	}
	return sameQueueArguments(q.Kind, q.Arguments, m.Arguments, thing)
}

func (ch *channel) queueBind(ctx context.Context, m *spec.QueueBind) error {
	err := ch.bindQueue(ctx, ch.conn.srv.router.Bind, m.Queue, m.Exchange, m.RoutingKey, m.Arguments)
	if err != nil {
		return err
	}
	ch.reply(m.NoWait, &spec.QueueBindOk{})
	return nil
}

func (ch *channel) queueUnbind(ctx context.Context, m *spec.QueueUnbind) error {
	err := ch.bindQueue(ctx, ch.conn.srv.router.Unbind, m.Queue, m.Exchange, m.RoutingKey, m.Arguments)
	if err != nil {
		return err
	}
	ch.send(&spec.QueueUnbindOk{})
	return nil
}

// bindQueue binds a queue to an exchange, or unbinds it. A queue and a key that are both empty
// mean the queue that was declared last (section 1.7.2.3 of the class reference).
func (ch *channel) bindQueue(ctx context.Context, change changeBinding, queue, exchange, key string, args message.Table) error {
	name, err := ch.named(stripped(queue))
	if err != nil {
		return err
	}
	if queue == "" && key == "" {
		key = name
	}
	if err := ch.conn.mayQueue(router.OpWrite, name); err != nil {
		return err
	}
	q, err := ch.conn.srv.router.Queue(ch.conn.inNamespace(name))
	if err == nil && q.Owner != "" && q.Owner != ch.conn.name {
		return ch.conn.locked(name)
	}
	return ch.change(ctx, change, router.Binding{Destination: ch.conn.inNamespace(name), Key: key, Arguments: args}, exchange)
}

func (ch *channel) queuePurge(ctx context.Context, m *spec.QueuePurge) error {
	c := ch.conn
	name, err := ch.named(m.Queue)
	if err != nil {
		return err
	}
	if err := c.mayQueue(router.OpRead, name); err != nil {
		return err
	}
	q, err := c.accessible(ctx, name)
	if t := c.streamInstead(err, name); t != nil {
		return c.notByStreams("queue.purge", t)
	}
	if err != nil {
		return err
	}
	n, err := c.srv.router.PurgeQueue(ctx, c.principal, q.ID, "")
	if core.KindOf(err) == core.NotFound {
		return c.noQueue(name)
	}
	if err != nil {
		return c.refused(err, "read", c.queueText(name))
	}
	ch.reply(m.NoWait, &spec.QueuePurgeOk{MessageCount: number(n)})
	return nil
}

func (ch *channel) queueDelete(ctx context.Context, m *spec.QueueDelete) error {
	name, err := ch.named(stripped(m.Queue))
	if err != nil {
		return err
	}
	if err := ch.conn.mayQueue(router.OpDelete, name); err != nil {
		return err
	}
	n, err := ch.deleteQueue(ctx, name, m)
	if err != nil {
		return err
	}
	ch.reply(m.NoWait, &spec.QueueDeleteOk{MessageCount: number(n)})
	return nil
}

// noConditions is the error for conditions of queue.delete that a kind of queues does not know.
func (c *conn) noConditions(name string, m *spec.QueueDelete, kind string) error {
	flag := "if-unused"
	if !m.IfUnused {
		flag = "if-empty"
	}
	return hard(spec.NotImplemented, "cannot delete %s. queue.delete operations with %s flag set are not supported by %s queues", c.queueText(name), flag, kind)
}

// deleteQueue deletes a queue, and says how many messages were ready. One that is not there
// counts as deleted.
func (ch *channel) deleteQueue(ctx context.Context, name string, m *spec.QueueDelete) (int64, error) {
	c := ch.conn
	q, err := c.accessible(ctx, name)
	if t := c.streamInstead(err, name); t != nil {
		return 0, ch.deleteStream(ctx, t, m)
	}
	if err != nil {
		if e := asProtocolError(err); e.code == spec.NotFound {
			return 0, nil
		}
		return 0, err
	}
	thing := c.queueText(name)
	if q.Kind == router.Quorum && (m.IfUnused || m.IfEmpty) {
		return 0, c.noConditions(name, m, "quorum")
	}
	counts, err := c.srv.router.CountQueue(ctx, q.ID, "")
	switch {
	case core.KindOf(err) == core.NotFound:
		return 0, nil
	case err != nil:
		return 0, err
	case m.IfUnused && counts.Consumers > 0:
		return 0, soft(spec.PreconditionFailed, "%s in use", thing)
	case m.IfEmpty && counts.Ready > 0:
		return 0, soft(spec.PreconditionFailed, "%s not empty", thing)
	}
	_, err = c.srv.router.DeleteQueue(ctx, c.principal, q.Name, m.IfUnused, m.IfEmpty && counts.Unsettled == 0)
	switch core.KindOf(err) { //nolint:exhaustive // the others are as they are
	case core.OK, core.NotFound:
		return counts.Ready, nil
	case core.Conflict:
		if m.IfEmpty {
			return 0, soft(spec.PreconditionFailed, "%s not empty", thing)
		}
		return 0, soft(spec.PreconditionFailed, "%s in use", thing)
	}
	return 0, c.refused(err, "configure", thing)
}
