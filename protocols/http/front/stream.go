package front

import (
	"errors"
	"io"
	"log/slog"
	"runtime/debug"

	"github.com/valyala/fasthttp"
)

// Stream makes body the answer's, which is sent as it comes. A panic in its Read, which fasthttp
// would swallow, is logged as a handler's is, and ends the connection.
func (s *Server) Stream(ctx *fasthttp.RequestCtx, body io.ReadCloser) {
	ctx.Response.SetBodyStream(stream{body, s.opts.Logger, string(ctx.URI().PathOriginal())}, -1)
}

type stream struct {
	io.ReadCloser
	log  *slog.Logger
	path string
}

var errPanicked = errors.New("panic")

// Read implements io.Reader.
func (s stream) Read(b []byte) (n int, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("http stream panicked", "path", s.path, "panic", p, "stack", string(debug.Stack()))
			n, err = 0, errPanicked
		}
	}()
	return s.ReadCloser.Read(b)
}
