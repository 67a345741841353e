package kafka

import (
	"context"
	"encoding/binary"
	"runtime/debug"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// call is one request in flight. Its handler sees to it that exactly one of reply,
// replyRaw, drop and fail is called, once, from any goroutine, before or after it
// returns; the connection sends the answers in the order of the requests.
type call struct {
	*session
	frameHead
	clientID string

	frame *buffer      // what req aliases; released when the call ends
	req   kmsg.Request // to use again when the call ends; nil: not to be
	hold  hold         // of one of the server's budgets for requests

	answer answerSize // the handler's, until the call is done

	// Guarded by conn.mu.
	done bool
	resp kmsg.Response // nil: nothing is sent, or raw is
	raw  *rawReply
}

// rawReply is an encoded response: everything after the length, in parts.
type rawReply struct {
	parts   []part
	size    int
	release func() // called once, after the write or instead of it; may be nil
}

// reply answers with resp, in the version of the request.
func (c *call) reply(resp kmsg.Response) {
	resp.SetVersion(c.version)
	c.conn.finish(c, resp, nil)
}

// replyVersion answers with resp in another version than the request's.
func (c *call) replyVersion(resp kmsg.Response, version int16) {
	resp.SetVersion(version)
	c.conn.finish(c, resp, nil)
}

// replyRaw answers with what the handler encoded; see appendResponseHeader.
func (c *call) replyRaw(r *rawReply) { c.conn.finish(c, nil, r) }

// drop ends the call without a response, as for Produce with acks=0.
func (c *call) drop() { c.conn.finish(c, nil, nil) }

// fail ends the call by closing its connection: for requests that have no answer.
func (c *call) fail(err error) {
	c.conn.close(err)
	c.drop()
}

// park gives back what the request holds of shared memory, before a wait that may take
// minutes. Byte slices of the decoded request end with it.
func (c *call) park() {
	c.conn.mu.Lock()
	c.conn.pendingBytes -= int(c.hold.held)
	c.conn.mu.Unlock()
	c.frame.release()
	c.frame = nil
	c.hold.release()
}

// unknownTopic is the code for a topic that is gone, in an API that names topics by id
// from a version on.
func (c *call) unknownTopic(byID int16) int16 {
	if c.version >= byID {
		return codeUnknownTopicID
	}
	return codeUnknownTopicOrPartition
}

// background runs fn, which takes over the duty to answer, on its own goroutine. The
// connection waits for it when it closes, having cancelled ctx.
func (c *call) background(ctx context.Context, fn func(ctx context.Context)) {
	c.conn.wg.Go(func() {
		defer c.recover()
		fn(ctx)
	})
}

// recover ends the connection, and nothing else, when a handler panics.
func (c *call) recover() {
	if r := recover(); r != nil {
		c.conn.log.Error("kafka request handler panicked", "api", kmsg.Key(c.key).Name(),
			"version", c.version, "panic", r, "stack", string(debug.Stack()))
		c.fail(errPanic)
	}
}

// appendResponseHeader appends the part of a response between its length and its body.
func appendResponseHeader(dst []byte, correlation int32, flexible bool) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlation))
	if flexible {
		dst = append(dst, 0) // no tagged fields
	}
	return dst
}

// appendResponse appends the whole frame of a response.
func (c *call) appendResponse(dst []byte, resp kmsg.Response) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = appendResponseHeader(dst, c.correlation, resp.IsFlexible() && c.key != kmsg.ApiVersions.Int16())
	dst = resp.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-frameLengthLen))
	return dst
}
