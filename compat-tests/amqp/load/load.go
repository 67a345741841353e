// Package load is what goes on against AMQP queues while a broker is killed or cut off: producers with
// confirms, consumers with acknowledgements and transactions, which connect anew whenever they have to.
package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"polylog/compat/harness"
	"polylog/compat/harness/clients"
)

// The queues that are under load: classic and quorum, alone, and a pair behind a fanout exchange.
var queues = []string{"classic", "quorum", "fan-a", "fan-b"}

const (
	fanout    = "fan"
	producers = 4 // two to single queues, two to the fanout
	window    = 200
	prefetch  = 100
)

// Load is producers and consumers, and what became of their messages.
type Load struct {
	clients.Clients // each producer publishes bursts of up to 20 messages
	Ledger          *Ledger
}

// New is a load on the brokers at the addresses; each client takes one of them by chance.
func New(addrs ...string) *Load {
	return &Load{Clients: clients.Clients{Addrs: addrs, Pace: 4 * time.Millisecond}, Ledger: newLedger()}
}

// Dial opens a connection and a channel to one of the brokers.
func (l *Load) Dial() (*amqp.Connection, *amqp.Channel, error) {
	addr, in := l.Broker()
	dial := func(network, addr string) (c net.Conn, err error) {
		err = in(func() (err error) {
			c, err = amqp.DefaultDial(2*time.Second)(network, addr)
			return err
		})
		return c, err
	}
	c, err := amqp.DialConfig("amqp://guest:guest@"+addr+"/", amqp.Config{Heartbeat: 2 * time.Second, Dial: dial})
	if err != nil {
		return nil, nil, err
	}
	ch, err := c.Channel()
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return c, ch, nil
}

// Declare makes the queues.
func (l *Load) Declare() error {
	c, ch, err := l.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := ch.ExchangeDeclare(fanout, "fanout", true, false, false, false, nil); err != nil {
		return err
	}
	for _, q := range queues {
		var args amqp.Table
		if q == "quorum" {
			args = amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(-1)}
		}
		if _, err := ch.QueueDeclare(q, true, false, false, false, args); err != nil {
			return err
		}
		if strings.HasPrefix(q, fanout) {
			if err := ch.QueueBind(q, "", fanout, false, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// Start starts producers and consumers. The seed repeats their choices.
func (l *Load) Start(ctx context.Context, seed uint64) {
	for p := range producers {
		l.Produce(func() { l.producer(ctx, p, rand.New(rand.NewPCG(seed, uint64(p+1)))) })
	}
	for q := range queues {
		for n := range 2 {
			c := &consumer{Load: l, who: fmt.Sprintf("consumer %d of %s", n, queues[q]), queue: q, tx: n == 1, rng: rand.New(rand.NewPCG(seed, uint64(100+2*q+n)))}
			l.Consume(ctx, c.run)
		}
	}
}

// targets are the exchange and key that a producer publishes to, and the queues that its messages reach.
func targets(producer int) (exchange, key string, reached []int) {
	switch producer {
	case 0:
		return "", queues[0], []int{0}
	case 1:
		return "", queues[1], []int{1}
	}
	return fanout, "", []int{2, 3}
}

// producer publishes with at most window messages unconfirmed, each with the next sequence: what was
// not confirmed when a connection ended is not sent again.
func (l *Load) producer(ctx context.Context, num int, rng *rand.Rand) {
	exchange, key, reached := targets(num)
	seq := 0
	for session := 0; !l.Stopping() && ctx.Err() == nil; session++ {
		conn, ch, err := l.Dial()
		if err == nil {
			err = ch.Confirm(false)
		}
		if err != nil {
			harness.Pause(ctx, 50*time.Millisecond)
			continue
		}
		type unconfirmed struct {
			seq int
			d   *amqp.DeferredConfirmation
		}
		var wait []unconfirmed
		settle := func(to int) {
			for len(wait) > to {
				w := wait[0]
				wait = wait[1:]
				ok, err := w.d.WaitContext(ctx)
				if err != nil || !ok && ch.IsClosed() {
					return // nobody knows what became of it
				}
				if !ok {
					l.Ledger.refuse()
					continue
				}
				for _, q := range reached {
					l.Ledger.confirm(id{q, num, w.seq})
				}
			}
		}
		for !l.Stopping() && !ch.IsClosed() {
			for range 1 + rng.IntN(20) {
				for _, q := range reached {
					l.Ledger.sent(id{q, num, seq})
				}
				body := fmt.Sprintf("%d %d %d %s", num, seq, session, strings.Repeat("x", rng.IntN(1024)))
				d, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)})
				if err != nil {
					seq++ // nobody knows whether it went out
					break
				}
				wait = append(wait, unconfirmed{seq, d})
				seq++
			}
			settle(window)
			harness.Pause(ctx, l.Pace)
		}
		settle(0)
		_ = conn.Close() // it may be closed
	}
}

// consumer is a consumer of a queue, connected anew whenever its connection ends.
type consumer struct {
	*Load
	who   string
	queue int
	tx    bool // acknowledges in transactions
	rng   *rand.Rand
}

