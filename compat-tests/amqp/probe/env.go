package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// env is what one probe works with: a connection of its own, names of its own, and what it has seen.
type env struct {
	ctx    context.Context
	addr   string
	prefix string
	lines  []string
	conn   *amqp.Connection
	pub    *amqp.Channel // in confirm mode, for publish

	mu   sync.Mutex
	open []io.Closer // guarded by mu
}

type table = amqp.Table

func (e *env) say(format string, args ...any) {
	e.lines = append(e.lines, fmt.Sprintf(format, args...))
}

// name is an object's name in this probe.
func (e *env) name(s string) string { return e.prefix + s }

func (e *env) must(err error) {
	if err != nil {
		panic(cannot{err})
	}
}

// keep has close close it.
func (e *env) keep(c io.Closer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = append(e.open, c)
}

// close closes what was opened. Calls of a library that wait for an answer end by it.
func (e *env) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.open {
		if conn, ok := c.(*amqp.Connection); ok {
			_ = conn.CloseDeadline(time.Now().Add(time.Second)) // a probe may have closed it itself
		} else {
			_ = c.Close()
		}
	}
	e.open = nil
}

func (e *env) url(vhost string) string { return "amqp://guest:guest@" + e.addr + "/" + vhost }

// dial opens a further connection.
func (e *env) dial() *amqp.Connection {
	c, err := amqp.DialConfig(e.url(""), amqp.Config{Heartbeat: time.Minute})
	e.must(err)
	e.keep(c)
	return c
}

// connection is the probe's connection, a new one where an error has closed the last.
func (e *env) connection() *amqp.Connection {
	if e.conn == nil || e.conn.IsClosed() {
		e.conn, e.pub = e.dial(), nil
	}
	return e.conn
}

func (e *env) channel() *amqp.Channel {
	ch, err := e.connection().Channel()
	e.must(err)
	return ch
}

// queue declares a queue; the letters of flags are d for durable, x for exclusive, a for auto-delete.
func (e *env) queue(name, flags string, args table) string {
	ch := e.channel()
	q, err := declare(ch, e.name(name), flags, args)
	e.must(err)
	e.must(ch.Close())
	return q.Name
}

func declare(ch *amqp.Channel, name, flags string, args table) (amqp.Queue, error) {
	return ch.QueueDeclare(name, strings.Contains(flags, "d"), strings.Contains(flags, "a"), strings.Contains(flags, "x"), false, args)
}

// exchange declares an exchange; the letters of flags are d for durable, a for auto-delete, i for internal.
func (e *env) exchange(name, kind, flags string, args table) string {
	ch := e.channel()
	e.must(ch.ExchangeDeclare(e.name(name), kind, strings.Contains(flags, "d"), strings.Contains(flags, "a"), strings.Contains(flags, "i"), false, args))
	e.must(ch.Close())
	return e.name(name)
}

func (e *env) bind(queue, key, exchange string, args table) {
	ch := e.channel()
	e.must(ch.QueueBind(queue, key, exchange, false, args))
	e.must(ch.Close())
}

// publish sends one message and waits for its confirm: true is ack.
func (e *env) publish(exchange, key, body string, p amqp.Publishing) bool {
	if e.connection(); e.pub == nil || e.pub.IsClosed() {
		e.pub = e.channel()
		e.must(e.pub.Confirm(false))
	}
	p.Body = []byte(body)
	d, err := e.pub.PublishWithDeferredConfirmWithContext(e.ctx, exchange, key, false, false, p)
	e.must(err)
	ack, err := d.WaitContext(e.ctx)
	e.must(err)
	return ack
}

// fill publishes bodies to a queue through the default exchange.
func (e *env) fill(queue string, bodies ...string) {
	for _, b := range bodies {
		e.publish("", queue, b, amqp.Publishing{})
	}
}

func send(ch *amqp.Channel, exchange, key, body string, p amqp.Publishing) error {
	p.Body = []byte(body)
	return ch.PublishWithContext(context.Background(), exchange, key, false, false, p)
}

// try runs f on a new channel and says how it went: ok, or the error that closed the channel or the
// connection, also where that comes later than f returns.
func (e *env) try(label string, f func(ch *amqp.Channel) error) {
	e.say("%s: %s", label, e.outcome(f))
}

func (e *env) outcome(f func(ch *amqp.Channel) error) string {
	conn := e.connection()
	ch := e.channel()
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	err := f(ch)
	if err == nil {
		err = barrier(ch)
	}
	if err == nil {
		_ = ch.Close() // an error here is one of the next probe's
		return "ok"
	}
	if errors.Is(err, amqp.ErrClosed) {
		select {
		case why := <-closed:
			if why != nil {
				err = why
			}
		case <-time.After(patience):
		}
	}
	if conn.IsClosed() {
		return "connection " + describe(err)
	}
	return "channel " + describe(err)
}

