package amqp

import (
	"testing"
	"time"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
	"polylog/router/routertest"
)

const timedOut = "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 60000 ms. This timeout value can be configured, see consumers doc guide to learn more"

func ms(n int64) message.Table {
	return message.Table{{Name: argConsumerTimeout, Value: message.Int(message.KindInt64, n)}}
}

// TestConsumerTimeout closes the channel of a client that keeps a delivery for too long, and no
// other; the next consumer gets the message, also where only one may be active at a time
// (rabbitmq-server 17317).
func TestConsumerTimeout(t *testing.T) {
	clock := routertest.NewClock(time.Unix(1_700_000_000, 0))
	f := start(t, func(o *Options) { o.Clock, o.ConsumerTimeout = clock.Now, time.Minute })
	for name, args := range map[string]message.Table{
		"default": nil,
		"single":  {{Name: argSingleActive, Value: message.Bool(true)}},
	} {
		t.Run(name, func(t *testing.T) {
			keeps, other := f.channel(), f.channel()
			keeps.declare(1, &spec.QueueDeclare{Queue: name, Durable: true, Arguments: args})
			keeps.confirmed(1)
			keeps.put(1, name, "a", "b")
			keeps.send(1, &spec.BasicQos{PrefetchCount: 1})
			recv[*spec.BasicQosOk](keeps, 1)
			tag := keeps.consume(1, &spec.BasicConsume{Queue: name})
			d := recv[*spec.BasicDeliver](keeps, 1)
			keeps.content(1)
			clock.Advance(50 * time.Second)
			keeps.send(1, &spec.BasicAck{DeliveryTag: d.DeliveryTag})
			if d := recv[*spec.BasicDeliver](keeps, 1); d.ConsumerTag != tag {
				t.Fatalf("%+v", d)
			}
			keeps.content(1)
			clock.Advance(50 * time.Second)
			f.server.closeOverdue(f.server.all()) // the first one was answered
			keeps.send(1, &spec.AccessRequest{})
			recv[*spec.AccessRequestOk](keeps, 1)
			clock.Advance(10*time.Second + time.Millisecond)
			f.server.closeOverdue(f.server.all())
			keeps.channelClosed(1, spec.PreconditionFailed, timedOut, 0)
			other.consume(1, &spec.BasicConsume{Queue: name, Arguments: ms(3_600_000)})
			if d := recv[*spec.BasicDeliver](other, 1); !d.Redelivered {
				t.Errorf("%+v", d)
			}
			if _, body := other.content(1); string(body) != "b" {
				t.Errorf("%q", body)
			}
			keeps.send(1, &spec.ChannelCloseOk{})
			keeps.openChannel(1) // the connection is still there
		})
	}
	if n := f.server.metrics.ackTimeouts.Load(); n != 2 {
		t.Errorf("%d timeouts", n)
	}
}

// TestTimeoutsOfOneChannel looks at each delivery where they do not have the same timeout, also
// at those of basic.get.
func TestTimeoutsOfOneChannel(t *testing.T) {
	clock := routertest.NewClock(time.Unix(1_700_000_000, 0))
	f := start(t, func(o *Options) { o.Clock = clock.Now })
	c := f.channel()
	c.declare(1, &spec.QueueDeclare{Queue: "patient", Durable: true})
	c.declare(1, &spec.QueueDeclare{Queue: "short", Durable: true, Arguments: ms(60_000)})
	c.confirmed(1)
	c.put(1, "patient", "a")
	c.put(1, "short", "b")
	for _, q := range []string{"patient", "short"} {
		c.send(1, &spec.BasicGet{Queue: q})
		recv[*spec.BasicGetOk](c, 1)
		c.content(1)
	}
	clock.Advance(time.Minute)
	f.server.closeOverdue(f.server.all())
	c.send(1, &spec.AccessRequest{})
	recv[*spec.AccessRequestOk](c, 1)
	clock.Advance(time.Millisecond)
	f.server.closeOverdue(f.server.all())
	c.channelClosed(1, spec.PreconditionFailed, timedOut, 0)
}

// TestAckTimeout is which of the timeouts counts.
func TestAckTimeout(t *testing.T) {
	f := start(t, func(o *Options) { o.ConsumerTimeout = time.Minute })
	c := f.channel()
	c.declare(1, &spec.QueueDeclare{Queue: "none", Durable: true})
	c.declare(1, &spec.QueueDeclare{Queue: "q", Durable: true, Arguments: ms(90_000)})
	c.declare(1, &spec.QueueDeclare{Queue: "policy", Durable: true, Arguments: ms(90_000)})
	if err := f.router.SetPolicy(t.Context(), router.Principal{Name: "guest"}, router.Policy{
		Namespace: "default", Name: "p", Pattern: "^policy$", ApplyTo: router.ToQueues,
		Definition: message.Table{{Name: policyConsumerTimeout, Value: message.Int(message.KindInt64, 30_000)}},
	}); err != nil {
		t.Fatal(err)
	}
	srv := f.server.all()[0]
	for _, want := range []struct {
		queue    string
		consumer message.Table
		ms       int64
	}{{"none", nil, 60_000}, {"none", ms(70_000), 70_000}, {"none", ms(0), 60_000}, {"q", nil, 90_000}, {"q", ms(1), 1}, {"policy", ms(40_000), 30_000}} {
		q, err := f.router.Queue(srv.inNamespace(want.queue))
		if err != nil {
			t.Fatal(err)
		}
		if got := srv.ackTimeout(q, want.consumer); got != want.ms {
			t.Errorf("%+v: %d ms", want, got)
		}
	}
	c.send(1, &spec.QueueDeclare{Queue: "bad", Arguments: ms(-1)})
	c.channelClosed(1, spec.PreconditionFailed, "PRECONDITION_FAILED - invalid arg 'x-consumer-timeout' for queue 'bad' in vhost '/': {value_negative,-1}", spec.QueueDeclareID)
}
