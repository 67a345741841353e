package amqp

import (
	"context"
	"fmt"
	"io"
	"slices"

	"polylog/protocols/amqp/spec"
)

// content is a message that is being received: after basic.publish come a header frame and
// as many body frames as the size in it asks for (section 4.2.6).
type content struct {
	phase  contentPhase
	method spec.BasicPublish
	props  spec.Properties
	size   int
	body   *buffer // nil: none has come, or the whole body lies in one frame
	upload *upload // what the body has of the memory of all; nil where body is
}

type contentPhase uint8

const (
	contentNone   contentPhase = iota
	contentHeader              // a header has to come
	contentBody                // parts of the body
)

func (t *content) expected() bool { return t.phase != contentNone }

// begin is basic.publish.
func (t *content) begin(m *spec.BasicPublish) { t.phase, t.method = contentHeader, *m }

// endContent forgets the message.
func (ch *channel) endContent() {
	t := &ch.content
	if t.upload != nil {
		ch.conn.announced -= t.size
		ch.conn.srv.memory.release(t.upload)
		t.body.release()
	}
	*t = content{}
}

// contentFrame handles a frame while content is expected.
func (ch *channel) contentFrame(ctx context.Context, h spec.FrameHead, payload []byte) error {
	t := &ch.content
	switch {
	case t.phase == contentHeader && h.Type != spec.FrameHeader:
		return hard(spec.UnexpectedFrame, "expected content header for class %d, got non content header frame instead", spec.BasicClass).of(spec.BasicPublishID)
	case t.phase == contentHeader:
		return ch.contentHeader(ctx, payload)
	case h.Type != spec.FrameBody:
		return hard(spec.UnexpectedFrame, "expected content body, got non content body frame instead").of(spec.BasicPublishID)
	case t.body == nil && len(payload) == t.size: // the usual case
		return ch.received(ctx, payload)
	}
	if err := ch.growBody(ctx, len(payload)); err != nil {
		return err
	}
	copy(ch.fill(len(payload)), payload)
	return ch.bodyGrew(ctx)
}

// contentHeader handles the header.
func (ch *channel) contentHeader(ctx context.Context, payload []byte) error {
	t := &ch.content
	class, size, err := ch.conn.decoder.Header(payload, &t.props)
	switch {
	case err != nil:
		return hard(spec.FrameError, "cannot decode the content header: %v", err).of(spec.BasicPublishID)
	case class != spec.BasicClass:
		return hard(spec.UnexpectedFrame, "expected content header for class %d, got one for class %d instead", spec.BasicClass, class).of(spec.BasicPublishID)
	case size > uint64(ch.conn.srv.opts.MaxMessageBytes):
		ch.endContent()
		return ch.check(soft(spec.PreconditionFailed, "message size %d is larger than configured max size %d", size, ch.conn.srv.opts.MaxMessageBytes), spec.BasicPublishID)
	}
	if err := ch.conn.await(ctx, ch.conn.srv.memory.enter()); err != nil {
		return err
	}
	t.phase, t.size = contentBody, int(size)
	if size == 0 {
		return ch.received(ctx, nil)
	}
	return nil
}

// growBody makes room for n bytes more of the body. What all messages may have is counted by
// what was announced; the memory itself grows with what has come.
func (ch *channel) growBody(ctx context.Context, n int) error {
	t := &ch.content
	have := 0
	if t.body != nil {
		have = len(t.body.b)
	}
	if have+n > t.size {
		return hard(spec.FrameError, "content body of %d bytes is longer than the %d of its header", have+n, t.size).of(spec.BasicPublishID)
	}
	if t.body == nil {
		if err := ch.beginUpload(ctx); err != nil {
			return err
		}
	}
	if before := cap(t.body.b); have+n > before {
		t.body.b = slices.Grow(t.body.b, min(t.size, max(have+n, 2*before))-have)
	}
	return nil
}

// beginUpload waits until there is memory for a message that comes in several frames.
func (ch *channel) beginUpload(ctx context.Context) error {
	t, c := &ch.content, ch.conn
	if most := 2 * c.srv.opts.MaxMessageBytes; c.announced+t.size > most {
		return hard(spec.ResourceError, "more than %d bytes of unfinished messages", most).of(spec.BasicPublishID)
	}
	u := &upload{conn: c, size: int64(t.size)}
	if err := c.await(ctx, c.srv.memory.reserve(u, c.announced > 0)); err != nil {
		return err
	}
	c.announced += t.size
	t.upload, t.body = u, getBuffer(minPooled)
	return nil
}

// fill has the body grow by n bytes, for which there is room.
func (ch *channel) fill(n int) []byte {
	b := ch.content.body.b
	ch.content.body.b = b[:len(b)+n]
	return b[len(b) : len(b)+n]
}

// bodyGrew publishes the message when it is whole.
func (ch *channel) bodyGrew(ctx context.Context) error {
	t := &ch.content
	t.upload.got.Store(int64(len(t.body.b)))
	if len(t.body.b) == t.size {
		return ch.received(ctx, t.body.b)
	}
	return nil
}

// received publishes a message that is whole.
func (ch *channel) received(ctx context.Context, body []byte) error {
	defer ch.endContent()
	if err := ch.conn.flight.room(ctx); err != nil {
		return err
	}
	t := &ch.content
	return ch.check(ch.publish(ctx, &t.method, &t.props, body), spec.BasicPublishID)
}

// bodyChannel is the channel that waits for the body frame h; nil where there is none.
func (c *conn) bodyChannel(h spec.FrameHead) *channel {
	ch := c.channels[h.Channel]
	if h.Type != spec.FrameBody || ch == nil || !ch.isOpen() || ch.content.phase != contentBody || c.isClosing() {
		return nil
	}
	return ch
}

// largeBody reads a body frame straight into the message.
func (c *conn) largeBody(ctx context.Context, ch *channel, h spec.FrameHead) error {
	n := int(h.Size)
	if err := ch.growBody(ctx, n); err != nil {
		return errBroken{asProtocolError(err)} // its bytes are still to come
	}
	if _, err := c.br.Discard(spec.FrameHeadLen); err != nil {
		return err
	}
	if _, err := io.ReadFull(c.br, ch.fill(n)); err != nil {
		return unexpected(err)
	}
	end, err := c.br.ReadByte()
	if err != nil {
		return unexpected(err)
	}
	if end != spec.FrameEnd {
		return errBroken{frameError(h, nil, fmt.Sprintf("{invalid_frame_end_marker,%d}", end))}
	}
	return ch.bodyGrew(ctx)
}
