package router

import (
	"slices"
	"strings"
)

// brokerKeys are the keys of the broker itself, by name. Those with ReadOnly say
// how this broker is, in the words that Kafka's tools look for; the others can be
// set at run time and hold for the whole cluster.
var brokerKeys = slices.SortedFunc(slices.Values(append(topicDefaults(), ownBrokerKeys...)),
	func(a, b ConfigKey) int { return strings.Compare(a.Name, b.Name) })

// topicDefaults are the broker keys that are nothing but the default of one topic key, and
// as it is otherwise.
func topicDefaults() (keys []ConfigKey) {
	for _, k := range topicKeys {
		if len(k.Synonyms) != 1 || k.Synonyms[0].Scale != 1 {
			continue
		}
		d := ConfigKey{Name: k.Synonyms[0].Name, Type: k.Type, Default: k.Default, check: k.check, Doc: "Default of " + k.Name + "."}
		if d.Name == k.Name {
			d.Doc = "Default of the topic key of that name."
		}
		keys = append(keys, d)
	}
	return keys
}

var ownBrokerKeys = []ConfigKey{
	{
		Name: "advertised.listeners", Type: TypeString, ReadOnly: true, Unset: true, Instead: "kafka-advertise",
		Doc: "The addresses that clients are told.",
	},
	{
		Name: "auto.create.topics.enable", Type: TypeBoolean, Default: "true",
		Doc: "Whether asking for a topic's metadata creates it.",
	},
	{
		Name: "broker.id", Type: TypeInt, Default: "-1", ReadOnly: true, Instead: "node-id",
		Doc: "The number that clients know this node by.",
	},
	{
		Name: "broker.rack", Type: TypeString, ReadOnly: true, Unset: true,
		Doc: "Where the node stands.",
	},
	{
		Name: "connections.max.idle.ms", Type: TypeLong, Default: "600000",
		Doc: "After how many milliseconds without a request a connection is closed.",
	},
	{
		Name: "default.replication.factor", Type: TypeInt, Default: "1", check: atLeast(1),
		Doc: "The replication factor that new topics are said to have. Every node has everything, whatever is set.",
	},
	{
		Name: "delete.topic.enable", Type: TypeBoolean, Default: "true", ReadOnly: true, Static: true,
		Doc: "Whether topics can be deleted.",
	},
	{
		Name: "fetch.max.bytes", Type: TypeInt, Default: "57671680", check: atLeast(1024),
		Doc: "The most that one fetch is answered with, in bytes.",
	},
	{
		Name: "group.consumer.heartbeat.interval.ms", Type: TypeInt, Default: "5000", check: atLeast(1),
		Doc: "How often members of consumer groups are asked to report, in milliseconds.",
	},
	{
		Name: "group.consumer.max.size", Type: TypeInt, Default: "2147483647", check: atLeast(1),
		Doc: "The most members of a consumer group of the newer protocol.",
	},
	{
		Name: "group.consumer.session.timeout.ms", Type: TypeInt, Default: "45000", check: atLeast(1),
		Doc: "After how many milliseconds of silence a member of a consumer group of the newer protocol is dropped.",
	},
	{
		Name: "group.coordinator.rebalance.protocols", Type: TypeList, Default: "classic,consumer", ReadOnly: true,
		Doc: "The group protocols that are spoken.",
	},
	{
		Name: "group.initial.rebalance.delay.ms", Type: TypeInt, Default: "3000", check: atLeast(0),
		Doc: "How long an empty group waits for more members before its first rebalance, in milliseconds.",
	},
	{
		Name: "group.max.session.timeout.ms", Type: TypeInt, Default: "1800000", check: atLeast(1),
		Doc: "The longest session time-out that members of classic groups may ask for.",
	},
	{
		Name: "group.max.size", Type: TypeInt, Default: "2147483647", check: atLeast(1),
		Doc: "The most members of a classic group.",
	},
	{
		Name: "group.min.session.timeout.ms", Type: TypeInt, Default: "6000", check: atLeast(1),
		Doc: "The shortest session time-out that members of classic groups may ask for.",
	},
	{
		Name: "inter.broker.protocol.version", Type: TypeString, Default: "4.1-IV1", ReadOnly: true,
		Doc: "Shown to tools that look for it.",
	},
	{
		Name: "listeners", Type: TypeString, ReadOnly: true, Unset: true, Instead: "kafka-listen",
		Doc: "The addresses that are listened on.",
	},
	{Name: "log.cleaner.enable", Type: TypeBoolean, Default: "true", ReadOnly: true, Doc: "Shown to tools that look for it: there is no compaction yet."},
	{Name: "log.dirs", Type: TypeList, ReadOnly: true, Unset: true, Instead: "data-dir", Doc: "The data directory."},
	{Name: "log.flush.interval.ms", Type: TypeLong, Unset: true, Doc: "Default of flush.ms."},
	{Name: "log.flush.scheduler.interval.ms", Type: TypeLong, Default: maxLong, Doc: "Default of flush.ms where log.flush.interval.ms is not set."},
	{
		Name: "log.retention.check.interval.ms", Type: TypeLong, Default: "300000", check: atLeast(1),
		Doc: "How often the leader looks for records to drop, in milliseconds.",
	},
	{Name: "log.retention.hours", Type: TypeInt, Default: "168", Doc: "Default of retention.ms, in hours; log.retention.minutes and log.retention.ms come before it."},
	{Name: "log.retention.minutes", Type: TypeInt, Unset: true, Doc: "Default of retention.ms, in minutes; log.retention.ms comes before it."},
	{Name: "log.retention.ms", Type: TypeLong, Unset: true, check: atLeast(-1), Doc: "Default of retention.ms."},
	{Name: "log.roll.hours", Type: TypeInt, Default: "168", check: atLeast(1), Doc: "Default of segment.ms, in hours."},
	{Name: "log.roll.jitter.hours", Type: TypeInt, Default: "0", check: atLeast(0), Doc: "Default of segment.jitter.ms, in hours."},
	{Name: "log.roll.jitter.ms", Type: TypeLong, Unset: true, check: atLeast(0), Doc: "Default of segment.jitter.ms."},
	{Name: "log.roll.ms", Type: TypeLong, Unset: true, check: atLeast(1), Doc: "Default of segment.ms."},
	{Name: "max.connections", Type: TypeInt, Default: "2147483647", check: atLeast(0), Doc: "The most connections at a time."},
	{
		Name: "max.incremental.fetch.session.cache.slots", Type: TypeInt, Default: "1000", check: atLeast(0),
		Doc: "The most fetch sessions at a time.",
	},
	{
		Name: "max.partitions", Type: TypeInt, Default: "200000", check: atLeast(1),
		Doc: "The most partitions of all topics together.",
	},
	{Name: "node.id", Type: TypeInt, Default: "-1", ReadOnly: true, Instead: "node-id", Doc: "The number that clients know this node by."},
	{
		Name: "num.partitions", Type: TypeInt, Default: "1", check: between(1, MaxPartitions),
		Doc: "The number of partitions of topics that are created without one.",
	},
	{
		Name: "offset.metadata.max.bytes", Type: TypeInt, Default: "4096", check: atLeast(0),
		Doc: "The most metadata that goes with a committed offset, in bytes.",
	},
	{
		Name: "offsets.retention.check.interval.ms", Type: TypeLong, Default: "600000", check: atLeast(1),
		Doc: "How often the leader looks for committed offsets to drop, in milliseconds.",
	},
	{
		Name: "offsets.retention.minutes", Type: TypeInt, Default: "10080", check: atLeast(1),
		Doc: "How long a group without members keeps its offsets, in minutes.",
	},
	{
		Name: "offsets.topic.num.partitions", Type: TypeInt, Default: "50", ReadOnly: true,
		Doc: "Shown to tools that look for it: offsets are kept in the state, not in a topic.",
	},
	{
		Name: "offsets.topic.replication.factor", Type: TypeShort, Default: "1", ReadOnly: true,
		Doc: "Shown to tools that look for it: offsets are kept in the state, not in a topic.",
	},
	{Name: "process.roles", Type: TypeList, Default: "broker,controller", ReadOnly: true, Doc: "What this node is."},
	{
		Name: "producer.id.expiration.ms", Type: TypeInt, Default: "86400000", check: atLeast(1),
		Doc: "How long an idle producer's sequence is remembered, in milliseconds.",
	},
	{Name: "queued.max.requests", Type: TypeInt, Default: "500", check: atLeast(1), ReadOnly: true, Doc: "Shown to tools that look for it."},
	{Name: "replica.fetch.max.bytes", Type: TypeInt, Default: "1048576", ReadOnly: true, Doc: "Shown to tools that look for it."},
	{
		Name: "socket.request.max.bytes", Type: TypeInt, Default: "104857600", check: atLeast(1), ReadOnly: true,
		Doc: "The largest request, in bytes.",
	},
	{
		Name: "transaction.max.timeout.ms", Type: TypeInt, Default: "900000", check: atLeast(1),
		Doc: "The longest transaction time-out that a producer may ask for, in milliseconds.",
	},
	{
		Name: "transactional.id.expiration.ms", Type: TypeInt, Default: "604800000", check: atLeast(1),
		Doc: "How long an idle transactional id is remembered, in milliseconds.",
	},
}

// BrokerConfigKeys are all keys that the broker has, by name. The slice is shared.
func BrokerConfigKeys() []ConfigKey { return brokerKeys }

func brokerKey(name string) (*ConfigKey, bool) { return findKey(brokerKeys, name) }
