package amqp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"polylog/core"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// batchRoom is what a message's batch has beside its body, if its headers are few.
const batchRoom = 512

// publishCost is what a publish takes in memory until it is settled, beside the buffers of its message, in bytes: what this
// package, the router and the log keep of it. A client's tiny messages are bounded by it.
const publishCost = 512

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
		if err := cmp.Or(c.mayExchange(router.OpWrite, m.Exchange), c.checkUser(p)); err != nil {
			return err
		}
		ch.publishReply(m, p, body)
		return nil
	}
	delays := func() bool {
		x, err := c.srv.router.Exchange(c.inNamespace(m.Exchange))
		return err == nil && x.Type == typeDelayed
	}
	in := &c.incoming
	defer in.forget()
	err := in.read(m, p, body, c.srv.now(), delays)
	if err == nil {
		err = c.checkUser(p)
	}
	if err != nil { // that the user may not write there comes first, as in RabbitMQ
		return cmp.Or(c.mayExchange(router.OpWrite, m.Exchange), err)
	}
	in.Vouched = c.principal.Vouches()
	buf := getBuffer(len(body) + batchRoom)
	if buf.b, err = in.Batch(buf.b); err != nil {
		buf.release()
		return err
	}
	to := router.Address{Exchange: c.inNamespace(m.Exchange), Keys: in.keys} // copied before PublishTo returns
	out := newPublishing()
	out.ch, out.ctx, out.exchange, out.batch, out.at, out.expires = ch, ctx, to.Exchange, buf, in.now, in.ExpiresAt
	if m.Mandatory {
		out.mandatory = &returnable{routingKey: m.RoutingKey, props: *p, body: bytes.Clone(body)}
	}
	out.cost = publishCost + cap(buf.b)
	if m.Mandatory {
		out.cost += len(body)
	}
	if ch.tx != nil {
		if err := c.mayExchange(router.OpWrite, m.Exchange); err != nil {
			return err
		}
		if err := c.needExchange(ctx, m.Exchange); err != nil {
			return err
		}
		return ch.tx.publish(out, slices.Clone(in.keys))
	}
	out.seq = ch.confirms.number()
	c.flight.add(out.cost)
	c.srv.router.PublishTo(c.principal, to, buf.b, out.done)
	return nil
}

// publishing is a message that is on its way into the log. It is pooled, for there is one for each
// message: whoever is done with it releases it.
type publishing struct {
	ch        *channel
	ctx       context.Context //nolint:containedctx // of the connection, for what is done when the message is there
	exchange  core.Name
	batch     *buffer     // the router's until done
	cost      int         // that it counts for in the connection's flight, or its transaction, bytes
	at        int64       // ms, when it came
	expires   int64       // ms, as the batch says it; 0: never
	seq       uint64      // its number for confirms; 0: none is wanted
	mandatory *returnable // nil: it need not be routed

	done func(router.Routed) // its own settled
}

var publishings sync.Pool

func newPublishing() *publishing {
	out, _ := publishings.Get().(*publishing)
	if out == nil {
		out = &publishing{}
		out.done = out.settled
	}
	return out
}

func (out *publishing) release() {
	out.batch.release()
	*out = publishing{done: out.done}
	publishings.Put(out)
}

// returnable is what it takes to return a message.
type returnable struct {
	routingKey string
	props      spec.Properties
	body       []byte
}

// settled is called when the message is in the log and was routed, or was refused.
func (out *publishing) settled(r router.Routed) {
	flight, cost := &out.ch.conn.flight, out.cost
	out.tell(&r)
	out.release()
	flight.done(cost)
}

// tell tells the client what became of the message: a return comes before the confirm
// (https://www.rabbitmq.com/docs/confirms).
func (out *publishing) tell(r *router.Routed) {
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
			Exchange: out.exchange.Name, RoutingKey: m.routingKey,
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
	c, exchange := out.ch.conn, out.exchange
	switch core.KindOf(err) { //nolint:exhaustive // the others are as they are
	case core.NotFound:
		return c.noExchange(exchange.Name)
	case core.Denied:
		_, noRight := errors.AsType[*router.RefusedError](err)
		if x, e := c.srv.router.Exchange(exchange); !noRight && e == nil && x.Internal {
			return soft(spec.AccessRefused, "cannot publish to internal %s", c.exchangeText(exchange.Name))
		}
		return c.refused(err, "write", c.exchangeText(exchange.Name))
	}
	return err
}
