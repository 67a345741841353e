package amqp

import (
	"strings"
	"testing"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
)

// asker is a client that consumes answers, and server one that answers.
func replyPair(t *testing.T) (f *fixture, asker, server *client) {
	f = start(t, nil)
	asker, server = f.channel(), f.channel()
	asker.send(1, &spec.BasicConsume{Queue: replyQueue, ConsumerTag: "answers", NoAck: true})
	if m := recv[*spec.BasicConsumeOk](asker, 1); m.ConsumerTag != "answers" {
		t.Errorf("%+v", m)
	}
	server.send(1, &spec.QueueDeclare{Queue: "questions"})
	recv[*spec.QueueDeclareOk](server, 1)
	server.send(1, &spec.BasicConsume{Queue: "questions", ConsumerTag: "c", NoAck: true})
	recv[*spec.BasicConsumeOk](server, 1)
	return f, asker, server
}

// asked sends a question and returns the address that it carries.
func asked(asker, server *client) string {
	asker.publish(1, &spec.BasicPublish{RoutingKey: "questions"}, &spec.Properties{ReplyTo: replyQueue, CorrelationID: "7"}, []byte("?"))
	recv[*spec.BasicDeliver](server, 1)
	p, _ := server.content(1)
	return p.ReplyTo
}

func TestDirectReplyTo(t *testing.T) {
	f, asker, server := replyPair(t)
	address := asked(asker, server)
	if !strings.HasPrefix(address, replyPrefix) || len(address) > spec.MaxShortstr {
		t.Fatalf("address %q", address)
	}
	server.send(1, &spec.QueueDeclare{Queue: address, Passive: true})
	if m := recv[*spec.QueueDeclareOk](server, 1); *m != (spec.QueueDeclareOk{Queue: address, ConsumerCount: 1}) {
		t.Errorf("%+v", m)
	}
	server.send(1, &spec.ConfirmSelect{})
	recv[*spec.ConfirmSelectOk](server, 1)
	h := message.Table{{Name: "h", Value: message.Int(message.KindInt32, 1)}}
	for i := range uint64(2) {
		server.publish(1, &spec.BasicPublish{RoutingKey: address}, &spec.Properties{CorrelationID: "7", Headers: h}, []byte("answer"))
		if m := recv[*spec.BasicAck](server, 1); m.DeliveryTag != i+1 {
			t.Errorf("%+v", m)
		}
		m := recv[*spec.BasicDeliver](asker, 1)
		if *m != (spec.BasicDeliver{ConsumerTag: "answers", DeliveryTag: i + 1, RoutingKey: address}) {
			t.Errorf("%+v", m)
		}
		if p, body := asker.content(1); string(body) != "answer" || p.CorrelationID != "7" || !p.Headers.Equal(h) {
			t.Errorf("%+v %q", p, body)
		}
	}
	// Its log has the question alone.
	if _, err := f.router.Queue(f.server.all()[0].inNamespace(address)); err == nil {
		t.Error("the address is a queue")
	}
	asker.send(1, &spec.BasicCancel{ConsumerTag: "answers"})
	recv[*spec.BasicCancelOk](asker, 1)
	server.publish(1, &spec.BasicPublish{RoutingKey: address, Mandatory: true}, &spec.Properties{}, []byte("too late"))
	if m := recv[*spec.BasicReturn](server, 1); m.ReplyCode != 312 || m.RoutingKey != address {
		t.Errorf("%+v", m)
	}
	server.content(1)
	recv[*spec.BasicAck](server, 1)
	asker.send(1, &spec.ChannelFlow{Active: true})
	recv[*spec.ChannelFlowOk](asker, 1) // nothing came before it
	server.send(1, &spec.QueueDeclare{Queue: address, Passive: true})
	server.channelClosed(1, spec.NotFound, "NOT_FOUND - no queue '"+address+"' in vhost '/'", spec.QueueDeclareID)
}

// TestReplyConsumersEnd with their channel, and its errors.
func TestReplyConsumersEnd(t *testing.T) {
	f, asker, server := replyPair(t)
	address := asked(asker, server)
	asker.send(1, &spec.BasicConsume{Queue: replyQueue, NoAck: true})
	asker.channelClosed(1, spec.PreconditionFailed, "PRECONDITION_FAILED - reply consumer already set", spec.BasicConsumeID)
	asker.send(1, &spec.ChannelCloseOk{})
	server.publish(1, &spec.BasicPublish{RoutingKey: address}, &spec.Properties{}, []byte("too late"))
	asker.openChannel(1)
	asker.send(1, &spec.BasicConsume{Queue: replyQueue})
	asker.channelClosed(1, spec.PreconditionFailed, "PRECONDITION_FAILED - reply consumer cannot acknowledge", spec.BasicConsumeID)
	asker.send(1, &spec.ChannelCloseOk{})
	asker.openChannel(1)
	asker.publish(1, &spec.BasicPublish{RoutingKey: "questions"}, &spec.Properties{ReplyTo: replyQueue}, nil)
	asker.channelClosed(1, spec.PreconditionFailed, "PRECONDITION_FAILED - fast reply consumer does not exist", spec.BasicPublishID)
	asker.send(1, &spec.ChannelCloseOk{})
	asker.openChannel(1)
	asker.send(1, &spec.QueueDeclare{Queue: replyQueue})
	if m := recv[*spec.QueueDeclareOk](asker, 1); m.ConsumerCount != 1 {
		t.Errorf("%+v", m)
	}
	waitFor(t, func() bool {
		f.server.replies.mu.RLock()
		defer f.server.replies.mu.RUnlock()
		return len(f.server.replies.byAddress) == 0
	})
}

// TestRepliesToASlowClient are lost, and hold up nobody.
func TestRepliesToASlowClient(t *testing.T) {
	f, asker, server := replyPair(t)
	address := asked(asker, server)
	body := make([]byte, 100_000)
	server.send(1, &spec.ConfirmSelect{})
	recv[*spec.ConfirmSelectOk](server, 1)
	for f.server.metrics.repliesLost.Load() == 0 {
		server.publish(1, &spec.BasicPublish{RoutingKey: address}, &spec.Properties{}, body)
		recv[*spec.BasicAck](server, 1)
	}
	f.works()
}
