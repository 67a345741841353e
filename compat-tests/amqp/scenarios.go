package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"polylog/compat/amqp/clients/proto"
)

// scenario is one column of the table: what every client is put through.
type scenario struct {
	name  string
	play  func(*script)
	notIn string // a target that lacks what is asked for
}

var scenarios = []scenario{
	{name: "properties", play: properties},
	{name: "confirms", play: confirms},
	{name: "returns", play: returns},
	{name: "consume", play: consume},
	{name: "requeue", play: requeue},
	{name: "dead letters", play: deadLetters},
	{name: "exchanges", play: exchanges},
	{name: "limits", play: limits},
	{name: "priorities", play: priorities},
	{name: "tx", play: transactions},
	{name: "quorum", play: quorum},
	{name: "stream", play: stream},
	{name: "reply-to", play: replyTo},
	{name: "cancel notify", play: cancelNotify},
	{name: "errors", play: refusals},
	{name: "delayed", play: delayed, notIn: "rabbitmq"},
	{name: "large", play: large},
	{name: "channels", play: channels},
	{name: "heartbeats", play: heartbeats},
}

type table = map[string]any

func properties(s *script) {
	s.confirming("a")
	q := s.queue("a", "q", nil)
	sent := proto.Message{
		ContentType: "text/plain", ContentEncoding: "utf-8", Persistent: true, Priority: 3, CorrelationID: "c-1", ReplyTo: "somewhere", Expiration: "600000",
		MessageID: "m-1", Timestamp: 1700000000, Type: "t", UserID: "guest", AppID: "app",
		Headers: table{"text": "ü", "number": 7.0, "negative": -7.0, "big": float64(1 << 40), "yes": true, "list": []any{"a", 1.0}, "table": table{"n": table{"m": "deep"}}, "at": table{"time": 1700000001.0}},
	}
	s.check(s.publish("a", "", q, "größe", &sent), "not confirmed")
	s.consume("a", q, "tag", 1, nil)
	d := s.one("a")
	s.check(d.Body == "größe", "body %q", d.Body)
	s.check(d.Exchange == "" && d.Key == q && !d.Redelivered, "exchange %q, key %q, redelivered %v", d.Exchange, d.Key, d.Redelivered)
	// An expiration may come back as what is left of it.
	var left int
	_, err := fmt.Sscan(d.Expiration, &left)
	s.check(err == nil && left > 0 && left <= 600_000, "expiration %q", d.Expiration)
	d.Expiration = sent.Expiration
	s.check(reflect.DeepEqual(d.Message, sent), "properties %+v, want %+v", d.Message, sent)
	s.ack("a", d)
	s.check(s.publish("a", "", q, "", nil), "not confirmed")
	d = s.one("a")
	s.check(d.Body == "" && len(d.Headers) == 0, "%+v from an empty message", d)
	s.ack("a", d)
}

func confirms(s *script) {
	s.confirming("a")
	q := s.queue("a", "q", nil)
	for i := range 200 {
		s.check(s.publish("a", "", q, fmt.Sprint(i), &proto.Message{Persistent: true}), "%d was not confirmed", i)
	}
	s.check(s.ready("a", q) == 200, "%d ready, want 200", s.ready("a", q))
	s.check(s.publish("a", "", s.name("nowhere"), "lost", nil), "an unroutable message was not confirmed")
}

func returns(s *script) {
	s.confirming("a")
	q := s.queue("a", "q", nil)
	out := s.do(proto.Request{Op: "publish", Ch: "a", Key: s.name("nowhere"), Body: "x", Mandatory: true})
	s.check(out.Acked && out.Returned == 312, "acked %v, returned %d", out.Acked, out.Returned)
	out = s.do(proto.Request{Op: "publish", Ch: "a", Key: q, Body: "x", Mandatory: true})
	s.check(out.Acked && out.Returned == 0, "acked %v, returned %d", out.Acked, out.Returned)
}

