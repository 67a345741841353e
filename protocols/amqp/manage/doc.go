// Package manage is RabbitMQ's management API, where tools use it: rabbitmqadmin, exporters,
// Terraform, health probes. docs/management.md says what is there, and what is not.
//
// What changes something, publishes or gets goes through a connection in memory to the AMQP server
// (client.go), as RabbitMQ's own does: so arguments, rights and texts of errors are AMQP's. What
// lists reads the router's state, in pages: a listing costs what it shows (list.go).
//
// A request's way: serve (server.go) finds the handler by the path as it was sent, checks who asks,
// and hands it a call; what the handler returns becomes JSON, and its error RabbitMQ's form of one
// (refusal.go).
package manage