func (c *consumer) run(ctx context.Context) {
	for ctx.Err() == nil {
		conn, ch, err := c.Dial()
		if err != nil {
			harness.Pause(ctx, 50*time.Millisecond)
			continue
		}
		_ = c.take(ctx, ch) // it ends with its connection, or to be killed as it is
		_ = conn.Close()    // it may be closed
	}
}

// take gets messages and acknowledges them in batches. Now and then it gives one back, or ends with a
// batch in its hands.
func (c *consumer) take(ctx context.Context, ch *amqp.Channel) error {
	if c.tx {
		if err := ch.Tx(); err != nil {
			return err
		}
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return err
	}
	in, err := ch.Consume(queues[c.queue], "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	// What has come is judged at once, while this consumer waits for a commit too: what a leader sent
	// before it was cut off must not look as if it came after what the next one did.
	came, over := make(chan arrived, prefetch), make(chan struct{})
	defer close(over)
	go func() {
		defer close(came)
		last := map[session]int{}
		for d := range in {
			select {
			case came <- c.judge(d, last):
			case <-over:
				return
			}
		}
	}()
	for ctx.Err() == nil {
		batch, tag, err := c.batch(ctx, came)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			continue
		}
		if c.rng.IntN(300) == 0 {
			return nil
		}
		c.Ledger.ack(batch)
		if err := ch.Ack(tag, true); err != nil {
			return err
		}
		if c.tx {
			if err := ch.TxCommit(); err != nil {
				return err
			}
			c.Ledger.commit(batch)
		}
	}
	return nil
}

// session is one connection of a producer. What is on its way over one is not in order with what goes
// over the next.
type session struct{ producer, number int }

// arrived is a delivery that was judged.
type arrived struct {
	id
	amqp.Delivery
	err error // it is none of ours
}

// judge takes a delivery down. last has, of each session, the highest sequence that came for the first
// time.
func (c *consumer) judge(d amqp.Delivery, last map[session]int) arrived {
	a := arrived{id: id{queue: c.queue}, Delivery: d}
	var from session
	if n, err := fmt.Sscan(string(d.Body), &a.producer, &a.seq, &from.number); n != 3 {
		c.Ledger.Fail("%s: body %.40q: %v", c.who, d.Body, err)
		a.err = err
		return a
	}
	from.producer = a.producer
	c.Ledger.deliver(a.id, d.Redelivered, c.who)
	if !d.Redelivered {
		if was, ok := last[from]; ok && a.seq < was {
			c.Ledger.Fail("%s: %+v came after %d of its producer", c.who, a.id, was)
		}
		last[from] = a.seq
	}
	return a
}

// batch gets some messages, fewer when no more come. All of them may be acknowledged with the tag.
func (c *consumer) batch(ctx context.Context, in <-chan arrived) (batch []id, tag uint64, err error) {
	for want := 1 + c.rng.IntN(40); len(batch) < want; {
		idle := time.NewTimer(20 * time.Millisecond)
		select {
		case d, ok := <-in:
			idle.Stop()
			if !ok {
				return nil, 0, amqp.ErrClosed
			}
			if d.err != nil {
				return nil, 0, d.err
			}
			if c.rng.IntN(500) == 0 {
				if err := d.Nack(false, true); err != nil {
					return nil, 0, err
				}
				continue
			}
			batch, tag = append(batch, d.id), d.DeliveryTag
		case <-idle.C:
			return batch, tag, nil
		case <-ctx.Done():
			idle.Stop()
			return batch, tag, nil
		}
	}
	return batch, tag, nil
}

// Progress waits until n more messages were confirmed and acknowledged.
func (l *Load) Progress(ctx context.Context, n int) error {
	confirmed, acked := l.Ledger.counts()
	err := harness.Await(ctx, time.Minute, func() bool {
		c, a := l.Ledger.counts()
		return c >= confirmed+n && a >= acked+n
	})
	if err != nil {
		_, wrong := l.Ledger.Wrong()
		return fmt.Errorf("the load does not get on: %w: %s; %v", err, l.Ledger.Summary(), wrong)
	}
	return nil
}

// Finish ends the producers, waits until every confirmed message was delivered and the queues are
// empty, and ends the consumers.
func (l *Load) Finish(ctx context.Context) error {
	l.EndProducers()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := harness.Await(ctx, time.Minute, func() bool {
		n, _ := l.Ledger.missing()
		return n == 0
	})
	if err != nil {
		n, first := l.Ledger.missing()
		err = fmt.Errorf("%d confirmed messages were never delivered, one is %+v in %s: %w", n, first, queues[first.queue], err)
	} else {
		err = l.empty(ctx)
	}
	l.EndConsumers()
	return err
}

// empty waits until nothing is ready in any queue.
func (l *Load) empty(ctx context.Context) error {
	c, ch, err := l.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	for _, q := range queues {
		for {
			s, err := ch.QueueDeclarePassive(q, true, false, false, false, nil)
			if err != nil {
				return err
			}
			if s.Messages == 0 {
				break
			}
			if !harness.Pause(ctx, 20*time.Millisecond) {
				return fmt.Errorf("%d messages stay in %s", s.Messages, q)
			}
		}
	}
	return nil
}