// consume has two consumers with a prefetch; each message comes once, in order to each.
func consume(s *script) {
	const n = 300
	s.confirming("p")
	q := s.queue("p", "q", nil)
	s.channel("a")
	s.channel("b")
	s.consume("a", q, "ta", 10, nil)
	s.consume("b", q, "tb", 10, nil)
	for i := range n {
		s.fill("p", q, fmt.Sprint(i))
	}
	seen := map[string]bool{}
	last := map[string]int{"a": -1, "b": -1}
	for len(seen) < n {
		for _, ch := range []string{"a", "b"} {
			for s.d.pending(ch) > 0 {
				d := s.one(ch)
				var i int
				_, err := fmt.Sscan(d.Body, &i)
				s.must(err)
				s.check(!seen[d.Body] && i > last[ch] && !d.Redelivered, "%s after %d on %s, seen %v, redelivered %v", d.Body, last[ch], ch, seen[d.Body], d.Redelivered)
				seen[d.Body], last[ch] = true, i
				s.ack(ch, d)
			}
		}
		s.must(s.ctx.Err())
		s.must(s.d.await(s.ctx, "more", func() bool { return len(seen) == n || len(s.d.delivered["a"])+len(s.d.delivered["b"]) > 0 }))
	}
	s.check(last["a"] > 0 && last["b"] > 0, "one consumer got everything")
	s.do(proto.Request{Op: "cancel", Ch: "a", Tag: "ta"})
	s.do(proto.Request{Op: "cancel", Ch: "b", Tag: "tb"})
	s.check(s.ready("p", q) == 0, "%d left", s.ready("p", q))
}

func requeue(s *script) {
	s.confirming("a")
	q := s.queue("a", "q", nil)
	s.fill("a", q, "1", "2", "3")
	s.channel("c")
	s.consume("c", q, "tag", 10, nil)
	got := s.take("c", 3)
	s.do(proto.Request{Op: "nack", Ch: "c", Number: got[1].Number, Requeue: true})
	again := s.one("c")
	s.check(again.Body == "2" && again.Redelivered, "%q came back, redelivered %v", again.Body, again.Redelivered)
	s.do(proto.Request{Op: "reject", Ch: "c", Number: again.Number, Requeue: true})
	again = s.one("c")
	s.check(again.Body == "2" && again.Redelivered, "%q came back, redelivered %v", again.Body, again.Redelivered)
	s.do(proto.Request{Op: "close", Ch: "c"})
	for _, want := range []string{"1", "2", "3"} {
		d := s.get("a", q)
		s.check(d.Body == want && d.Redelivered, "%q, redelivered %v, want %q", d.Body, d.Redelivered, want)
		s.do(proto.Request{Op: "ack", Ch: "a", Number: d.Number, Multiple: true})
	}
}

func deadLetters(s *script) {
	s.confirming("a")
	x := s.exchange("a", "x", "topic", nil)
	dead := s.queue("a", "dead", nil)
	s.bind("a", dead, x, "#", nil)
	q := s.queue("a", "q", table{"x-dead-letter-exchange": x, "x-message-ttl": 60000.0})
	s.fill("a", q, "rejected")
	d := s.get("a", q)
	s.do(proto.Request{Op: "reject", Ch: "a", Number: d.Number})
	s.died(dead, "rejected", "rejected", q)
	s.check(s.publish("a", "", q, "expired", &proto.Message{Expiration: "100"}), "not confirmed")
	s.died(dead, "expired", "expired", q)
	full := s.queue("a", "full", table{"x-dead-letter-exchange": x, "x-max-length": 1.0})
	s.fill("a", full, "dropped", "stays")
	s.died(dead, "dropped", "maxlen", full)
}

