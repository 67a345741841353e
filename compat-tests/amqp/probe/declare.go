package probe

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// declares are queue declarations that stand alone: which arguments are taken, and what the others
// are refused with.
func declares() []Probe {
	quorum := func(more ...any) table { return args(append([]any{"x-queue-type", "quorum"}, more...)...) }
	stream := func(more ...any) table { return args(append([]any{"x-queue-type", "stream"}, more...)...) }
	rows := []struct {
		name, flags string
		args        table
	}{
		{"durable", "d", nil},
		{"transient, neither exclusive nor auto-delete", "", nil},
		{"exclusive", "x", nil},
		{"auto-delete", "a", nil},
		{"all at once", "dxa", nil},
		{"an unknown argument", "d", args("x-something", "else")},
		{"lazy", "d", args("x-queue-mode", "lazy")},
		{"lazy, wrong", "d", args("x-queue-mode", "nonsense")},
		{"queue version 2", "d", args("x-queue-version", int32(2))},
		{"master locator", "d", args("x-queue-master-locator", "min-masters")},
		{"type classic", "d", args("x-queue-type", "classic")},
		{"type unknown", "d", args("x-queue-type", "nonsense")},
		{"type that is no string", "d", args("x-queue-type", int32(1))},
		{"message-ttl", "d", args("x-message-ttl", int32(1000))},
		{"message-ttl 0", "d", args("x-message-ttl", int32(0))},
		{"message-ttl negative", "d", args("x-message-ttl", int32(-1))},
		{"message-ttl as text", "d", args("x-message-ttl", "1000")},
		{"message-ttl as a float", "d", args("x-message-ttl", float64(1000))},
		{"message-ttl too large", "d", args("x-message-ttl", int64(1)<<33)},
		{"message-ttl as a byte", "d", args("x-message-ttl", byte(100))},
		{"expires", "d", args("x-expires", int32(60000))},
		{"expires 0", "d", args("x-expires", int32(0))},
		{"expires negative", "d", args("x-expires", int32(-5))},
		{"expires as text", "d", args("x-expires", "60000")},
		{"expires too large", "d", args("x-expires", int64(1)<<33)},
		{"max-length", "d", args("x-max-length", int32(10))},
		{"max-length 0", "d", args("x-max-length", int32(0))},
		{"max-length negative", "d", args("x-max-length", int32(-1))},
		{"max-length as text", "d", args("x-max-length", "10")},
		{"max-length-bytes", "d", args("x-max-length-bytes", int64(1000))},
		{"max-length-bytes negative", "d", args("x-max-length-bytes", int64(-1))},
		{"overflow drop-head", "d", args("x-overflow", "drop-head")},
		{"overflow reject-publish", "d", args("x-overflow", "reject-publish")},
		{"overflow reject-publish-dlx", "d", args("x-overflow", "reject-publish-dlx")},
		{"overflow unknown", "d", args("x-overflow", "nonsense")},
		{"overflow no string", "d", args("x-overflow", int32(1))},
		{"max-priority", "d", args("x-max-priority", int32(10))},
		{"max-priority 255", "d", args("x-max-priority", int32(255))},
		{"max-priority 256", "d", args("x-max-priority", int32(256))},
		{"max-priority 0", "d", args("x-max-priority", int32(0))},
		{"max-priority negative", "d", args("x-max-priority", int32(-1))},
		{"max-priority as text", "d", args("x-max-priority", "10")},
		{"dead-letter-exchange that does not exist", "d", args("x-dead-letter-exchange", "nowhere")},
		{"dead-letter-exchange as a number", "d", args("x-dead-letter-exchange", int32(1))},
		{"dead-letter-routing-key", "d", args("x-dead-letter-exchange", "", "x-dead-letter-routing-key", "k")},
		{"dead-letter-routing-key alone", "d", args("x-dead-letter-routing-key", "k")},
		{"dead-letter-routing-key as a number", "d", args("x-dead-letter-exchange", "", "x-dead-letter-routing-key", int32(1))},
		{"dead-letter-strategy", "d", args("x-dead-letter-strategy", "at-most-once")},
		{"single-active-consumer", "d", args("x-single-active-consumer", true)},
		{"single-active-consumer as text", "d", args("x-single-active-consumer", "true")},
		{"delivery-limit on a classic queue", "d", args("x-delivery-limit", int32(5))},
		{"quorum", "d", quorum()},
		{"quorum, exclusive", "dx", quorum()},
		{"quorum, transient", "", quorum()},
		{"quorum, auto-delete", "da", quorum()},
		{"quorum, delivery-limit", "d", quorum("x-delivery-limit", int32(5))},
		{"quorum, delivery-limit negative", "d", quorum("x-delivery-limit", int32(-5))},
		{"quorum, delivery-limit as text", "d", quorum("x-delivery-limit", "5")},
		{"quorum, message-ttl", "d", quorum("x-message-ttl", int32(1000))},
		{"quorum, max-priority", "d", quorum("x-max-priority", int32(5))},
		{"quorum, reject-publish", "d", quorum("x-overflow", "reject-publish")},
		{"quorum, reject-publish-dlx", "d", quorum("x-overflow", "reject-publish-dlx")},
		{"quorum, lazy", "d", quorum("x-queue-mode", "lazy")},
		{"quorum, group size", "d", quorum("x-quorum-initial-group-size", int32(1))},
		{"quorum, group size 0", "d", quorum("x-quorum-initial-group-size", int32(0))},
		{"quorum, single-active-consumer", "d", quorum("x-single-active-consumer", true)},
		{"quorum, dead-letter-strategy at-least-once", "d", quorum("x-dead-letter-strategy", "at-least-once", "x-overflow", "reject-publish", "x-dead-letter-exchange", "")},
		{"quorum, dead-letter-strategy unknown", "d", quorum("x-dead-letter-strategy", "nonsense")},
		{"stream", "d", stream()},
		{"stream, exclusive", "dx", stream()},
		{"stream, transient", "", stream()},
		{"stream, auto-delete", "da", stream()},
		{"stream, max-age", "d", stream("x-max-age", "7D")},
		{"stream, max-age wrong", "d", stream("x-max-age", "7X")},
		{"stream, max-age no string", "d", stream("x-max-age", int32(7))},
		{"stream, segment size", "d", stream("x-stream-max-segment-size-bytes", int64(1000000))},
		{"stream, message-ttl", "d", stream("x-message-ttl", int32(1000))},
		{"stream, max-length", "d", stream("x-max-length", int32(1000))},
		{"stream, max-length-bytes", "d", stream("x-max-length-bytes", int64(1000000))},
		{"stream, dead-letter-exchange", "d", stream("x-dead-letter-exchange", "")},
		{"max-age on a classic queue", "d", args("x-max-age", "7D")},
	}
	probes := make([]Probe, 0, len(rows)+8)
	for _, row := range rows {
		probes = append(probes, Probe{row.name, func(e *env) {
			e.try("declare", func(ch *amqp.Channel) error {
				q, err := declare(ch, e.name("q"), row.flags, row.args)
				if err == nil && (q.Messages != 0 || q.Consumers != 0) {
					err = fmt.Errorf("%d messages, %d consumers", q.Messages, q.Consumers)
				}
				return err
			})
		}})
	}
	return append(
		probes,
		Probe{"server-named", func(e *env) {
			ch := e.channel()
			q, err := declare(ch, "", "x", nil)
			e.must(err)
			e.say("%s of %d bytes", q.Name[:min(8, len(q.Name))], len(q.Name))
			again, err := declare(ch, "", "x", nil)
			e.must(err)
			e.say("another name: %v", again.Name != q.Name)
		}},
		Probe{"server-named quorum", func(e *env) {
			e.try("declare", func(ch *amqp.Channel) error { _, err := declare(ch, "", "d", quorum()); return err })
		}},
		Probe{"the reserved prefix", func(e *env) {
			e.try("declare", func(ch *amqp.Channel) error { _, err := declare(ch, "amq.something", "d", nil); return err })
			e.try("passive", func(ch *amqp.Channel) error {
				_, err := ch.QueueDeclarePassive("amq.something", true, false, false, false, nil)
				return err
			})
		}},
		Probe{"passive, missing", func(e *env) {
			e.try("passive", func(ch *amqp.Channel) error {
				_, err := ch.QueueDeclarePassive(e.name("nowhere"), false, false, false, false, nil)
				return err
			})
		}},
		Probe{"the channel's last queue is the empty name", func(e *env) {
			ch := e.channel()
			q, err := declare(ch, "", "x", nil)
			e.must(err)
			e.must(ch.QueueBind("", "", "amq.fanout", false, nil))
			e.must(ch.QueueUnbind("", "", "amq.fanout", nil))
			n, err := ch.QueueDelete("", false, false, false)
			e.must(err)
			e.say("deleted with %d messages: %v", n, e.ready(q.Name) < 0)
		}},
		Probe{"the empty name without a queue before", func(e *env) {
			e.try("get", func(ch *amqp.Channel) error { _, _, err := ch.Get("", false); return err })
			e.try("consume", func(ch *amqp.Channel) error {
				_, err := ch.Consume("", "", false, false, false, false, nil)
				return err
			})
			e.try("bind", func(ch *amqp.Channel) error { return ch.QueueBind("", "k", "amq.direct", false, nil) })
			e.try("purge", func(ch *amqp.Channel) error { _, err := ch.QueuePurge("", false); return err })
			e.try("delete", func(ch *amqp.Channel) error { _, err := ch.QueueDelete("", false, false, false); return err })
		}},
		Probe{"binding the empty key means the queue's name", func(e *env) {
			q := e.queue("q", "d", nil)
			ch := e.channel()
			_, err := declare(ch, q, "d", nil)
			e.must(err)
			e.must(ch.QueueBind("", "", "amq.direct", false, nil))
			e.publish("amq.direct", q, "by name", amqp.Publishing{})
			e.publish("amq.direct", "", "by nothing", amqp.Publishing{})
			e.say("%s", e.drain(q))
		}},
		Probe{"counts are of ready messages", func(e *env) {
			q := e.queue("q", "d", nil)
			e.fill(q, "a", "b", "c")
			c := e.consume(q, "", 1, "", nil)
			c.next()
			ch := e.channel()
			got, err := declare(ch, q, "d", nil)
			e.must(err)
			e.say("%d ready, %d consumers", got.Messages, got.Consumers)
		}},
	)
}

