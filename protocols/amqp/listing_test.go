package amqp

import (
	"net"
	"testing"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
)

// What is listed is what clients have opened, and goes with them.
func TestConnectionsAreListed(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.send(1, &spec.QueueDeclare{Queue: "q"})
	recv[*spec.QueueDeclareOk](c, 1)
	c.send(1, &spec.ConfirmSelect{})
	recv[*spec.ConfirmSelectOk](c, 1)
	c.send(1, &spec.BasicQos{PrefetchCount: 7})
	recv[*spec.BasicQosOk](c, 1)
	args := message.Table{{Name: "x-priority", Value: message.Int(message.KindInt32, 3)}}
	c.send(1, &spec.BasicConsume{Queue: "q", ConsumerTag: "tag", Arguments: args})
	recv[*spec.BasicConsumeOk](c, 1)
	c.publish(1, &spec.BasicPublish{RoutingKey: "q"}, &spec.Properties{}, []byte("hello"))
	for got := map[spec.MethodID]bool{}; len(got) < 2; { // the confirm and the delivery, in any order
		m := c.method(1)
		got[m.ID()] = true
		if m.ID() == spec.BasicDeliverID {
			c.content(1)
		}
	}
	c.openChannel(2)
	inside := f.server.Dial(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})
	defer inside.Close() //nolint:errcheck // a pipe

	all := f.server.Connections()
	if len(all) != 1 {
		t.Fatalf("%d connections, want that of the client", len(all))
	}
	i := all[0]
	if i.Name != c.nc.LocalAddr().String()+" -> "+f.addr || i.User != "guest" || i.VHost != "/" || i.Mechanism != "PLAIN" || len(i.Properties) != 1 || i.Received == 0 {
		t.Errorf("%+v", i)
	}
	if len(i.Channels) != 2 {
		t.Fatalf("channels %+v, want two", i.Channels)
	}
	ch := i.Channels[0]
	if ch.Number != 1 || ch.Prefetch != 7 || !ch.Confirms || ch.Transactional || ch.Unacked != 1 || ch.Unconfirmed != 0 {
		t.Errorf("channel %+v", ch)
	}
	if len(ch.Consumers) != 1 || ch.Consumers[0].Tag != "tag" || ch.Consumers[0].Queue != "q" || ch.Consumers[0].Prefetch != 7 || !ch.Consumers[0].Arguments.Equal(args) {
		t.Errorf("consumers %+v", ch.Consumers)
	}

	if f.server.CloseConnection("another", "x") {
		t.Error("a connection of another name is closed")
	}
	if !f.server.CloseConnection(i.Name, "an operator's wish") {
		t.Fatal("the connection is not there")
	}
	c.told(spec.ConnectionForced, "CONNECTION_FORCED - an operator's wish", 0)
	waitFor(t, func() bool { return len(f.server.Connections()) == 0 })
}
