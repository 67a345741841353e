package amqp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"polylog/protocols/amqp/spec"
)

// next takes one frame off the connection and does what it asks for. The error ends the
// connection; what the client is told of is no error here.
func (c *conn) next(ctx context.Context) error {
	head, err := c.peekHead(ctx)
	if err != nil {
		return err
	}
	err = c.frame(ctx, head)
	if err == nil || isEnd(err) {
		return err
	}
	if broken, ok := errors.AsType[errBroken](err); ok {
		c.close(broken.protocolError)
		return c.discardAll(broken)
	}
	c.close(asProtocolError(err))
	return nil
}

// peekHead waits for a frame and returns its head without consuming it.
func (c *conn) peekHead(ctx context.Context) (spec.FrameHead, error) {
	if err := c.awaitRoom(ctx); err != nil {
		return spec.FrameHead{}, err
	}
	b, err := c.br.Peek(spec.FrameHeadLen)
	if err != nil {
		if len(b) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return spec.FrameHead{}, err
	}
	return spec.ParseFrameHead(b), nil
}

// frame consumes the frame whose head was peeked.
func (c *conn) frame(ctx context.Context, h spec.FrameHead) error {
	// RabbitMQ allows 8 bytes more than was agreed upon.
	if h.Size > uint32(c.frameMax) {
		return errBroken{frameError(h, nil, fmt.Sprintf("{frame_too_large,%d,%d}", h.Size, c.frameMax-spec.FrameOverhead))}
	}
	whole := spec.FrameOverhead + int(h.Size)
	if whole <= c.br.Size() {
		b, err := c.br.Peek(whole)
		if err != nil {
			return unexpected(err)
		}
		err = c.framePayload(ctx, h, b[spec.FrameHeadLen:])
		if _, e := c.br.Discard(whole); e != nil {
			return e
		}
		return err
	}
	if ch := c.bodyChannel(h); ch != nil {
		return c.largeBody(ctx, ch, h)
	}
	b := make([]byte, h.Size+1)
	if _, err := c.br.Discard(spec.FrameHeadLen); err != nil {
		return err
	}
	if _, err := io.ReadFull(c.br, b); err != nil {
		return unexpected(err)
	}
	return c.framePayload(ctx, h, b)
}

// framePayload handles a frame; b is its payload and the octet after it. b may change when it
// returns.
func (c *conn) framePayload(ctx context.Context, h spec.FrameHead, b []byte) error {
	payload, end := b[:h.Size], b[h.Size]
	if end != spec.FrameEnd {
		return errBroken{frameError(h, payload, fmt.Sprintf("{invalid_frame_end_marker,%d}", end))}
	}
	closing := c.isClosing()
	switch {
	case h.Type == spec.FrameHeartbeat && h.Channel == 0:
		return nil
	case h.Type < spec.FrameMethod || h.Type > spec.FrameBody && h.Type != spec.FrameHeartbeat:
		return frameError(h, payload, "unknown_frame")
	case closing && (h.Channel != 0 || h.Type != spec.FrameMethod):
		return nil
	case h.Type == spec.FrameHeartbeat:
		return unexpectedFrame(h, payload)
	case h.Channel == 0 && h.Type != spec.FrameMethod:
		return unexpectedFrame(h, payload)
	case h.Channel == 0 && closing:
		return c.closingMethod(payload)
	case h.Channel == 0:
		return c.channel0(ctx, payload)
	case !c.opened:
		return hard(spec.ChannelError, "a frame on channel %d before connection.open", h.Channel)
	}
	return c.channelFrame(ctx, h, payload)
}

// discardAll reads to the end without looking, after what cannot be made out: the client
// is to get the reason before its connection is reset.
func (c *conn) discardAll(why error) error {
	c.cutOffAfter(brokenGrace)
	_, _ = io.Copy(io.Discard, c.br)
	return why
}

// brokenGrace is how long it has for that: its answer cannot be made out.
const brokenGrace = time.Second

// unexpected is err for a stream that ends inside a frame.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
