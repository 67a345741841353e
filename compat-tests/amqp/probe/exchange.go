package probe

import (
	amqp "github.com/rabbitmq/amqp091-go"
)

// exchanges are declarations and deletions of exchanges and bindings.
var exchanges = []Probe{
	{"each type", func(e *env) {
		for _, kind := range []string{"direct", "fanout", "topic", "headers"} {
			e.try(kind, func(ch *amqp.Channel) error {
				return ch.ExchangeDeclare(e.name(kind), kind, true, false, false, false, nil)
			})
		}
	}},
	{"consistent hash and random", func(e *env) {
		for _, kind := range []string{"x-consistent-hash", "x-random"} {
			e.try(kind, func(ch *amqp.Channel) error {
				return ch.ExchangeDeclare(e.name(kind), kind, true, false, false, false, nil)
			})
		}
	}},
	{"an unknown type", func(e *env) {
		e.try("declare", func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare(e.name("x"), "nosuch", true, false, false, false, nil)
		})
	}},
	{"passive, missing", func(e *env) {
		e.try("passive", func(ch *amqp.Channel) error {
			return ch.ExchangeDeclarePassive(e.name("nowhere"), "direct", true, false, false, false, nil)
		})
	}},
	{"passive with another type", func(e *env) {
		x := e.exchange("x", "direct", "d", nil)
		e.try("passive", func(ch *amqp.Channel) error {
			return ch.ExchangeDeclarePassive(x, "fanout", false, true, false, false, nil)
		})
	}},
	{"the predeclared ones", func(e *env) {
		for _, x := range []string{"", "amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match", "amq.rabbitmq.trace", "amq.rabbitmq.log"} {
			e.try("'"+x+"'", func(ch *amqp.Channel) error {
				return ch.ExchangeDeclarePassive(x, "direct", true, false, false, false, nil)
			})
		}
	}},
	{"the reserved prefix", func(e *env) {
		e.try("declare", func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("amq.something", "direct", true, false, false, false, nil)
		})
		e.try("a predeclared one as it is", func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("amq.direct", "direct", true, false, false, false, nil)
		})
		e.try("a predeclared one in another way", func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("amq.direct", "fanout", true, false, false, false, nil)
		})
		e.try("delete", func(ch *amqp.Channel) error { return ch.ExchangeDelete("amq.topic", false, false) })
	}},
	{"the default exchange", func(e *env) {
		q := e.queue("q", "d", nil)
		e.try("declare", func(ch *amqp.Channel) error { return ch.ExchangeDeclare("", "direct", true, false, false, false, nil) })
		e.try("delete", func(ch *amqp.Channel) error { return ch.ExchangeDelete("", false, false) })
		e.try("bind", func(ch *amqp.Channel) error { return ch.QueueBind(q, "k", "", false, nil) })
		e.try("unbind", func(ch *amqp.Channel) error { return ch.QueueUnbind(q, "k", "", nil) })
		e.try("bind it as destination", func(ch *amqp.Channel) error { return ch.ExchangeBind("", "k", "amq.direct", false, nil) })
	}},
	{"declared again in other ways", func(e *env) {
		x := e.exchange("x", "direct", "d", nil)
		again := func(kind string, durable, auto, internal bool, args table) func(*amqp.Channel) error {
			return func(ch *amqp.Channel) error { return ch.ExchangeDeclare(x, kind, durable, auto, internal, false, args) }
		}
		e.try("the same", again("direct", true, false, false, nil))
		e.try("type", again("fanout", true, false, false, nil))
		e.try("durable", again("direct", false, false, false, nil))
		e.try("auto-delete", again("direct", true, true, false, nil))
		e.try("internal", again("direct", true, false, true, nil))
		e.try("alternate", again("direct", true, false, false, args("alternate-exchange", "a")))
		e.try("an unknown argument", again("direct", true, false, false, args("x-something", "else")))
	}},
	{"alternate-exchange of the wrong type", func(e *env) {
		e.try("a number", func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare(e.name("x"), "direct", true, false, false, false, args("alternate-exchange", int32(1)))
		})
		e.try("redeclared with another", func(ch *amqp.Channel) error {
			e.exchange("y", "direct", "d", args("alternate-exchange", "a"))
			return ch.ExchangeDeclare(e.name("y"), "direct", true, false, false, false, args("alternate-exchange", "b"))
		})
		e.try("redeclared without", func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare(e.name("y"), "direct", true, false, false, false, nil)
		})
	}},
	{"delete, missing", func(e *env) {
		e.try("delete", func(ch *amqp.Channel) error { return ch.ExchangeDelete(e.name("nowhere"), false, false) })
		e.try("if-unused", func(ch *amqp.Channel) error { return ch.ExchangeDelete(e.name("nowhere"), true, false) })
	}},
	{"delete if-unused", func(e *env) {
		x, q := e.exchange("x", "direct", "d", nil), e.queue("q", "d", nil)
		e.bind(q, "k", x, nil)
		e.try("used", func(ch *amqp.Channel) error { return ch.ExchangeDelete(x, true, false) })
		e.try("unbind", func(ch *amqp.Channel) error { return ch.QueueUnbind(q, "k", x, nil) })
		e.try("unused", func(ch *amqp.Channel) error { return ch.ExchangeDelete(x, true, false) })
	}},
	{"if-unused of one that is only a destination", func(e *env) {
		x := e.exchange("x", "direct", "d", nil)
		e.must(e.channel().ExchangeBind(x, "k", "amq.fanout", false, nil))
		e.try("delete", func(ch *amqp.Channel) error { return ch.ExchangeDelete(x, true, false) })
	}},
	{"auto-delete with its last binding", func(e *env) {
		x, q := e.exchange("x", "fanout", "a", nil), e.queue("q", "d", nil)
		there := func() bool {
			return e.channel().ExchangeDeclarePassive(x, "fanout", false, true, false, false, nil) == nil
		}
		e.say("before: %v", there())
		e.bind(q, "", x, nil)
		e.must(e.channel().QueueUnbind(q, "", x, nil))
		e.say("after: %v", there())
	}},
	{"auto-delete with its last queue", func(e *env) {
		x, q := e.exchange("x", "fanout", "a", nil), e.queue("q", "d", nil)
		e.bind(q, "", x, nil)
		_, err := e.channel().QueueDelete(q, false, false, false)
		e.must(err)
		e.await("gone", func() bool {
			return e.channel().ExchangeDeclarePassive(x, "fanout", false, true, false, false, nil) != nil
		})
	}},
	{"auto-delete along a chain", func(e *env) {
		a, b, q := e.exchange("a", "fanout", "a", nil), e.exchange("b", "fanout", "a", nil), e.queue("q", "d", nil)
		e.must(e.channel().ExchangeBind(b, "", a, false, nil))
		e.bind(q, "", b, nil)
		_, err := e.channel().QueueDelete(q, false, false, false)
		e.must(err)
		for _, x := range []string{a, b} {
			e.await("gone", func() bool {
				return e.channel().ExchangeDeclarePassive(x, "fanout", false, true, false, false, nil) != nil
			})
		}
	}},
	{"bind and unbind of what is missing", func(e *env) {
		q := e.queue("q", "d", nil)
		e.try("bind to a missing exchange", func(ch *amqp.Channel) error { return ch.QueueBind(q, "k", e.name("nowhere"), false, nil) })
		e.try("bind a missing queue", func(ch *amqp.Channel) error { return ch.QueueBind(e.name("nowhere"), "k", "amq.direct", false, nil) })
		e.try("unbind what was not bound", func(ch *amqp.Channel) error { return ch.QueueUnbind(q, "k", "amq.direct", nil) })
		e.try("unbind a missing queue", func(ch *amqp.Channel) error { return ch.QueueUnbind(e.name("nowhere"), "k", "amq.direct", nil) })
		e.try("unbind from a missing exchange", func(ch *amqp.Channel) error { return ch.QueueUnbind(q, "k", e.name("nowhere"), nil) })
		e.try("bind exchanges, destination missing", func(ch *amqp.Channel) error {
			return ch.ExchangeBind(e.name("nowhere"), "k", "amq.direct", false, nil)
		})
		e.try("bind exchanges, source missing", func(ch *amqp.Channel) error {
			return ch.ExchangeBind("amq.direct", "k", e.name("nowhere"), false, nil)
		})
		e.try("unbind exchanges that were not bound", func(ch *amqp.Channel) error {
			return ch.ExchangeUnbind("amq.direct", "k", "amq.fanout", false, nil)
		})
	}},
	{"headers binding with a wrong x-match", func(e *env) {
		q := e.queue("q", "d", nil)
		e.try("unknown", func(ch *amqp.Channel) error {
			return ch.QueueBind(q, "", "amq.headers", false, args("x-match", "some"))
		})
		e.try("a number", func(ch *amqp.Channel) error {
			return ch.QueueBind(q, "", "amq.headers", false, args("x-match", int32(1)))
		})
	}},
	{"consistent hash with a key that is no number", func(e *env) {
		x, q := e.exchange("x", "x-consistent-hash", "d", nil), e.queue("q", "d", nil)
		e.try("bind", func(ch *amqp.Channel) error { return ch.QueueBind(q, "many", x, false, nil) })
		e.try("bind 0", func(ch *amqp.Channel) error { return ch.QueueBind(q, "0", x, false, nil) })
		e.try("bind 3", func(ch *amqp.Channel) error { return ch.QueueBind(q, "3", x, false, nil) })
	}},
}
