package probe

import (
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// limits are lengths, times to live and priorities.
var limits = []Probe{
	{"max-length drops the oldest", func(e *env) {
		q := e.queue("q", "d", args("x-max-length", int32(2)))
		e.fill(q, "a", "b", "c", "d")
		e.say("%s", e.drain(q))
	}},
	{"max-length 0", func(e *env) {
		q := e.queue("q", "d", args("x-max-length", int32(0)))
		e.say("confirmed: %v", e.publish("", q, "a", amqp.Publishing{}))
		e.say("%s", e.drain(q))
	}},
	{"max-length counts only what is ready", func(e *env) {
		q := e.queue("q", "d", args("x-max-length", int32(2)))
		e.fill(q, "a", "b")
		ch := e.channel()
		e.take(ch, q, 2)
		e.fill(q, "c", "d", "e")
		e.say("ready %d", e.ready(q))
	}},
	{"max-length-bytes counts bodies", func(e *env) {
		q := e.queue("q", "d", args("x-max-length-bytes", int32(10)))
		e.fill(q, "aaaa", "bbbb", "cccc")
		e.say("%s", e.drain(q))
	}},
	{"a body that is larger than max-length-bytes", func(e *env) {
		q := e.queue("q", "d", args("x-max-length-bytes", int32(10)))
		e.fill(q, "aaaa", strings.Repeat("b", 20))
		e.say("%s", e.drain(q))
	}},
	{"reject-publish", func(e *env) {
		q := e.queue("q", "d", args("x-max-length", int32(2), "x-overflow", "reject-publish"))
		for _, b := range []string{"a", "b", "c"} {
			e.say("%s confirmed: %v", b, e.publish("", q, b, amqp.Publishing{}))
		}
		e.say("%s", e.drain(q))
		e.say("room again: %v", e.publish("", q, "d", amqp.Publishing{}))
	}},
	{"reject-publish without confirms drops", func(e *env) {
		q := e.queue("q", "d", args("x-max-length", int32(1), "x-overflow", "reject-publish"))
		ch := e.channel()
		for _, b := range []string{"a", "b", "c"} {
			e.must(send(ch, "", q, b, amqp.Publishing{}))
		}
		e.must(barrier(ch))
		e.say("%s", e.drainAfter(q, 1))
	}},
	{"one of two queues rejects", func(e *env) {
		x := e.exchange("x", "fanout", "d", nil)
		full, free := e.queue("full", "d", args("x-max-length", int32(1), "x-overflow", "reject-publish")), e.queue("free", "d", nil)
		e.bind(full, "", x, nil)
		e.bind(free, "", x, nil)
		e.say("%v %v", e.publish(x, "", "a", amqp.Publishing{}), e.publish(x, "", "b", amqp.Publishing{}))
		e.say("%s / %s", e.drain(full), e.drain(free))
	}},
	{"reject-publish and what is requeued", func(e *env) {
		q := e.queue("q", "d", args("x-max-length", int32(2), "x-overflow", "reject-publish"))
		e.fill(q, "a", "b")
		ch := e.channel()
		got := e.take(ch, q, 2)
		e.say("%v %v %v", e.publish("", q, "c", amqp.Publishing{}), e.publish("", q, "d", amqp.Publishing{}), e.publish("", q, "e", amqp.Publishing{}))
		e.must(got[1].Nack(true, true))
		e.must(barrier(ch))
		e.wait(300 * time.Millisecond)
		e.say("ready %d", e.ready(q))
	}},
	{"reject-publish-dlx", func(e *env) {
		dead := e.queue("dead", "d", nil)
		q := e.queue("q", "d", args("x-max-length", int32(1), "x-overflow", "reject-publish-dlx", "x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead))
		e.say("%v %v", e.publish("", q, "a", amqp.Publishing{}), e.publish("", q, "b", amqp.Publishing{}))
		e.awaitReady(dead, 1)
		e.say("%s / %s", e.drain(q), e.drain(dead))
	}},
	{"a queue's ttl", func(e *env) {
		q := e.queue("q", "d", args("x-message-ttl", int32(200)))
		e.fill(q, "a", "b")
		e.say("%d", e.ready(q))
		e.awaitReady(q, 0)
		e.say("%s", e.drain(q))
	}},
	{"a message's ttl", func(e *env) {
		q := e.queue("q", "d", nil)
		e.publish("", q, "a", amqp.Publishing{Expiration: "200"})
		e.awaitReady(q, 0)
		e.say("%s", e.drain(q))
	}},
	{"the lower ttl holds", func(e *env) {
		q := e.queue("q", "d", args("x-message-ttl", int32(600000)))
		p := e.queue("p", "d", args("x-message-ttl", int32(200)))
		e.publish("", q, "a", amqp.Publishing{Expiration: "200"})
		e.publish("", p, "a", amqp.Publishing{Expiration: "600000"})
		e.awaitReady(q, 0)
		e.awaitReady(p, 0)
		e.say("%d and %d ready", e.ready(q), e.ready(p))
	}},
	{"what is behind the head stays until it is the head", func(e *env) {
		q := e.queue("q", "d", nil)
		e.publish("", q, "stays", amqp.Publishing{})
		e.publish("", q, "expires", amqp.Publishing{Expiration: "100"})
		e.wait(500 * time.Millisecond)
		e.say("ready %d", e.ready(q))
		e.say("%s", e.drain(q))
	}},
	{"ttl 0 and nobody there", func(e *env) {
		q := e.queue("q", "d", nil)
		e.say("confirmed: %v", e.publish("", q, "a", amqp.Publishing{Expiration: "0"}))
		e.awaitReady(q, 0)
		e.say("%s", e.drain(q))
	}},
	{"ttl 0 and a consumer", func(e *env) {
		q := e.queue("q", "d", args("x-message-ttl", int32(0)))
		c := e.consume(q, "", 0, "", nil)
		e.fill(q, "a")
		e.say("%s", c.several(1))
	}},
	{"what is delivered does not expire, what is requeued does", func(e *env) {
		q := e.queue("q", "d", args("x-message-ttl", int32(300)))
		e.fill(q, "a")
		ch := e.channel()
		d := e.take(ch, q, 1)[0]
		e.wait(600 * time.Millisecond)
		e.must(d.Nack(false, true))
		e.must(barrier(ch))
		e.wait(300 * time.Millisecond)
		e.say("%s", e.drain(q))
	}},
	{"an expiration is delivered", func(e *env) {
		q := e.queue("q", "d", nil)
		e.publish("", q, "a", amqp.Publishing{Expiration: "60000"})
		ch := e.channel()
		d := e.take(ch, q, 1)[0]
		e.say("%s", about(d.Expiration, 60_000))
		e.must(d.Nack(false, true))
		e.awaitReady(q, 1)
		e.say("%s", about(e.take(ch, q, 1)[0].Expiration, 60_000))
	}},
	{"expires deletes an unused queue", func(e *env) {
		q := e.queue("q", "d", args("x-expires", int32(300)))
		e.fill(q, "a")
		e.await("gone", func() bool {
			// Passive declares count as use, and so do gets: it is left alone.
			e.wait(700 * time.Millisecond)
			return e.ready(q) < 0
		})
	}},
	{"a consumer keeps an expiring queue", func(e *env) {
		q := e.queue("q", "d", args("x-expires", int32(300)))
		c := e.consume(q, "", 0, "", nil)
		e.wait(900 * time.Millisecond)
		e.say("there: %v", e.ready(q) == 0)
		e.must(c.ch.Close())
		e.wait(900 * time.Millisecond)
		e.say("there: %v", e.ready(q) == 0)
	}},
	{"priorities", func(e *env) {
		q := e.queue("q", "d", args("x-max-priority", int32(10)))
		for _, p := range []uint8{1, 5, 0, 9, 5, 200} {
			e.publish("", q, fmt.Sprint("p", p), amqp.Publishing{Priority: p})
		}
		e.say("%s", e.drain(q))
	}},
	{"a priority without max-priority", func(e *env) {
		q := e.queue("q", "d", nil)
		e.publish("", q, "low", amqp.Publishing{Priority: 1})
		e.publish("", q, "high", amqp.Publishing{Priority: 9})
		e.say("%s", e.drain(q))
	}},
	{"a requeued message keeps its priority", func(e *env) {
		q := e.queue("q", "d", args("x-max-priority", int32(10)))
		e.publish("", q, "low", amqp.Publishing{Priority: 1})
		e.publish("", q, "high", amqp.Publishing{Priority: 9})
		ch := e.channel()
		e.must(e.take(ch, q, 2)[1].Nack(true, true))
		e.say("%s", e.drainAfter(q, 2))
	}},
	{"a quorum queue's priorities", func(e *env) {
		q := e.queue("q", "d", args("x-queue-type", "quorum"))
		e.publish("", q, "none", amqp.Publishing{})
		for _, p := range []uint8{1, 4, 5, 40, 200} {
			e.publish("", q, fmt.Sprint("p", p), amqp.Publishing{Priority: p})
		}
		e.say("%s", e.drain(q))
	}},
	{"a quorum queue's priorities, given back", func(e *env) {
		q := e.queue("q", "d", args("x-queue-type", "quorum"))
		e.publish("", q, "low", amqp.Publishing{Priority: 1})
		ch := e.channel()
		low := e.take(ch, q, 1)[0]
		e.publish("", q, "high", amqp.Publishing{Priority: 9})
		e.must(low.Nack(false, true))
		e.say("%s", e.drainAfter(q, 2))
	}},
	{"priorities and max-length", func(e *env) {
		q := e.queue("q", "d", args("x-max-priority", int32(10), "x-max-length", int32(2)))
		for _, p := range []uint8{9, 1, 5} {
			e.publish("", q, fmt.Sprint("p", p), amqp.Publishing{Priority: p})
		}
		e.say("%s", e.drain(q))
	}},
	{"a higher priority overtakes what a consumer has no credit for", func(e *env) {
		q := e.queue("q", "d", args("x-max-priority", int32(10)))
		c := e.consume(q, "", 1, "", nil)
		e.publish("", q, "first", amqp.Publishing{})
		d := c.next()
		e.publish("", q, "low", amqp.Publishing{Priority: 1})
		e.publish("", q, "high", amqp.Publishing{Priority: 2})
		e.must(d.Ack(false))
		next := c.next()
		e.must(next.Ack(false))
		e.say("%s, %s", shown(next), shown(c.next()))
	}},
}
