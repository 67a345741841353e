package probe

import (
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// quorum is what quorum queues do otherwise.
var quorum = []Probe{
	{"max-length", func(e *env) {
		q := e.queue("q", "d", args("x-queue-type", "quorum", "x-max-length", int32(2)))
		e.fill(q, "a", "b", "c")
		e.say("%s", e.drainAfter(q, 2))
	}},
	{"reject-publish", func(e *env) {
		// Quorum queues notice late that they are full; this only asks whether they notice.
		q := e.queue("q", "d", args("x-queue-type", "quorum", "x-max-length", int32(2), "x-overflow", "reject-publish"))
		e.await("a nack", func() bool { return !e.publish("", q, "m", amqp.Publishing{}) })
		e.say("full")
	}},
	{"message ttl", func(e *env) {
		q := e.queue("q", "d", args("x-queue-type", "quorum"))
		e.publish("", q, "a", amqp.Publishing{Expiration: "200"})
		e.awaitReady(q, 0)
		e.say("%d ready", e.ready(q))
	}},
	{"priorities are ignored or not", func(e *env) {
		q := e.queue("q", "d", args("x-queue-type", "quorum"))
		e.publish("", q, "low", amqp.Publishing{Priority: 1})
		e.publish("", q, "high", amqp.Publishing{Priority: 9})
		e.say("%s", e.drain(q))
	}},
	{"global prefetch and a consumer", func(e *env) {
		q := e.queue("q", "d", args("x-queue-type", "quorum"))
		e.try("consume", func(ch *amqp.Channel) error {
			if err := ch.Qos(10, 0, true); err != nil {
				return err
			}
			_, err := ch.Consume(q, "", false, false, false, false, nil)
			return err
		})
	}},
	{"exclusive consumer", func(e *env) {
		q := e.queue("q", "d", args("x-queue-type", "quorum"))
		e.consume(q, "", 0, "x", nil)
		e.try("beside it", func(ch *amqp.Channel) error { _, err := ch.Consume(q, "", false, false, false, false, nil); return err })
	}},
	{"delete if-empty and if-unused", func(e *env) {
		q := e.queue("q", "d", args("x-queue-type", "quorum"))
		e.fill(q, "a")
		e.try("if-empty", func(ch *amqp.Channel) error { _, err := ch.QueueDelete(q, false, true, false); return err })
		e.try("if-unused", func(ch *amqp.Channel) error { _, err := ch.QueueDelete(q, true, false, false); return err })
		e.try("neither", func(ch *amqp.Channel) error { _, err := ch.QueueDelete(q, false, false, false); return err })
	}},
	{"a limit of deliveries", func(e *env) {
		q := e.queue("q", "d", args("x-queue-type", "quorum", "x-delivery-limit", int32(3)))
		e.fill(q, "a")
		c := e.consume(q, "", 1, "", nil)
		for range 4 {
			d := c.next()
			e.say("%s", shown(d))
			e.must(d.Reject(true))
		}
		e.say("then %s", c.quiet())
	}},
	{"a limit of 0", func(e *env) {
		q := e.queue("q", "d", args("x-queue-type", "quorum", "x-delivery-limit", int32(0)))
		e.fill(q, "a")
		c := e.consume(q, "", 1, "", nil)
		e.must(c.next().Reject(true))
		e.say("then %s", c.quiet())
	}},
	{"a limit and lost connections", func(e *env) {
		q := e.queue("q", "d", args("x-queue-type", "quorum", "x-delivery-limit", int32(2)))
		e.fill(q, "a")
		for range 3 {
			c := e.dial()
			ch, err := c.Channel()
			e.must(err)
			e.say("%s", shown(e.take(ch, q, 1)[0]))
			e.must(c.Close())
		}
		e.wait(300 * time.Millisecond)
		e.say("%s", e.drain(q))
	}},
	{"single active consumer", func(e *env) {
		q := e.queue("q", "d", args("x-queue-type", "quorum", "x-single-active-consumer", true))
		a, b := e.consume(q, "", 1, "", nil), e.consume(q, "", 1, "", nil)
		e.fill(q, "1", "2")
		e.say("%s, the other %s", a.several(1), b.quiet())
		e.must(a.ch.Close())
		e.say("then the other %s", b.several(1))
	}},
	{"purge", func(e *env) {
		q := e.queue("q", "d", args("x-queue-type", "quorum"))
		e.fill(q, "a", "b", "c")
		ch := e.channel()
		e.take(ch, q, 1)
		n, err := ch.QueuePurge(q, false)
		e.must(err)
		e.say("%d purged", n)
		e.must(ch.Close())
		e.say("%s", e.drainAfter(q, 1))
	}},
}

// streams are queues of type stream.
var streams = []Probe{
	{"consume without prefetch", func(e *env) {
		s := e.stream()
		e.try("consume", func(ch *amqp.Channel) error { _, err := ch.Consume(s, "", false, false, false, false, nil); return err })
	}},
	{"consume without acks", func(e *env) {
		s := e.stream()
		e.try("consume", func(ch *amqp.Channel) error {
			e.must(ch.Qos(10, 0, false))
			_, err := ch.Consume(s, "", true, false, false, false, nil)
			return err
		})
	}},
	{"get", func(e *env) {
		s := e.stream()
		e.try("get", func(ch *amqp.Channel) error { _, _, err := ch.Get(s, false); return err })
	}},
	{"purge", func(e *env) {
		s := e.stream()
		e.try("purge", func(ch *amqp.Channel) error { _, err := ch.QueuePurge(s, false); return err })
	}},
	{"delete", func(e *env) {
		s := e.stream("a")
		e.try("delete", func(ch *amqp.Channel) error { _, err := ch.QueueDelete(s, false, false, false); return err })
	}},
	{"a wrong offset", func(e *env) {
		s := e.stream()
		e.try("text", func(ch *amqp.Channel) error {
			e.must(ch.Qos(10, 0, false))
			_, err := ch.Consume(s, "", false, false, false, false, args("x-stream-offset", "nonsense"))
			return err
		})
	}},
	{"an offset of the wrong type", func(e *env) {
		s := e.stream()
		e.try("a boolean", func(ch *amqp.Channel) error {
			e.must(ch.Qos(10, 0, false))
			_, err := ch.Consume(s, "", false, false, false, false, args("x-stream-offset", true))
			return err
		})
	}},
	{"from the first", func(e *env) {
		s := e.stream("a", "b", "c")
		c := e.consume(s, "", 10, "", args("x-stream-offset", "first"))
		for range 3 {
			d := c.next()
			e.say("%s, redelivered %v, offset %v(%T)", d.Body, d.Redelivered, d.Headers["x-stream-offset"], d.Headers["x-stream-offset"])
		}
	}},
	{"from an offset", func(e *env) {
		s := e.stream("a", "b", "c")
		for _, at := range []any{int64(1), int32(2), int64(0)} {
			e.say("%v: %s", at, bodies(e.consume(s, "", 10, "", args("x-stream-offset", at)), 1))
		}
	}},
	{"without an offset it is what comes next", func(e *env) {
		s := e.stream("a", "b")
		c, d := e.consume(s, "", 10, "", nil), e.consume(s, "", 10, "", args("x-stream-offset", "next"))
		e.wait(200 * time.Millisecond)
		e.fill(s, "c")
		e.say("%s %s", bodies(c, 1), bodies(d, 1))
	}},
	{"an offset behind the end", func(e *env) {
		s := e.stream("a", "b")
		c := e.consume(s, "", 10, "", args("x-stream-offset", int64(1000)))
		e.wait(200 * time.Millisecond)
		e.fill(s, "c")
		e.say("%.1s", c.quiet())
	}},
	{"from a time", func(e *env) {
		s := e.stream("a", "b")
		e.say("an hour ago: %s", bodies(e.consume(s, "", 10, "", args("x-stream-offset", time.Now().Add(-time.Hour))), 2))
	}},
	{"from an interval", func(e *env) {
		s := e.stream("a", "b")
		e.say("one hour: %s", bodies(e.consume(s, "", 10, "", args("x-stream-offset", "1h")), 2))
	}},
	{"two consumers get the same", func(e *env) {
		s := e.stream("a", "b")
		c, d := e.consume(s, "", 10, "", args("x-stream-offset", "first")), e.consume(s, "", 10, "", args("x-stream-offset", "first"))
		e.say("%s / %s", bodies(c, 2), bodies(d, 2))
	}},
	{"prefetch and acks", func(e *env) {
		s := e.stream("a", "b", "c")
		c := e.consume(s, "", 1, "", args("x-stream-offset", "first"))
		d := c.next()
		e.say("%s, then %.7s", d.Body, c.quiet())
		e.must(d.Ack(false))
		e.say("after an ack %s", c.next().Body)
	}},
	{"nack", func(e *env) {
		s := e.stream("a", "b")
		e.try("nack", func(ch *amqp.Channel) error {
			e.must(ch.Qos(1, 0, false))
			in, err := ch.Consume(s, "", false, false, false, false, args("x-stream-offset", "first"))
			e.must(err)
			return (&consumer{e, ch, in}).next().Nack(false, true)
		})
	}},
	{"unsettled messages stay for others", func(e *env) {
		s := e.stream("a")
		c := e.consume(s, "", 10, "", args("x-stream-offset", "first"))
		e.must(c.next().Ack(false))
		e.must(c.ch.Close())
		e.say("%s", bodies(e.consume(s, "", 10, "", args("x-stream-offset", "first")), 1))
	}},
	{"exclusive consumer", func(e *env) {
		s := e.stream()
		e.try("consume", func(ch *amqp.Channel) error {
			e.must(ch.Qos(10, 0, false))
			_, err := ch.Consume(s, "", false, true, false, false, nil)
			return err
		})
	}},
	{"global prefetch", func(e *env) {
		s := e.stream()
		e.try("consume", func(ch *amqp.Channel) error {
			e.must(ch.Qos(10, 0, true))
			_, err := ch.Consume(s, "", false, false, false, false, nil)
			return err
		})
	}},
}

// stream declares a stream with messages.
func (e *env) stream(messages ...string) string {
	s := e.queue("s", "d", args("x-queue-type", "stream"))
	e.fill(s, messages...)
	return s
}

// bodies are the next n bodies.
func bodies(c *consumer, n int) string {
	var s []string
	for range n {
		s = append(s, string(c.next().Body))
	}
	return strings.Join(s, ", ")
}

// transactions is the class tx.
var transactions = []Probe{
	{"without tx.select", func(e *env) {
		e.try("commit", func(ch *amqp.Channel) error { return ch.TxCommit() })
		e.try("rollback", func(ch *amqp.Channel) error { return ch.TxRollback() })
	}},
	{"select twice", func(e *env) {
		e.try("select", func(ch *amqp.Channel) error { e.must(ch.Tx()); return ch.Tx() })
	}},
	{"publishes wait for commit", func(e *env) {
		q := e.queue("q", "d", nil)
		ch := e.channel()
		e.must(ch.Tx())
		e.must(send(ch, "", q, "a", amqp.Publishing{}))
		e.must(send(ch, "", q, "b", amqp.Publishing{}))
		e.must(barrier(ch))
		e.say("before %d", e.ready(q))
		e.must(ch.TxCommit())
		e.say("after %d", e.ready(q))
	}},
	{"rollback drops publishes", func(e *env) {
		q := e.queue("q", "d", nil)
		ch := e.channel()
		e.must(ch.Tx())
		e.must(send(ch, "", q, "a", amqp.Publishing{}))
		e.must(ch.TxRollback())
		e.must(send(ch, "", q, "b", amqp.Publishing{}))
		e.must(ch.TxCommit())
		e.say("%s", e.drain(q))
	}},
	{"acks wait for commit", func(e *env) {
		q := e.queue("q", "d", nil)
		e.fill(q, "a", "b")
		ch := e.channel()
		e.must(ch.Tx())
		got := e.take(ch, q, 2)
		e.must(got[0].Ack(false))
		e.must(ch.TxCommit())
		e.must(got[1].Ack(false))
		e.must(ch.Close())
		e.say("%s", e.drainAfter(q, 1))
	}},
	{"rollback takes acks back", func(e *env) {
		q := e.queue("q", "d", nil)
		e.fill(q, "a")
		ch := e.channel()
		e.must(ch.Tx())
		d := e.take(ch, q, 1)[0]
		e.must(d.Ack(false))
		e.must(ch.TxRollback())
		e.say("ready %d", e.ready(q))
		e.must(d.Ack(false))
		e.must(ch.TxCommit())
		e.must(ch.Close())
		e.say("ready %d", e.ready(q))
	}},
	{"nack and requeue in a transaction", func(e *env) {
		q := e.queue("q", "d", nil)
		e.fill(q, "a", "b")
		ch := e.channel()
		e.must(ch.Tx())
		got := e.take(ch, q, 2)
		e.must(got[0].Nack(false, true))
		e.must(got[1].Reject(false))
		e.must(barrier(ch))
		e.say("before %d", e.ready(q))
		e.must(ch.TxCommit())
		e.say("%s", e.drainAfter(q, 1))
	}},
	{"the channel closes without commit", func(e *env) {
		q := e.queue("q", "d", nil)
		ch := e.channel()
		e.must(ch.Tx())
		e.must(send(ch, "", q, "a", amqp.Publishing{}))
		e.must(ch.Close())
		e.say("%s", e.drain(q))
	}},
	{"mandatory in a transaction", func(e *env) {
		r := e.opened()
		r.put(method(1, 90, 10))
		e.say("%s", r.read())
		r.put(message(1, "", e.name("nowhere"), 1, ""), method(1, 20, 20, octet(1)))
		first := r.read()
		e.say("%s", first)
		if strings.HasPrefix(first, "basic.return") {
			e.say("%s", r.reads(2))
		}
		r.put(method(1, 90, 20))
		e.say("%s", r.reads(3))
	}},
	{"a missing exchange in a transaction", func(e *env) {
		e.try("publish", func(ch *amqp.Channel) error {
			e.must(ch.Tx())
			return send(ch, e.name("nowhere"), "k", "m", amqp.Publishing{})
		})
	}},
	{"an unknown tag in a transaction", func(e *env) {
		e.try("ack", func(ch *amqp.Channel) error { e.must(ch.Tx()); return ch.Ack(5, false) })
	}},
	{"several queues at once", func(e *env) {
		a, b := e.queue("a", "d", nil), e.queue("b", "d", nil)
		e.fill(a, "in")
		ch := e.channel()
		e.must(ch.Tx())
		d := e.take(ch, a, 1)[0]
		e.must(send(ch, "", b, "out", amqp.Publishing{}))
		e.must(d.Ack(false))
		e.must(ch.TxCommit())
		e.must(ch.Close())
		e.say("%s / %s", e.drain(a), e.drain(b))
	}},
}

const directReplyTo = "amq.rabbitmq.reply-to"

// replyTo is direct reply-to.
var replyTo = []Probe{
	{"publish without a consumer", func(e *env) {
		q := e.queue("q", "d", nil)
		e.try("publish", func(ch *amqp.Channel) error { return send(ch, "", q, "m", amqp.Publishing{ReplyTo: directReplyTo}) })
	}},
	{"consume with acks", func(e *env) {
		e.try("consume", func(ch *amqp.Channel) error {
			_, err := ch.Consume(directReplyTo, "", false, false, false, false, nil)
			return err
		})
	}},
	{"consume twice", func(e *env) {
		e.try("consume", func(ch *amqp.Channel) error {
			_, err := ch.Consume(directReplyTo, "one", true, false, false, false, nil)
			e.must(err)
			_, err = ch.Consume(directReplyTo, "two", true, false, false, false, nil)
			return err
		})
	}},
	{"declare", func(e *env) {
		e.try("passive", func(ch *amqp.Channel) error {
			q, err := ch.QueueDeclarePassive(directReplyTo, false, false, false, false, nil)
			e.say("%d messages, %d consumers", q.Messages, q.Consumers)
			return err
		})
	}},
	{"question and answer", func(e *env) {
		q := e.queue("q", "d", nil)
		ch := e.channel()
		in, err := ch.Consume(directReplyTo, "", true, false, false, false, nil)
		e.must(err)
		e.must(send(ch, "", q, "question", amqp.Publishing{ReplyTo: directReplyTo, CorrelationId: "7"}))
		server := e.channel()
		d := e.take(server, q, 1)[0]
		e.say("prefix %v", strings.HasPrefix(d.ReplyTo, directReplyTo+"."))
		p, err := server.QueueDeclarePassive(d.ReplyTo, false, false, false, false, nil)
		e.must(err)
		e.say("it has %d messages, %d consumers", p.Messages, p.Consumers)
		e.must(send(server, "", d.ReplyTo, "answer", amqp.Publishing{CorrelationId: d.CorrelationId, Headers: args("h", int32(1))}))
		a := (&consumer{e, ch, in}).next()
		e.say("%s %s, exchange %q, key is the address: %v, headers %v, number %d", a.Body, a.CorrelationId, a.Exchange, a.RoutingKey == d.ReplyTo, a.Headers, a.DeliveryTag)
		e.must(ch.Close())
		e.await("gone", func() bool { return e.ready(d.ReplyTo) < 0 })
	}},
	{"an answer to nobody", func(e *env) {
		r := e.opened()
		r.put(message(1, "", directReplyTo+".nonsense", 1, ""), method(1, 20, 20, octet(1)))
		e.say("%s", r.rest())
	}},
	{"a confirm of an answer", func(e *env) {
		q := e.queue("q", "d", nil)
		ch := e.channel()
		in, err := ch.Consume(directReplyTo, "", true, false, false, false, nil)
		e.must(err)
		e.must(send(ch, "", q, "question", amqp.Publishing{ReplyTo: directReplyTo}))
		d := e.take(e.channel(), q, 1)[0]
		e.say("confirmed %v", e.publish("", d.ReplyTo, "answer", amqp.Publishing{}))
		e.say("%s", (&consumer{e, ch, in}).several(1))
	}},
	{"cancel", func(e *env) {
		q := e.queue("q", "d", nil)
		e.try("publish after", func(ch *amqp.Channel) error {
			_, err := ch.Consume(directReplyTo, "tag", true, false, false, false, nil)
			e.must(err)
			e.must(ch.Cancel("tag", false))
			return send(ch, "", q, "m", amqp.Publishing{ReplyTo: directReplyTo})
		})
	}},
}

// known are defects of brokers that users have met, each with its right value; docs/amqp-known-bugs.md
// has the reports.
var known = []Probe{
	{"a transaction over the limit is refused (rabbitmq-server 8966)", func(e *env) {
		q := e.queue("q", "d", args("x-queue-type", "quorum", "x-max-length", int32(5), "x-overflow", "reject-publish"))
		e.try("commit", func(ch *amqp.Channel) error {
			e.must(ch.Tx())
			for i := range 6 {
				e.must(send(ch, "", q, fmt.Sprint(i), amqp.Publishing{}))
			}
			return ch.TxCommit()
		})
	}},
	{"a republished x-death does not count (rabbitmq-server 11331)", func(e *env) {
		dead, q := e.mortal(nil)
		e.fill(q, "a")
		e.kill(q)
		d := e.take(e.channel(), dead, 1)[0]
		e.must(d.Ack(false))
		e.publish("", q, "a", amqp.Publishing{Headers: d.Headers})
		e.kill(q)
		e.died(dead)
	}},
	{"an exclusive queue declared durable by another (rabbitmq-server 1887)", func(e *env) {
		ch, err := e.dial().Channel()
		e.must(err)
		_, err = declare(ch, e.name("x"), "x", nil)
		e.must(err)
		e.try("declare", func(ch *amqp.Channel) error { _, err := declare(ch, e.name("x"), "d", nil); return err })
	}},
	{"a single active consumer gets its message back first (rabbitmq-server 10499)", func(e *env) {
		q := e.queue("q", "d", args("x-queue-type", "quorum", "x-single-active-consumer", true, "x-delivery-limit", int32(10)))
		e.fill(q, "a", "b", "c")
		c := e.consume(q, "", 1, "", nil)
		var s []string
		for i := range 4 {
			d := c.next()
			s = append(s, string(d.Body))
			if i == 0 {
				e.must(d.Nack(false, true))
			} else {
				e.must(d.Ack(false))
			}
		}
		e.say("%s", strings.Join(s, ", "))
	}},
	{"a full queue's dead letters, oldest first (rabbitmq-server 14926)", func(e *env) {
		dead, q := e.mortal(args("x-queue-type", "quorum", "x-max-length", int32(2)))
		e.fill(q, "a", "b", "c", "d", "f")
		e.awaitReady(dead, 3)
		e.say("dead %s, left %s", e.drain(dead), e.drain(q))
	}},
	{"the first delivery has no count (rabbitmq-server 1805)", func(e *env) {
		q := e.queue("q", "d", args("x-queue-type", "quorum"))
		e.fill(q, "a", "b")
		e.say("get: %s", shown(e.take(e.channel(), q, 1)[0]))
		e.say("consume: %s", e.consume(q, "", 0, "", nil).several(1))
	}},
	{"transient, not exclusive, as kombu declares (kombu 2237)", func(e *env) {
		e.try("declare", func(ch *amqp.Channel) error { _, err := declare(ch, e.name("q"), "", nil); return err })
		e.try("declare as reply queue", func(ch *amqp.Channel) error {
			_, err := declare(ch, e.name("r"), "a", args("x-expires", int32(60000)))
			return err
		})
	}},
	{"a delay queue used twice gives both back (lavinmq 1134)", func(e *env) {
		work := e.queue("work", "d", nil)
		wait := e.queue("wait", "d", args("x-dead-letter-exchange", "", "x-dead-letter-routing-key", work))
		for _, b := range []string{"a", "b"} {
			e.publish("", wait, b, amqp.Publishing{Expiration: "100"})
			e.say("%s", e.drainAfter(work, 1))
		}
	}},
	{"nack without requeue is not delivered again (aop 537)", func(e *env) {
		q := e.queue("q", "d", nil)
		e.fill(q, "a", "b")
		c := e.consume(q, "", 0, "", nil)
		e.must(c.next().Nack(false, false))
		e.must(barrier(c.ch))
		e.must(c.ch.Close())
		d := e.consume(q, "", 0, "", nil)
		e.say("%s, then %s", d.several(1), d.quiet())
	}},
	{"frames of 4096 as old amqplib wants (rabbitmq-server 13541)", func(e *env) { e.say("%s", e.raw().tune(0xffff&2047, 4096, 0, "/")) }},
}
