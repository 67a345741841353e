package amqp

import (
	"context"
	"time"

	"polylog/protocols/amqp/spec"
)

// channel0 handles a method of the connection itself.
func (c *conn) channel0(ctx context.Context, payload []byte) error {
	m, err := c.decode(payload)
	if err != nil {
		return err
	}
	if err := c.connectionMethod(ctx, m); err != nil {
		if e := asProtocolError(err); e.method == 0 && !isEnd(err) {
			return e.of(m.ID())
		}
		return err
	}
	return nil
}

func (c *conn) connectionMethod(ctx context.Context, m spec.Method) error {
	switch m := m.(type) {
	case *spec.ConnectionStartOk:
		if c.phase == starting {
			return c.startOk(ctx, m)
		}
	case *spec.ConnectionTuneOk:
		if c.phase == tuning {
			return c.tuneOk(m)
		}
	case *spec.ConnectionOpen:
		if c.phase == opening {
			return c.open(ctx, m)
		}
	case *spec.ConnectionUpdateSecret:
		if c.phase == running {
			return c.updateSecret(m)
		}
	case *spec.ConnectionClose:
		return c.closedByClient(ctx)
	case *spec.ConnectionCloseOk:
		return errClientEnded // of nothing, but it is the end
	}
	return hard(spec.ChannelError, "unexpected method in connection state %s", c.phase)
}

// closingMethod handles a method after connection.close was sent: the answer, or the client's
// own close, which came from the other side at the same time.
func (c *conn) closingMethod(payload []byte) error {
	switch spec.PeekMethod(payload) { //nolint:exhaustive // the others are ignored
	case spec.ConnectionCloseOkID:
		return errClientEnded
	case spec.ConnectionCloseID:
		c.out.mu.Lock()
		defer c.out.mu.Unlock()
		c.out.methodLocked(0, &spec.ConnectionCloseOk{})
		return errClientEnded
	}
	return nil
}

// closedByClient is connection.close. What was published before is stored, and what the connection
// holds is given back, before the client knows; what takes longer comes after.
func (c *conn) closedByClient(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, c.srv.opts.CloseTimeout)
	defer cancel()
	_ = c.flight.drained(waiting)
	left := c.endAll(ctx)
	_ = c.awaitEnds(waiting, left)
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	if !c.isClosing() {
		c.out.endLocked(&spec.ConnectionCloseOk{})
	}
	return errClientEnded
}

// updateSecret is connection.update-secret. It is for credentials that expire, which passwords
// do not: as in RabbitMQ, any will do.
func (c *conn) updateSecret(m *spec.ConnectionUpdateSecret) error {
	c.log.Debug("amqp secret updated", "reason", m.Reason)
	c.send(&spec.ConnectionUpdateSecretOk{})
	return nil
}

// stop has the reader end the connection in good order. Anybody may call it.
func (c *conn) stop() {
	_ = c.nc.SetReadDeadline(time.Now()) // wakes the reader
}

// shutDown waits for what was published, and then tells the client that the server stops.
func (c *conn) shutDown(ctx context.Context) error {
	if c.isClosing() {
		return c.nc.SetReadDeadline(time.Time{}) // there is a deadline already
	}
	if !c.opened {
		return errStopping
	}
	ctx, cancel := context.WithTimeout(ctx, c.srv.opts.CloseTimeout)
	defer cancel()
	_ = c.flight.drained(ctx) // what takes longer is not confirmed
	c.cutOffAfter(c.srv.opts.CloseTimeout)
	c.out.mu.Lock()
	c.out.last = hard(spec.ConnectionForced, "broker forced connection closure with reason 'shutdown'").connectionClose()
	c.out.mu.Unlock()
	signal(c.out.wake)
	return c.nc.SetReadDeadline(time.Time{})
}

// block tells the client that it has to wait, if it is one that publishes and would
// understand.
func (c *conn) block(reason string) {
	if c.caps.connectionBlocked && c.blocked.CompareAndSwap(false, true) {
		c.srv.metrics.blocked.Add(1)
		c.send(&spec.ConnectionBlocked{Reason: reason})
	}
}

func (c *conn) unblock() {
	if c.blocked.CompareAndSwap(true, false) {
		c.srv.metrics.blocked.Add(-1)
		c.send(&spec.ConnectionUnblocked{})
	}
}