// died checks the next dead letter and its history.
func (s *script) died(dead, body, reason, queue string) {
	d := s.get("a", dead)
	s.check(d.Body == body && d.Key == queue, "%q with key %q in the dead letter queue, want %q of %q", d.Body, d.Key, body, queue)
	list, _ := d.Headers["x-death"].([]any)
	s.check(len(list) == 1, "x-death is %v", d.Headers["x-death"])
	t, _ := list[0].(map[string]any)
	s.check(t["reason"] == reason && t["queue"] == queue && t["count"] == 1.0 && reflect.DeepEqual(t["routing-keys"], []any{queue}), "x-death is %v", t)
	s.check(d.Headers["x-first-death-reason"] == reason, "headers %v", d.Headers)
	s.ack("a", d)
}

func exchanges(s *script) {
	s.confirming("a")
	topic, fanout, headers := s.exchange("a", "topic", "topic", nil), s.exchange("a", "fanout", "fanout", nil), s.exchange("a", "headers", "headers", nil)
	alternate := s.exchange("a", "alternate", "direct", table{"alternate-exchange": fanout})
	q1, q2 := s.queue("a", "q1", nil), s.queue("a", "q2", nil)
	s.bind("a", q1, topic, "a.*.c", nil)
	s.bind("a", q2, topic, "a.#", nil)
	s.bind("a", q1, fanout, "", nil)
	s.bind("a", q2, headers, "", table{"x-match": "any", "h": "1", "i": 2.0})
	s.do(proto.Request{Op: "xbind", Ch: "a", Source: headers, Destination: topic})
	for _, p := range []struct {
		exchange, key string
		headers       table
		q1, q2        bool
	}{
		{topic, "a.b.c", nil, true, true},
		{topic, "a.b", nil, false, true},
		{topic, "b", nil, false, false},
		{fanout, "any", nil, true, false},
		{headers, "a.b.c", table{"i": 2.0}, true, true},
		{headers, "b", table{"i": 3.0}, false, false},
		{alternate, "unknown", nil, true, false},
	} {
		s.check(s.publish("a", p.exchange, p.key, "m", &proto.Message{Headers: p.headers}), "not confirmed")
		got1, got2 := s.drain("a", q1), s.drain("a", q2)
		want := func(b bool) string { return strings.Repeat("m", map[bool]int{true: 1}[b]) }
		s.check(got1 == want(p.q1) && got2 == want(p.q2), "%s with key %q: %q and %q", p.exchange, p.key, got1, got2)
	}
	s.do(proto.Request{Op: "unbind", Ch: "a", Queue: q2, Exchange: topic, Key: "a.#"})
	s.publish("a", topic, "a.b.c", "m", nil)
	s.check(s.drain("a", q2) == "", "a message by a binding that was taken away")
}

func limits(s *script) {
	s.confirming("a")
	drop := s.queue("a", "drop", table{"x-max-length": 2.0})
	s.fill("a", drop, "1", "2", "3")
	s.check(s.drain("a", drop) == "2 3", "the queue drops the wrong ones")
	reject := s.queue("a", "reject", table{"x-max-length": 1.0, "x-overflow": "reject-publish"})
	s.fill("a", reject, "1")
	s.check(!s.publish("a", "", reject, "2", nil), "a full queue confirmed")
	s.check(s.drain("a", reject) == "1", "a full queue took more")
	short := s.queue("a", "short", table{"x-expires": 500.0})
	s.check(short != "", "no queue")
	ttl := s.queue("a", "ttl", table{"x-message-ttl": 100.0})
	s.fill("a", ttl, "1")
	s.until("expiry", func() bool { return s.ready("a", ttl) == 0 })
	s.do(proto.Request{Op: "purge", Ch: "a", Queue: ttl})
	s.fill("a", drop, "1", "2")
	s.check(s.do(proto.Request{Op: "purge", Ch: "a", Queue: drop}).Messages == 2, "purge counts wrong")
}

func priorities(s *script) {
	s.confirming("a")
	q := s.queue("a", "q", table{"x-max-priority": 10.0})
	for _, p := range []int{1, 5, 9, 5} {
		s.check(s.publish("a", "", q, fmt.Sprint("p", p), &proto.Message{Priority: p}), "not confirmed")
	}
	s.check(s.ready("a", q) == 4, "%d ready", s.ready("a", q))
	got := s.drain("a", q)
	s.check(got == "p9 p5 p5 p1", "order %s", got)
}

