package amqp

import (
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

// refused is a router's error about a thing, where the right that was asked for is one of
// configure, write and read. Errors of other kinds stay.
func (c *conn) refused(err error, right, thing string) error {
	if core.KindOf(err) == core.Denied {
		return soft(spec.AccessRefused, "%s access to %s refused for user '%s'", right, strings.ReplaceAll(thing, "exchange ''", "exchange 'amq.default'"), c.principal.Name)
	}
	return err
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
