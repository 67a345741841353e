package amqp

import (
	"bytes"
	"testing"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// TestTinyPublishesAreBounded publishes many more messages without a body than a connection may have in the log's
// hands, while the log answers nothing. The reader stops; when the log goes on, so does the reader, and
// all are confirmed.
func TestTinyPublishesAreBounded(t *testing.T) {
	const messages, limit = 3000, 256 << 10
	f := start(t, func(o *Options) { o.MaxInFlightBytes = limit })
	c := f.channel()
	c.declare(1, &spec.QueueDeclare{Queue: "q"})
	c.confirmed(1)

	m := message.Message{Value: []byte{}, Priority: -1}
	batch, err := m.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	goOn := make(chan struct{})
	f.router.PublishTo(router.Principal{}, router.Address{Exchange: core.TopicName(""), Keys: []string{"none"}}, batch, func(router.Routed) { <-goOn })

	sent := make(chan error, 1)
	all := bytes.Repeat(publication(1, &spec.BasicPublish{RoutingKey: "q"}, &spec.Properties{}, nil, 1), messages)
	go func() {
		_, err := c.nc.Write(all)
		sent <- err
	}()
	flight := &f.server.all()[0].flight
	waitFor(t, func() bool { size, _ := flight.held(); return size >= limit })
	const least = publishCost + minPooled
	size, count := flight.held()
	if size >= limit+2*least || count > limit/least+1 {
		t.Errorf("%d publishes of %d bytes", count, size)
	}
	if held := f.server.memory.held(); held != size {
		t.Errorf("all connections have %d bytes, this one has %d", held, size)
	}
	close(goOn)
	for confirmed := uint64(0); confirmed < messages; {
		confirmed = recv[*spec.BasicAck](c, 1).DeliveryTag
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if ok := c.declare(1, &spec.QueueDeclare{Queue: "q", Passive: true}); ok.MessageCount != messages {
		t.Errorf("%d messages are in the queue", ok.MessageCount)
	}
}
