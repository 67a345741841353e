package amqp

import (
	"bytes"
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

func text(name, value string) message.Header {
	return message.Header{Name: name, Value: message.String(value)}
}

// declareStream declares a durable stream on channel 1.
func (c *client) declareStream(name string, more ...message.Header) *spec.QueueDeclareOk {
	c.t.Helper()
	c.send(1, &spec.QueueDeclare{Queue: name, Durable: true, Arguments: append(message.Table{text("x-queue-type", "stream")}, more...)})
	return recv[*spec.QueueDeclareOk](c, 1)
}

// consumeStream consumes from a stream on channel 1 with a prefetch.
func (c *client) consumeStream(name, tag string, prefetch uint16, args ...message.Header) {
	c.t.Helper()
	c.send(1, &spec.BasicQos{PrefetchCount: prefetch})
	recv[*spec.BasicQosOk](c, 1)
	c.send(1, &spec.BasicConsume{Queue: name, ConsumerTag: tag, Arguments: args})
	recv[*spec.BasicConsumeOk](c, 1)
}

// streamed is the next delivery on channel 1: its tag, offset and body.
func (c *client) streamed() (tag uint64, offset int64, body string) {
	c.t.Helper()
	m := recv[*spec.BasicDeliver](c, 1)
	p, b := c.content(1)
	v, ok := p.Headers.Get("x-stream-offset")
	if !ok {
		c.t.Errorf("delivery without offset: %+v", p)
	}
	n, _ := v.Int()
	return m.DeliveryTag, n, string(b)
}

// quiet fails if the server has anything else to say on channel 1.
func (c *client) quiet() {
	c.t.Helper()
	c.send(1, &spec.ChannelFlow{Active: true})
	recv[*spec.ChannelFlowOk](c, 1)
}

// fillStream publishes messages 0, 1, … and waits until they are stored.
func (c *client) fillStream(name string, n int, p *spec.Properties) {
	c.t.Helper()
	for i := range n {
		c.publish(1, &spec.BasicPublish{RoutingKey: name}, p, fmt.Append(nil, i))
	}
	c.send(1, &spec.QueueDeclare{Queue: name, Passive: true})
	if m := recv[*spec.QueueDeclareOk](c, 1); int(m.MessageCount) < n {
		c.t.Fatalf("%+v, want %d messages", m, n)
	}
}

func TestStream(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.declareStream("s", text("x-max-age", "7D"), message.Header{Name: "x-max-length-bytes", Value: message.Int(message.KindInt32, 1<<20)})
	topic, ok := f.router.Topic(core.TopicName("s"))
	if !ok || len(topic.Partitions) != 1 || topic.Overrides["retention.ms"] != "604800000" || topic.Overrides["retention.bytes"] != "1048576" {
		t.Fatalf("topic %+v", topic)
	}
	c.fillStream("s", 10, &spec.Properties{MessageID: "m"})
	c.consumeStream("s", "c", 3, text("x-stream-offset", "first"))
	var tags []uint64
	next := func(want int) {
		t.Helper()
		tag, off, body := c.streamed()
		if off != int64(want) || body != fmt.Sprint(want) {
			t.Errorf("offset %d, body %q, want %d", off, body, want)
		}
		tags = append(tags, tag)
	}
	for i := range 3 {
		next(i)
	}
	c.quiet() // until something is settled
	c.send(1, &spec.BasicAck{DeliveryTag: tags[1]})
	next(3)
	c.send(1, &spec.BasicAck{DeliveryTag: tags[0]})
	next(4)
	c.quiet()
	c.send(1, &spec.BasicAck{DeliveryTag: tags[4], Multiple: true})
	for i := 5; i < 8; i++ {
		next(i)
	}
	c.send(1, &spec.BasicCancel{ConsumerTag: "c"})
	recv[*spec.BasicCancelOk](c, 1)
	c.send(1, &spec.BasicAck{DeliveryTag: tags[7], Multiple: true})
	c.quiet()
	c.consumeStream("s", "d", 100, text("x-stream-offset", "next"))
	c.publish(1, &spec.BasicPublish{RoutingKey: "s"}, &spec.Properties{}, []byte("10"))
	next(10)
	c.send(1, &spec.QueueDelete{Queue: "s"})
	for range 2 { // in any order
		switch m := c.method(1).(type) {
		case *spec.BasicCancel:
			if m.ConsumerTag != "d" {
				t.Errorf("%+v", m)
			}
		case *spec.QueueDeleteOk:
		default:
			t.Errorf("%+v", m)
		}
	}
	if _, ok := f.router.Topic(core.TopicName("s")); ok {
		t.Error("the topic is still there")
	}
}

func TestStreamOffsets(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.declareStream("s")
	c.fillStream("s", 5, &spec.Properties{})
	topic, _ := f.router.Topic(core.TopicName("s"))
	old := time.Now().Add(-2 * time.Hour)
	for i, v := range []message.Value{
		message.String("first"), message.Int(message.KindInt32, 0), message.Int(message.KindInt64, 3), message.Int(message.KindInt64, 100),
		message.String("last"), message.Time(old.Unix()), message.String("1h"), message.Time(time.Now().Add(time.Hour).Unix()),
	} {
		want := []int{0, 0, 3, 5, 4, 0, 0, 5}[i]
		d := f.channel()
		d.consumeStream("s", "c", 100, message.Header{Name: "x-stream-offset", Value: v})
		for off := want; off < 5; off++ {
			if _, got, _ := d.streamed(); got != int64(off) {
				t.Errorf("%v: offset %d, want %d", v, got, off)
			}
		}
		d.quiet()
	}
	if h, err := f.router.Head(topic.Partitions[0]); err != nil || h.End != 5 {
		t.Errorf("%+v, %v", h, err)
	}
	for _, v := range []message.Value{message.String("foo"), message.Int(message.KindInt32, -1), message.Bool(true)} {
		d := f.channel()
		d.send(1, &spec.BasicQos{PrefetchCount: 1})
		recv[*spec.BasicQosOk](d, 1)
		d.send(1, &spec.BasicConsume{Queue: "s", Arguments: message.Table{{Name: "x-stream-offset", Value: v}}})
		if m := recv[*spec.ChannelClose](d, 1); m.ReplyCode != uint16(spec.PreconditionFailed) || !strings.HasPrefix(m.ReplyText, "PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue 's' in vhost '/'") {
			t.Errorf("%v: %+v", v, m)
		}
	}
}

// TestStreamFilter delivers what a header says, or what has none.
func TestStreamFilter(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.declareStream("s")
	for _, v := range []string{"a", "b", "", "c", "a"} {
		p := spec.Properties{}
		if v != "" {
			p.Headers = message.Table{text("x-stream-filter-value", v)}
		}
		c.publish(1, &spec.BasicPublish{RoutingKey: "s"}, &p, []byte(v))
	}
	c.send(1, &spec.QueueDeclare{Queue: "s", Passive: true})
	recv[*spec.QueueDeclareOk](c, 1)
	first := text("x-stream-offset", "first")
	for _, tc := range []struct {
		args message.Table
		want []int64
	}{
		{message.Table{first}, []int64{0, 1, 2, 3, 4}},
		{message.Table{first, text("x-stream-filter", "a")}, []int64{0, 4}},
		{message.Table{first, {Name: "x-stream-filter", Value: message.Array(message.String("b"), message.String("c"))}}, []int64{1, 3}},
		{message.Table{first, text("x-stream-filter", "b"), {Name: "x-stream-match-unfiltered", Value: message.Bool(true)}}, []int64{1, 2}},
	} {
		d := f.channel()
		d.consumeStream("s", "c", 10, tc.args...)
		for _, want := range tc.want {
			if _, off, _ := d.streamed(); off != want {
				t.Errorf("%v: offset %d, want %d", tc.args, off, want)
			}
		}
		d.quiet()
	}
}

// TestStreamRefuses what streams cannot do, in RabbitMQ's words.
func TestStreamRefuses(t *testing.T) {
	f := start(t, nil)
	f.channel().declareStream("s")
	for _, tc := range []struct {
		m    spec.Method
		code spec.Code
		text string
	}{
		{&spec.BasicConsume{Queue: "s"}, spec.PreconditionFailed, "PRECONDITION_FAILED - consumer prefetch count is not set for 'queue 's' in vhost '/''"},
		{&spec.BasicConsume{Queue: "s", NoAck: true}, spec.NotImplemented, "NOT_IMPLEMENTED - automatic acknowledgement not supported by stream queues queue 's' in vhost '/'"},
		{&spec.QueuePurge{Queue: "s"}, spec.NotImplemented, "NOT_IMPLEMENTED - queue.purge not supported by stream queues queue 's' in vhost '/'"},
		{&spec.QueueDelete{Queue: "s", IfUnused: true}, spec.NotImplemented, "NOT_IMPLEMENTED - cannot delete queue 's' in vhost '/'. queue.delete operations with if-unused flag set are not supported by stream queues"},
		{&spec.QueueDeclare{Queue: "s", Durable: true}, spec.PreconditionFailed, "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 's' in vhost '/': received 'classic' but current is 'stream'"},
		{&spec.QueueDeclare{Queue: "a b", Durable: true, Arguments: message.Table{text("x-queue-type", "stream")}}, spec.PreconditionFailed, ""},
		{&spec.QueueDeclare{Queue: "t", Arguments: message.Table{text("x-queue-type", "stream")}}, spec.PreconditionFailed, "PRECONDITION_FAILED - invalid property 'non-durable' for queue 't' in vhost '/'"},
	} {
		c := f.channel()
		c.send(1, tc.m)
		switch m := c.anyMethod().(type) {
		case *spec.ConnectionClose:
			if m.ReplyCode != uint16(tc.code) || m.ReplyText != tc.text {
				t.Errorf("%+v: %+v", tc.m, m)
			}
		case *spec.ChannelClose:
			if m.ReplyCode != uint16(tc.code) || tc.text != "" && m.ReplyText != tc.text {
				t.Errorf("%+v: %+v", tc.m, m)
			}
		default:
			t.Errorf("%+v: %+v", tc.m, m)
		}
	}
}

// anyMethod is the next frame, which must be a method on whatever channel.
func (c *client) anyMethod() spec.Method {
	c.t.Helper()
	_, payload, err := c.next()
	if err != nil {
		c.t.Fatal(err)
	}
	m, err := c.decoder.Method(payload)
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// TestTopicAsStream reads what other protocols stored, in all partitions.
func TestTopicAsStream(t *testing.T) {
	f := start(t, nil)
	topic := routertest.Topic(t, f.router, "words", 3, nil)
	var want []string
	for p, q := range topic.Partitions {
		vs := []string{fmt.Sprint(p, "a"), fmt.Sprint(p, "b"), fmt.Sprint(p, "c")}
		want = append(want, vs...)
		if res := routertest.Publish(f.router, q, routertest.Batch(t, 1000, vs...)); res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	c := f.channel()
	c.consumeStream("words", "c", 2, text("x-stream-offset", "first"))
	var got []string
	for range want {
		m := recv[*spec.BasicDeliver](c, 1)
		p, body := c.content(1)
		part, _ := p.Headers.Get("x-stream-partition")
		if n, ok := part.Int(); !ok || body[0] != byte('0'+n) || m.RoutingKey != string(body) {
			t.Errorf("%+v %+v %q", m, p, body)
		}
		got = append(got, string(body))
		c.send(1, &spec.BasicAck{DeliveryTag: m.DeliveryTag})
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestStreamTrimmed goes on where retention left the stream.
func TestStreamTrimmed(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.declareStream("s")
	c.fillStream("s", 6, &spec.Properties{})
	c.consumeStream("s", "c", 1, text("x-stream-offset", "first"))
	tag, _, _ := c.streamed()
	topic, _ := f.router.Topic(core.TopicName("s"))
	if _, err := f.router.Trim(t.Context(), router.Principal{}, []router.TrimRequest{{Queue: topic.Partitions[0], Before: 5}}); err != nil {
		t.Fatal(err)
	}
	c.send(1, &spec.BasicAck{DeliveryTag: tag})
	for { // what was read before is delivered, what is gone is not
		tag, off, _ := c.streamed()
		if off == 5 {
			break
		}
		c.send(1, &spec.BasicAck{DeliveryTag: tag})
	}
}

// TestLargeStreamMessages come whole, though they are sent after they were read.
func TestLargeStreamMessages(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.declareStream("s")
	body := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 300_000) }
	for i := range 8 {
		c.publish(1, &spec.BasicPublish{RoutingKey: "s"}, &spec.Properties{}, body(i))
	}
	c.consumeStream("s", "c", 100, text("x-stream-offset", "first"))
	for i := range 8 {
		if _, off, got := c.streamed(); off != int64(i) || got != string(body(i)) {
			t.Errorf("message %d at offset %d is not what was sent", i, off)
		}
	}
}
