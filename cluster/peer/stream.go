package peer

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"polylog/core"
)

// kindKey is the trailer that carries a core.Kind, in decimal; the text is the
// status's message.
const kindKey = "polylog-kind"

// maxErrorText bounds the text of an error that travels, in bytes: it has to fit into
// a header block.
const maxErrorText = 4 << 10

// transport is what grpc.ClientStream and grpc.ServerStream have in common.
type transport interface {
	SendMsg(any) error
	RecvMsg(any) error
	Context() context.Context
}

// stream makes a core.Stream of a gRPC stream.
type stream struct {
	t         transport
	trailer   func() metadata.MD // what came with the end; nil on the serving side
	closeSend func() error
}

// Send implements core.Stream.
func (s *stream) Send(msg []byte) error {
	if len(msg) > core.MaxStreamMessage {
		return core.E(core.TooLarge, "stream message of %d bytes, the limit is %d", len(msg), core.MaxStreamMessage)
	}
	err := s.t.SendMsg(msg)
	if errors.Is(err, io.EOF) { // Recv has the reason
		return core.E(core.Closed, "the stream takes no more messages")
	}
	return s.failure(err)
}

// Recv implements core.Stream.
func (s *stream) Recv() ([]byte, error) {
	var msg []byte
	if err := s.t.RecvMsg(&msg); err != nil {
		return nil, s.failure(err)
	}
	return msg, nil
}

// Context implements core.Stream.
func (s *stream) Context() context.Context { return s.t.Context() }

// CloseSend implements core.Stream. On the serving side only the return of the handler
// ends the stream.
func (s *stream) CloseSend() error { return s.closeSend() }

// failure is what a gRPC error means.
func (s *stream) failure(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	st := status.Convert(err)
	if s.trailer != nil {
		if k := s.trailer().Get(kindKey); len(k) == 1 {
			if kind, err := strconv.ParseUint(k[0], 10, 8); err == nil && kind > 0 {
				return &core.Error{Kind: core.Kind(kind), Msg: st.Message()}
			}
		}
	}
	switch st.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable:
		return core.E(core.Unavailable, "stream: %s", st.Message())
	case codes.ResourceExhausted:
		return core.E(core.TooLarge, "stream: %s", st.Message())
	default:
		return core.E(core.Internal, "stream: %s (%s)", st.Message(), st.Code())
	}
}

// encodeError is the status and the trailer that carry a handler's error.
func encodeError(err error) (metadata.MD, error) {
	if err == nil {
		return nil, nil
	}
	text := err.Error()
	text = strings.ToValidUTF8(text[:min(len(text), maxErrorText)], "")
	return metadata.Pairs(kindKey, strconv.Itoa(int(core.KindOf(err)))), status.Error(codes.Unknown, text)
}
