package httpd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"polylog/core"
)

// Bodies are read by the handlers, not by fasthttp: after path, method and length are
// looked at, and within a budget that all connections share.

const (
	// maxDefinition bounds bodies that describe something, in bytes.
	maxDefinition = 256 << 10
	// bodyRate is how fast a body has to come at least, in bytes/s, beyond readTimeout.
	bodyRate = 64 << 10
	// drainTime and drainBytes bound how much of a refused body is read, so that its
	// client, which sends before it reads, gets to see why.
	drainTime  = 2 * time.Second
	drainBytes = 256 << 20
	// firstRead is read before more memory is asked for, where the length is not said.
	firstRead = 32 << 10
)

// body reads the request's body, limit bytes at most. It is the call's until that ends:
// whoever keeps bytes of it copies them.
func (c *call) body(limit int) ([]byte, error) {
	n := c.Request.Header.ContentLength()
	if n == -1 && bothLengths(c.Request.Header.RawHeaders()) {
		c.SetConnectionClose()
		return nil, &problem{Status: 400, Code: "bad_request", Detail: "both Content-Length and Transfer-Encoding are given"}
	}
	if n > limit {
		return nil, c.tooLarge(limit)
	}
	stream := c.RequestBodyStream()
	if stream == nil {
		return c.PostBody(), nil
	}
	if n >= 0 {
		if err := c.srv.bodies.Acquire(c.ctx, int64(n)); err != nil {
			return nil, errBodiesFull
		}
		c.held += int64(n)
		b := make([]byte, n)
		if _, err := io.ReadFull(stream, b); err != nil {
			return nil, c.unread(err)
		}
		return b, nil
	}
	b, err := c.growingBody(stream, limit)
	switch {
	case err != nil:
		return nil, err
	case len(b) > limit:
		return nil, c.tooLarge(limit)
	}
	return b, nil
}

var errBodiesFull = core.E(core.Unavailable, "the bodies of other requests fill http-request-memory")

// growingBody reads a body whose length is not said: all of it, or more than limit bytes.
// It does not wait for memory, since it holds some.
func (c *call) growingBody(stream io.Reader, limit int) ([]byte, error) {
	var b []byte
	for {
		if len(b) == cap(b) {
			size := min(max(2*cap(b), firstRead), limit+1)
			if !c.srv.bodies.TryAcquire(int64(size - cap(b))) {
				return nil, errBodiesFull
			}
			c.held += int64(size - cap(b))
			b = append(make([]byte, 0, size), b...)[:len(b):size]
		}
		n, err := stream.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case err == io.EOF || len(b) > limit:
			return b, nil
		case err != nil:
			return nil, c.unread(err)
		}
	}
}

// unread is why a body could not be read.
func (c *call) unread(err error) error {
	c.SetConnectionClose()
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return &problem{Status: 408, Code: "too_slow", Detail: "the body did not come in time", Retryable: true}
	}
	return &problem{Status: 400, Code: "bad_request", Detail: "the body is incomplete or malformed"}
}

// tooLarge refuses a body, after reading what its client is likely to send anyway.
func (c *call) tooLarge(limit int) error {
	c.SetConnectionClose()
	drain(c.RequestCtx)
	return core.E(core.TooLarge, "the body has more than %d bytes", limit)
}

// drain reads a refused body, up to a bound.
func drain(ctx *fasthttp.RequestCtx) {
	stream := ctx.RequestBodyStream()
	if stream == nil || ctx.SetReadDeadline(time.Now().Add(drainTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, stream, drainBytes) // what cannot be read needs no reading
}

// bothLengths reports whether raw headers have a Content-Length beside the chunked encoding.
func bothLengths(raw []byte) bool {
	for line := range bytes.Lines(raw) {
		name, _, _ := bytes.Cut(line, []byte(":"))
		if strings.EqualFold(string(bytes.TrimSpace(name)), fasthttp.HeaderContentLength) {
			return true
		}
	}
	return false
}

// definition reads a body that describes something into v, which is a pointer to a struct.
// An empty body leaves it as it is.
func (c *call) definition(v any) error {
	b, err := c.body(maxDefinition)
	if err != nil || len(bytes.TrimSpace(b)) == 0 {
		return err
	}
	return decodeJSON(b, v)
}

// decodeJSON decodes a whole JSON text. Fields that v does not have are refused: they would
// be a client's mistake that nobody notices.
func decodeJSON(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return nil
		}
		return badJSON(fmt.Sprintf("there is more after the end at byte %d", d.InputOffset()))
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return badJSON(fmt.Sprintf("byte %d: %v", syntax.Offset, syntax))
	}
	if typed, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return badJSON(fmt.Sprintf("byte %d: %s cannot be a %s", typed.Offset, typed.Field, typed.Value))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return badJSON(fmt.Sprintf("byte %d: it ends in the middle", len(b)))
	}
	return badJSON(strings.TrimPrefix(err.Error(), "json: "))
}

func badJSON(detail string) error {
	return &problem{Status: 400, Code: "bad_json", Detail: "the body is not the JSON that is wanted: " + detail}
}
