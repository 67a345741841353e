package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// read takes requests off the connection until it ends.
func (c *conn) read(ctx context.Context) error {
	for {
		switch l := &c.session.login; {
		case l.refused != nil:
			c.drain(ctx)
			return l.refused
		case l.raw:
			if err := c.readToken(ctx); err != nil {
				return err
			}
			continue
		}
		n, err := c.awaitFrame()
		if err != nil {
			return err
		}
		// From here on the client must keep the bytes coming.
		if err := c.setReadDeadline(frameLengthLen+frameHeadLen, c.srv.opts.FrameTimeout); err != nil {
			return err
		}
		head, err := peekFrameHead(c.br)
		if err != nil {
			return err
		}
		a := c.srv.apis.lookup(head.key)
		if err := c.admit(a, head, n); err != nil {
			return err
		}
		cl := &call{session: &c.session, frameHead: head}
		if cl.frame, err = c.readFrame(ctx, a, cl, n); err != nil {
			cl.end()
			return err
		}
		if err := c.start(ctx, a, cl); err != nil {
			return err
		}
	}
}

// readFrame reads what the call's frame of n bytes has after its head, taking memory
// for it from the server's budget as it arrives.
func (c *conn) readFrame(ctx context.Context, a *api, cl *call, n int) (*buffer, error) {
	b := c.srv.requestBytes
	if n <= smallFrame {
		b = c.srv.smallRequestBytes
		// A frame that fits into the read buffer takes nothing before it is here.
		whole := frameLengthLen + min(n, readBufferSize-frameLengthLen)
		if err := c.setReadDeadline(whole, c.srv.opts.FrameTimeout); err != nil {
			return nil, err
		}
		if _, err := c.br.Peek(whole); err != nil {
			return nil, unexpected(err)
		}
	}
	cl.hold = b.hold(a.weight(n))
	return readFrame(c.br, n, func(grow, want int, last bool) error {
		if grow > 0 {
			weight := a.weight(grow)
			if last {
				weight = 0 // all that is left
			}
			if err := cl.hold.take(ctx, weight); err != nil {
				return err
			}
		}
		return c.setReadDeadline(want, c.srv.opts.FrameTimeout)
	})
}

// smallFrame is the largest frame that has its memory from a budget of its own, so that
// it never waits for large ones.
const smallFrame = 64 << 10

// awaitFrame waits for the next frame's length. A connection with requests in flight is
// not idle, however long they take.
func (c *conn) awaitFrame() (int, error) {
	for {
		patience := c.srv.opts.IdleTimeout
		if c.session.mustLogIn() {
			patience = min(patience, loginTimeout)
		}
		if err := c.setReadDeadline(frameLengthLen, patience); err != nil {
			return 0, err
		}
		n, err := peekFrameLength(c.br, c.srv.opts.MaxRequestBytes)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if c.srv.isStopping() {
			return 0, errStopping
		}
		c.mu.Lock()
		idle := len(c.pending) == 0
		c.mu.Unlock()
		if idle {
			return 0, errIdle
		}
	}
}

// setReadDeadline sets the deadline for the next n bytes, unless they are here already:
// in a pipeline of small requests that saves two looks at the clock for each. When the
// server is stopping, its own deadline (now) must win.
func (c *conn) setReadDeadline(n int, d time.Duration) error {
	if c.br.Buffered() < n {
		if err := c.nc.SetReadDeadline(time.Now().Add(d)); err != nil {
			return err
		}
	}
	if c.srv.isStopping() {
		return errStopping
	}
	return nil
}

// admit decides by its first bytes whether a frame is worth reading.
func (c *conn) admit(a *api, head frameHead, n int) error {
	if a == nil || !a.serves(head.version) && a.key != kmsg.ApiVersions {
		return fmt.Errorf("%w: %s (key %d) version %d", errUnsupported, kmsg.NameForKey(head.key), head.key, head.version)
	}
	if err := c.session.admits(a.key); err != nil {
		return err
	}
	limit := c.srv.opts.MaxOtherRequestBytes
	switch {
	case c.session.mustLogIn():
		limit = firstRequestBytes
	case a.is(hasRecords):
		limit = c.srv.opts.MaxRequestBytes
	case !c.session.valid:
		limit = firstRequestBytes
	}
	if n > limit {
		return fmt.Errorf("%w: %d bytes of %s, want at most %d", errFrameLength, n, kmsg.NameForKey(head.key), limit)
	}
	return nil
}

// firstRequestBytes bounds a connection's first frame unless it is a Produce, which old
// clients send without any negotiation.
const firstRequestBytes = 64 << 10

// start decodes a request and hands it to its handler when its turn has come.
func (c *conn) start(ctx context.Context, a *api, cl *call) error {
	version := cl.version
	if !a.serves(version) { // only ApiVersions comes here: its answer needs the header alone
		version = 0
	}
	req := a.request(version)
	clientID, body, err := splitHeader(cl.frame.b, req.IsFlexible() && a.serves(cl.version))
	if err != nil {
		cl.end()
		return err
	}
	cl.clientID = string(clientID)
	if a.serves(cl.version) {
		if err := a.decode(req, body); err != nil {
			cl.end()
			return fmt.Errorf("decode %s version %d: %w", kmsg.NameForKey(cl.key), cl.version, err)
		}
	}
	switch {
	case a.is(hasRecords):
		cl.req = req
	case !a.is(keepsFrame):
		cl.frame.release()
		cl.frame = nil
	}
	c.session.valid = true
	c.session.note(cl.clientID)
	c.srv.metrics.requests[a.key].Add(1)
	if err := c.enqueue(ctx, cl, a.key == kmsg.Produce); err != nil {
		cl.end()
		return err
	}
	func() {
		defer cl.recover()
		a.handle(ctx, cl, req)
	}()
	return nil
}

// enqueue waits for the call's turn and appends it to the pending calls.
func (c *conn) enqueue(ctx context.Context, cl *call, produce bool) error {
	for {
		c.mu.Lock()
		n := len(c.pending)
		switch {
		case c.closed:
			c.mu.Unlock()
			return context.Canceled
		case n == 0, produce && c.produceOnly && n < c.srv.opts.MaxInFlight && c.pendingBytes < c.srv.opts.MaxInFlightBytes:
			c.produceOnly = produce && (n == 0 || c.produceOnly)
			c.pending = append(c.pending, cl)
			c.pendingBytes += int(cl.hold.held)
			c.mu.Unlock()
			return nil
		}
		c.mu.Unlock()
		select {
		case <-c.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
