package amqp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"polylog/core"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// reservedPrefix is that of names which only the server gives (section 3.1.4.3 of the
// specification's general part).
const reservedPrefix = "amq."

// inNamespace is a name as the router has it.
func (c *conn) inNamespace(name string) core.Name {
	return core.Name{Namespace: c.namespace, Name: name}
}

// Texts name things as RabbitMQ does: queue 'q' in vhost '/'.

func (c *conn) queueText(name string) string { return c.thing("queue", name) }

func (c *conn) exchangeText(name string) string { return c.thing("exchange", name) }

func (c *conn) thing(kind, name string) string {
	return fmt.Sprintf("%s '%s' in vhost '%s'", kind, name, c.vhost)
}

func (c *conn) noQueue(name string) error {
	return soft(spec.NotFound, "no %s", c.queueText(name))
}

func (c *conn) noExchange(name string) error {
	return soft(spec.NotFound, "no %s", c.exchangeText(name))
}

// stripped is a name without line breaks, which RabbitMQ takes out.
func stripped(name string) string {
	if !strings.ContainsAny(name, "\r\n") {
		return name
	}
	return strings.NewReplacer("\r", "", "\n", "").Replace(name)
}

// serverNamed is a new name, as amq.gen-….
func serverNamed(prefix string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// refused is a router's error in RabbitMQ's words, where it is that the user has no right. thing and
// right, one of configure, write and read, are what it is about if it does not say. Errors of other
// kinds stay.
func (c *conn) refused(err error, right, thing string) error {
	if core.KindOf(err) != core.Denied {
		return err
	}
	if e, ok := errors.AsType[*router.RefusedError](err); ok {
		right, thing = rightFor(e.Op), c.queueText(e.Name.Name)
		if e.Kind == router.ResourceExchange {
			thing = c.exchangeText(cmp.Or(e.Name.Name, "amq.default"))
		}
	}
	return soft(spec.AccessRefused, "%s access to %s refused for user '%s'", right, thing, c.principal.Name)
}

// rightFor is what RabbitMQ calls the right that an operation needs. Looking at something needs any of
// them, and the last that it asks for is configure.
func rightFor(op router.Operation) string {
	switch op { //nolint:exhaustive // the others change something
	case router.OpRead:
		return "read"
	case router.OpWrite:
		return "write"
	}
	return "configure"
}

// mayQueue checks that the user has a right to a queue, or a stream, that there may be: RabbitMQ asks
// for it before it says anything else of the queue.
func (c *conn) mayQueue(op router.Operation, name string) error {
	return c.may(op, router.ResourceQueue, name)
}

// mayExchange is mayQueue for exchanges.
func (c *conn) mayExchange(op router.Operation, name string) error {
	return c.may(op, router.ResourceExchange, name)
}

func (c *conn) may(op router.Operation, kind router.ResourceKind, name string) error {
	err := c.srv.router.Authorize(c.principal, op, router.Resource{Kind: kind, Name: c.inNamespace(name)})
	if err == nil {
		return nil
	}
	thing := c.queueText(name)
	if kind == router.ResourceExchange {
		thing = c.exchangeText(cmp.Or(name, "amq.default"))
	}
	return c.refused(err, rightFor(op), thing)
}

// missing is a router's NotFound error in RabbitMQ's words, where it says what is missing.
func (c *conn) missing(err error) error {
	e, ok := errors.AsType[*router.MissingError](err)
	switch {
	case !ok:
		return err
	case e.Kind == router.ResourceExchange:
		return c.noExchange(e.Name.Name)
	case e.Kind == router.ResourceQueue:
		return c.noQueue(e.Name.Name)
	}
	return err
}

// queue finds a queue. A node that follows asks the leader before it says that there is none.
func (c *conn) queue(ctx context.Context, name string) (*router.Queue, error) {
	n := c.inNamespace(name)
	q, err := c.srv.router.Queue(n)
	if core.KindOf(err) != core.NotFound {
		return q, err
	}
	if err := c.srv.router.Sync(ctx); err != nil {
		return nil, err
	}
	if q, err = c.srv.router.Queue(n); core.KindOf(err) == core.NotFound {
		return nil, c.noQueue(name)
	}
	return q, err
}

// accessible finds a queue that the connection may use: one that is not exclusive to another.
func (c *conn) accessible(ctx context.Context, name string) (*router.Queue, error) {
	q, err := c.queue(ctx, name)
	if err != nil {
		return nil, err
	}
	if q.Owner != "" && q.Owner != c.name {
		return nil, c.locked(name)
	}
	return q, nil
}

func (c *conn) locked(name string) error {
	return soft(spec.ResourceLocked, "cannot obtain exclusive access to locked %s. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.", c.queueText(name))
}

// named is the queue that a method means: the one declared last on the channel for "".
func (ch *channel) named(queue string) (string, error) {
	if queue != "" {
		return queue, nil
	}
	if ch.lastQueue == "" {
		return "", soft(spec.NotFound, "no previously declared queue")
	}
	return ch.lastQueue, nil
}
