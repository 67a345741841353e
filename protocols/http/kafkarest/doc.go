// Package kafkarest serves what Confluent's REST proxy does, for programs that were written for
// it: version 2 of its API but for schemas, and of version 3 what it takes to produce records.
//
// Records go to the log through the router, on any node. A consumer instance belongs to the node
// that made it, as with the original, and is a member of a Kafka group as any Kafka client is: it
// speaks Kafka's protocol to the coordinator (coordinator.go, member.go). Records it reads from its
// own node's log, so an instance holds none: a client that vanishes while it waits loses nothing,
// and what was answered last counts as consumed when the client comes again.
package kafkarest
