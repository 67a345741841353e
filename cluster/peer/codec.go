package peer

import (
	"google.golang.org/grpc/mem"

	"polylog/core"
)

// codec passes messages through gRPC as they are. Send takes a []byte, which is copied,
// receive a *[]byte.
type codec struct{}

// Name implements encoding.CodecV2.
func (codec) Name() string { return "raw" }

// Marshal implements encoding.CodecV2.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, core.E(core.Internal, "cannot send a %T", v)
	}
	return mem.BufferSlice{mem.Copy(b, mem.DefaultBufferPool())}, nil
}

// Unmarshal implements encoding.CodecV2.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return core.E(core.Internal, "cannot receive into a %T", v)
	}
	*b = data.Materialize()
	return nil
}
