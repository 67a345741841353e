package probe

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// publishing is what publishes are refused with, returns and confirms.
var publishing = []Probe{
	{"to a missing exchange", func(e *env) {
		e.try("publish", func(ch *amqp.Channel) error { return send(ch, e.name("nowhere"), "k", "m", amqp.Publishing{}) })
	}},
	{"to an internal exchange", func(e *env) {
		x := e.exchange("x", "fanout", "di", nil)
		e.try("publish", func(ch *amqp.Channel) error { return send(ch, x, "k", "m", amqp.Publishing{}) })
	}},
	{"immediate", func(e *env) {
		q := e.queue("q", "d", nil)
		e.try("publish", func(ch *amqp.Channel) error {
			return ch.PublishWithContext(e.ctx, "", q, false, true, amqp.Publishing{})
		})
	}},
	{"a user id that is not one's own", func(e *env) {
		q := e.queue("q", "d", nil)
		e.try("another", func(ch *amqp.Channel) error { return send(ch, "", q, "m", amqp.Publishing{UserId: "bob"}) })
		e.try("own", func(ch *amqp.Channel) error { return send(ch, "", q, "m", amqp.Publishing{UserId: "guest"}) })
	}},
	{"expirations", func(e *env) {
		q := e.queue("q", "d", nil)
		for _, s := range []string{"abc", "-1", "1.5", "", " 5", "5 ", "60000", "99999999999", "+5", "0x10"} {
			e.try(fmt.Sprintf("%q", s), func(ch *amqp.Channel) error { return send(ch, "", q, "m", amqp.Publishing{Expiration: s}) })
		}
	}},
	{"mandatory, to nobody", func(e *env) {
		ch := e.channel()
		returns := ch.NotifyReturn(make(chan amqp.Return, 1))
		p := amqp.Publishing{ContentType: "text/plain", MessageId: "id", Headers: args("a", "b"), Body: []byte("m")}
		e.must(ch.PublishWithContext(e.ctx, "amq.direct", e.name("nokey"), true, false, p))
		select {
		case r := <-returns:
			e.say("%d %s, exchange %q, key %q, body %q, type %q, id %q, headers %v", r.ReplyCode, r.ReplyText, r.Exchange, r.RoutingKey, r.Body, r.ContentType, r.MessageId, r.Headers)
		case <-time.After(patience):
			e.say("no return")
		}
	}},
	{"mandatory, to somebody", func(e *env) {
		q := e.queue("q", "d", nil)
		r := e.opened()
		r.put(message(1, "", q, 1, "m"), method(1, 20, 20, octet(1)))
		e.say("%s", r.read())
	}},
	{"confirms count from one and cover all", func(e *env) {
		q := e.queue("q", "d", nil)
		ch := e.channel()
		e.must(ch.Confirm(false))
		confirms := ch.NotifyPublish(make(chan amqp.Confirmation, 10))
		for i := range 5 {
			e.must(send(ch, "", q, fmt.Sprint(i), amqp.Publishing{}))
		}
		e.must(send(ch, "", e.name("nowhere"), "lost", amqp.Publishing{}))
		var s []string
		for range 6 {
			select {
			case c := <-confirms:
				s = append(s, fmt.Sprintf("%d %v", c.DeliveryTag, c.Ack))
			case <-time.After(patience):
				s = append(s, "none")
			}
		}
		e.say("%s", strings.Join(s, ", "))
	}},
	{"confirm.select again", func(e *env) {
		q := e.queue("q", "d", nil)
		r := e.opened()
		r.put(method(1, 85, 10, octet(0)), message(1, "", q, 0, ""))
		e.say("%s", r.reads(2))
		r.put(method(1, 85, 10, octet(0)), message(1, "", q, 0, ""))
		e.say("%s", r.reads(2))
	}},
	{"what was published before confirm.select is not counted", func(e *env) {
		q := e.queue("q", "d", nil)
		r := e.opened()
		r.put(message(1, "", q, 0, ""), method(1, 85, 10, octet(0)), message(1, "", q, 0, ""))
		e.say("%s", r.reads(2))
	}},
	{"a failed publish is not confirmed", func(e *env) {
		r := e.opened()
		r.put(method(1, 85, 10, octet(0)))
		r.read()
		r.put(message(1, e.name("nowhere"), "", 0, ""))
		e.say("%s", r.read())
		r.put(method(1, 20, 41))
		e.say("%s", r.rest())
	}},
	{"a fanout to a hundred queues is one confirm", func(e *env) {
		x := e.exchange("x", "fanout", "d", nil)
		for i := range 100 {
			e.bind(e.queue(fmt.Sprint("q", i), "d", nil), "", x, nil)
		}
		r := e.opened()
		r.put(method(1, 85, 10, octet(0)), message(1, x, "", 0, "m"), method(1, 20, 20, octet(1)))
		s := []string{r.read(), r.read(), r.read()}
		slices.Sort(s)
		e.say("%s", strings.Join(s, "; "))
	}},
	{"confirm and tx exclude each other", func(e *env) {
		e.try("tx", func(ch *amqp.Channel) error { e.must(ch.Confirm(false)); return ch.Tx() })
		e.try("confirm", func(ch *amqp.Channel) error { e.must(ch.Tx()); return ch.Confirm(false) })
	}},
	{"order on one channel", func(e *env) {
		q := e.queue("q", "d", nil)
		ch := e.channel()
		for i := range 500 {
			e.must(send(ch, "", q, fmt.Sprint(i), amqp.Publishing{}))
		}
		e.must(barrier(ch))
		e.awaitReady(q, 500)
		got := strings.Split(e.drain(q), ", ")
		for i, s := range got {
			if s != fmt.Sprint(i) {
				e.say("message %d is %s", i, s)
				return
			}
		}
		e.say("%d in order", len(got))
	}},
	{"to an exclusive queue of another connection", func(e *env) {
		ch, err := e.dial().Channel()
		e.must(err)
		q := e.name("x")
		_, err = declare(ch, q, "x", nil)
		e.must(err)
		e.say("confirmed: %v", e.publish("", q, "m", amqp.Publishing{}))
		d, ok, err := ch.Get(q, true)
		e.must(err)
		e.say("%q %v", d.Body, ok)
	}},
}

