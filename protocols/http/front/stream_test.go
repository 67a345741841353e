package front

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// panicking is a body of two reads, the second of which panics.
type panicking struct{ reads, closed int }

func (p *panicking) Read(b []byte) (int, error) {
	if p.reads++; p.reads > 1 {
		panic("out of order")
	}
	return copy(b, "first"), nil
}

func (p *panicking) Close() error { p.closed++; return nil }

// TestStreamPanics: a panic behind the handler is logged, its client sees that the answer is not
// whole, and the body is closed.
func TestStreamPanics(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	body := &panicking{}
	var s *Server
	s = New(Options{Listener: ln, Logger: slog.New(slog.NewTextHandler(&log, nil)), Handle: func(ctx *fasthttp.RequestCtx) error {
		s.Stream(ctx, body)
		return nil
	}})
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	resp, err := http.Get("http://" + ln.Addr().String() + "/here")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	if err == nil {
		t.Errorf("the answer ends well: %q", got)
	}
	_ = resp.Body.Close()
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if text := log.String(); !strings.Contains(text, "http stream panicked") || !strings.Contains(text, "path=/here") || !strings.Contains(text, "out of order") {
		t.Errorf("the log says %q", text)
	}
	if body.closed == 0 {
		t.Error("the body was not closed")
	}
}
