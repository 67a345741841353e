package amqp

import (
	"bytes"
	"testing"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router/routertest"
)

// TestReplyToOtherNode answers a client of another node: small and large, with properties.
func TestReplyToOtherNode(t *testing.T) {
	r1, log := routertest.Start(t, nil)
	r2, log2 := routertest.Join(t, log, "2", nil)
	one := serveRouter(t, r1, log, nil)
	two := serveRouter(t, r2, log2, func(o *Options) { o.NodeID = "2" })
	asker, server := one.channel(), two.channel()
	asker.consume(1, &spec.BasicConsume{Queue: replyQueue, NoAck: true})
	server.declare(1, &spec.QueueDeclare{Queue: "questions", Durable: true})
	server.consume(1, &spec.BasicConsume{Queue: "questions", NoAck: true})
	address := asked(asker, server)

	server.send(1, &spec.QueueDeclare{Queue: address, Passive: true})
	if m := recv[*spec.QueueDeclareOk](server, 1); m.ConsumerCount != 1 {
		t.Errorf("%+v", m)
	}
	h := message.Table{{Name: "h", Value: message.Int(message.KindInt32, 1)}}
	for _, size := range []int{0, 10, 3 << 20} {
		body := bytes.Repeat([]byte("x"), size)
		server.publish(1, &spec.BasicPublish{RoutingKey: address}, &spec.Properties{CorrelationID: "7", Headers: h, Present: spec.HasCorrelationID | spec.HasHeaders}, body)
		if d := recv[*spec.BasicDeliver](asker, 1); d.RoutingKey != address || d.Exchange != "" {
			t.Errorf("%+v", d)
		}
		if p, got := asker.content(1); !bytes.Equal(got, body) || p.CorrelationID != "7" || !p.Headers.Equal(h) {
			t.Errorf("%d bytes, %+v", len(got), p)
		}
	}

	_ = asker.nc.Close()
	waitFor(t, func() bool { return one.conns() == 0 })
	server.send(1, &spec.QueueDeclare{Queue: address, Passive: true})
	server.channelClosed(1, spec.NotFound, "NOT_FOUND - no queue '"+address+"' in vhost '/'", spec.QueueDeclareID)
	two.works()
}

// TestReplyToLostNode loses answers to a node that is cut off, and nothing else; when it is back it
// gets answers again.
func TestReplyToLostNode(t *testing.T) {
	r1, log := routertest.Start(t, nil)
	r2, log2 := routertest.Join(t, log, "2", nil)
	one := serveRouter(t, r1, log, nil)
	two := serveRouter(t, r2, log2, func(o *Options) { o.NodeID = "2" })
	asker, server := two.channel(), one.channel()
	asker.consume(1, &spec.BasicConsume{Queue: replyQueue, NoAck: true})
	server.declare(1, &spec.QueueDeclare{Queue: "questions", Durable: true})
	server.consume(1, &spec.BasicConsume{Queue: "questions", NoAck: true})
	address := asked(asker, server)
	log2.Cut(true)
	server.publish(1, &spec.BasicPublish{RoutingKey: address}, &spec.Properties{}, []byte("lost"))
	waitFor(t, func() bool { return one.server.metrics.repliesLost.Load() == 1 })
	log2.Cut(false)
	server.publish(1, &spec.BasicPublish{RoutingKey: address}, &spec.Properties{}, []byte("there"))
	recv[*spec.BasicDeliver](asker, 1)
	if _, body := asker.content(1); string(body) != "there" {
		t.Errorf("%q", body)
	}
	for _, nowhere := range []string{replyPrefix + "3.x", replyPrefix + "x", replyPrefix} { // no such node: as an answer that nobody waits for
		server.publish(1, &spec.BasicPublish{RoutingKey: nowhere}, &spec.Properties{}, []byte("?"))
	}
	one.works()
}

func FuzzReply(f *testing.F) {
	f.Add(encodeReply("a", &spec.Properties{MessageID: "m"}, []byte("body")))
	f.Add([]byte{})
	f.Fuzz(func(_ *testing.T, b []byte) { _, _, _, _ = decodeReply(b) })
}
