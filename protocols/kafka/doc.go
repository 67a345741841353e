// Package kafka speaks Apache Kafka's protocol to its clients, unmodified, on top of
// the router.
//
// Files follow the protocol's own table of contents: NN_name.go serves the API with
// key NN. Around them:
//
//	server.go    listeners, limits, life and graceful end
//	conn.go      one connection: a reader and a writer goroutine, order of responses
//	call.go      one request in flight: how a handler answers, now or later
//	frame.go     frames and request headers
//	buffer.go    pooled buffers
//	budget.go    the memory for requests, shared among the connections
//	validate.go  batches of producers; inspect.go: compressed ones
//	versions.go  the table of APIs: what is advertised, served, and by which handler
//	errors.go    error kinds to Kafka's codes
//
// Requests of one connection take effect in the order they came, as with Kafka: a
// request starts when everything before it is answered, except that a Produce may
// follow unanswered Produces (the log keeps their order), so that a producer's
// pipeline is never empty. Responses leave in the same order.
//
// What the server promises on bad input: no allocation that the bytes received so far
// do not justify, one connection lost at most, and Kafka's own error code wherever the
// protocol has a place for one.
package kafka
