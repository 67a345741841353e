package core

import (
	"hash/fnv"
	"strconv"
	"time"
)

// Member is a node of the cluster.
type Member struct {
	ID        string
	Addr      string // node-to-node address, host:port
	Voter     bool
	Endpoints map[string]string // listener name (kafka, amqp, …) to advertised host:port
	Away      bool              // leaders have not reached it for a while
}

// Contact is what the leader has from a member.
type Contact struct {
	ID     string
	Held   LogIndex      // committed, and on the member's disk with all before it; 0: not known
	Silent time.Duration // since its last answer, or since the leader leads
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
