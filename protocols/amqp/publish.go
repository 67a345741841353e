package amqp

import (
	"bytes"
	"context"
	"strings"

	"polylog/core"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// publish is basic.publish with its content. m, p and body are valid during the call only.
// It does not wait for the log: what becomes of the message is told to published, and what
// follows on the channel is handled meanwhile.
func (ch *channel) publish(ctx context.Context, m *spec.BasicPublish, p *spec.Properties, body []byte) error {
	c := ch.conn
	if m.Immediate {
		return hard(spec.NotImplemented, "immediate=true")
	}
	if err := ch.setReplyTo(p); err != nil {
		return err
	}
	if m.Exchange == "" && strings.HasPrefix(m.RoutingKey, replyPrefix) {
		ch.publishReply(m, p, body)
		return nil
	}
	var in incoming
	delays := func() bool {
		x, err := c.srv.router.Exchange(c.inNamespace(m.Exchange))
		return err == nil && x.Type == typeDelayed
	}
	if err := in.read(m, p, body, c.srv.now(), delays); err != nil {
		return err
	}
	if err := c.checkUser(p); err != nil {
		return err
	}
	batch, err := in.Batch(nil)
	if err != nil {
		return err
	}
	out := &publishing{ch: ch, ctx: ctx, batch: batch, address: router.Address{Exchange: c.inNamespace(m.Exchange), Keys: in.keys}}
	if m.Mandatory {
		out.mandatory = &returnable{routingKey: m.RoutingKey, props: *p, body: bytes.Clone(body)}
	}
	if ch.tx != nil {
		if err := c.needExchange(ctx, m.Exchange); err != nil {
			return err
		}
		return ch.tx.publish(out)
	}
	out.seq = ch.confirms.number()
	c.flight.add(len(batch))
	c.srv.router.PublishTo(c.principal, out.address, batch, out.done)
	return nil
}

// publishing is a message that is on its way into the log.
type publishing struct {
	ch        *channel
	ctx       context.Context //nolint:containedctx // of the connection, for what is done when the message is there
	address   router.Address
	batch     []byte
	seq       uint64      // its number for confirms; 0: none is wanted
	mandatory *returnable // nil: it need not be routed
}

// returnable is what it takes to return a message.
type returnable struct {
	routingKey string
	props      spec.Properties
	body       []byte
}

// done is called when the message is in the log and was routed, or was refused.
func (out *publishing) done(r router.Routed) {
	ch := out.ch
	out.settled(&r)
	ch.conn.flight.done(len(out.batch))
}

// settled tells the client what became of the message: a return comes before the confirm
// (https://www.rabbitmq.com/docs/confirms).
func (out *publishing) settled(r *router.Routed) {
	ch := out.ch
	if r.Err != nil && (out.seq == 0 || !passing(r.Err)) {
		ch.fail(out.ctx, out.failure(r.Err), spec.BasicPublishID)
		return
	}
	if r.Err == nil && r.Queues == 0 {
		out.giveBack()
	}
	if out.seq != 0 {
		ch.confirms.settle(out.seq, r.Err == nil && !r.Rejected)
	}
}

// giveBack returns a mandatory message that no queue took.
func (out *publishing) giveBack() {
	if m := out.mandatory; m != nil {
		out.ch.sendContent(&spec.BasicReturn{
			ReplyCode: uint16(spec.NoRoute), ReplyText: "NO_ROUTE",
			Exchange: out.address.Exchange.Name, RoutingKey: m.routingKey,
		}, &m.props, m.body)
	}
}

// passing reports whether an error is one that another try may not meet. Such a publish is
// not confirmed; a client that does not ask for confirms loses its connection instead.
func passing(err error) bool {
	switch core.KindOf(err) { //nolint:exhaustive // the others stay
	case core.Unavailable, core.NotLeader, core.Uncertain, core.Closed:
		return true
	}
	return false
}

// failure is a publish's error in RabbitMQ's words.
func (out *publishing) failure(err error) error {
	c, exchange := out.ch.conn, out.address.Exchange
	switch core.KindOf(err) { //nolint:exhaustive // the others are as they are
	case core.NotFound:
		return c.noExchange(exchange.Name)
	case core.Denied:
		if x, e := c.srv.router.Exchange(exchange); e == nil && x.Internal {
			return soft(spec.AccessRefused, "cannot publish to internal %s", c.exchangeText(exchange.Name))
		}
		return c.refused(err, "write", c.exchangeText(exchange.Name))
	}
	return err
}
