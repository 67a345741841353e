package probe

import (
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// consuming is who gets which message.
var consuming = []Probe{
	{"missing queue", func(e *env) {
		e.try("consume", func(ch *amqp.Channel) error {
			_, err := ch.Consume(e.name("nowhere"), "", false, false, false, false, nil)
			return err
		})
		e.try("get", func(ch *amqp.Channel) error { _, _, err := ch.Get(e.name("nowhere"), false); return err })
	}},
	{"a consumer tag twice", func(e *env) {
		q := e.queue("q", "d", nil)
		e.try("on one channel", func(ch *amqp.Channel) error {
			_, err := ch.Consume(q, "tag", false, false, false, false, nil)
			e.must(err)
			_, err = ch.Consume(q, "tag", false, false, false, false, nil)
			return err
		})
		a, b := e.channel(), e.channel()
		_, err := a.Consume(q, "tag", false, false, false, false, nil)
		e.must(err)
		_, err = b.Consume(q, "tag", false, false, false, false, nil)
		e.say("on two channels: %s", describe(err))
	}},
	{"a generated consumer tag", func(e *env) {
		q := e.queue("q", "d", nil)
		r := e.opened()
		r.put(method(1, 60, 20, short(0), shortstr(q), shortstr(""), octet(0), fields()))
		g := r.frame(patience)
		tag := string(g.payload[5:])
		e.say("%s, %s of %d bytes", g, tag[:min(9, len(tag))], len(tag))
	}},
	{"exclusive consumers", func(e *env) {
		q := e.queue("q", "d", nil)
		c := e.consume(q, "first", 0, "x", nil)
		e.try("beside it", func(ch *amqp.Channel) error { _, err := ch.Consume(q, "", false, false, false, false, nil); return err })
		e.try("get beside it", func(ch *amqp.Channel) error { _, _, err := ch.Get(q, true); return err })
		e.must(c.ch.Close())
		e.await("free", func() bool {
			_, err := e.channel().Consume(q, "second", false, false, false, false, nil)
			return err == nil
		})
		e.try("exclusive beside another", func(ch *amqp.Channel) error { _, err := ch.Consume(q, "", false, true, false, false, nil); return err })
	}},
	{"no-local does nothing", func(e *env) {
		q := e.queue("q", "d", nil)
		ch := e.channel()
		in, err := ch.Consume(q, "", true, false, true, false, nil)
		e.must(err)
		e.must(send(ch, "", q, "own", amqp.Publishing{}))
		c := &consumer{e: e, ch: ch, in: in}
		e.say("%s", c.several(1))
	}},
	{"what a delivery tells", func(e *env) {
		q := e.queue("q", "d", nil)
		e.bind(q, "k", "amq.topic", nil)
		e.publish("amq.topic", "k", "a", amqp.Publishing{})
		c := e.consume(q, "tag", 0, "", nil)
		d := c.next()
		e.say("tag %s, number %d, redelivered %v, exchange %s, key %s, mode %d", d.ConsumerTag, d.DeliveryTag, d.Redelivered, d.Exchange, d.RoutingKey, d.DeliveryMode)
	}},
	{"what a get tells", func(e *env) {
		q := e.queue("q", "d", nil)
		e.fill(q, "a", "b", "c")
		ch := e.channel()
		for range 3 {
			d, ok, err := ch.Get(q, false)
			e.must(err)
			e.say("%v: number %d, %d more", ok, d.DeliveryTag, d.MessageCount)
		}
		_, ok, err := ch.Get(q, false)
		e.must(err)
		e.say("%v", ok)
	}},
	{"prefetch", func(e *env) {
		q := e.queue("q", "d", nil)
		e.fill(q, "a", "b", "c", "d")
		c := e.consume(q, "", 2, "", nil)
		a := c.next()
		e.say("%s %s, then %s", shown(a), shown(c.next()), c.quiet())
		e.must(a.Ack(false))
		e.say("after an ack %s, then %s", c.several(1), c.quiet())
	}},
	{"prefetch changed later", func(e *env) {
		q := e.queue("q", "d", nil)
		e.fill(q, "a", "b", "c", "d")
		c := e.consume(q, "", 1, "", nil)
		e.say("%s, then %s", c.several(1), c.quiet())
		e.must(c.ch.Qos(3, 0, false))
		e.say("raised: %s", c.quiet())
	}},
	{"prefetch is per consumer", func(e *env) {
		p, q := e.queue("p", "d", nil), e.queue("q", "d", nil)
		ch := e.channel()
		e.must(ch.Qos(1, 0, false))
		in1, err := ch.Consume(p, "", false, false, false, false, nil)
		e.must(err)
		in2, err := ch.Consume(q, "", false, false, false, false, nil)
		e.must(err)
		e.fill(p, "a", "b")
		e.fill(q, "c", "d")
		c1, c2 := &consumer{e, ch, in1}, &consumer{e, ch, in2}
		e.say("%s and %s, then %s and %s", c1.several(1), c2.several(1), c1.quiet(), c2.quiet())
	}},
	{"prefetch does not bound no-ack and get", func(e *env) {
		q := e.queue("q", "d", nil)
		e.fill(q, "a", "b", "c", "d", "f")
		ch := e.channel()
		e.must(ch.Qos(1, 0, false))
		e.say("%s", shown(e.take(ch, q, 1)[0]))
		e.say("%s", shown(e.take(ch, q, 1)[0]))
		in, err := ch.Consume(q, "", true, false, false, false, nil)
		e.must(err)
		e.say("%s", (&consumer{e, ch, in}).several(3))
	}},
	{"prefetch size", func(e *env) {
		e.try("qos", func(ch *amqp.Channel) error { return ch.Qos(0, 10, false) })
	}},
	{"global prefetch", func(e *env) {
		e.try("qos", func(ch *amqp.Channel) error { return ch.Qos(10, 0, true) })
	}},
	{"consumers take turns", func(e *env) {
		q := e.queue("q", "d", nil)
		a, b, c := e.consume(q, "", 10, "", nil), e.consume(q, "", 10, "", nil), e.consume(q, "", 10, "", nil)
		for i := range 9 {
			e.fill(q, fmt.Sprint(i))
		}
		e.say("%s / %s / %s", a.several(3), b.several(3), c.several(3))
	}},
	{"consumer priorities", func(e *env) {
		q := e.queue("q", "d", nil)
		low, high := e.consume(q, "", 2, "", nil), e.consume(q, "", 2, "", args("x-priority", int32(10)))
		e.fill(q, "a", "b", "c", "d")
		e.say("high %s, low %s", high.several(2), low.several(2))
	}},
	{"a consumer priority that is no number", func(e *env) {
		q := e.queue("q", "d", nil)
		e.try("text", func(ch *amqp.Channel) error {
			_, err := ch.Consume(q, "", false, false, false, false, args("x-priority", "10"))
			return err
		})
	}},
	{"cancel", func(e *env) {
		q := e.queue("q", "d", nil)
		e.fill(q, "a", "b")
		c := e.consume(q, "tag", 1, "", nil)
		d := c.next()
		e.must(c.ch.Cancel("tag", false))
		e.say("ready %d", e.ready(q))
		e.say("the channel can still settle: %s", describe(d.Ack(false)))
		e.must(barrier(c.ch))
		e.must(c.ch.Close())
		e.say("%s", e.drainAfter(q, 1))
	}},
	{"cancel of an unknown tag", func(e *env) {
		e.try("cancel", func(ch *amqp.Channel) error { return ch.Cancel("nobody", false) })
		r := e.opened()
		r.put(method(1, 60, 30, shortstr("nobody"), octet(0)))
		e.say("%s", r.read())
	}},
	{"cancel tells when the queue goes", func(e *env) {
		q := e.queue("q", "d", nil)
		c := e.consume(q, "tag", 0, "", nil)
		cancelled := c.ch.NotifyCancel(make(chan string, 1))
		_, err := e.channel().QueueDelete(q, false, false, false)
		e.must(err)
		select {
		case tag := <-cancelled:
			e.say("cancelled %s", tag)
		case <-time.After(patience):
			e.say("not told")
		}
		e.say("the channel lives: %s", describe(barrier(c.ch)))
	}},
	{"without the capability nobody is told", func(e *env) {
		q := e.queue("q", "d", nil)
		r := e.raw()
		r.login("PLAIN", plainGuest, nil)
		r.put(method(0, 10, 31, short(2047), long(131072), short(0)), method(0, 10, 40, shortstr("/"), shortstr(""), octet(0)))
		r.put(method(1, 20, 10, shortstr("")), method(1, 60, 20, short(0), shortstr(q), shortstr("tag"), octet(0), fields()))
		e.say("%s", r.reads(3))
		_, err := e.channel().QueueDelete(q, false, false, false)
		e.must(err)
		r.put(method(1, 20, 20, octet(1)))
		e.say("%s", r.read())
	}},
	{"an ack of a deleted queue's message", func(e *env) {
		q := e.queue("q", "d", nil)
		e.fill(q, "a")
		ch := e.channel()
		d := e.take(ch, q, 1)[0]
		_, err := e.channel().QueueDelete(q, false, false, false)
		e.must(err)
		e.must(d.Ack(false))
		e.say("%s", describe(barrier(ch)))
	}},
	{"no-ack", func(e *env) {
		q := e.queue("q", "d", nil)
		e.fill(q, "a", "b")
		c := e.consume(q, "", 0, "n", nil)
		e.say("%s", c.several(2))
		e.must(c.ch.Close())
		e.say("ready %d", e.ready(q))
	}},
	{"single active consumer", func(e *env) {
		q := e.queue("q", "d", args("x-single-active-consumer", true))
		a, b := e.consume(q, "", 1, "", nil), e.consume(q, "", 1, "", nil)
		e.fill(q, "1", "2")
		first := a.next()
		e.say("%s, the other %s", shown(first), b.quiet())
		e.must(first.Ack(false))
		e.say("%s, the other %s", shown(a.next()), b.quiet())
		e.must(a.ch.Close())
		e.say("then the other %s", b.several(1))
	}},
	{"single active consumer and exclusive", func(e *env) {
		q := e.queue("q", "d", args("x-single-active-consumer", true))
		e.try("consume", func(ch *amqp.Channel) error { _, err := ch.Consume(q, "", false, true, false, false, nil); return err })
	}},
	{"a cancelled exclusive consumer that holds a message", successor("x", nil)},
	{"a cancelled exclusive consumer that holds a message, quorum", successor("x", args("x-queue-type", "quorum"))},
	{"a cancelled active consumer that holds a message", successor("", args("x-single-active-consumer", true))},
	{"a cancelled active consumer that holds a message, quorum", successor("", args("x-single-active-consumer", true, "x-queue-type", "quorum"))},
	{"get from a single active consumer's queue", func(e *env) {
		q := e.queue("q", "d", args("x-single-active-consumer", true))
		qq := e.queue("qq", "d", args("x-single-active-consumer", true, "x-queue-type", "quorum"))
		e.try("classic", func(ch *amqp.Channel) error { _, _, err := ch.Get(q, true); return err })
		e.try("quorum", func(ch *amqp.Channel) error { _, _, err := ch.Get(qq, true); return err })
	}},
	{"unknown consumer arguments", func(e *env) {
		q := e.queue("q", "d", nil)
		e.try("consume", func(ch *amqp.Channel) error {
			_, err := ch.Consume(q, "", false, false, false, false, args("x-something", "else"))
			return err
		})
		e.try("x-cancel-on-ha-failover", func(ch *amqp.Channel) error {
			_, err := ch.Consume(q, "", false, false, false, false, args("x-cancel-on-ha-failover", true))
			return err
		})
	}},
}

// successor asks what the next consumer of a queue that serves one at a time gets while the one before,
// which was cancelled, has not settled what it holds. Messages that come later wake queues of 3.10, whose
// next active consumer gets none before.
func successor(flags string, arguments table) func(*env) {
	return func(e *env) {
		q := e.queue("q", "d", arguments)
		e.fill(q, "1", "2")
		first := e.consume(q, "first", 1, flags, nil)
		held := first.next()
		e.must(first.ch.Cancel("first", false))
		next := e.consume(q, "second", 1, flags, nil)
		e.fill(q, "3")
		d := next.next()
		e.say("%s is held, the next one gets %s", shown(held), shown(d))
		e.must(held.Ack(false))
		e.must(barrier(first.ch))
		e.must(d.Ack(false))
		e.say("then %s", next.several(1))
	}
}

// settling is ack, nack, reject and recover, for classic and quorum queues.
func settling() []Probe {
	probes := []Probe{
		{"an unknown delivery tag", func(e *env) {
			e.try("ack", func(ch *amqp.Channel) error { return ch.Ack(99, false) })
			e.try("ack multiple", func(ch *amqp.Channel) error { return ch.Ack(99, true) })
			e.try("nack", func(ch *amqp.Channel) error { return ch.Nack(99, false, true) })
			e.try("reject", func(ch *amqp.Channel) error { return ch.Reject(99, true) })
			e.try("ack 0", func(ch *amqp.Channel) error { return ch.Ack(0, false) })
			e.try("ack 0 multiple", func(ch *amqp.Channel) error { return ch.Ack(0, true) })
			e.try("nack 0 multiple", func(ch *amqp.Channel) error { return ch.Nack(0, true, true) })
		}},
		{"an ack twice", func(e *env) {
			q := e.queue("q", "d", nil)
			e.fill(q, "a")
			e.try("again", func(ch *amqp.Channel) error {
				d := e.take(ch, q, 1)[0]
				e.must(d.Ack(false))
				return d.Ack(false)
			})
		}},
		{"an ack on another channel", func(e *env) {
			q := e.queue("q", "d", nil)
			e.fill(q, "a")
			ch := e.channel()
			d := e.take(ch, q, 1)[0]
			e.try("ack", func(ch *amqp.Channel) error { return ch.Ack(d.DeliveryTag, false) })
		}},
		{"an ack of a no-ack delivery", func(e *env) {
			q := e.queue("q", "d", nil)
			e.fill(q, "a")
			e.try("ack", func(ch *amqp.Channel) error {
				d, _, err := ch.Get(q, true)
				e.must(err)
				return d.Ack(false)
			})
		}},
		{"recover without requeue", func(e *env) {
			e.try("recover", func(ch *amqp.Channel) error { return ch.Recover(false) })
		}},
		{"recover-async", func(e *env) {
			q := e.queue("q", "d", nil)
			e.fill(q, "a")
			r := e.opened()
			r.put(method(1, 60, 70, short(0), shortstr(q), octet(0)))
			e.say("%s", r.reads(3))
			r.put(method(1, 60, 100, octet(1)), method(1, 20, 20, octet(1)))
			e.say("%s", r.read())
			e.say("%s", e.drainAfter(q, 1))
		}},
	}
	kinds := []struct {
		name string
		args table
	}{
		{"classic", nil},
		{"quorum", args("x-queue-type", "quorum")},
		{"quorum with a limit", args("x-queue-type", "quorum", "x-delivery-limit", int32(10))},
	}
	cases := []struct {
		name string
		do   func(e *env, ch *amqp.Channel, got []amqp.Delivery)
		left int
	}{
		{"b comes back", func(e *env, _ *amqp.Channel, got []amqp.Delivery) {
			e.must(got[0].Ack(false))
			e.must(got[2].Ack(false))
			e.must(got[1].Nack(false, true))
		}, 2},
		{"all come back", func(e *env, _ *amqp.Channel, got []amqp.Delivery) { e.must(got[2].Nack(true, true)) }, 4},
		{"c, then a come back", func(e *env, ch *amqp.Channel, got []amqp.Delivery) {
			e.must(got[2].Nack(false, true))
			e.must(barrier(ch))
			e.must(got[0].Nack(false, true))
			e.must(got[1].Ack(false))
		}, 3},
		{"reject a with requeue", func(e *env, _ *amqp.Channel, got []amqp.Delivery) {
			e.must(got[0].Reject(true))
			e.must(got[2].Ack(true))
		}, 2},
		{"reject and nack without requeue", func(e *env, _ *amqp.Channel, got []amqp.Delivery) {
			e.must(got[0].Reject(false))
			e.must(got[2].Nack(true, false))
		}, 1},
		{"recover", func(e *env, ch *amqp.Channel, _ []amqp.Delivery) { e.must(ch.Recover(true)) }, 4},
		{"the channel closes", func(e *env, ch *amqp.Channel, _ []amqp.Delivery) { e.must(ch.Close()) }, 4},
		{"ack 0 multiple", func(e *env, ch *amqp.Channel, _ []amqp.Delivery) { e.must(ch.Ack(0, true)) }, 1},
		{"nack 0 multiple", func(e *env, ch *amqp.Channel, _ []amqp.Delivery) { e.must(ch.Nack(0, true, true)) }, 4},
		{"multiple ack amid", func(e *env, ch *amqp.Channel, got []amqp.Delivery) {
			e.must(got[1].Ack(true))
			e.must(barrier(ch))
			e.must(ch.Close())
		}, 2},
	}
	for _, k := range kinds {
		for _, c := range cases {
			probes = append(probes, Probe{k.name + ", " + c.name, func(e *env) {
				q := e.queue("q", "d", k.args)
				e.fill(q, "a", "b", "c", "d")
				ch := e.channel()
				got := e.take(ch, q, 3)
				c.do(e, ch, got)
				e.awaitReady(q, c.left)
				// Each one is taken and settled, so that counts and order show.
				e.say("%s", e.drain(q))
			}})
		}
		probes = append(
			probes,
			Probe{k.name + ", the connection is lost", func(e *env) {
				q := e.queue("q", "d", k.args)
				e.fill(q, "a", "b", "c", "d")
				r := e.opened()
				for range 3 {
					r.put(method(1, 60, 70, short(0), shortstr(q), octet(0)))
					r.reads(3)
				}
				e.must(r.Close())
				e.say("%s", e.drainAfter(q, 4))
			}},
			Probe{k.name + ", a consumer gets its own back", func(e *env) {
				q := e.queue("q", "d", k.args)
				e.fill(q, "a", "b")
				c := e.consume(q, "", 1, "", nil)
				e.must(c.next().Nack(false, true))
				var s []string
				for range 2 {
					d := c.next()
					s = append(s, shown(d))
					e.must(d.Ack(false))
				}
				e.say("%s", strings.Join(s, ", "))
			}},
			Probe{k.name + ", rejected five times", func(e *env) {
				q := e.queue("q", "d", k.args)
				e.fill(q, "a")
				c := e.consume(q, "", 1, "", nil)
				var s []string
				for range 5 {
					d := c.next()
					s = append(s, shown(d))
					e.must(d.Reject(true))
				}
				e.say("%s", strings.Join(s, ", "))
			}},
		)
	}
	return probes
}