// about is an expiration that is what was given, or what is left of it.
func about(expiration string, given int) string {
	left, err := strconv.Atoi(expiration)
	if err != nil || left > given || left < given-60_000 {
		return expiration
	}
	return fmt.Sprint("about ", given)
}

// content is what comes out of what was put in.
var content = []Probe{
	{"every property", func(e *env) {
		q := e.queue("q", "d", nil)
		e.publish("amq.direct", "nobody", "", amqp.Publishing{})
		e.bind(q, "k", "amq.direct", nil)
		e.publish("amq.direct", "k", "body", amqp.Publishing{
			ContentType: "text/plain", ContentEncoding: "utf-8", DeliveryMode: amqp.Persistent, Priority: 3, CorrelationId: "c", ReplyTo: "r",
			Expiration: "600000", MessageId: "m", Timestamp: time.Unix(1700000000, 0).UTC(), Type: "t", UserId: "guest", AppId: "a",
		})
		d := e.take(e.channel(), q, 1)[0]
		e.say("%s %s mode %d priority %d %s %s %s %s %d %s %s %s", d.ContentType, d.ContentEncoding, d.DeliveryMode, d.Priority, d.CorrelationId, d.ReplyTo,
			about(d.Expiration, 600_000), d.MessageId, d.Timestamp.Unix(), d.Type, d.UserId, d.AppId)
		e.say("exchange %s, key %s, body %s, headers %v", d.Exchange, d.RoutingKey, d.Body, d.Headers)
	}},
	{"no property at all", func(e *env) {
		q := e.queue("q", "d", nil)
		r := e.opened()
		r.put(message(1, "", q, 0, "m"), method(1, 20, 20, octet(1)))
		e.say("%s", r.read())
		e.awaitReady(q, 1)
		r.put(method(1, 60, 70, short(0), shortstr(q), octet(1)))
		e.say("%s", r.read())
		g := r.frame(patience)
		e.say("header %x", g.payload)
	}},
	{"properties come back as the bytes they were", func(e *env) {
		q := e.queue("q", "d", nil)
		r := e.opened()
		headers := fields(
			shortstr("l"), []byte{'l'}, longlong(7), shortstr("I"), []byte{'I'}, long(7), shortstr("s"), []byte{'s'}, short(7), shortstr("b"), []byte{'b', 0xff},
			shortstr("t"), []byte{'t', 1}, shortstr("f"), []byte{'f', 0x3f, 0x80, 0, 0}, shortstr("d"), []byte{'d', 0x3f, 0xf0, 0, 0, 0, 0, 0, 0},
			shortstr("D"), []byte{'D', 2}, long(314), shortstr("S"), []byte{'S'}, longstr("text"), shortstr("x"), []byte{'x'}, longstr("\x00\xff"),
			shortstr("T"), []byte{'T'}, longlong(1700000000), shortstr("V"), []byte{'V'},
			shortstr("A"), []byte{'A'}, longstr("I\x00\x00\x00\x01S\x00\x00\x00\x01z"), shortstr("F"), []byte{'F'}, fields(shortstr("n"), []byte{'V'}),
			shortstr("empty"), []byte{'S'}, longstr(""),
		)
		properties := append(shortstr("a/b"), headers...) // content-type, headers
		r.put(publishMethod(1, "", q, 0), frame(frameHeader, 1, short(60), short(0), longlong(1), short(0x8000|0x2000), properties), frame(frameBody, 1, []byte("m")),
			method(1, 20, 20, octet(1)))
		e.say("%s", r.read())
		e.awaitReady(q, 1)
		r.put(method(1, 60, 70, short(0), shortstr(q), octet(1)))
		e.say("%s", r.read())
		g := r.frame(patience)
		p := g.payload
		if len(p) < 14 {
			e.say("header %x", p)
			return
		}
		e.say("flags %x, the same: %v", p[12:14], string(p[14:]) == string(properties))
	}},
	{"unsigned field types", func(e *env) {
		for _, kind := range []string{"B", "u", "i", "L"} {
			q := e.queue("q"+kind, "d", nil)
			r := e.opened()
			size := map[string]int{"B": 1, "u": 2, "i": 4, "L": 8}[kind]
			headers := fields(shortstr("n"), []byte(kind), make([]byte, size-1), octet(5))
			r.put(publishMethod(1, "", q, 0), frame(frameHeader, 1, short(60), short(0), longlong(0), short(0x2000), headers), method(1, 20, 20, octet(1)))
			s := r.read()
			if strings.HasPrefix(s, "channel.flow-ok") {
				e.awaitReady(q, 1)
				r.put(method(1, 60, 70, short(0), shortstr(q), octet(1)))
				r.read()
				s = fmt.Sprintf("the same: %v", strings.HasSuffix(string(r.frame(patience).payload), string(headers)))
			}
			e.say("%s: %s", kind, s)
		}
	}},
	{"bodies of many sizes", func(e *env) {
		q := e.queue("q", "d", nil)
		ch := e.channel()
		for _, n := range []int{0, 1, 131063, 131064, 131065, 131072, 262128, 1_000_000, 5_000_000} {
			body := strings.Repeat("abcdefghij", n/10+1)[:n]
			e.publish("", q, body, amqp.Publishing{})
			d := e.take(ch, q, 1)[0]
			e.must(d.Ack(false))
			e.say("%d: %v", n, string(d.Body) == body)
		}
	}},
	{"bodies in frames of 4096", func(e *env) {
		c, err := amqp.DialConfig(e.url(""), amqp.Config{FrameSize: 4096})
		e.must(err)
		e.keep(c)
		q := e.queue("q", "d", nil)
		ch, err := c.Channel()
		e.must(err)
		body := strings.Repeat("abcdefghij", 10_000)
		e.must(send(ch, "", q, body, amqp.Publishing{}))
		e.must(barrier(ch))
		d := e.take(ch, q, 1)[0]
		e.say("%v", string(d.Body) == body)
	}},
	{"a body that fills frames exactly", func(e *env) {
		q := e.queue("q", "d", nil)
		e.publish("", q, strings.Repeat("x", 2*(131072-8)), amqp.Publishing{})
		r := e.opened()
		r.put(method(1, 60, 70, short(0), shortstr(q), octet(1)))
		e.say("%s", r.reads(2))
		a, b := r.frame(patience), r.frame(patience)
		e.say("%d and %d", len(a.payload), len(b.payload))
		r.put(method(1, 20, 20, octet(1)))
		e.say("%s", r.read())
	}},
	{"headers of a thousand entries", func(e *env) {
		q := e.queue("q", "d", nil)
		h := table{}
		for i := range 1000 {
			h[fmt.Sprint("header-", i)] = int32(i)
		}
		e.publish("", q, "m", amqp.Publishing{Headers: h})
		d := e.take(e.channel(), q, 1)[0]
		e.say("%d, the last is %v", len(d.Headers), d.Headers["header-999"])
	}},
	{"a header table that needs more than a frame", func(e *env) {
		q := e.queue("q", "d", nil)
		r := e.opened()
		r.put(publishMethod(1, "", q, 0), frame(frameHeader, 1, short(60), short(0), longlong(0), short(0x2000), fields(shortstr("x"), []byte{'S'}, longstr(strings.Repeat("x", 140000)))))
		e.say("%.60s", r.read())
	}},
}