// redeclares are second declarations, and declarations of what another connection has.
var redeclares = []Probe{
	{"the same", redeclare("d", nil, "d", nil)},
	{"another durable", redeclare("d", nil, "", nil)},
	{"another auto-delete", redeclare("d", nil, "da", nil)},
	{"another exclusive, own connection", redeclare("d", nil, "dx", nil)},
	{"exclusive to not exclusive, own connection", redeclare("x", nil, "", nil)},
	{"another ttl", redeclare("d", args("x-message-ttl", int32(1000)), "d", args("x-message-ttl", int32(2000)))},
	{"ttl and none", redeclare("d", args("x-message-ttl", int32(1000)), "d", nil)},
	{"none and ttl", redeclare("d", nil, "d", args("x-message-ttl", int32(1000)))},
	{"the ttl in another width", redeclare("d", args("x-message-ttl", int32(1000)), "d", args("x-message-ttl", int64(1000)))},
	{"an unknown argument more", redeclare("d", nil, "d", args("x-something", "else"))},
	{"an unknown argument less", redeclare("d", args("x-something", "else"), "d", nil)},
	{"type classic and none", redeclare("d", args("x-queue-type", "classic"), "d", nil)},
	{"none and type classic", redeclare("d", nil, "d", args("x-queue-type", "classic"))},
	{"none and type quorum", redeclare("d", nil, "d", args("x-queue-type", "quorum"))},
	{"type quorum and none", redeclare("d", args("x-queue-type", "quorum"), "d", nil)},
	{"another max-length", redeclare("d", args("x-max-length", int32(10)), "d", args("x-max-length", int32(11)))},
	{"another max-length-bytes", redeclare("d", args("x-max-length-bytes", int32(10)), "d", args("x-max-length-bytes", int32(11)))},
	{"another overflow", redeclare("d", args("x-overflow", "drop-head"), "d", args("x-overflow", "reject-publish"))},
	{"another dead-letter-exchange", redeclare("d", args("x-dead-letter-exchange", "a"), "d", args("x-dead-letter-exchange", "b"))},
	{"another dead-letter-routing-key", redeclare("d", args("x-dead-letter-exchange", "a", "x-dead-letter-routing-key", "k"), "d",
		args("x-dead-letter-exchange", "a", "x-dead-letter-routing-key", "l"))},
	{"another expires", redeclare("d", args("x-expires", int32(60000)), "d", args("x-expires", int32(70000)))},
	{"another max-priority", redeclare("d", args("x-max-priority", int32(5)), "d", args("x-max-priority", int32(6)))},
	{"single-active-consumer and none", redeclare("d", args("x-single-active-consumer", true), "d", nil)},
	{"another delivery-limit", redeclare("d", args("x-queue-type", "quorum", "x-delivery-limit", int32(5)), "d", args("x-queue-type", "quorum", "x-delivery-limit", int32(6)))},
	{"another queue-mode", redeclare("d", args("x-queue-mode", "lazy"), "d", args("x-queue-mode", "default"))},
	{"several at once", redeclare("d", nil, "a", args("x-message-ttl", int32(1)))},
	{"exclusive, on another connection", func(e *env) {
		ch, err := e.dial().Channel()
		e.must(err)
		q := e.name("x")
		_, err = declare(ch, q, "x", nil)
		e.must(err)
		e.must(ch.QueueBind(q, "k", "amq.direct", false, nil))
		e.try("declare", func(ch *amqp.Channel) error { _, err := declare(ch, q, "x", nil); return err })
		e.try("declare durable", func(ch *amqp.Channel) error { _, err := declare(ch, q, "dx", nil); return err })
		e.try("passive", func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive(q, false, false, true, false, nil)
			return err
		})
		e.try("bind", func(ch *amqp.Channel) error { return ch.QueueBind(q, "k", "amq.direct", false, nil) })
		e.try("unbind", func(ch *amqp.Channel) error { return ch.QueueUnbind(q, "k", "amq.direct", nil) })
		e.try("consume", func(ch *amqp.Channel) error { _, err := ch.Consume(q, "", false, false, false, false, nil); return err })
		e.try("get", func(ch *amqp.Channel) error { _, _, err := ch.Get(q, false); return err })
		e.try("purge", func(ch *amqp.Channel) error { _, err := ch.QueuePurge(q, false); return err })
		e.try("delete", func(ch *amqp.Channel) error { _, err := ch.QueueDelete(q, false, false, false); return err })
		e.try("publish", func(ch *amqp.Channel) error { return send(ch, "", q, "m", amqp.Publishing{}) })
		d, ok, err := ch.Get(q, true)
		e.must(err)
		e.say("the owner gets %q: %v", d.Body, ok)
	}},
	{"declared on two channels of one connection", func(e *env) {
		a, b := e.channel(), e.channel()
		_, err := declare(a, e.name("x"), "x", nil)
		e.must(err)
		_, err = declare(b, e.name("x"), "x", nil)
		e.say("%s", describe(err))
	}},
	{"delete, missing", func(e *env) {
		e.try("delete", func(ch *amqp.Channel) error {
			n, err := ch.QueueDelete(e.name("nowhere"), false, false, false)
			e.say("%d messages", n)
			return err
		})
	}},
	{"delete if-unused, if-empty", func(e *env) {
		q := e.queue("q", "d", nil)
		e.fill(q, "m", "n")
		c := e.consume(q, "", 1, "", nil)
		c.next()
		e.try("if-unused", func(ch *amqp.Channel) error { _, err := ch.QueueDelete(q, true, false, false); return err })
		e.try("if-empty", func(ch *amqp.Channel) error { _, err := ch.QueueDelete(q, false, true, false); return err })
		e.must(c.ch.Close())
		e.awaitReady(q, 2)
		e.try("if-empty again", func(ch *amqp.Channel) error { _, err := ch.QueueDelete(q, true, true, false); return err })
		e.try("neither", func(ch *amqp.Channel) error {
			n, err := ch.QueueDelete(q, true, false, false)
			e.say("%d messages", n)
			return err
		})
	}},
	{"delete if-unused of a missing queue", func(e *env) {
		e.try("delete", func(ch *amqp.Channel) error {
			_, err := ch.QueueDelete(e.name("nowhere"), true, true, false)
			return err
		})
	}},
	{"purge, missing", func(e *env) {
		e.try("purge", func(ch *amqp.Channel) error { _, err := ch.QueuePurge(e.name("nowhere"), false); return err })
	}},
	{"purge takes only what is ready", func(e *env) {
		q := e.queue("q", "d", nil)
		e.fill(q, "a", "b", "c")
		ch := e.channel()
		e.take(ch, q, 1)
		n, err := ch.QueuePurge(q, false)
		e.must(err)
		e.say("%d purged", n)
		e.must(ch.Close())
		e.say("%s", e.drainAfter(q, 1))
	}},
	{"a deleted queue's bindings are gone", func(e *env) {
		q := e.queue("q", "d", nil)
		e.bind(q, "k", "amq.direct", nil)
		_, err := e.channel().QueueDelete(q, false, false, false)
		e.must(err)
		e.queue("q", "d", nil)
		e.publish("amq.direct", "k", "m", amqp.Publishing{})
		e.say("%s", e.drain(q))
	}},
	{"a queue that is declared anew is empty", func(e *env) {
		q := e.queue("q", "d", nil)
		e.fill(q, "a")
		_, err := e.channel().QueueDelete(q, false, false, false)
		e.must(err)
		e.queue("q", "d", nil)
		e.fill(q, "b")
		e.say("%s", e.drain(q))
	}},
	{"auto-delete needs a consumer first", func(e *env) {
		q := e.queue("q", "a", nil)
		e.say("there: %v", e.ready(q) == 0)
		c := e.consume(q, "tag", 0, "", nil)
		d := e.consume(q, "tag2", 0, "", nil)
		e.must(c.ch.Cancel("tag", false))
		e.say("there after one of two: %v", e.ready(q) == 0)
		e.must(d.ch.Close())
		e.await("gone", func() bool { return e.ready(q) < 0 })
	}},
	{"auto-delete ignores basic.get", func(e *env) {
		q := e.queue("q", "a", nil)
		_, _, err := e.channel().Get(q, true)
		e.must(err)
		e.say("there: %v", e.ready(q) == 0)
	}},
}

func redeclare(flags1 string, args1 table, flags2 string, args2 table) func(*env) {
	return func(e *env) {
		e.queue("q", flags1, args1)
		e.try("again", func(ch *amqp.Channel) error { _, err := declare(ch, e.name("q"), flags2, args2); return err })
	}
}

// args makes a table of names and values.
func args(pairs ...any) table {
	t := table{}
	for i := 0; i+1 < len(pairs); i += 2 {
		t[pairs[i].(string)] = pairs[i+1]
	}
	return t
}
