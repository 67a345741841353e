package core

import "context"

// MaxStreamMessage bounds one message of a Stream, in bytes. What is larger travels in
// pieces, so that what a peer can make a node hold stays small.
const MaxStreamMessage = 1 << 20

// Stream is a conversation with another node: messages in order each way, with flow
// control. One goroutine may send while another receives.
//
// Whoever opened a stream ends it by cancelling the context that it was opened with,
// or reads until Recv gives an error; the other side ends it by returning from its
// handler.
type Stream interface {
	// Send sends one message of up to MaxStreamMessage bytes, and blocks while the
	// other side does not read. When it returns, msg is the caller's again; that says
	// nothing about its arrival. After an error nothing more can be sent; Recv knows
	// why.
	Send(msg []byte) error
	// Recv is the next message, which is the caller's. The error is io.EOF where the
	// other side ended well. Where its handler returned an error, that error's kind and
	// text; where the connection or the node was lost, one of kind Unavailable.
	Recv() ([]byte, error)
	// Context ends with the stream.
	Context() context.Context
	// CloseSend tells the other side that no more messages come: its Recv gives io.EOF.
	CloseSend() error
}
