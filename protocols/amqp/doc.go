// Package amqp speaks AMQP 0-9-1 with RabbitMQ's extensions to its clients, unmodified, on
// top of the router.
//
// Files:
//
//	server.go     listeners, limits, life and graceful end; metrics.go
//	conn.go       one connection: its goroutines and how it ends
//	handshake.go  from the protocol header to connection.open; auth.go: who it is
//	channel0.go   class connection afterwards; vhost.go: virtual hosts
//	reader.go     frames off the socket; content.go: messages out of frames
//	channel.go    a channel's life; dispatch.go: its methods to their handlers
//	output.go     frames to the socket; writer.go: the goroutine that sends them
//	flight.go     bounds for what is published and not settled yet
//	heart.go      heartbeats and time-outs, without timers
//	errors.go     soft and hard errors, with RabbitMQ's codes and texts
//	stream.go     topics as queues; replyto.go: direct reply-to
//	class_*.go    the handlers, a file a class; state.go: what they keep
//	spec          methods, content headers, tables, frames
//
// A connection has two goroutines. The reader's takes frames and runs the handlers, which
// may wait for the log, so that everything on a connection takes effect in the order in which
// it came; publishes are proposed without waiting. The writer's sends what was queued, all of
// it at once, and asks for deliveries when there is room for them: a client that does not
// read gets no more.
//
// What the server promises on bad input: memory only for bytes that came, one connection or
// channel lost at most, and RabbitMQ's own code and text wherever there is a place for one.
//
// Lock order: channel.mu, then output.mu. No lock of this package is held while the router
// is called, unless a comment says so.
package amqp
