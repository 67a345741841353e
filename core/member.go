package core

import (
	"hash/fnv"
	"strconv"
)

// Member is a node of the cluster.
type Member struct {
	ID        string
	Addr      string // node-to-node address, host:port
	Voter     bool
	Endpoints map[string]string // listener name (kafka, amqp, …) to advertised host:port
}

// BrokerID is the number that stands for a node id where a protocol wants one, as Kafka's
// does: the id itself where it is a number, else a hash of it, so that every node calls
// it the same.
func BrokerID(member string) int32 {
	if n, err := strconv.ParseInt(member, 10, 32); err == nil && n >= 0 {
		return int32(n)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(member))
	return int32(h.Sum32() & 0x7fffffff)
}
