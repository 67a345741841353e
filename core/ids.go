package core

import (
	"encoding/base64"
	"fmt"
)

// LogIndex is the position of an entry in the raft log. Indexes are dense, start
// at 1 and are the same on every replica. Raft's own entries (no-op, barrier,
// configuration) take indexes too, so an index never serves as a client's offset.
type LogIndex uint64

// Term is a raft term. It doubles as Kafka's leader epoch.
type Term uint64

// QueueID names a light queue for ever: ids are given in Apply from a counter,
// starting at 1, and never used again, so that a command for a deleted queue
// cannot reach its successor.
type QueueID uint64

// Offset is a position in one light queue: dense, from 0, given in Apply.
type Offset int64

// TopicID is a topic's stable identity, a Kafka UUID. The zero value means none.
type TopicID [16]byte

// IsZero reports whether no topic is named.
func (t TopicID) IsZero() bool { return t == TopicID{} }

// String is Kafka's text form of a UUID: 22 characters of URL-safe base64.
func (t TopicID) String() string { return base64.RawURLEncoding.EncodeToString(t[:]) }

// DefaultNamespace is the namespace of clients that name none; AMQP's vhost "/".
const DefaultNamespace = "default"

// Name is what users call an object: a namespace and a name in it.
type Name struct {
	Namespace string
	Name      string
}

// TopicName is name in the default namespace.
func TopicName(name string) Name { return Name{Namespace: DefaultNamespace, Name: name} }

// String is the name alone in the default namespace, else "namespace/name".
func (n Name) String() string {
	if n.Namespace == DefaultNamespace {
		return n.Name
	}
	return fmt.Sprintf("%s/%s", n.Namespace, n.Name)
}
