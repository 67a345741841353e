package front

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/semaphore"

	"polylog/core"
)

// Bodies are read by the handlers, not by fasthttp: after path, method and length are
// looked at, and within a budget that all connections share.

const (
	// bodyRate is how fast a body has to come at least, in bytes/s, beyond readTimeout.
	bodyRate = 64 << 10
	// drainTime and drainBytes bound how much of a refused body is read, so that its
	// client, which sends before it reads, gets to see why.
	drainTime  = 2 * time.Second
	drainBytes = 256 << 20
	// firstRead is read before more memory is asked for, where the length is not said.
	firstRead = 32 << 10
)

// Budget is what a call holds of the memory for bodies, until Release.
type Budget struct {
	bodies *semaphore.Weighted
	hasty  bool // does not wait for memory
	held   int64
}

// Budget begins a call's.
func (s *Server) Budget() Budget { return Budget{bodies: s.bodies} }

// StrangerBudget begins that of a call by somebody who has not shown yet who they are: the body is signed. It is a part of
// its own, so that bodies that never come keep no memory from others, and it does not wait for them.
func (s *Server) StrangerBudget() Budget { return Budget{bodies: s.strangers, hasty: true} }

// Take holds n bytes, if they are free.
func (b *Budget) Take(n int64) bool {
	ok := b.bodies.TryAcquire(n)
	if ok {
		b.held += n
	}
	return ok
}

// hold is Take where there is time to wait.
func (b *Budget) hold(wait context.Context, n int64) bool {
	if b.hasty {
		return b.Take(n)
	}
	if b.bodies.Acquire(wait, n) != nil {
		return false
	}
	b.held += n
	return true
}

// Release gives back what is held.
func (b *Budget) Release() {
	b.bodies.Release(b.held)
	b.held = 0
}

// Body reads the request's body, limit bytes at most. It is the call's until Release:
// whoever keeps bytes of it copies them. wait ends the waiting for memory.
func (b *Budget) Body(wait context.Context, ctx *fasthttp.RequestCtx, limit int) ([]byte, error) {
	n := ctx.Request.Header.ContentLength()
	if BothLengths(ctx) {
		ctx.SetConnectionClose()
		return nil, &Problem{Status: 400, Code: "bad_request", Detail: "both Content-Length and Transfer-Encoding are given"}
	}
	if n > limit {
		return nil, tooLarge(ctx, limit)
	}
	stream := ctx.RequestBodyStream()
	if stream == nil {
		return ctx.PostBody(), nil
	}
	if n >= 0 {
		if !b.hold(wait, int64(n)) {
			return nil, errBodiesFull
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(stream, body); err != nil {
			return nil, unread(ctx, err)
		}
		return body, nil
	}
	body, err := b.growingBody(ctx, stream, limit)
	switch {
	case err != nil:
		return nil, err
	case len(body) > limit:
		return nil, tooLarge(ctx, limit)
	}
	return body, nil
}

var errBodiesFull = core.E(core.Unavailable, "the bodies of other requests fill http-request-memory")

// growingBody reads a body whose length is not said: all of it, or more than limit bytes.
// It does not wait for memory, since it holds some.
func (b *Budget) growingBody(ctx *fasthttp.RequestCtx, stream io.Reader, limit int) ([]byte, error) {
	var body []byte
	for {
		if len(body) == cap(body) {
			size := min(max(2*cap(body), firstRead), limit+1)
			if !b.Take(int64(size - cap(body))) {
				return nil, errBodiesFull
			}
			body = append(make([]byte, 0, size), body...)[:len(body):size]
		}
		n, err := stream.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF || len(body) > limit:
			return body, nil
		case err != nil:
			return nil, unread(ctx, err)
		}
	}
}

// unread is why a body could not be read.
func unread(ctx *fasthttp.RequestCtx, err error) error {
	ctx.SetConnectionClose()
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return &Problem{Status: 408, Code: "too_slow", Detail: "the body did not come in time", Retryable: true}
	}
	return &Problem{Status: 400, Code: "bad_request", Detail: "the body is incomplete or malformed"}
}

// tooLarge refuses a body, after reading what its client is likely to send anyway.
func tooLarge(ctx *fasthttp.RequestCtx, limit int) error {
	ctx.SetConnectionClose()
	Drain(ctx)
	return core.E(core.TooLarge, "the body has more than %d bytes", limit)
}

// Drain reads a refused body, up to a bound.
func Drain(ctx *fasthttp.RequestCtx) {
	stream := ctx.RequestBodyStream()
	if stream == nil || ctx.SetReadDeadline(time.Now().Add(drainTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, stream, drainBytes) // what cannot be read needs no reading
}

// BothLengths reports whether a request has a Content-Length beside the chunked encoding: what one
// reader takes for its end, another one may not.
func BothLengths(ctx *fasthttp.RequestCtx) bool {
	if ctx.Request.Header.ContentLength() != -1 {
		return false
	}
	for line := range bytes.Lines(ctx.Request.Header.RawHeaders()) {
		name, _, _ := bytes.Cut(line, []byte(":"))
		if strings.EqualFold(string(bytes.TrimSpace(name)), fasthttp.HeaderContentLength) {
			return true
		}
	}
	return false
}

// DecodeJSON decodes a whole JSON text. Fields that v does not have are refused: they would
// be a client's mistake that nobody notices.
func DecodeJSON(b []byte, v any) error {
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
	return &Problem{Status: 400, Code: "bad_json", Detail: "the body is not the JSON that is wanted: " + detail}
}
