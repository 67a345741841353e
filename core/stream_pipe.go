package core

import (
	"context"
	"io"
	"slices"
	"sync"
)

// NewStreamPipe is a Stream within the process: near is the end of whoever opens it,
// and serve, which the caller runs on a goroutine of its own, hands the other end to a
// handler and ends the stream with its error. Nothing is buffered: each Send waits for
// a Recv.
func NewStreamPipe(ctx context.Context) (near Stream, serve func(handler func(Stream) error)) {
	ctx, cancel := context.WithCancel(ctx)
	there, back := newPipeHalf(), newPipeHalf()
	serve = func(handler func(Stream) error) {
		err := io.EOF
		if e := handler(&pipeEnd{ctx: ctx, in: there, out: back}); e != nil {
			err = &Error{Kind: KindOf(e), Msg: e.Error()}
		}
		back.end(err)
		there.end(E(Closed, "the stream has ended"))
		cancel()
	}
	return &pipeEnd{ctx: ctx, in: back, out: there}, serve
}

// pipeHalf is one direction.
type pipeHalf struct {
	messages chan []byte
	ended    chan struct{} // closed: nothing more comes
	once     sync.Once
	err      error // what the receiver gets then; written before ended is closed
}

func newPipeHalf() *pipeHalf {
	return &pipeHalf{messages: make(chan []byte), ended: make(chan struct{})}
}

func (h *pipeHalf) end(err error) {
	h.once.Do(func() {
		h.err = err
		close(h.ended)
	})
}

type pipeEnd struct {
	ctx     context.Context
	in, out *pipeHalf
}

// Send implements Stream.
func (p *pipeEnd) Send(msg []byte) error {
	if len(msg) > MaxStreamMessage {
		return E(TooLarge, "stream message of %d bytes, the limit is %d", len(msg), MaxStreamMessage)
	}
	select {
	case <-p.out.ended:
		return E(Closed, "the stream takes no more messages")
	default:
	}
	select {
	case p.out.messages <- slices.Clone(msg):
		return nil
	case <-p.out.ended:
		return E(Closed, "the stream takes no more messages")
	case <-p.ctx.Done():
		return E(Unavailable, "stream: %v", context.Cause(p.ctx))
	}
}

// Recv implements Stream.
func (p *pipeEnd) Recv() ([]byte, error) {
	select {
	case m := <-p.in.messages:
		return m, nil
	case <-p.in.ended:
		return nil, p.in.err
	case <-p.ctx.Done():
	}
	select {
	case <-p.in.ended: // the stream has ended, and that is why the context has
		return nil, p.in.err
	default:
		return nil, E(Unavailable, "stream: %v", context.Cause(p.ctx))
	}
}

// Context implements Stream.
func (p *pipeEnd) Context() context.Context { return p.ctx }

// CloseSend implements Stream.
func (p *pipeEnd) CloseSend() error {
	p.out.end(io.EOF)
	return nil
}
