package state

import (
	"encoding/binary"

	"polylog/core"
	"polylog/core/wire"
)

// The KV space. Numbers in keys are big-endian, so that keys sort by them; a
// string that something follows has its length in front.
//
//	a r <len, namespace> <user>    what a user may do in a namespace
//	a u <name>                     a user
//	b <key>                        a broker configuration value
//	c <name>                       a counter, u64: the next number to give
//	c 0 <namespace>                how many queues there are, u64, unless there are none
//	d <end u64>                    queues of a deleted topic, up to end: the first of them
//	e <len, namespace> <name>      an exchange
//	e 0 <name>                     a namespace
//	f                              the feature level
//	g <group>                      a group: protocol type, time of last change
//	h <id>                         what leaders have seen of a member
//	i 0 s <exchange u64>           a deleted exchange, and the first binding from it that is left
//	i 0 d <kind> <id u64>          the same of bindings to what was deleted
//	i s <exchange u64> <kind> <id u64> <len, key> <digest>   a binding, below its source
//	i d <kind> <id u64> <exchange u64> <len, key> <digest>   nothing: the same, below its destination
//	k <len, namespace> <name>      a retained message of MQTT, null characters for slashes
//	j e <len, namespace> <name>    what is known of a subscription's endpoint
//	j h <len, namespace> <name>    a hook
//	j o <key>                      what was published once under a key
//	j s <len, namespace> <name>    a subscription
//	j t <due u64> <key>            nothing: when that is forgotten
//	l l <name>                     a lease: who owns the name
//	l n <node>                     a node's session
//	l s <session u64> <name>       nothing: the lease hangs on the session
//	l x <session u64>              an ended session, and from which name on its leases are left
//	m <id>                         a member: what the node said of itself
//	n <len, owner> <queue u64>     nothing: the queue belongs to the owner
//	o <len, group> <queue u64>     a committed offset
//	p <queue u64> <producer u64>   a producer's last batches on a queue
//	q <len, namespace> <name>      the id of a named queue
//	q 0 <queue u64>                nothing: the queue has settled runs to remove
//	r <queue u64> <group>          nothing: the group has an offset on the queue
//	s …                            sessions of MQTT, see mqtt_keys.go
//	t <len, namespace> <name>      a topic
//	u <queue u64>                  a named queue
//	v <queue u64> <group>          what a group has settled of a queue
//	w <queue u64> <offset u64>     the deaths of a message
//	x <queue u64> <offset u64>     the attributes of a message
//	y m …, y q …, y t …            timers of MQTT's messages, of queues, and others: index.Timers
//	z <len, namespace> <operator byte> <name>  a policy
//
// Every value begins with a version byte, but counters and empty ones.
const (
	prefixUser      = 'a'
	prefixBroker    = 'b'
	prefixCounter   = 'c'
	prefixDoomed    = 'd'
	prefixExchange  = 'e'
	prefixLevel     = 'f'
	prefixGroup     = 'g'
	prefixSighting  = 'h'
	prefixBinding   = 'i'
	prefixRetained  = 'k'
	prefixLease     = 'l'
	prefixMember    = 'm'
	prefixOffset    = 'o'
	prefixProducer  = 'p'
	prefixQueueName = 'q'
	prefixByQueue   = 'r'
	prefixMQTT      = 's'
	prefixTopic     = 't'
	prefixQueue     = 'u'
	prefixAcks      = 'v'
	prefixDeath     = 'w'

	prefixOwned      = 'n'
	prefixAttributes = 'x'
	prefixHTTP       = 'j'
	prefixTimer      = 'y'
	prefixPolicy     = 'z'
)

// valueVersion is the first byte of every value.
const valueVersion = 1

func brokerKey(name string) []byte { return append([]byte{prefixBroker}, name...) }

func doomedKey(end core.QueueID) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixDoomed}, uint64(end))
}

func topicKey(n core.Name) []byte {
	return append(wire.AppendString([]byte{prefixTopic}, n.Namespace), n.Name...)
}

func memberKey(id string) []byte { return append([]byte{prefixMember}, id...) }

func sightingKey(id string) []byte { return append([]byte{prefixSighting}, id...) }

func groupKey(group string) []byte { return append([]byte{prefixGroup}, group...) }

func offsetPrefix(group string) []byte { return wire.AppendString([]byte{prefixOffset}, group) }

func offsetKey(group string, q core.QueueID) []byte {
	return binary.BigEndian.AppendUint64(offsetPrefix(group), uint64(q))
}

func byQueuePrefix(q core.QueueID) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixByQueue}, uint64(q))
}

func byQueueKey(q core.QueueID, group string) []byte { return append(byQueuePrefix(q), group...) }

func producerPrefix(q core.QueueID) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixProducer}, uint64(q))
}

func producerKVKey(k producerKey) []byte {
	return binary.BigEndian.AppendUint64(producerPrefix(k.queue), uint64(k.id))
}

// after is the smallest key that is greater than every key with this prefix.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