func transactions(s *script) {
	s.channel("t")
	q := s.queue("t", "q", nil)
	s.do(proto.Request{Op: "tx", Ch: "t"})
	s.publish("t", "", q, "1", nil)
	s.check(s.ready("t", q) == 0, "a message before its commit")
	s.do(proto.Request{Op: "commit", Ch: "t"})
	s.check(s.ready("t", q) == 1, "%d messages after commit", s.ready("t", q))
	s.publish("t", "", q, "2", nil)
	s.do(proto.Request{Op: "rollback", Ch: "t"})
	d := s.get("t", q)
	s.ack("t", d)
	s.do(proto.Request{Op: "rollback", Ch: "t"})
	s.do(proto.Request{Op: "close", Ch: "t"})
	s.channel("a")
	d = s.get("a", q)
	s.check(d.Body == "1" && d.Redelivered, "%q, redelivered %v after rollback", d.Body, d.Redelivered)
	s.ack("a", d)
	s.check(s.ready("a", q) == 0, "%d left", s.ready("a", q))
}

func quorum(s *script) {
	s.confirming("a")
	dead := s.queue("a", "dead", nil)
	q := s.queue("a", "q", table{"x-queue-type": "quorum", "x-delivery-limit": 2.0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
	s.fill("a", q, "m")
	s.channel("c")
	s.consume("c", q, "tag", 1, nil)
	for i := range 3 {
		d := s.one("c")
		s.check(d.Redelivered == (i > 0), "delivery %d, redelivered %v", i, d.Redelivered)
		if i > 0 {
			s.check(d.Headers["x-delivery-count"] == float64(i), "delivery %d has headers %v", i, d.Headers)
		}
		s.do(proto.Request{Op: "reject", Ch: "c", Number: d.Number, Requeue: true})
	}
	d := s.get("a", dead)
	s.check(d.Headers["x-first-death-reason"] == "delivery_limit", "headers %v", d.Headers)
	s.ack("a", d)
}

func stream(s *script) {
	s.confirming("a")
	q := s.queue("a", "s", table{"x-queue-type": "stream"})
	for i := range 50 {
		s.fill("a", q, fmt.Sprint(i))
	}
	for _, c := range []struct {
		offset any
		first  int
	}{{"first", 0}, {20.0, 20}, {table{"time": float64(time.Now().Add(-time.Hour).Unix())}, 0}} {
		ch := fmt.Sprint("c", c.first, c.offset)
		s.channel(ch)
		s.consume(ch, q, "tag", 5, table{"x-stream-offset": c.offset})
		for i := c.first; i < 50; i++ {
			d := s.one(ch)
			s.check(d.Body == fmt.Sprint(i) && d.Headers["x-stream-offset"] == float64(i), "%q at %v, want %d", d.Body, d.Headers["x-stream-offset"], i)
			s.ack(ch, d)
		}
		s.do(proto.Request{Op: "close", Ch: ch})
	}
}

func replyTo(s *script) {
	const direct = "amq.rabbitmq.reply-to"
	s.channel("server")
	q := s.queue("server", "q", nil)
	s.do(proto.Request{Op: "consume", Ch: "server", Queue: q, Tag: "server"})
	s.channel("client")
	s.do(proto.Request{Op: "consume", Ch: "client", Queue: direct, Tag: "client", NoAck: true})
	for i := range 5 {
		id := fmt.Sprint("q", i)
		s.publish("client", "", q, id, &proto.Message{ReplyTo: direct, CorrelationID: id})
		d := s.one("server")
		s.check(strings.HasPrefix(d.ReplyTo, direct+"."), "reply-to is %q", d.ReplyTo)
		s.publish("server", "", d.ReplyTo, "re "+d.Body, &proto.Message{CorrelationID: d.CorrelationID})
		s.ack("server", d)
		a := s.one("client")
		s.check(a.Body == "re "+id && a.CorrelationID == id, "answer %q, correlation %q", a.Body, a.CorrelationID)
	}
}

func cancelNotify(s *script) {
	s.channel("a")
	q := s.queue("a", "q", nil)
	s.channel("c")
	s.consume("c", q, "tag", 1, nil)
	s.do(proto.Request{Op: "delete", Ch: "a", Queue: q})
	s.must(s.d.await(s.ctx, "the cancellation", func() bool { return s.d.cancelled["c/tag"] }))
}

func refusals(s *script) {
	s.channel("a")
	q := s.queue("a", "q", nil)
	s.refused(404, proto.Request{Op: "queue", Ch: "a", Name: s.name("nowhere"), Passive: true})
	s.channel("a") // the last one is closed
	s.refused(406, proto.Request{Op: "queue", Ch: "a", Name: q, Durable: true, Args: table{"x-max-length": 5.0}})
	s.channel("a")
	s.refused(403, proto.Request{Op: "queue", Ch: "a", Name: "amq.reserved", Durable: true})
	s.channel("a")
	s.refused(404, proto.Request{Op: "bind", Ch: "a", Queue: q, Exchange: s.name("nowhere")})
	s.channel("a")
	s.refused(406, proto.Request{Op: "queue", Ch: "a", Name: s.name("bad"), Durable: true, Args: table{"x-message-ttl": -1.0}})
	s.channel("a")
	s.check(s.ready("a", q) == 0, "the queue is not as it was")
}

// delayed sends messages through an exchange that holds them back.
func delayed(s *script) {
	s.confirming("a")
	x := s.exchange("a", "x", "x-delayed-message", table{"x-delayed-type": "direct"})
	q := s.queue("a", "q", nil)
	s.bind("a", q, x, "k", nil)
	begin := time.Now()
	for _, ms := range []int{600, 200, 0, 400} {
		s.check(s.publish("a", x, "k", fmt.Sprint(ms), &proto.Message{Headers: table{"x-delay": float64(ms)}}), "not confirmed")
	}
	s.consume("a", q, "tag", 10, nil)
	for _, want := range []int{0, 200, 400, 600} {
		d := s.one("a")
		early := time.Since(begin) < time.Duration(want)*time.Millisecond
		s.check(d.Body == fmt.Sprint(want) && !early, "%s after %v, want %d", d.Body, time.Since(begin), want)
		s.ack("a", d)
	}
}

func large(s *script) {
	s.confirming("a")
	q := s.queue("a", "q", nil)
	for _, n := range []int{0, 1, 131_064, 131_065, 3_000_000} {
		body := strings.Repeat("0123456789", n/10+1)[:n]
		s.fill("a", q, body)
		d := s.get("a", q)
		s.check(d.Body == body, "%d bytes came back of %d", len(d.Body), n)
		s.ack("a", d)
	}
}

func channels(s *script) {
	s.channel("first")
	q := s.queue("first", "q", nil)
	var names []string
	for i := range 60 {
		names = append(names, fmt.Sprint("many", i))
		s.channel(names[i])
		s.publish(names[i], "", q, names[i], nil)
	}
	s.until("all of them", func() bool { return s.ready("first", q) == len(names) })
	got := strings.Fields(s.drain("first", q))
	slices.Sort(got)
	slices.Sort(names)
	s.check(slices.Equal(got, names), "%d messages of %d channels", len(got), len(names))
	for _, n := range names {
		s.do(proto.Request{Op: "close", Ch: n})
	}
}

// heartbeats has the client idle for longer than a broker that misses them would wait: drivers ask
// for heartbeats every second where the library lets them.
func heartbeats(s *script) {
	s.channel("a")
	q := s.queue("a", "q", nil)
	s.consume("a", q, "tag", 1, nil)
	select {
	case <-time.After(5 * time.Second):
	case <-s.ctx.Done():
		s.must(s.ctx.Err())
	}
	s.confirming("b")
	s.fill("b", q, "still here")
	s.check(s.one("a").Body == "still here", "something else came")
}
