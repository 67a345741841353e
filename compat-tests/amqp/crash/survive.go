package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"polylog/compat/amqp/load"
)

// survivor is one thing that must be as it was after the broker was killed. before makes it, on an
// empty broker; after looks at it on the next one. Both get a channel in confirm mode.
type survivor struct {
	name          string
	before, after func(ctx context.Context, ch *amqp.Channel) error
}

var survivors = []survivor{
	{
		"exchanges, queues and bindings",
		func(_ context.Context, ch *amqp.Channel) error {
			return errors.Join(
				ch.ExchangeDeclare("s.topic", "topic", true, false, false, false, nil), ch.ExchangeDeclare("s.headers", "headers", true, false, true, false, nil),
				declare(ch, "s.bound", nil), ch.ExchangeBind("s.headers", "a.*", "s.topic", false, nil),
				ch.QueueBind("s.bound", "", "s.headers", false, amqp.Table{"x-match": "all", "h": int32(1)}),
			)
		},
		func(ctx context.Context, ch *amqp.Channel) error {
			if err := publish(ctx, ch, "s.topic", "a.b", "routed", amqp.Publishing{Headers: amqp.Table{"h": int64(1)}}); err != nil {
				return err
			}
			_, err := expect(ch, "s.bound", "routed", false)
			return err
		},
	},
	{
		// A message that nobody had been given is not flagged as one that was, nor the other way round.
		"redelivered flags of a classic queue",
		func(ctx context.Context, ch *amqp.Channel) error {
			if err := errors.Join(declare(ch, "s.classic", nil), publish(ctx, ch, "", "s.classic", "held", amqp.Publishing{})); err != nil {
				return err
			}
			_, err := expect(ch, "s.classic", "held", false)
			return err
		},
		func(_ context.Context, ch *amqp.Channel) error {
			d, err := expect(ch, "s.classic", "held", true)
			if err != nil {
				return err
			}
			return d.Ack(false)
		},
	},
	{
		// cloudamqp/lavinmq 1911: a rejected message's flag and count were lost in a restart.
		"redelivered flag and count of a quorum queue",
		func(ctx context.Context, ch *amqp.Channel) error {
			if err := errors.Join(declare(ch, "s.quorum", amqp.Table{"x-queue-type": "quorum"}), publish(ctx, ch, "", "s.quorum", "rejected", amqp.Publishing{})); err != nil {
				return err
			}
			for i := range 2 {
				d, err := expect(ch, "s.quorum", "rejected", i > 0)
				if err != nil {
					return err
				}
				if err := d.Reject(true); err != nil {
					return err
				}
			}
			d, err := expect(ch, "s.quorum", "rejected", true)
			if err != nil {
				return err
			}
			return d.Reject(true)
		},
		func(_ context.Context, ch *amqp.Channel) error {
			d, err := expect(ch, "s.quorum", "rejected", true)
			if err != nil {
				return err
			}
			// The last of the three rejections may have been on its way.
			if n, ok := d.Headers["x-delivery-count"].(int64); !ok || n < 2 || n > 3 {
				return fmt.Errorf("x-delivery-count is %v, want 2 or 3", d.Headers["x-delivery-count"])
			}
			return d.Ack(false)
		},
	},
	{
		"a message that is delayed",
		func(ctx context.Context, ch *amqp.Channel) error {
			return errors.Join(
				ch.ExchangeDeclare("s.delay", "x-delayed-message", true, false, false, false, amqp.Table{"x-delayed-type": "fanout"}),
				declare(ch, "s.delayed", nil), ch.QueueBind("s.delayed", "", "s.delay", false, nil),
				publish(ctx, ch, "s.delay", "", "late", amqp.Publishing{Headers: amqp.Table{"x-delay": int32(2000)}}),
			)
		},
		func(_ context.Context, ch *amqp.Channel) error {
			_, err := expect(ch, "s.delayed", "late", false)
			return err
		},
	},
	{
		"times to live and dead letters",
		func(ctx context.Context, ch *amqp.Channel) error {
			return errors.Join(
				declare(ch, "s.dead", nil), declare(ch, "s.ttl", amqp.Table{"x-message-ttl": int32(2000), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "s.dead"}),
				publish(ctx, ch, "", "s.ttl", "expires", amqp.Publishing{}),
			)
		},
		func(_ context.Context, ch *amqp.Channel) error {
			d, err := expect(ch, "s.dead", "expires", false)
			if err == nil && d.Headers["x-first-death-reason"] != "expired" {
				err = fmt.Errorf("headers %v", d.Headers)
			}
			return err
		},
	},
	{
		"priorities",
		func(ctx context.Context, ch *amqp.Channel) error {
			return errors.Join(
				declare(ch, "s.priority", amqp.Table{"x-max-priority": int32(5)}),
				publish(ctx, ch, "", "s.priority", "low", amqp.Publishing{Priority: 1}), publish(ctx, ch, "", "s.priority", "high", amqp.Publishing{Priority: 4}),
			)
		},
		func(_ context.Context, ch *amqp.Channel) error {
			_, err1 := expect(ch, "s.priority", "high", false)
			_, err2 := expect(ch, "s.priority", "low", false)
			return errors.Join(err1, err2)
		},
	},
}

