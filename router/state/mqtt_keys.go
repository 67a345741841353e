package state

import (
	"encoding/binary"
	"strconv"
	"strings"

	"polylog/core"
	"polylog/core/wire"
)

// What MQTT's sessions have in the KV space: which kind, and then the rest. What belongs to a
// session is below its number, so that a session that ends leaves nothing to its client's next.
const (
	mqttSession      = 'c' // <len, namespace> <client id>: the session
	mqttEnded        = 'e' // <session u64>: the namespace; what is below the number is to be swept
	mqttFilter       = 'f' // <len, namespace> <len, filter> <kind byte> <queue u64>: a filter's queue
	mqttShare        = 'g' // <len, namespace> <len, filter> <share name>: a group of shared subscriptions
	mqttNames        = 'n' // <topic id>: nothing: its records may have any topic name
	mqttSubscription = 'u' // <session u64> <len, share name> <filter>: a subscription
	mqttReceived     = 'r' // <session u64> <packet id u16>: a QoS 2 publish without its PUBREL
	mqttAssigned     = 'a' // <session u64> <packet id u16>: what was sent with it
	mqttReleased     = 'p' // <session u64> <packet id u16>: nothing: PUBREL is owed
	mqttWill         = 'w' // <len, namespace> <client id>: the will of a client's connection, the newest one
	mqttDelayed      = 'd' // <id u64>: a publish that waits for its time
	mqttWeight       = 'b' // <queue u64>: how many bytes the messages of a filter's queue have, where that is bounded
)

// ofSession are the kinds of keys below a session's number that go with it.
var ofSession = [...]byte{mqttAssigned, mqttReleased, mqttReceived, mqttSubscription}

func mqttKey(kind byte) []byte { return append(make([]byte, 0, 32), prefixMQTT, kind) }

func mqttSessionPrefix(namespace string) []byte {
	return wire.AppendString(mqttKey(mqttSession), namespace)
}

func mqttSessionKey(n core.Name) []byte { return append(mqttSessionPrefix(n.Namespace), n.Name...) }

func mqttWillKey(n core.Name) []byte {
	return append(wire.AppendString(mqttKey(mqttWill), n.Namespace), n.Name...)
}

func mqttNumberKey(kind byte, number uint64) []byte {
	return binary.BigEndian.AppendUint64(mqttKey(kind), number)
}

func mqttPacketKey(kind byte, number uint64, id uint16) []byte {
	return binary.BigEndian.AppendUint16(mqttNumberKey(kind, number), id)
}

// packetOf is the packet id of a key that has one.
func packetOf(k []byte) uint16 { return binary.BigEndian.Uint16(k[len(k)-2:]) }

func mqttSubscriptionKey(number uint64, share, filter string) []byte {
	return append(wire.AppendString(mqttNumberKey(mqttSubscription, number), share), filter...)
}

func mqttNamesKey(id core.TopicID) []byte { return append(mqttKey(mqttNames), id[:]...) }

// mqttLeasePrefix begins the names of leases of client ids.
const mqttLeasePrefix = "mqtt:"

// MQTTLease is the name of the lease that makes a node the owner of an MQTT client id.
func MQTTLease(client core.Name) string {
	return mqttLeasePrefix + strconv.Itoa(len(client.Namespace)) + ":" + client.Namespace + client.Name
}

// MQTTClientOf is the client id that a lease's name is about; false for other leases.
func MQTTClientOf(lease string) (client core.Name, ok bool) {
	rest, ok := strings.CutPrefix(lease, mqttLeasePrefix)
	if !ok {
		return client, false
	}
	number, rest, ok := strings.Cut(rest, ":")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 0 || n > len(rest) {
		return client, false
	}
	client = core.Name{Namespace: rest[:n], Name: rest[n:]}
	return client, client.Name != "" && MQTTLease(client) == lease
}
