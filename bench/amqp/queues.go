package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"polylog/compat/harness"
)

// idleQueues declares durable queues that nobody uses, and weighs them.
func (b *bench) idleQueues(s side, broker *harness.Broker) error {
	n := b.idle
	if s.broker == "rabbitmq" {
		n /= 50
	}
	if err := settle(context.Background()); err != nil {
		return err
	}
	before, err := broker.Usage()
	if err != nil {
		return err
	}
	files := openFiles(broker)
	begin := time.Now()
	if err := declareMany(broker.AMQP, n); err != nil {
		return err
	}
	took := time.Since(begin)
	if err := settle(context.Background()); err != nil {
		return err
	}
	after, err := broker.Usage()
	if err != nil {
		return err
	}
	b.table.add("idle", s.name, sample{
		in: float64(n) / took.Seconds(), out: float64(max(0, after.RSS-before.RSS)) / float64(n), p50: float64(max(0, openFiles(broker)-files)) / float64(n), rss: after.RSS,
		cpu: float64((after.CPU - before.CPU).Microseconds()) / float64(n),
	})
	return nil
}

// openFiles is how many file descriptors the broker has.
func openFiles(broker *harness.Broker) int {
	entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(broker.PID()), "fd"))
	if err != nil {
		return 0
	}
	return len(entries)
}

// declareMany declares n queues over several connections, each waiting for every answer. There are
// many connections of one channel, since brokers handle the methods of one connection in turn.
func declareMany(addr string, n int) error {
	const connections, channels = 64, 1
	errs := make(chan error, connections*channels)
	var all sync.WaitGroup
	for c := range connections {
		conn, err := dial(addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		for h := range channels {
			all.Go(func() {
				ch, err := conn.Channel()
				for i := c*channels + h; err == nil && i < n; i += connections * channels {
					_, err = ch.QueueDeclare(fmt.Sprint("idle-", i), true, false, false, false, nil)
				}
				errs <- err
			})
		}
	}
	all.Wait()
	close(errs)
	var err error
	for e := range errs {
		err = errors.Join(err, e)
	}
	return err
}

func dial(addr string) (*amqp.Connection, error) {
	return amqp.DialConfig("amqp://guest:guest@"+addr+"/", amqp.Config{Heartbeat: time.Minute})
}

// deepQueue fills one queue with messages that wait, weighs the broker, and drains it again.
func (b *bench) deepQueue(ctx context.Context, s side, broker *harness.Broker) error {
	const queue = "deep"
	conn, err := dial(broker.AMQP)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		return err
	}
	begin := time.Now()
	if err := fill(ctx, ch, queue, b.backlog); err != nil {
		return err
	}
	in := float64(b.backlog) / time.Since(begin).Seconds()
	if err := settle(ctx); err != nil {
		return err
	}
	full, err := broker.Usage()
	if err != nil {
		return err
	}
	begin = time.Now()
	if err := drain(ctx, conn, queue, b.backlog); err != nil {
		return err
	}
	after, err := broker.Usage()
	if err != nil {
		return err
	}
	b.table.add("backlog", s.name, sample{
		in: in, out: float64(b.backlog) / time.Since(begin).Seconds(), rss: full.RSS, cpu: float64((after.CPU - full.CPU).Microseconds()) / float64(b.backlog),
	})
	return nil
}

// fill publishes persistent messages of 1 KiB with up to window of them unconfirmed.
func fill(ctx context.Context, ch *amqp.Channel, queue string, n int) error {
	const window = 2000
	if err := ch.Confirm(false); err != nil {
		return err
	}
	body := bytes.Repeat([]byte("x"), 1024)
	var wait []*amqp.DeferredConfirmation
	settle := func(to int) error {
		for ; len(wait) > to; wait = wait[1:] {
			if ok, err := wait[0].WaitContext(ctx); err != nil || !ok {
				return errors.Join(err, errors.New("a message was not confirmed"))
			}
		}
		return nil
	}
	for range n {
		d, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body})
		if err != nil {
			return err
		}
		wait = append(wait, d)
		if err := settle(window); err != nil {
			return err
		}
	}
	return settle(0)
}

// drain takes n messages and acknowledges each hundred.
func drain(ctx context.Context, conn *amqp.Connection, queue string, n int) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	if err := ch.Qos(1000, 0, false); err != nil {
		return err
	}
	in, err := ch.ConsumeWithContext(ctx, queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for i := 1; i <= n; i++ {
		d, ok := <-in
		if !ok {
			return fmt.Errorf("%d messages came of %d: %w", i-1, n, context.Cause(ctx))
		}
		if i%100 == 0 || i == n {
			if err := d.Ack(true); err != nil {
				return err
			}
		}
	}
	return nil
}
