package amqp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
	"polylog/router/routertest"
)

// declare declares a queue and returns the answer.
func (c *client) declare(ch uint16, m *spec.QueueDeclare) *spec.QueueDeclareOk {
	c.t.Helper()
	c.send(ch, m)
	return recv[*spec.QueueDeclareOk](c, ch)
}

// confirmed puts a channel into confirm mode.
func (c *client) confirmed(ch uint16) {
	c.t.Helper()
	c.send(ch, &spec.ConfirmSelect{})
	recv[*spec.ConfirmSelectOk](c, ch)
}

// put publishes to a queue by the default exchange and waits for the confirm.
func (c *client) put(ch uint16, queue string, bodies ...string) {
	c.t.Helper()
	for _, b := range bodies {
		c.publish(ch, &spec.BasicPublish{RoutingKey: queue}, &spec.Properties{}, []byte(b))
		recv[*spec.BasicAck](c, ch)
	}
}

// consume begins to consume.
func (c *client) consume(ch uint16, m *spec.BasicConsume) (tag string) {
	c.t.Helper()
	c.send(ch, m)
	return recv[*spec.BasicConsumeOk](c, ch).ConsumerTag
}

// delivery is the next frame, which must be a delivery of that body.
func (c *client) delivery(ch uint16, body string) *spec.BasicDeliver {
	c.t.Helper()
	m := recv[*spec.BasicDeliver](c, ch)
	if _, got := c.content(ch); string(got) != body {
		c.t.Fatalf("delivery %d is %q, want %q", m.DeliveryTag, got, body)
	}
	return m
}

// counted waits until a queue has so many messages ready and consumers.
func (f *fixture) counted(queue string, ready int64, consumers int) {
	f.t.Helper()
	var last router.QueueCounts
	defer func() {
		if f.t.Failed() {
			f.t.Logf("queue %s: %+v, want %d ready and %d consumers", queue, last, ready, consumers)
		}
	}()
	waitFor(f.t, func() bool {
		q, err := f.router.Queue(core.TopicName(queue))
		if err != nil {
			return false
		}
		last, err = f.router.CountQueue(f.t.Context(), q.ID, "")
		return err == nil && last.Ready == ready && last.Consumers == consumers
	})
}

func header(name string, v message.Value) message.Header { return message.Header{Name: name, Value: v} }

func number32(n int64) message.Value { return message.Int(message.KindInt32, n) }

func TestServerNames(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	a, b := c.declare(1, &spec.QueueDeclare{}), c.declare(1, &spec.QueueDeclare{})
	if a.Queue == b.Queue || !strings.HasPrefix(a.Queue, "amq.gen-") || len(a.Queue) != len("amq.gen-")+22 {
		t.Fatalf("%q, %q", a.Queue, b.Queue)
	}
	if tag := c.consume(1, &spec.BasicConsume{}); !strings.HasPrefix(tag, "amq.ctag-") {
		t.Fatalf("consumer tag %q", tag)
	}
	f.counted(b.Queue, 0, 1)
}

// What a consumer without acknowledgements is not sent any more, for its connection is being
// closed, is another's.
func TestNothingIsSettledUnsent(t *testing.T) {
	f := start(t, func(o *Options) { o.CloseTimeout = time.Minute })
	other := f.channel()
	other.confirmed(1)
	other.declare(1, &spec.QueueDeclare{Queue: "q"})
	c := f.channel()
	c.consume(1, &spec.BasicConsume{Queue: "q", NoAck: true})
	c.send(1, &spec.BasicQos{PrefetchSize: 1})
	c.told(540, "NOT_IMPLEMENTED - prefetch_size!=0 (1)", spec.BasicQosID)
	third := f.channel()
	third.consume(1, &spec.BasicConsume{Queue: "q", NoAck: true})
	bodies := slices.Repeat([]string{"message"}, 1000)
	other.put(1, "q", bodies...)
	for range bodies { // though c does not answer connection.close
		recv[*spec.BasicDeliver](third, 1)
		third.content(1)
	}
}

// failure is a method that closes the channel.
type failure struct {
	m    spec.Method
	code spec.Code
	text string
}

// fails sends each method on a channel of its own.
func (f *fixture) fails(all []failure) {
	f.t.Helper()
	c := f.connect()
	for i, x := range all {
		ch := uint16(i + 1)
		c.openChannel(ch)
		c.send(ch, x.m)
		c.channelClosed(ch, x.code, x.text, x.m.ID())
	}
}

