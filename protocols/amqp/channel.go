package amqp

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"polylog/core"
	"polylog/protocols/amqp/spec"
)

// channel is one channel of a connection.
type channel struct {
	conn *conn
	id   uint16

	phase  atomic.Int32 // of the constants below; written under output.mu
	ending sync.Once

	content content // that is being received; the reader's own

	channelState
}

// A channel is open until it is closed by an error, which the client has to answer, or by the
// client.
const (
	chanOpen    int32 = iota
	chanClosing       // channel.close was sent
	chanClosed
)

// writableLocked reports whether frames of the channel may be queued.
func (ch *channel) writableLocked() bool {
	return ch.phase.Load() == chanOpen && !ch.conn.isClosing()
}

// isOpen reports whether the channel is neither closed nor being closed.
func (ch *channel) isOpen() bool { return ch.phase.Load() == chanOpen }

// channelFrame handles a frame of a channel other than 0.
func (c *conn) channelFrame(ctx context.Context, h spec.FrameHead, payload []byte) error {
	ch := c.channels[h.Channel]
	switch {
	case ch != nil && !ch.isOpen():
		c.closingChannel(ch, h, payload)
		return nil
	case ch != nil && ch.content.expected():
		return ch.contentFrame(ctx, h, payload)
	case h.Type != spec.FrameMethod:
		return hard(spec.UnexpectedFrame, "expected method frame, got non method frame instead")
	default:
		return c.channelMethod(ctx, ch, h.Channel, payload)
	}
}

// channelMethod handles a method frame.
func (c *conn) channelMethod(ctx context.Context, ch *channel, number uint16, payload []byte) error {
	m, err := c.decode(payload)
	if err != nil {
		return err
	}
	_, opens := m.(*spec.ChannelOpen)
	switch {
	case ch == nil && m.ID() == spec.ChannelCloseOkID:
		return nil // both had closed it at once
	case ch == nil && !opens:
		return hard(spec.ChannelError, "expected 'channel.open'").of(m.ID())
	case ch == nil:
		return c.openChannel(ctx, number)
	case opens:
		return hard(spec.ChannelError, "second 'channel.open' seen").of(m.ID())
	}
	return ch.check(ch.method(ctx, m), m.ID())
}

// decode decodes a method.
func (c *conn) decode(payload []byte) (spec.Method, error) {
	m, err := c.decoder.Method(payload)
	switch {
	case errors.Is(err, spec.ErrUnknownMethod):
		return nil, hard(spec.CommandInvalid, "%v", err)
	case errors.Is(err, spec.ErrText):
		return nil, hard(spec.FrameError, "Malformed UTF-8 in shortstr")
	case err != nil && len(payload) < 4:
		return nil, frameError(spec.FrameHead{Type: spec.FrameMethod}, payload, "unknown_frame")
	case err != nil:
		return nil, hard(spec.FrameError, "cannot decode %s", octets(payload[4:])).of(spec.PeekMethod(payload))
	}
	return m, nil
}

func (c *conn) openChannel(_ context.Context, number uint16) error {
	if n := len(c.channels); n >= c.channelMax {
		return hard(spec.NotAllowed, "number of channels opened (%d) has reached the negotiated channel_max (%d)", n, c.channelMax)
	}
	ch := &channel{conn: c, id: number}
	c.out.mu.Lock()
	c.channels[number] = ch
	c.out.mu.Unlock()
	c.srv.metrics.channels.Add(1)
	ch.beginState()
	ch.send(&spec.ChannelOpenOk{})
	return nil
}

// check sees to a handler's error: a soft one closes the channel here, a hard one is
// returned.
func (ch *channel) check(err error, id spec.MethodID) error {
	if err == nil {
		return nil
	}
	e := asProtocolError(err)
	if e.method == 0 {
		e.method = id
	}
	if e.hard {
		return e
	}
	if ch.closeSoft(e) {
		ch.finish()
	}
	return nil
}

// fail closes the channel, or the connection where the error is a hard one. Any goroutine may
// call it. id is the method that failed.
func (ch *channel) fail(ctx context.Context, err error, id spec.MethodID) {
	e := asProtocolError(err)
	if e.method == 0 {
		e.method = id
	}
	switch {
	case e.hard:
		ch.conn.close(e)
	case ch.closeSoft(e):
		ch.conn.async(ctx, func(context.Context) { ch.finish() })
	}
}

// closeSoft sends channel.close. It reports whether the channel was open.
func (ch *channel) closeSoft(e *protocolError) bool {
	o := &ch.conn.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if !ch.writableLocked() {
		return false
	}
	o.methodLocked(ch.id, &spec.ChannelClose{
		ReplyCode: uint16(e.code), ReplyText: e.Error(), ClassID: e.method.Class(), MethodID: e.method.Method(),
	})
	ch.phase.Store(chanClosing)
	ch.conn.srv.metrics.closed(e)
	return true
}

// closingChannel handles a frame of a channel whose close was sent: only the answer counts.
func (c *conn) closingChannel(ch *channel, h spec.FrameHead, payload []byte) {
	ch.endContent()
	if h.Type != spec.FrameMethod {
		return
	}
	switch spec.PeekMethod(payload) { //nolint:exhaustive // the others are ignored
	case spec.ChannelCloseOkID:
		ch.finish()
		c.forget(ch)
	case spec.ChannelCloseID: // both closed at once
		c.out.mu.Lock()
		defer c.out.mu.Unlock()
		if !c.isClosing() {
			c.out.methodLocked(ch.id, &spec.ChannelCloseOk{})
		}
	}
}

// closedByClient is channel.close.
func (ch *channel) closedByClient(ctx context.Context) error {
	ch.finish() // what it held is given back before the client knows
	err := ch.conn.awaitEnds(ctx, ch.mayHaveGone())
	o := &ch.conn.out
	o.mu.Lock()
	if ch.writableLocked() {
		o.methodLocked(ch.id, &spec.ChannelCloseOk{})
	}
	ch.phase.Store(chanClosed)
	o.mu.Unlock()
	ch.conn.forget(ch)
	return err
}

// mayHaveGone are the queues that may have gone with the consumers of a channel that has ended.
func (ch *channel) mayHaveGone() []core.QueueID {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.left
}

func (c *conn) forget(ch *channel) {
	ch.endContent()
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	if c.channels[ch.id] == ch {
		delete(c.channels, ch.id)
	}
}

// finish gives back what the channel holds, once.
func (ch *channel) finish() {
	ch.ending.Do(func() {
		ch.endState()
		ch.conn.srv.metrics.channels.Add(-1)
	})
}