func declare(ch *amqp.Channel, queue string, args amqp.Table) error {
	_, err := ch.QueueDeclare(queue, true, false, false, false, args)
	return err
}

// publish sends a persistent message and waits for its confirm.
func publish(ctx context.Context, ch *amqp.Channel, exchange, key, body string, p amqp.Publishing) error {
	p.Body, p.DeliveryMode = []byte(body), amqp.Persistent
	d, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, false, false, p)
	if err != nil {
		return err
	}
	if ok, err := d.WaitContext(ctx); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("%s was not confirmed", body))
	}
	return nil
}

// expect consumes one message, waiting for it, and checks it. It stays with the channel.
func expect(ch *amqp.Channel, queue, body string, redelivered bool) (amqp.Delivery, error) {
	if err := ch.Qos(1, 0, false); err != nil {
		return amqp.Delivery{}, err
	}
	in, err := ch.Consume(queue, queue, false, false, false, false, nil)
	if err != nil {
		return amqp.Delivery{}, fmt.Errorf("consume %s: %w", queue, err)
	}
	select {
	case d, ok := <-in:
		switch {
		case !ok:
			return d, fmt.Errorf("%s: the channel was closed", queue)
		case string(d.Body) != body || d.Redelivered != redelivered:
			return d, fmt.Errorf("%s: %q, redelivered %v; want %q, %v", queue, d.Body, d.Redelivered, body, redelivered)
		}
		return d, ch.Cancel(queue, false)
	case <-time.After(20 * time.Second):
		return amqp.Delivery{}, fmt.Errorf("%s: no message, want %q", queue, body)
	}
}

// survive makes every survivor, kills the broker, starts another, and looks at each that could be made.
func survive(ctx context.Context, l *load.Load, kill func() error) error {
	made := make([]bool, len(survivors))
	conns := make([]*amqp.Connection, len(survivors)) // kept: what a client holds is in its hands when the broker dies
	for i, s := range survivors {
		c, err := each(ctx, l, s.before)
		conns[i], made[i] = c, err == nil
		if err != nil {
			l.Ledger.Fail("%s: cannot be made: %v", s.name, err)
		}
	}
	if err := kill(); err != nil {
		return err
	}
	for i, s := range survivors {
		if conns[i] != nil {
			_ = conns[i].Close() // its broker is gone
		}
		if !made[i] {
			continue
		}
		c, err := each(ctx, l, s.after)
		if err != nil {
			l.Ledger.Fail("%s: %v", s.name, err)
		}
		if c != nil {
			_ = c.Close() // an error may have closed it
		}
	}
	return nil
}

// each runs one half of a survivor on a connection of its own.
func each(ctx context.Context, l *load.Load, half func(context.Context, *amqp.Channel) error) (*amqp.Connection, error) {
	c, ch, err := l.Dial()
	if err != nil {
		return nil, err
	}
	if err := ch.Confirm(false); err != nil {
		return c, err
	}
	return c, half(ctx, ch)
}