// The texts were seen at RabbitMQ 3.10.8; where 4.3 differs they are 4.3's.
func TestRefusals(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.declare(1, &spec.QueueDeclare{Queue: "q", Durable: true})
	c.declare(1, &spec.QueueDeclare{Queue: "ttl", Arguments: message.Table{header("x-message-ttl", number32(1000))}})
	c.declare(1, &spec.QueueDeclare{Queue: "excl", Exclusive: true})
	c.send(1, &spec.ExchangeDeclare{Exchange: "x", Type: "direct"})
	recv[*spec.ExchangeDeclareOk](c, 1)
	c.send(1, &spec.ExchangeDeclare{Exchange: "hash", Type: "x-consistent-hash"})
	recv[*spec.ExchangeDeclareOk](c, 1)
	ttl := func(v message.Value) message.Table { return message.Table{header("x-message-ttl", v)} }
	quorum := func(more ...message.Header) message.Table {
		return append(message.Table{header("x-queue-type", message.String("quorum"))}, more...)
	}
	locked := "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'excl' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration."
	f.fails([]failure{
		{&spec.QueueDeclare{Queue: "q"}, 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'"},
		{&spec.QueueDeclare{Queue: "q", Durable: true, AutoDelete: true}, 406, "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'"},
		{&spec.QueueDeclare{Queue: "ttl", Arguments: ttl(number32(2000))}, 406, "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'ttl' in vhost '/': received '2000' but current is '1000'"},
		{&spec.QueueDeclare{Queue: "ttl"}, 406, "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'ttl' in vhost '/': received none but current is the value '1000' of type 'signedint'"},
		{&spec.QueueDeclare{Queue: "q", Durable: true, Arguments: quorum()}, 406, "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received 'quorum' but current is 'classic'"},
		{&spec.QueueDeclare{Queue: "none", Passive: true}, 404, "NOT_FOUND - no queue 'none' in vhost '/'"},
		{&spec.QueueDeclare{Queue: "excl", Passive: true}, 405, locked},
		{&spec.QueueDeclare{Queue: "excl", Durable: true}, 405, locked},
		{&spec.QueueBind{Queue: "excl", Exchange: "x"}, 405, locked},
		{&spec.QueueDelete{Queue: "excl"}, 405, locked},
		{&spec.QueuePurge{Queue: "excl"}, 405, locked},
		{&spec.BasicConsume{Queue: "excl"}, 405, locked},
		{&spec.BasicGet{Queue: "excl"}, 405, locked},
		{&spec.BasicGet{}, 404, "NOT_FOUND - no previously declared queue"},
		{&spec.QueueDeclare{Queue: "q", Durable: true, Exclusive: true}, 405, strings.ReplaceAll(locked, "excl'", "q'")},
		{&spec.QueueDeclare{Queue: "amq.q"}, 403, "ACCESS_REFUSED - queue name 'amq.q' contains reserved prefix 'amq.*'"},
		{&spec.QueuePurge{Queue: "none"}, 404, "NOT_FOUND - no queue 'none' in vhost '/'"},
		{&spec.BasicConsume{Queue: "none"}, 404, "NOT_FOUND - no queue 'none' in vhost '/'"},
		{&spec.BasicConsume{Queue: "q", Arguments: message.Table{header("x-priority", message.String("1"))}}, 406, `PRECONDITION_FAILED - invalid arg 'x-priority' for queue 'q' in vhost '/': "expected integer, got longstr"`},
		{&spec.QueueDeclare{Queue: "n", Arguments: ttl(message.String("1"))}, 406, `PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'n' in vhost '/': "expected integer, got longstr"`},
		{&spec.QueueDeclare{Queue: "n", Arguments: ttl(number32(-1))}, 406, "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'n' in vhost '/': {value_negative,-1}"},
		{&spec.QueueDeclare{Queue: "n", Arguments: message.Table{header("x-expires", number32(0))}}, 406, "PRECONDITION_FAILED - invalid arg 'x-expires' for queue 'n' in vhost '/': {value_zero,0}"},
		{&spec.QueueDeclare{Queue: "n", Arguments: message.Table{header("x-dead-letter-routing-key", message.String("k"))}}, 406, "PRECONDITION_FAILED - invalid arg 'x-dead-letter-routing-key' for queue 'n' in vhost '/': routing_key_but_no_dlx_defined"},
		{&spec.QueueDeclare{Queue: "n", Arguments: message.Table{header("x-dead-letter-exchange", number32(1))}}, 406, "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'n' in vhost '/'"},
		{&spec.QueueDeclare{Queue: "n", Arguments: message.Table{header("x-overflow", message.String("bad"))}}, 406, "PRECONDITION_FAILED - invalid arg 'x-overflow' for queue 'n' in vhost '/': invalid_overflow"},
		{&spec.QueueDeclare{Queue: "n", Arguments: message.Table{header("x-max-priority", number32(256))}}, 406, "PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue 'n' in vhost '/': {max_value_exceeded,256}"},
		{&spec.QueueDeclare{Queue: "n", Arguments: message.Table{header("x-queue-type", message.String("foo"))}}, 406, `PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue 'n' in vhost '/': "unsupported queue type 'foo'"`},
		{&spec.QueueDeclare{Queue: "n", Durable: true, Exclusive: true, Arguments: quorum()}, 406, "PRECONDITION_FAILED - invalid property 'exclusive-owner' for queue 'n' in vhost '/'"},
		{&spec.QueueDeclare{Queue: "n", Arguments: quorum()}, 406, "PRECONDITION_FAILED - invalid property 'non-durable' for queue 'n' in vhost '/'"},
		{&spec.QueueDeclare{Queue: "n", Durable: true, AutoDelete: true, Arguments: quorum()}, 406, "PRECONDITION_FAILED - invalid property 'auto-delete' for queue 'n' in vhost '/'"},
		{&spec.QueueDeclare{Durable: true, Arguments: quorum()}, 406, "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue"},
		{&spec.QueueDeclare{Queue: "n", Durable: true, Arguments: quorum(header("x-max-priority", number32(5)))}, 406, "PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue 'n' in vhost '/' of queue type rabbit_quorum_queue"},
		{&spec.QueueDeclare{Queue: "n", Arguments: message.Table{header("x-delivery-limit", number32(5))}}, 406, "PRECONDITION_FAILED - invalid arg 'x-delivery-limit' for queue 'n' in vhost '/' of queue type rabbit_classic_queue"},

		{&spec.ExchangeDeclare{Exchange: "none", Passive: true}, 404, "NOT_FOUND - no exchange 'none' in vhost '/'"},
		{&spec.ExchangeDeclare{Exchange: "amq.x", Type: "direct"}, 403, "ACCESS_REFUSED - exchange name 'amq.x' contains reserved prefix 'amq.*'"},
		{&spec.ExchangeDeclare{Exchange: "", Type: "direct"}, 403, "ACCESS_REFUSED - operation not permitted on the default exchange"},
		{&spec.ExchangeDeclare{Exchange: "y", Type: "nosuch"}, 406, "PRECONDITION_FAILED - unknown exchange type 'nosuch'"},
		{&spec.ExchangeDeclare{Exchange: "x", Type: "fanout"}, 406, "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '/': received 'fanout' but current is 'direct'"},
		{&spec.ExchangeDeclare{Exchange: "x", Type: "direct", Internal: true}, 406, "PRECONDITION_FAILED - inequivalent arg 'internal' for exchange 'x' in vhost '/': received 'true' but current is 'false'"},
		{&spec.ExchangeDeclare{Exchange: "y", Type: "direct", Arguments: message.Table{header("alternate-exchange", number32(1))}}, 406, "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange 'y' in vhost '/'"},
		{&spec.ExchangeDeclare{Exchange: "y", Type: "x-delayed-message"}, 406, "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"},
		{&spec.ExchangeDeclare{Exchange: "y", Type: "x-delayed-message", Arguments: message.Table{header("x-delayed-type", message.String("x-delayed-message"))}}, 406, "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"},
		{&spec.QueueBind{Queue: "q", Exchange: "hash", RoutingKey: "0"}, 406, "PRECONDITION_FAILED - The binding key must be greater than 0"},
		{&spec.QueueBind{Queue: "q", Exchange: "hash", RoutingKey: "many"}, 406, `PRECONDITION_FAILED - The binding key must be an integer: <<"many">>`},
		{&spec.ExchangeDelete{Exchange: "amq.direct"}, 403, "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed"},
		{&spec.ExchangeDelete{}, 403, "ACCESS_REFUSED - operation not permitted on the default exchange"},
		{&spec.QueueBind{Queue: "q", Exchange: ""}, 403, "ACCESS_REFUSED - operation not permitted on the default exchange"},
		{&spec.QueueBind{Queue: "q", Exchange: "none"}, 404, "NOT_FOUND - no exchange 'none' in vhost '/'"},
		{&spec.QueueBind{Queue: "none", Exchange: "x"}, 404, "NOT_FOUND - no queue 'none' in vhost '/'"},
		{&spec.ExchangeBind{Destination: "none", Source: "x"}, 404, "NOT_FOUND - no exchange 'none' in vhost '/'"},
		{&spec.QueueBind{Queue: "q", Exchange: "amq.headers", Arguments: message.Table{header("x-match", message.String("foo"))}}, 406, `PRECONDITION_FAILED - Invalid x-match field value <<"foo">>; expected all, any, all-with-x, or any-with-x`},

		{&spec.BasicAck{DeliveryTag: 99}, 406, "PRECONDITION_FAILED - unknown delivery tag 99"},
		{&spec.BasicNack{DeliveryTag: 99, Multiple: true}, 406, "PRECONDITION_FAILED - unknown delivery tag 99"},
		{&spec.BasicReject{DeliveryTag: 0}, 406, "PRECONDITION_FAILED - unknown delivery tag 0"},
		{&spec.TxCommit{}, 406, "PRECONDITION_FAILED - channel is not transactional"},
		{&spec.TxRollback{}, 406, "PRECONDITION_FAILED - channel is not transactional"},
	})
	for _, x := range []failure{
		{&spec.BasicQos{PrefetchSize: 10}, 540, "NOT_IMPLEMENTED - prefetch_size!=0 (10)"},
		{&spec.BasicRecover{}, 540, "NOT_IMPLEMENTED - requeue=false"},
	} {
		c := f.channel()
		c.send(1, x.m)
		c.told(x.code, x.text, x.m.ID())
	}
}

// What is no error.
func TestAllowed(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	ttl := func(v message.Value) message.Table { return message.Table{header("x-message-ttl", v)} }
	c.declare(1, &spec.QueueDeclare{Queue: "q", Arguments: ttl(number32(1000))})
	c.declare(1, &spec.QueueDeclare{Queue: "q", Arguments: ttl(message.Int(message.KindInt64, 1000))})
	c.declare(1, &spec.QueueDeclare{Queue: "q", Arguments: append(ttl(number32(1000)), header("x-unknown", number32(1)))})
	c.declare(1, &spec.QueueDeclare{Queue: "q", Arguments: append(ttl(number32(1000)), header("x-queue-type", message.String("classic")))})
	c.send(1, &spec.QueueUnbind{Queue: "q", Exchange: "none", RoutingKey: "k"})
	recv[*spec.QueueUnbindOk](c, 1)
	c.send(1, &spec.QueueUnbind{Queue: "none", Exchange: "amq.direct", RoutingKey: "k"})
	recv[*spec.QueueUnbindOk](c, 1)
	c.send(1, &spec.ExchangeDelete{Exchange: "none"})
	recv[*spec.ExchangeDeleteOk](c, 1)
	c.send(1, &spec.BasicCancel{ConsumerTag: "none"})
	recv[*spec.BasicCancelOk](c, 1)
	c.send(1, &spec.BasicAck{DeliveryTag: 0, Multiple: true})
	c.send(1, &spec.ExchangeDeclare{Exchange: "amq.topic", Type: "topic", Durable: true})
	recv[*spec.ExchangeDeclareOk](c, 1)
	c.send(1, &spec.QueueDeclare{Queue: "n", NoWait: true})
	c.send(1, &spec.BasicQos{PrefetchCount: 5, Global: true})
	recv[*spec.BasicQosOk](c, 1)
	c.send(1, &spec.AccessRequest{Realm: "/data"})
	recv[*spec.AccessRequestOk](c, 1)
	c.declare(1, &spec.QueueDeclare{Queue: "n", Passive: true})
}

func TestPublishErrors(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.publish(1, &spec.BasicPublish{Exchange: "none"}, &spec.Properties{}, []byte("b"))
	c.channelClosed(1, 404, "NOT_FOUND - no exchange 'none' in vhost '/'", spec.BasicPublishID)
	c.openChannel(2)
	c.send(2, &spec.ExchangeDeclare{Exchange: "int", Type: "fanout", Internal: true})
	recv[*spec.ExchangeDeclareOk](c, 2)
	c.publish(2, &spec.BasicPublish{Exchange: "int"}, &spec.Properties{}, nil)
	c.channelClosed(2, 403, "ACCESS_REFUSED - cannot publish to internal exchange 'int' in vhost '/'", spec.BasicPublishID)
	c.openChannel(3)
	c.publish(3, &spec.BasicPublish{}, &spec.Properties{UserID: "bob"}, nil)
	c.channelClosed(3, 406, "PRECONDITION_FAILED - user_id property set to 'bob' but authenticated user was 'guest'", spec.BasicPublishID)
	c.openChannel(4)
	c.publish(4, &spec.BasicPublish{Immediate: true}, &spec.Properties{}, nil)
	c.told(540, "NOT_IMPLEMENTED - immediate=true", spec.BasicPublishID)
}

// A return comes before the confirm of its message, and everything is confirmed in order.
func TestConfirms(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.confirmed(1)
	c.declare(1, &spec.QueueDeclare{Queue: "q"})
	c.publish(1, &spec.BasicPublish{Exchange: "amq.direct", RoutingKey: "none", Mandatory: true}, &spec.Properties{MessageID: "m", Expiration: "5000"}, []byte("back"))
	ret := recv[*spec.BasicReturn](c, 1)
	p, body := c.content(1)
	if ret.ReplyCode != 312 || ret.ReplyText != "NO_ROUTE" || ret.Exchange != "amq.direct" || ret.RoutingKey != "none" || p.MessageID != "m" || p.Expiration != "5000" || string(body) != "back" {
		t.Fatalf("%+v, %+v, %q", ret, p, body)
	}
	if ack := recv[*spec.BasicAck](c, 1); ack.DeliveryTag != 1 || ack.Multiple {
		t.Fatalf("%+v", ack)
	}
	c.publish(1, &spec.BasicPublish{Exchange: "amq.direct", RoutingKey: "none"}, &spec.Properties{}, nil)
	if ack := recv[*spec.BasicAck](c, 1); ack.DeliveryTag != 2 {
		t.Fatalf("%+v", ack)
	}
	const n = 500
	var all []byte
	for i := range n {
		all = append(all, publication(1, &spec.BasicPublish{RoutingKey: "q", Mandatory: true}, &spec.Properties{}, fmt.Append(nil, i), 1<<10)...)
	}
	c.write(all)
	methods := 0
	for last := uint64(2); last < n+2; methods++ {
		ack := recv[*spec.BasicAck](c, 1)
		if ack.DeliveryTag <= last || !ack.Multiple && ack.DeliveryTag != last+1 {
			t.Fatalf("%+v after %d", ack, last)
		}
		last = ack.DeliveryTag
	}
	if methods == n {
		t.Error("no two of 500 confirms were sent as one")
	}
	if ok := c.declare(1, &spec.QueueDeclare{Queue: "q"}); ok.MessageCount != n {
		t.Fatalf("%+v", ok)
	}
}

func TestConsumeWithoutAcks(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.confirmed(1)
	c.declare(1, &spec.QueueDeclare{Queue: "q"})
	bodies := make([]string, 1500)
	for i := range bodies {
		bodies[i] = fmt.Sprint("message ", i)
	}
	c.put(1, "q", bodies...)
	c.openChannel(2)
	c.consume(2, &spec.BasicConsume{Queue: "q", NoAck: true})
	for i, b := range bodies {
		if d := c.delivery(2, b); d.DeliveryTag != uint64(i+1) {
			t.Fatalf("%+v", d)
		}
	}
	c.send(2, &spec.BasicAck{DeliveryTag: 1})
	c.channelClosed(2, 406, "PRECONDITION_FAILED - unknown delivery tag 1", spec.BasicAckID)
	f.counted("q", 0, 0)
}

func TestConsumerRules(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.declare(1, &spec.QueueDeclare{Queue: "q"})
	c.consume(1, &spec.BasicConsume{Queue: "q", ConsumerTag: "k", Exclusive: true})
	c.openChannel(2)
	c.send(2, &spec.BasicConsume{Queue: "q"})
	c.channelClosed(2, 403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use", spec.BasicConsumeID)
	c.openChannel(3)
	c.send(3, &spec.QueueDelete{Queue: "q", IfUnused: true})
	c.channelClosed(3, 406, "PRECONDITION_FAILED - queue 'q' in vhost '/' in use", spec.QueueDeleteID)
	c.send(1, &spec.BasicConsume{Queue: "q", ConsumerTag: "k"})
	c.told(530, "NOT_ALLOWED - attempt to reuse consumer tag 'k'", spec.BasicConsumeID)
}

func TestCancelNotify(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.declare(1, &spec.QueueDeclare{Queue: "q"})
	c.consume(1, &spec.BasicConsume{Queue: "q", ConsumerTag: "k"})
	other := f.channel()
	other.send(1, &spec.QueueDelete{Queue: "q"})
	recv[*spec.QueueDeleteOk](other, 1)
	if m := recv[*spec.BasicCancel](c, 1); m.ConsumerTag != "k" || !m.NoWait {
		t.Fatalf("%+v", m)
	}
	c.declare(1, &spec.QueueDeclare{Queue: "q"})
	c.consume(1, &spec.BasicConsume{Queue: "q", ConsumerTag: "k"}) // the tag is free again
}

// A method that is answered takes effect after the publishes before it.
func TestOrderOnAChannel(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.declare(1, &spec.QueueDeclare{Queue: "q"})
	for i := range uint32(20) {
		c.publish(1, &spec.BasicPublish{RoutingKey: "q"}, &spec.Properties{}, nil)
		if ok := c.declare(1, &spec.QueueDeclare{Queue: "q", Passive: true}); ok.MessageCount != i+1 {
			t.Fatalf("%+v after %d publishes", ok, i+1)
		}
	}
	c.publish(1, &spec.BasicPublish{Exchange: "amq.direct", RoutingKey: "none", Mandatory: true}, &spec.Properties{}, nil)
	c.send(1, &spec.QueueDeclare{Queue: "q", Passive: true})
	recv[*spec.BasicReturn](c, 1)
	c.content(1)
	recv[*spec.QueueDeclareOk](c, 1)
	c.publish(1, &spec.BasicPublish{Exchange: "none"}, &spec.Properties{}, nil)
	c.send(1, &spec.QueueDelete{Queue: "q"}) // comes too late: the channel is closed by then
	c.channelClosed(1, 404, "NOT_FOUND - no exchange 'none' in vhost '/'", spec.BasicPublishID)
	c.send(1, &spec.ChannelCloseOk{})
	c.openChannel(1)
	if ok := c.declare(1, &spec.QueueDeclare{Queue: "q", Passive: true}); ok.MessageCount != 20 {
		t.Fatalf("%+v", ok)
	}
}

func TestTransaction(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.declare(1, &spec.QueueDeclare{Queue: "q"})
	c.publish(1, &spec.BasicPublish{RoutingKey: "q"}, &spec.Properties{}, []byte("before"))
	c.send(1, &spec.TxSelect{})
	recv[*spec.TxSelectOk](c, 1)
	commit := func() {
		c.send(1, &spec.TxCommit{})
		recv[*spec.TxCommitOk](c, 1)
	}
	c.publish(1, &spec.BasicPublish{RoutingKey: "q"}, &spec.Properties{}, []byte("rolled back"))
	c.send(1, &spec.TxRollback{})
	recv[*spec.TxRollbackOk](c, 1)
	c.publish(1, &spec.BasicPublish{RoutingKey: "q"}, &spec.Properties{}, []byte("a"))
	c.publish(1, &spec.BasicPublish{RoutingKey: "none", Mandatory: true}, &spec.Properties{}, []byte("b"))
	if ok := c.declare(1, &spec.QueueDeclare{Queue: "q", Passive: true}); ok.MessageCount != 1 {
		t.Fatalf("%+v before the commit", ok)
	}
	c.send(1, &spec.TxCommit{})
	recv[*spec.BasicReturn](c, 1)
	c.content(1)
	recv[*spec.TxCommitOk](c, 1)
	c.consume(1, &spec.BasicConsume{Queue: "q"})
	c.delivery(1, "before")
	c.delivery(1, "a")
	c.send(1, &spec.BasicAck{DeliveryTag: 1})
	c.send(1, &spec.BasicNack{DeliveryTag: 2, Requeue: true})
	c.send(1, &spec.TxRollback{})
	recv[*spec.TxRollbackOk](c, 1)
	c.send(1, &spec.BasicAck{DeliveryTag: 1}) // is known again
	commit()
	c.send(1, &spec.BasicNack{DeliveryTag: 2, Requeue: true})
	c.send(1, &spec.TxCommit{})
	var back *spec.BasicDeliver
	for range 2 { // in either order
		switch m := c.method(1).(type) {
		case *spec.TxCommitOk:
		case *spec.BasicDeliver:
			back = m
			if _, body := c.content(1); string(body) != "a" {
				t.Fatalf("%q came back", body)
			}
		default:
			t.Fatalf("%s %+v", m.ID(), m)
		}
	}
	if back == nil || !back.Redelivered || back.DeliveryTag != 3 {
		t.Fatalf("%+v", back)
	}
	c.openChannel(2)
	c.confirmed(2)
	c.send(2, &spec.TxSelect{})
	c.channelClosed(2, 406, "PRECONDITION_FAILED - cannot switch from confirm to tx mode", spec.TxSelectID)
	c.send(1, &spec.ConfirmSelect{})
	c.channelClosed(1, 406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode", spec.ConfirmSelectID)
}

// What is too much by what a transaction gave back, by nack or reject, is dead when the commit is answered: the
// client may look there next.
func TestTransactionGivesBackTooMuch(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.confirmed(1)
	c.declare(1, &spec.QueueDeclare{Queue: "dead"})
	c.declare(1, &spec.QueueDeclare{Queue: "q", Durable: true, Arguments: message.Table{
		header("x-queue-type", message.String("quorum")), header("x-max-length", number32(2)),
		header("x-dead-letter-exchange", message.String("")), header("x-dead-letter-routing-key", message.String("dead")),
	}})
	c.put(1, "q", "a", "b")
	c.openChannel(2)
	c.send(2, &spec.TxSelect{})
	recv[*spec.TxSelectOk](c, 2)
	a, b := c.get(2, "q", "a"), c.get(2, "q", "b")
	c.put(1, "q", "c", "d")
	c.send(2, &spec.BasicNack{DeliveryTag: a.DeliveryTag, Requeue: true})
	c.send(2, &spec.BasicReject{DeliveryTag: b.DeliveryTag, Requeue: true})
	c.send(2, &spec.TxCommit{})
	recv[*spec.TxCommitOk](c, 2)
	for queue, want := range map[string]uint32{"dead": 2, "q": 2} {
		if ok := c.declare(2, &spec.QueueDeclare{Queue: queue, Passive: true}); ok.MessageCount != want {
			t.Errorf("%d messages in %s, want %d", ok.MessageCount, queue, want)
		}
	}
}

// A transaction is done as a whole or not at all.
func TestTransactionIsWhole(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.confirmed(1)
	c.declare(1, &spec.QueueDeclare{Queue: "in"})
	c.declare(1, &spec.QueueDeclare{Queue: "dead"})
	c.declare(1, &spec.QueueDeclare{Queue: "from", Arguments: message.Table{
		header("x-dead-letter-exchange", message.String("")), header("x-dead-letter-routing-key", message.String("dead")),
	}})
	c.declare(1, &spec.QueueDeclare{Queue: "full", Arguments: message.Table{header("x-max-length", number32(1)), header("x-overflow", message.String("reject-publish"))}})
	c.put(1, "from", "a", "b", "c")
	count := func(queue string, want uint32) {
		t.Helper()
		if ok := c.declare(1, &spec.QueueDeclare{Queue: queue, Passive: true}); ok.MessageCount != want {
			t.Fatalf("%d messages in %s, want %d", ok.MessageCount, queue, want)
		}
	}
	// begin publishes and acknowledges on a channel that fails its commit.
	begin := func() {
		c.openChannel(2)
		c.send(2, &spec.TxSelect{})
		recv[*spec.TxSelectOk](c, 2)
		d := c.get(2, "from", "a")
		c.publish(2, &spec.BasicPublish{RoutingKey: "in"}, &spec.Properties{}, []byte("x"))
		c.send(2, &spec.BasicAck{DeliveryTag: d.DeliveryTag})
	}
	nothingDone := func(code spec.Code, text string) {
		t.Helper()
		c.send(2, &spec.TxCommit{})
		c.channelClosed(2, code, text, spec.TxCommitID)
		c.send(2, &spec.ChannelCloseOk{})
		count("in", 0)
		count("full", 0)
		waitFor(t, func() bool {
			return c.declare(1, &spec.QueueDeclare{Queue: "from", Passive: true}).MessageCount == 3
		})
	}
	begin()
	for range 2 {
		c.publish(2, &spec.BasicPublish{RoutingKey: "full"}, &spec.Properties{}, nil)
	}
	nothingDone(406, "PRECONDITION_FAILED - partial tx completion")
	begin()
	c.send(1, &spec.ExchangeDeclare{Exchange: "none", Type: "fanout"})
	recv[*spec.ExchangeDeclareOk](c, 1)
	c.publish(2, &spec.BasicPublish{Exchange: "none"}, &spec.Properties{}, nil)
	c.send(1, &spec.ExchangeDelete{Exchange: "none"})
	recv[*spec.ExchangeDeleteOk](c, 1)
	nothingDone(404, "NOT_FOUND - no exchange 'none' in vhost '/'")
	begin()
	c.send(2, &spec.BasicReject{DeliveryTag: c.get(2, "from", "b").DeliveryTag})
	c.send(2, &spec.TxCommit{})
	recv[*spec.TxCommitOk](c, 2)
	count("in", 1)
	count("from", 1)
	c.get(1, "dead", "b")
	c.get(1, "from", "c")
}

func TestQueueLife(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.confirmed(1)
	ok := c.declare(1, &spec.QueueDeclare{Queue: "q\r\n"})
	if ok.Queue != "q" || ok.MessageCount != 0 || ok.ConsumerCount != 0 {
		t.Fatalf("%+v", ok)
	}
	c.put(1, "q", "a", "b", "c")
	if ok := c.declare(1, &spec.QueueDeclare{Queue: "q", Passive: true}); ok.MessageCount != 3 {
		t.Fatalf("%+v", ok)
	}
	first := c.get(1, "", "a") // "" is the queue declared last
	if first.MessageCount != 2 || first.Redelivered || first.DeliveryTag != 1 || first.RoutingKey != "q" || first.Exchange != "" {
		t.Fatalf("%+v", first)
	}
	if ok := c.declare(1, &spec.QueueDeclare{Queue: "q"}); ok.MessageCount != 2 {
		t.Fatalf("%+v: only what is ready counts", ok)
	}
	c.send(1, &spec.QueuePurge{Queue: "q"})
	if ok := recv[*spec.QueuePurgeOk](c, 1); ok.MessageCount != 2 {
		t.Fatalf("%+v: only what is ready is purged", ok)
	}
	c.send(1, &spec.BasicReject{DeliveryTag: 1, Requeue: true})
	if again := c.get(1, "q", "a"); !again.Redelivered || again.DeliveryTag != 2 {
		t.Fatalf("%+v", again)
	}
	c.send(1, &spec.BasicAck{DeliveryTag: 2})
	c.empty(1, "q")
	c.put(1, "q", "d")
	c.send(1, &spec.QueueDelete{Queue: "q"})
	if ok := recv[*spec.QueueDeleteOk](c, 1); ok.MessageCount != 1 {
		t.Fatalf("%+v", ok)
	}
	c.send(1, &spec.QueueDelete{Queue: "q"})
	if ok := recv[*spec.QueueDeleteOk](c, 1); ok.MessageCount != 0 {
		t.Fatalf("%+v: what is not there counts as deleted", ok)
	}
}

// A queue that refuses makes a nack, although another one takes the message.
func TestRejectedPublish(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.confirmed(1)
	c.declare(1, &spec.QueueDeclare{Queue: "full", Arguments: message.Table{header("x-max-length", number32(1)), header("x-overflow", message.String("reject-publish"))}})
	c.declare(1, &spec.QueueDeclare{Queue: "other"})
	for _, q := range []string{"full", "other"} {
		c.bind(1, q, "amq.fanout", "")
	}
	c.publish(1, &spec.BasicPublish{Exchange: "amq.fanout"}, &spec.Properties{}, []byte("1"))
	recv[*spec.BasicAck](c, 1)
	c.publish(1, &spec.BasicPublish{Exchange: "amq.fanout"}, &spec.Properties{}, []byte("2"))
	if nack := recv[*spec.BasicNack](c, 1); nack.DeliveryTag != 2 {
		t.Fatalf("%+v", nack)
	}
	f.counted("full", 1, 0)
	f.counted("other", 2, 0)
}

func TestConsume(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.confirmed(1)
	c.declare(1, &spec.QueueDeclare{Queue: "q"})
	c.put(1, "q", "a", "b", "c", "d")
	c.send(1, &spec.BasicQos{PrefetchCount: 2})
	recv[*spec.BasicQosOk](c, 1)
	c.consume(1, &spec.BasicConsume{Queue: "q", ConsumerTag: "k"})
	if d := c.delivery(1, "a"); d.ConsumerTag != "k" || d.DeliveryTag != 1 || d.Redelivered || d.RoutingKey != "q" {
		t.Fatalf("%+v", d)
	}
	c.delivery(1, "b")
	f.counted("q", 2, 1) // prefetch holds the others back
	c.send(1, &spec.BasicAck{DeliveryTag: 2, Multiple: true})
	c.delivery(1, "c")
	c.delivery(1, "d")
	c.send(1, &spec.BasicNack{DeliveryTag: 4, Requeue: true})
	if d := c.delivery(1, "d"); !d.Redelivered || d.DeliveryTag != 5 {
		t.Fatalf("%+v", d)
	}
	c.send(1, &spec.BasicCancel{ConsumerTag: "k"})
	recv[*spec.BasicCancelOk](c, 1)
	c.put(1, "q", "e") // is not delivered any more
	f.counted("q", 1, 0)
	c.send(1, &spec.BasicAck{DeliveryTag: 3}) // what was delivered before stays the channel's
	c.send(1, &spec.BasicRecover{Requeue: true})
	recv[*spec.BasicRecoverOk](c, 1)
	f.counted("q", 2, 0)
	if got := c.get(1, "q", "d"); !got.Redelivered {
		t.Fatalf("%+v", got)
	}
	if got := c.get(1, "q", "e"); got.Redelivered {
		t.Fatalf("%+v", got)
	}
	c.send(1, &spec.ChannelClose{ReplyCode: 200})
	recv[*spec.ChannelCloseOk](c, 1)
	f.counted("q", 2, 0) // given back
}

// A connection whose lease is lost owns nothing any more, and can own nothing: it ends.
func TestLostLease(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.declare(1, &spec.QueueDeclare{Queue: "excl", Exclusive: true})
	if _, err := f.router.AcquireLease(t.Context(), f.serving(c).name, true); err != nil {
		t.Fatal(err)
	}
	c.told(320, "CONNECTION_FORCED - the exclusive queues were deleted: the leader had not reached this node for too long", 0)
}

// RabbitMQ's delivery limit of 0 is the lowest there is.
func TestDeliveryLimitZero(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.confirmed(1)
	c.declare(1, &spec.QueueDeclare{Queue: "q", Durable: true, Arguments: message.Table{
		header("x-queue-type", message.String("quorum")), header("x-delivery-limit", number32(0)),
	}})
	c.put(1, "q", "a")
	for range 2 {
		c.send(1, &spec.BasicReject{DeliveryTag: c.get(1, "q", "a").DeliveryTag, Requeue: true})
	}
	c.empty(1, "q")
}

// Exclusive queues go with their connection, auto-delete queues with their last consumer.
func TestQueuesThatGo(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.declare(1, &spec.QueueDeclare{Queue: "excl", Exclusive: true})
	c.declare(1, &spec.QueueDeclare{Queue: "auto", AutoDelete: true})
	c.consume(1, &spec.BasicConsume{Queue: "auto", ConsumerTag: "k"})
	c.send(1, &spec.BasicCancel{ConsumerTag: "k"})
	recv[*spec.BasicCancelOk](c, 1)
	c.send(1, &spec.QueueDeclare{Queue: "auto", Passive: true})
	c.channelClosed(1, 404, "NOT_FOUND - no queue 'auto' in vhost '/'", spec.QueueDeclareID)
	c.send(0, &spec.ConnectionClose{ReplyCode: 200})
	recv[*spec.ConnectionCloseOk](c, 0)
	other := f.channel()
	other.declare(1, &spec.QueueDeclare{Queue: "excl", Exclusive: true}) // anybody's now
}

// A message lost with its connection is delivered again, flagged.
func TestConnectionLost(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.confirmed(1)
	c.declare(1, &spec.QueueDeclare{Queue: "q"})
	c.put(1, "q", "a", "b")
	c.consume(1, &spec.BasicConsume{Queue: "q"})
	c.delivery(1, "a")
	c.delivery(1, "b")
	_ = c.nc.Close()
	f.counted("q", 2, 0)
	other := f.channel()
	if got := other.get(1, "q", "a"); !got.Redelivered {
		t.Fatalf("%+v", got)
	}
}

func TestExchanges(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.confirmed(1)
	for _, x := range []*spec.ExchangeDeclare{{Exchange: "a", Type: "topic"}, {Exchange: "b", Type: "fanout", AutoDelete: true}} {
		c.send(1, x)
		recv[*spec.ExchangeDeclareOk](c, 1)
	}
	c.declare(1, &spec.QueueDeclare{Queue: "q"})
	c.send(1, &spec.ExchangeBind{Destination: "b", Source: "a", RoutingKey: "k.#"})
	recv[*spec.ExchangeBindOk](c, 1)
	c.bind(1, "", "b", "")
	c.publish(1, &spec.BasicPublish{Exchange: "a", RoutingKey: "k.1"}, &spec.Properties{Headers: message.Table{header("CC", message.Array(message.String("k.2")))}}, []byte("m"))
	recv[*spec.BasicAck](c, 1)
	if got := c.get(1, "q", "m"); got.Exchange != "a" || got.RoutingKey != "k.1" {
		t.Fatalf("%+v", got)
	}
	c.empty(1, "q")
	c.openChannel(2)
	c.send(2, &spec.ExchangeDelete{Exchange: "b", IfUnused: true})
	c.channelClosed(2, 406, "PRECONDITION_FAILED - exchange 'b' in vhost '/' in use", spec.ExchangeDeleteID)
	c.send(1, &spec.QueueUnbind{Queue: "q", Exchange: "b", RoutingKey: "q"}) // the queue for a key, as it was bound
	recv[*spec.QueueUnbindOk](c, 1)
	c.send(1, &spec.ExchangeDeclare{Exchange: "b", Passive: true})
	c.channelClosed(1, 404, "NOT_FOUND - no exchange 'b' in vhost '/'", spec.ExchangeDeclareID)
}

// A topic of the broker is an exchange: what Kafka's clients publish reaches bound queues, and
// what AMQP's publish reaches its consumers.
func TestTopicAsExchange(t *testing.T) {
	f := start(t, nil)
	topic := routertest.Topic(t, f.router, "events", 1, nil)
	c := f.channel()
	c.confirmed(1)
	c.declare(1, &spec.QueueDeclare{Queue: "q"})
	c.bind(1, "q", "events", "k.*")
	if res := routertest.Publish(f.router, topic.Partitions[0], routertest.Batch(t, 1_700_000_000_000, "k.1", "other", "k.2")); res.Err != nil {
		t.Fatal(res.Err)
	}
	for _, key := range []string{"k.1", "k.2"} {
		if got := c.get(1, "q", key); got.RoutingKey != key {
			t.Fatalf("%+v", got)
		}
	}
	c.empty(1, "q")
	c.publish(1, &spec.BasicPublish{Exchange: "events", RoutingKey: "k.3"}, &spec.Properties{Priority: 3}, []byte("m"))
	recv[*spec.BasicAck](c, 1)
	c.get(1, "q", "m")
	head, err := f.router.Head(topic.Partitions[0])
	if err != nil || head.End != 4 {
		t.Fatalf("%+v, %v", head, err)
	}
}

// A channel keeps few getters, but those that hold something.
func TestGettersAreBounded(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.confirmed(1)
	c.declare(1, &spec.QueueDeclare{Queue: "q"})
	c.put(1, "q", "a")
	held := c.get(1, "q", "a")
	for i := range 3 * maxGetters {
		name := fmt.Sprint("q", i)
		c.declare(1, &spec.QueueDeclare{Queue: name})
		c.empty(1, name)
	}
	ch := f.serving(c).channels[1]
	ch.mu.Lock()
	getters, holders := len(ch.getters), len(ch.holders)
	ch.mu.Unlock()
	if getters != maxGetters || holders > maxGetters+1 {
		t.Errorf("%d getters, %d holders", getters, holders)
	}
	c.send(1, &spec.BasicNack{DeliveryTag: held.DeliveryTag, Requeue: true})
	if m := c.get(1, "q", "a"); !m.Redelivered {
		t.Errorf("%+v", m)
	}
}

// get gets a message of that body.
func (c *client) get(ch uint16, queue, body string) *spec.BasicGetOk {
	c.t.Helper()
	c.send(ch, &spec.BasicGet{Queue: queue})
	m := recv[*spec.BasicGetOk](c, ch)
	if _, got := c.content(ch); string(got) != body {
		c.t.Fatalf("got %q, want %q", got, body)
	}
	return m
}

// empty fails unless there is nothing to get.
func (c *client) empty(ch uint16, queue string) {
	c.t.Helper()
	c.send(ch, &spec.BasicGet{Queue: queue})
	recv[*spec.BasicGetEmpty](c, ch)
}

// bind binds a queue.
func (c *client) bind(ch uint16, queue, exchange, key string, args ...message.Header) {
	c.t.Helper()
	c.send(ch, &spec.QueueBind{Queue: queue, Exchange: exchange, RoutingKey: key, Arguments: args})
	recv[*spec.QueueBindOk](c, ch)
}

// A message with an x-delay comes after one that was published later without, and says how long
// it was held back.
func TestDelayedExchange(t *testing.T) {
	clock := routertest.NewClock(time.UnixMilli(1_700_000_000_000))
	r, log := routertest.Start(t, func(o *router.Options) { o.Clock = clock.Now })
	f := serveRouter(t, r, log, func(o *Options) { o.Clock = clock.Now })
	c := f.channel()
	c.confirmed(1)
	c.declare(1, &spec.QueueDeclare{Queue: "q"})
	as := message.Table{header("x-delayed-type", message.String("topic"))}
	for range 2 { // again: the same one
		c.send(1, &spec.ExchangeDeclare{Exchange: "later", Type: "x-delayed-message", Arguments: as})
		recv[*spec.ExchangeDeclareOk](c, 1)
	}
	c.send(1, &spec.QueueBind{Queue: "q", Exchange: "later", RoutingKey: "a.*"})
	recv[*spec.QueueBindOk](c, 1)
	c.consume(1, &spec.BasicConsume{Queue: "q", NoAck: true})
	publish := func(body string, headers message.Table) {
		c.publish(1, &spec.BasicPublish{Exchange: "later", RoutingKey: "a.b", Mandatory: true}, &spec.Properties{Present: spec.HasHeaders, Headers: headers}, []byte(body))
		recv[*spec.BasicAck](c, 1)
	}
	publish("late", message.Table{header("x-delay", number32(60_000))})
	c.publish(1, &spec.BasicPublish{Exchange: "later", RoutingKey: "a.b"}, &spec.Properties{}, []byte("soon"))
	for range 2 { // its confirm and its delivery, in any order
		switch m := c.method(1).(type) {
		case *spec.BasicAck:
		case *spec.BasicDeliver:
			if _, body := c.content(1); string(body) != "soon" {
				t.Fatalf("%q", body)
			}
		default:
			t.Fatalf("%T", m)
		}
	}
	clock.Advance(time.Minute)
	if err := r.CheckTimers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := recv[*spec.BasicDeliver](c, 1); m.Exchange != "later" || m.RoutingKey != "a.b" {
		t.Errorf("%+v", m)
	}
	p, body := c.content(1)
	if v := argument(p.Headers, "x-delay"); string(body) != "late" || v == nil || !v.Equal(number32(-60_000)) {
		t.Errorf("%q, x-delay %v", body, v)
	}
}

// What a full queue drops when it gets messages back is where it goes before the next method is answered
// (the Java client's QueueSizeLimit.requeueWithDlx).
func TestRequeueOverflows(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.declare(1, &spec.QueueDeclare{Queue: "dead"})
	c.declare(1, &spec.QueueDeclare{Queue: "q", Arguments: message.Table{
		header("x-max-length", number32(2)), header("x-dead-letter-exchange", message.String("")), header("x-dead-letter-routing-key", message.String("dead")),
	}})
	c.confirmed(1)
	for range 20 {
		c.put(1, "q", "1", "2")
		first := c.get(1, "q", "1").DeliveryTag
		c.get(1, "q", "2")
		c.put(1, "q", "3", "4")
		c.send(1, &spec.BasicNack{DeliveryTag: first, Requeue: true})
		c.send(1, &spec.BasicNack{DeliveryTag: first + 1, Requeue: true})
		for _, body := range []string{"1", "2"} {
			c.send(1, &spec.BasicAck{DeliveryTag: c.get(1, "dead", body).DeliveryTag})
		}
		for _, body := range []string{"3", "4"} {
			c.send(1, &spec.BasicAck{DeliveryTag: c.get(1, "q", body).DeliveryTag})
		}
	}
}