// barrier returns when the broker has done everything that was asked on the channel before.
func barrier(ch *amqp.Channel) error {
	return ch.ExchangeDeclarePassive("amq.direct", "direct", true, false, false, false, nil)
}

func describe(err error) string {
	var a *amqp.Error
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &a) && a.Server:
		return fmt.Sprintf("%d %s", a.Code, a.Reason)
	case errors.As(err, &a) && a == amqp.ErrClosed:
		return "closed"
	case errors.As(err, &a):
		return "dropped"
	}
	return err.Error()
}

// await asks until cond holds, and says whether it came to that.
func (e *env) await(what string, cond func() bool) {
	if e.until(cond) {
		e.say("%s", what)
	} else {
		e.say("%s: never", what)
	}
}

// until asks until cond holds; false says that it never did.
func (e *env) until(cond func() bool) bool {
	for end := time.Now().Add(patience); !cond(); e.wait(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// wait lets time pass, where what is asked for is a matter of time.
func (e *env) wait(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.ctx.Done():
		e.must(e.ctx.Err())
	}
}

// ready is how many messages are ready in the queue, or -1 without such a queue.
func (e *env) ready(queue string) int {
	ch := e.channel()
	q, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
	if err != nil {
		return -1
	}
	e.must(ch.Close())
	return q.Messages
}

func (e *env) awaitReady(queue string, n int) {
	if !e.until(func() bool { return e.ready(queue) == n }) {
		e.say("%d ready, never %d", e.ready(queue), n)
	}
}

// shown is a message as probes tell it: its body, a star if it was redelivered, and how often its
// delivery failed where the broker tells.
func shown(d amqp.Delivery) string {
	s := string(d.Body)
	if d.Redelivered {
		s += "*"
	}
	if n, ok := d.Headers["x-delivery-count"]; ok {
		s += fmt.Sprintf(" count=%v", n)
	}
	return s
}

// take gets n messages from the queue on the channel without settling them.
func (e *env) take(ch *amqp.Channel, queue string, n int) []amqp.Delivery {
	var got []amqp.Delivery
	all := e.until(func() bool {
		d, ok, err := ch.Get(queue, false)
		e.must(err)
		if ok {
			got = append(got, d)
		}
		return len(got) == n
	})
	if !all {
		e.must(fmt.Errorf("%d of %d messages", len(got), n))
	}
	return got
}

// drain takes everything that is ready now, in the queue's order, and tells it in one line.
func (e *env) drain(queue string) string {
	ch := e.channel()
	var s []string
	for {
		d, ok, err := ch.Get(queue, true)
		e.must(err)
		if !ok {
			break
		}
		s = append(s, shown(d))
	}
	e.must(ch.Close())
	if len(s) == 0 {
		return "nothing"
	}
	return strings.Join(s, ", ")
}

// drainAfter waits for n messages before it drains: what is requeued comes back a little later.
func (e *env) drainAfter(queue string, n int) string {
	e.awaitReady(queue, n)
	return e.drain(queue)
}

// consumer is a consumer on a channel of its own.
type consumer struct {
	e  *env
	ch *amqp.Channel
	in <-chan amqp.Delivery
}

// consume starts a consumer; the letters of flags are n for no-ack, x for exclusive.
func (e *env) consume(queue, tag string, prefetch int, flags string, args table) *consumer {
	ch := e.channel()
	if prefetch > 0 {
		e.must(ch.Qos(prefetch, 0, false))
	}
	in, err := ch.Consume(queue, tag, strings.Contains(flags, "n"), strings.Contains(flags, "x"), false, false, args)
	e.must(err)
	return &consumer{e: e, ch: ch, in: in}
}

// next is the next delivery.
func (c *consumer) next() amqp.Delivery {
	select {
	case d, ok := <-c.in:
		if !ok {
			c.e.must(errors.New("the consumer was closed"))
		}
		return d
	case <-time.After(patience):
		c.e.must(errors.New("no delivery"))
	}
	panic("unreachable")
}

// several are the next n deliveries in one line.
func (c *consumer) several(n int) string {
	var s []string
	for range n {
		s = append(s, shown(c.next()))
	}
	return strings.Join(s, ", ")
}

// quiet says whether nothing comes for a while; it can only miss something.
func (c *consumer) quiet() string {
	select {
	case d, ok := <-c.in:
		if !ok {
			return "closed"
		}
		return shown(d)
	case <-time.After(300 * time.Millisecond):
		return "nothing"
	}
}
