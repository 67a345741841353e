package probe

import (
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// routing is which queues a message reaches.
var routing = []Probe{
	{"direct", func(e *env) {
		r := e.router("direct", map[string][]binding{"a": {{key: "k"}}, "b": {{key: "k"}, {key: "l"}}, "c": {{key: "m"}}})
		for _, key := range []string{"k", "l", "m", "n", "", "k.l"} {
			e.say("%q: %s", key, r.reached(key, nil))
		}
	}},
	{"fanout", func(e *env) {
		r := e.router("fanout", map[string][]binding{"a": {{key: "k"}}, "b": {{key: ""}}, "c": {{key: "x"}, {key: "y"}}})
		e.say("%s", r.reached("any", nil))
	}},
	{"topic", func(e *env) {
		patterns := []string{
			"", "#", "*", "a", "a.*", "a.#", "#.a", "*.a", "a.b", "a.*.c", "a.#.c", "#.b.#", "*.*", "*.#", "#.*", "#.#", "a..b", "a.**", "a.#.#.b", "*.b.*.#", ".", "*.",
		}
		queues := map[string][]binding{}
		for i, p := range patterns {
			queues[fmt.Sprintf("%02d %s", i, p)] = []binding{{key: p}}
		}
		r := e.router("topic", queues)
		for _, key := range []string{"", "a", "b", "a.b", "a.c", "a.b.c", "a.b.b.c", "a..b", ".", "a.", ".a", "..", "a.b.c.d.e", "*", "#", "a.*", "A"} {
			e.say("%q: %s", key, r.reached(key, nil))
		}
	}},
	{"topic after unbinding", func(e *env) {
		x, q := e.exchange("x", "topic", "d", nil), e.queue("q", "d", nil)
		e.bind(q, "a.#", x, nil)
		e.bind(q, "a.*", x, nil)
		e.must(e.channel().QueueUnbind(q, "a.#", x, nil))
		for _, key := range []string{"a", "a.b", "a.b.c"} {
			e.publish(x, key, key, amqp.Publishing{})
		}
		e.say("%s", e.drain(q))
	}},
	{"headers", func(e *env) {
		r := e.router("headers", map[string][]binding{
			"all":        {{args: args("x-match", "all", "a", "1", "b", int32(2))}},
			"any":        {{args: args("x-match", "any", "a", "1", "b", int32(2))}},
			"default":    {{args: args("a", "1", "b", int32(2))}},
			"with-x all": {{args: args("x-match", "all-with-x", "a", "1", "x-b", "2")}},
			"with-x any": {{args: args("x-match", "any-with-x", "x-b", "2")}},
			"x ignored":  {{args: args("x-match", "all", "a", "1", "x-b", "2")}},
			"none":       {{args: args("x-match", "all")}},
			"none any":   {{args: args("x-match", "any")}},
			"nothing":    {{args: nil}},
			"void":       {{args: args("x-match", "all", "a", nil)}},
		})
		for _, h := range []table{
			nil, args("a", "1"), args("a", "1", "b", int32(2)), args("a", "1", "b", int64(2)), args("a", "1", "b", "2"), args("b", int32(2)),
			args("a", "1", "x-b", "2"), args("x-b", "2"), args("a", "2"), args("a", "1", "b", int32(2), "c", true), args("a", nil), args("a", []byte("1")),
		} {
			e.say("%v: %s", h, r.reached("", h))
		}
	}},
	{"headers, values of many types", func(e *env) {
		values := []any{true, int8(1), int16(1), int32(1), int64(1), float32(1), float64(1), "1", []byte("1"), []any{int32(1)}, args("n", int32(1))}
		queues := map[string][]binding{}
		for i, v := range values {
			queues[fmt.Sprintf("%02d %T", i, v)] = []binding{{args: args("x-match", "all", "v", v)}}
		}
		r := e.router("headers", queues)
		for _, v := range values {
			e.say("%T: %s", v, r.reached("", args("v", v)))
		}
	}},
	{"one message a queue, however many bindings", func(e *env) {
		x, q := e.exchange("x", "topic", "d", nil), e.queue("q", "d", nil)
		for _, k := range []string{"#", "a.*", "a.b", "*.b"} {
			e.bind(q, k, x, nil)
		}
		e.publish(x, "a.b", "once", amqp.Publishing{})
		e.say("%s", e.drain(q))
	}},
	{"a binding twice is one", func(e *env) {
		q := e.queue("q", "d", nil)
		x := e.exchange("x", "direct", "d", nil)
		e.bind(q, "k", x, nil)
		e.bind(q, "k", x, nil)
		e.must(e.channel().QueueUnbind(q, "k", x, nil))
		e.publish(x, "k", "m", amqp.Publishing{})
		e.say("%s", e.drain(q))
	}},
	{"bindings that differ by arguments are two", func(e *env) {
		q := e.queue("q", "d", nil)
		x := e.exchange("x", "direct", "d", nil)
		e.bind(q, "k", x, args("a", "1"))
		e.bind(q, "k", x, args("a", "2"))
		e.must(e.channel().QueueUnbind(q, "k", x, args("a", "1")))
		e.publish(x, "k", "m", amqp.Publishing{})
		e.say("%s", e.drain(q))
		e.must(e.channel().QueueUnbind(q, "k", x, nil))
		e.publish(x, "k", "n", amqp.Publishing{})
		e.say("%s", e.drain(q))
	}},
	{"exchange to exchange", func(e *env) {
		a, b, q := e.exchange("a", "topic", "d", nil), e.exchange("b", "direct", "di", nil), e.queue("q", "d", nil)
		e.must(e.channel().ExchangeBind(b, "k.#", a, false, nil))
		e.bind(q, "k.1", b, nil)
		e.publish(a, "k.1", "reaches", amqp.Publishing{})
		e.publish(a, "k.2", "stays", amqp.Publishing{})
		e.say("%s", e.drain(q))
		e.must(e.channel().ExchangeUnbind(b, "k.#", a, false, nil))
		e.publish(a, "k.1", "late", amqp.Publishing{})
		e.say("%s", e.drain(q))
	}},
	{"a ring of exchanges", func(e *env) {
		a, b, q := e.exchange("a", "fanout", "d", nil), e.exchange("b", "fanout", "d", nil), e.queue("q", "d", nil)
		e.must(e.channel().ExchangeBind(b, "", a, false, nil))
		e.must(e.channel().ExchangeBind(a, "", b, false, nil))
		e.must(e.channel().ExchangeBind(a, "", a, false, nil))
		e.bind(q, "", a, nil)
		e.bind(q, "", b, nil)
		e.publish(a, "", "once", amqp.Publishing{})
		e.say("%s", e.drain(q))
	}},
	{"an exchange that is deleted takes its bindings along", func(e *env) {
		a, b, q := e.exchange("a", "fanout", "d", nil), e.exchange("b", "fanout", "d", nil), e.queue("q", "d", nil)
		e.must(e.channel().ExchangeBind(b, "", a, false, nil))
		e.bind(q, "", b, nil)
		e.must(e.channel().ExchangeDelete(b, false, false))
		e.exchange("b", "fanout", "d", nil)
		e.publish(a, "", "m", amqp.Publishing{})
		e.say("%s", e.drain(q))
	}},
	{"alternate exchange", func(e *env) {
		e.exchange("alt", "fanout", "d", nil)
		x := e.exchange("x", "direct", "d", args("alternate-exchange", e.name("alt")))
		q, rest := e.queue("q", "d", nil), e.queue("rest", "d", nil)
		e.bind(q, "k", x, nil)
		e.bind(rest, "", e.name("alt"), nil)
		e.publish(x, "k", "routed", amqp.Publishing{})
		e.publish(x, "l", "not routed", amqp.Publishing{})
		e.say("%s / %s", e.drain(q), e.drain(rest))
	}},
	{"alternate exchange that does not exist", func(e *env) {
		x := e.exchange("x", "direct", "d", args("alternate-exchange", e.name("nowhere")))
		e.say("confirmed: %v", e.publish(x, "k", "m", amqp.Publishing{}))
	}},
	{"alternate exchange and mandatory", func(e *env) {
		e.exchange("alt", "direct", "d", nil)
		x := e.exchange("x", "direct", "d", args("alternate-exchange", e.name("alt")))
		q := e.queue("q", "d", nil)
		e.bind(q, "k", e.name("alt"), nil)
		r := e.opened()
		r.put(message(1, x, "k", 1, ""), message(1, x, "l", 1, ""), method(1, 20, 20, octet(1)))
		e.say("%s", r.reads(3))
	}},
	{"alternate exchanges in a ring", func(e *env) {
		e.exchange("a", "direct", "d", args("alternate-exchange", e.name("b")))
		e.exchange("b", "direct", "d", args("alternate-exchange", e.name("a")))
		e.say("confirmed: %v", e.publish(e.name("a"), "k", "m", amqp.Publishing{}))
	}},
	{"alternate exchange behind an exchange", func(e *env) {
		// What a bound exchange cannot route goes to its own alternate exchange.
		e.exchange("alt", "fanout", "d", nil)
		a, b := e.exchange("a", "fanout", "d", nil), e.exchange("b", "direct", "d", args("alternate-exchange", e.name("alt")))
		rest := e.queue("rest", "d", nil)
		e.must(e.channel().ExchangeBind(b, "", a, false, nil))
		e.bind(rest, "", e.name("alt"), nil)
		e.publish(a, "k", "m", amqp.Publishing{})
		e.say("%s", e.drain(rest))
	}},
	{"CC and BCC", func(e *env) {
		a, b, c := e.queue("a", "d", nil), e.queue("b", "d", nil), e.queue("c", "d", nil)
		e.publish("", a, "m", amqp.Publishing{Headers: args("CC", []any{b, b, a}, "BCC", []any{c})})
		for _, q := range []string{a, b, c} {
			for _, d := range e.take(e.channel(), q, 1) {
				_, bcc := d.Headers["BCC"]
				cc, _ := d.Headers["CC"].([]any)
				e.say("%s, key %s, %d CC, BCC: %v", d.Body, d.RoutingKey, len(cc), bcc)
			}
			e.say("more: %d", e.ready(q))
		}
	}},
	{"CC that is no list", func(e *env) {
		q := e.queue("q", "d", nil)
		e.try("a string", func(ch *amqp.Channel) error { return send(ch, "", q, "m", amqp.Publishing{Headers: args("CC", "k")}) })
		e.try("BCC a string", func(ch *amqp.Channel) error { return send(ch, "", q, "m", amqp.Publishing{Headers: args("BCC", "k")}) })
		e.try("a list of numbers", func(ch *amqp.Channel) error {
			return send(ch, "", q, "m", amqp.Publishing{Headers: args("CC", []any{int32(1)})})
		})
	}},
	{"consistent hash spreads and keeps", func(e *env) {
		x := e.exchange("x", "x-consistent-hash", "d", nil)
		a, b := e.queue("a", "d", nil), e.queue("b", "d", nil)
		e.bind(a, "1", x, nil)
		e.bind(b, "1", x, nil)
		for i := range 200 {
			key := fmt.Sprint(i)
			e.publish(x, key, key, amqp.Publishing{})
		}
		first := e.ready(a)
		e.say("both: %v, all: %v", first > 20 && first < 180, first+e.ready(b) == 200)
		for i := range 200 {
			key := fmt.Sprint(i)
			e.publish(x, key, key, amqp.Publishing{})
		}
		e.say("the same again: %v", e.ready(a) == 2*first)
	}},
	{"random reaches one queue", func(e *env) {
		x := e.exchange("x", "x-random", "d", nil)
		a, b := e.queue("a", "d", nil), e.queue("b", "d", nil)
		e.bind(a, "", x, nil)
		e.bind(b, "", x, nil)
		for range 100 {
			e.publish(x, "k", "m", amqp.Publishing{})
		}
		e.say("both: %v, all: %v", e.ready(a) > 10 && e.ready(b) > 10, e.ready(a)+e.ready(b) == 100)
	}},
	{"delayed message exchange", func(e *env) {
		e.try("declare", func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare(e.name("x"), "x-delayed-message", true, false, false, false, args("x-delayed-type", "direct"))
		})
	}},
}

type binding struct {
	key  string
	args table
}

// router is an exchange with queues.
type router struct {
	e        *env
	exchange string
	queues   []string // in the order of their labels
	labels   []string
	sent     int
}

func (e *env) router(kind string, queues map[string][]binding) *router {
	r := &router{e: e, exchange: e.exchange("x", kind, "d", nil)}
	for _, label := range sortedKeys(queues) {
		q := e.queue("q "+label, "d", nil)
		for _, b := range queues[label] {
			e.bind(q, b.key, r.exchange, b.args)
		}
		r.queues, r.labels = append(r.queues, q), append(r.labels, label)
	}
	return r
}

// reached publishes a message and names the queues that have got it.
func (r *router) reached(key string, headers table) string {
	r.sent++
	body := fmt.Sprint("m", r.sent)
	r.e.publish(r.exchange, key, body, amqp.Publishing{Headers: headers})
	var got []string
	for i, q := range r.queues {
		if s := r.e.drain(q); s == body {
			got = append(got, strings.TrimSpace(r.labels[i]))
		} else if s != "nothing" {
			got = append(got, r.labels[i]+" ("+s+")")
		}
	}
	if len(got) == 0 {
		return "none"
	}
	return strings.Join(got, ", ")
}
