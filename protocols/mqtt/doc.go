// Package mqtt serves MQTT 3.1, 3.1.1 and 5 on the one log: it translates, and keeps what
// dies with a connection.
//
// A PUBLISH becomes a record of the topic that its name is mapped to (mapping.go, record.go)
// and is acknowledged when that is committed (publish.go). What subscribers get comes from
// the log: each node's apply stream (router.Tail) feeds the node's own subscribers
// (fanout.go), so that a message is stored once and crosses the network between nodes once,
// whoever published it by whatever protocol. What must outlive a connection comes from queues
// in the log instead, which the router keeps (durable.go, feed.go).
//
// The codec is that of github.com/mochi-mqtt/server/v2, package packets, as it is. Its
// server is not used: it keeps sessions, queues, retained messages and wills in memory,
// and its connections cost more memory than a million idle devices leave.
//
// Goroutines: one a connection, which reads; one more while there is something to write;
// one a server that feeds subscribers. Locks: Server.mu, subscriptions.mu, session.mu and
// outbox.mu, in this order; none is held while the router is called, but for reads of
// retained messages under session.mu, which say why, and a look at who is a user under Server.mu.
package mqtt
