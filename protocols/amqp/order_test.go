package amqp

import (
	"testing"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
)

// TestGetAfterReject finds a message in the dead letter queue with the next method of the
// connection.
func TestGetAfterReject(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.declare(1, &spec.QueueDeclare{Queue: "dead", Durable: true})
	c.declare(1, &spec.QueueDeclare{Queue: "q", Durable: true, Arguments: message.Table{
		{Name: argDeadExchange, Value: message.String("")}, {Name: argDeadKey, Value: message.String("dead")},
	}})
	c.confirmed(1)
	for range 20 {
		c.put(1, "q", "a")
		c.send(1, &spec.BasicGet{Queue: "q"})
		d := recv[*spec.BasicGetOk](c, 1)
		c.content(1)
		c.send(1, &spec.BasicReject{DeliveryTag: d.DeliveryTag})
		c.send(1, &spec.BasicGet{Queue: "dead", NoAck: true})
		recv[*spec.BasicGetOk](c, 1)
		if _, body := c.content(1); string(body) != "a" {
			t.Fatalf("%q", body)
		}
	}
}

// TestAutoDeleteIsGoneWithTheAnswer declares a queue anew that went with its last consumer, as
// soon as the client knows that the connection, or the channel, has closed.
func TestAutoDeleteIsGoneWithTheAnswer(t *testing.T) {
	f := start(t, nil)
	for i := range 20 {
		c := f.channel()
		c.declare(1, &spec.QueueDeclare{Queue: "q", AutoDelete: true})
		c.consume(1, &spec.BasicConsume{Queue: "q"})
		if i%2 == 0 {
			c.send(0, &spec.ConnectionClose{ReplyCode: 200})
			recv[*spec.ConnectionCloseOk](c, 0)
		} else {
			c.send(1, &spec.ChannelClose{ReplyCode: 200})
			recv[*spec.ChannelCloseOk](c, 1)
		}
		other := f.channel()
		other.send(1, &spec.QueueDeclare{Queue: "q", Passive: true})
		other.channelClosed(1, spec.NotFound, "NOT_FOUND - no queue 'q' in vhost '/'", spec.QueueDeclareID)
	}
}

// TestStreamsTakeNothingBack: a client cannot reject what a stream has delivered.
func TestStreamsTakeNothingBack(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.declare(1, &spec.QueueDeclare{Queue: "s", Durable: true, Arguments: message.Table{{Name: argType, Value: message.String("stream")}}})
	c.confirmed(1)
	c.put(1, "s", "a")
	for _, m := range []spec.Method{&spec.BasicNack{DeliveryTag: 1, Requeue: true}, &spec.BasicReject{DeliveryTag: 1}} {
		c := f.channel()
		c.consumeStream("s", "c", 10, message.Header{Name: argStreamOffset, Value: message.String("first")})
		recv[*spec.BasicDeliver](c, 1)
		c.content(1)
		c.send(1, m)
		c.told(spec.NotImplemented, "NOT_IMPLEMENTED - basic.nack and basic.reject not supported by stream queues queue 's' in vhost '/'", m.ID())
	}
}

// TestStreamOffsetBehindTheEnd waits for that offset, and takes nothing before it.
func TestStreamOffsetBehindTheEnd(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.declare(1, &spec.QueueDeclare{Queue: "s", Durable: true, Arguments: message.Table{{Name: argType, Value: message.String("stream")}}})
	c.consumeStream("s", "c", 10, message.Header{Name: argStreamOffset, Value: message.Int(message.KindInt64, 2)})
	p := f.channel()
	p.confirmed(1)
	p.put(1, "s", "a", "b", "c")
	recv[*spec.BasicDeliver](c, 1)
	if _, body := c.content(1); string(body) != "c" {
		t.Errorf("%q", body)
	}
}

// TestTransactionToNowhere fails at the publish, not at the commit.
func TestTransactionToNowhere(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.send(1, &spec.TxSelect{})
	recv[*spec.TxSelectOk](c, 1)
	c.publish(1, &spec.BasicPublish{Exchange: "nowhere", RoutingKey: "k"}, &spec.Properties{}, []byte("a"))
	c.channelClosed(1, spec.NotFound, "NOT_FOUND - no exchange 'nowhere' in vhost '/'", spec.BasicPublishID)
}
