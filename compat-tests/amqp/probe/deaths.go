package probe

import (
	"fmt"
	"maps"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// deaths is dead-lettering and the history that it writes.
var deaths = []Probe{
	{"rejected", func(e *env) {
		dead, q := e.mortal(nil)
		e.publish("", q, "a", amqp.Publishing{MessageId: "id", Headers: args("h", "v"), Expiration: "600000"})
		e.kill(q)
		e.died(dead)
	}},
	{"expired", func(e *env) {
		dead, q := e.mortal(nil)
		e.publish("", q, "a", amqp.Publishing{Expiration: "100"})
		e.died(dead)
	}},
	{"expired by the queue's ttl", func(e *env) {
		dead, q := e.mortal(args("x-message-ttl", int32(100)))
		e.fill(q, "a")
		e.died(dead)
	}},
	{"too many", func(e *env) {
		dead, q := e.mortal(args("x-max-length", int32(1)))
		e.fill(q, "a", "b")
		e.died(dead)
		e.say("left %s", e.drain(q))
	}},
	{"delivery limit", func(e *env) {
		dead, q := e.mortal(args("x-queue-type", "quorum", "x-delivery-limit", int32(2)))
		e.fill(q, "a")
		c := e.consume(q, "", 1, "", nil)
		for range 3 {
			d := c.next()
			e.say("%s", shown(d))
			e.must(d.Reject(true))
		}
		e.died(dead)
	}},
	{"several in their order", func(e *env) {
		dead, q := e.mortal(nil)
		e.fill(q, "a", "b", "c")
		ch := e.channel()
		e.must(e.take(ch, q, 3)[2].Nack(true, false))
		e.say("%s", e.drainAfter(dead, 3))
	}},
	{"without a dead-letter exchange", func(e *env) {
		q := e.queue("q", "d", nil)
		e.fill(q, "a")
		e.kill(q)
		e.say("%s", e.drain(q))
	}},
	{"a dead-letter exchange that does not exist", func(e *env) {
		q := e.queue("q", "d", args("x-dead-letter-exchange", e.name("nowhere")))
		e.fill(q, "a")
		e.kill(q)
		e.say("%s", e.drain(q))
	}},
	{"the message's own key without a dead-letter key", func(e *env) {
		x := e.exchange("x", "topic", "d", nil)
		dead := e.queue("dead", "d", nil)
		e.bind(dead, "#", x, nil)
		q := e.queue("q", "d", args("x-dead-letter-exchange", x))
		e.bind(q, "my.key", "amq.topic", nil)
		e.publish("amq.topic", "my.key", "a", amqp.Publishing{})
		e.kill(q)
		e.died(dead)
	}},
	{"CC and BCC of what died", func(e *env) {
		x := e.exchange("x", "topic", "d", nil)
		dead := e.queue("dead", "d", nil)
		e.bind(dead, "#", x, nil)
		q := e.queue("q", "d", args("x-dead-letter-exchange", x))
		e.publish("", q, "a", amqp.Publishing{Headers: args("CC", []any{"copy"}, "BCC", []any{"blind"})})
		e.kill(q)
		e.died(dead)
	}},
	{"CC and BCC with a dead-letter key", func(e *env) {
		dead, q := e.mortal(nil)
		e.publish("", q, "a", amqp.Publishing{Headers: args("CC", []any{"copy"}, "BCC", []any{"blind"})})
		e.kill(q)
		e.died(dead)
	}},
	{"died twice in one queue", func(e *env) {
		dead, q := e.mortal(nil)
		e.fill(q, "a")
		e.kill(q)
		ch := e.channel()
		d := e.take(ch, dead, 1)[0]
		e.must(d.Ack(false))
		e.publish("", q, "a", amqp.Publishing{Headers: d.Headers})
		e.kill(q)
		e.died(dead)
	}},
	{"died in two queues", func(e *env) {
		last := e.queue("last", "d", nil)
		mid := e.queue("mid", "d", args("x-message-ttl", int32(100), "x-dead-letter-exchange", "", "x-dead-letter-routing-key", last))
		q := e.queue("q", "d", args("x-dead-letter-exchange", "", "x-dead-letter-routing-key", mid))
		e.fill(q, "a")
		e.kill(q)
		e.died(last)
	}},
	{"a ring of expiries drops", func(e *env) {
		a := e.queue("a", "d", args("x-message-ttl", int32(50), "x-dead-letter-exchange", "", "x-dead-letter-routing-key", e.name("b")))
		b := e.queue("b", "d", args("x-message-ttl", int32(50), "x-dead-letter-exchange", "", "x-dead-letter-routing-key", a))
		e.fill(a, "x")
		e.await("gone", func() bool {
			e.wait(300 * time.Millisecond)
			return e.ready(a) == 0 && e.ready(b) == 0
		})
	}},
	{"a ring with a rejection goes on", func(e *env) {
		a := e.queue("a", "d", args("x-dead-letter-exchange", "", "x-dead-letter-routing-key", e.name("b")))
		b := e.queue("b", "d", args("x-message-ttl", int32(50), "x-dead-letter-exchange", "", "x-dead-letter-routing-key", a))
		e.fill(a, "x")
		e.kill(a)
		e.awaitReady(a, 1)
		e.kill(a)
		e.awaitReady(a, 1)
		e.died(a)
		e.say("b: %d", e.ready(b))
	}},
	{"dead letters to one's own queue", func(e *env) {
		q := e.queue("q", "d", args("x-dead-letter-exchange", "", "x-dead-letter-routing-key", e.name("q")))
		e.fill(q, "a")
		e.kill(q)
		e.awaitReady(q, 1)
		e.died(q)
	}},
	{"requeued behind newer ones it overflows", func(e *env) {
		dead, q := e.mortal(args("x-max-length", int32(2)))
		e.fill(q, "1", "2")
		ch := e.channel()
		got := e.take(ch, q, 2)
		e.fill(q, "3", "4")
		e.must(got[1].Nack(true, true))
		e.awaitReady(dead, 2)
		e.say("left %s, dead %s", e.drain(q), e.drain(dead))
	}},
	{"purge and delete are no deaths", func(e *env) {
		dead, q := e.mortal(nil)
		e.fill(q, "a", "b")
		_, err := e.channel().QueuePurge(q, false)
		e.must(err)
		e.fill(q, "c")
		_, err = e.channel().QueueDelete(q, false, false, false)
		e.must(err)
		e.say("%s", e.drain(dead))
	}},
	{"a retry queue, twice", func(e *env) {
		// Work is rejected to a queue that gives it back after a time, and rejected again.
		work, wait := e.name("work"), e.name("wait")
		e.queue("wait", "d", args("x-message-ttl", int32(100), "x-dead-letter-exchange", "", "x-dead-letter-routing-key", work))
		e.queue("work", "d", args("x-dead-letter-exchange", "", "x-dead-letter-routing-key", wait))
		e.fill(work, "a")
		e.kill(work)
		e.awaitReady(work, 1)
		e.kill(work)
		e.awaitReady(work, 1)
		e.died(work)
	}},
}

// mortal makes a queue whose dead letters go to another, by the default exchange.
func (e *env) mortal(more table) (dead, q string) {
	dead = e.queue("dead", "d", nil)
	t := args("x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead)
	maps.Copy(t, more)
	return dead, e.queue("q", "d", t)
}

// kill rejects the queue's first message.
func (e *env) kill(queue string) {
	ch := e.channel()
	e.must(e.take(ch, queue, 1)[0].Reject(false))
	e.must(barrier(ch))
	e.must(ch.Close())
}

// died tells the first dead letter and its history, without the times.
func (e *env) died(queue string) {
	ch := e.channel()
	d := e.take(ch, queue, 1)[0]
	e.must(d.Ack(false))
	e.say("%s, exchange %q, key %q, expiration %q, id %q", shown(d), d.Exchange, d.RoutingKey, d.Expiration, d.MessageId)
	for _, name := range sortedKeys(d.Headers) {
		if name != "x-death" {
			e.say("  %s: %v", name, d.Headers[name])
		}
	}
	list, _ := d.Headers["x-death"].([]any)
	for _, entry := range list {
		t, _ := entry.(table)
		var s []string
		for _, name := range sortedKeys(t) {
			v := t[name]
			if at, ok := v.(time.Time); ok {
				v = time.Since(at).Abs() < time.Minute
			}
			s = append(s, fmt.Sprintf("%s=%v(%T)", name, v, t[name]))
		}
		e.say("  death %s", strings.Join(s, " "))
	}
}
