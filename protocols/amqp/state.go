package amqp

import "context"

// channelState is what the handlers keep for a channel.
type channelState struct{}

// beginState is called when the channel was opened, on the reader's goroutine.
func (ch *channel) beginState() {}

// endState is called once, when the channel ends for whatever reason, on any goroutine.
func (ch *channel) endState() {}

// connState is what the handlers keep for a connection.
type connState struct{}

// beginState is called when the connection was opened, on the reader's goroutine.
func (c *conn) beginState(context.Context) error { return nil }

// endState is called once, after the channels have ended, if the connection was opened. ctx
// is not cancelled with the connection.
func (c *conn) endState(context.Context) {}
