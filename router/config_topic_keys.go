package router

import (
	"regexp"
	"slices"
	"strings"

	"polylog/core"
)

const (
	maxLong = "9223372036854775807"
	weekMS  = "604800000"
)

// topicKeys are all keys of Kafka 4.x topics, by name. Names, types and defaults
// are Kafka's, so that its tools work; what we make of each is in Doc.
var topicKeys = []ConfigKey{
	{
		Name: "cleanup.policy", Type: TypeList, Default: "delete", check: listOf("compact", "delete"), Synonyms: same("log.cleanup.policy"),
		Doc: "What happens to old records: delete drops them by age and size, compact is to keep the newest record of each key; both may be combined, and with an empty list everything is kept. Compaction is not built yet: topics with compact alone keep all records.",
	},
	{
		Name: "compression.gzip.level", Type: TypeInt, Default: "-1", check: gzipLevel, Synonyms: same("compression.gzip.level"),
		Doc: "Level of compression with gzip. Accepted for compatibility: where the broker compresses it uses the codec's default, -1.",
	},
	{
		Name: "compression.lz4.level", Type: TypeInt, Default: "9", check: between(1, 17), Synonyms: same("compression.lz4.level"),
		Doc: "Level of compression with lz4. Accepted for compatibility: where the broker compresses it uses the codec's default.",
	},
	{
		Name: "compression.type", Type: TypeString, Default: "producer", check: oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), Synonyms: same("compression.type"),
		Doc: "The codec of stored batches. With producer, batches are stored as their producer compressed them; with a codec or uncompressed, those that came otherwise are compressed anew.",
	},
	{
		Name: "compression.zstd.level", Type: TypeInt, Default: "3", check: between(-131072, 22), Synonyms: same("compression.zstd.level"),
		Doc: "Level of compression with zstd. Accepted for compatibility: where the broker compresses it uses the codec's default.",
	},
	{
		Name: "delete.retention.ms", Type: TypeLong, Default: "86400000", check: atLeast(0), Synonyms: same("log.cleaner.delete.retention.ms"),
		Doc: "How long compaction will keep the tombstones of deleted keys, in milliseconds, so that a reader that started before can still see them.",
	},
	{
		Name: "errors.deadletterqueue.group.enable", Type: TypeBoolean, Default: "false",
		Doc: "Whether share groups may use this topic as their dead letter queue.",
	},
	{
		Name: "file.delete.delay.ms", Type: TypeLong, Default: "60000", check: atLeast(0), Synonyms: same("log.segment.delete.delay.ms"),
		Doc: "How long a removed file stays on disk. Accepted for compatibility: segments belong to the whole log and are recycled.",
	},
	{
		Name: "flush.messages", Type: TypeLong, Default: maxLong, check: atLeast(1), Synonyms: same("log.flush.interval.messages"),
		Doc: "After how many records the log is forced to disk. Accepted for compatibility: the node's flush policy decides for all topics.",
	},
	{
		Name: "flush.ms", Type: TypeLong, Default: maxLong, check: atLeast(0), Synonyms: same("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
		Doc: "After how many milliseconds the log is forced to disk. Accepted for compatibility: the node's flush policy decides for all topics.",
	},
	{
		Name: "follower.replication.throttled.replicas", Type: TypeList, Default: "", check: throttledReplicas,
		Doc: "Replicas whose catching up is slowed down on the receiving side, as partition:broker pairs or *. Accepted for compatibility.",
	},
	{
		Name: "index.interval.bytes", Type: TypeInt, Default: "4096", check: atLeast(0), Synonyms: same("log.index.interval.bytes"),
		Doc: "How many bytes lie between two index entries. Accepted for compatibility: every batch is indexed.",
	},
	{
		Name: "leader.replication.throttled.replicas", Type: TypeList, Default: "", check: throttledReplicas,
		Doc: "Replicas whose catching up is slowed down on the sending side, as partition:broker pairs or *. Accepted for compatibility.",
	},
	{
		Name: "local.retention.bytes", Type: TypeLong, Default: "-2", check: atLeast(-2), Synonyms: same("log.local.retention.bytes"),
		Doc: "How many bytes of a partition stay local when older ones are in remote storage; -2 takes retention.bytes. Accepted for compatibility.",
	},
	{
		Name: "local.retention.ms", Type: TypeLong, Default: "-2", check: atLeast(-2), Synonyms: same("log.local.retention.ms"),
		Doc: "How long records stay local when older ones are in remote storage; -2 takes retention.ms. Accepted for compatibility.",
	},
	{
		Name: "max.compaction.lag.ms", Type: TypeLong, Default: maxLong, check: atLeast(1), Synonyms: same("log.cleaner.max.compaction.lag.ms"),
		Doc: "After how many milliseconds compaction will have to consider a record.",
	},
	{
		Name: "max.message.bytes", Type: TypeInt, Default: "1048588", check: atLeast(0), Synonyms: same("message.max.bytes"),
		Doc: "The largest record batch that is accepted, in bytes as the producer sends it, thus after compression.",
	},
	{
		Name: "message.timestamp.after.max.ms", Type: TypeLong, Default: "3600000", check: atLeast(0), Synonyms: same("log.message.timestamp.after.max.ms"),
		Doc: "How far a record's timestamp may lie ahead of the broker's clock, in milliseconds. Not used with LogAppendTime.",
	},
	{
		Name: "message.timestamp.before.max.ms", Type: TypeLong, Default: maxLong, check: atLeast(0), Synonyms: same("log.message.timestamp.before.max.ms"),
		Doc: "How far a record's timestamp may lie behind the broker's clock, in milliseconds. Not used with LogAppendTime.",
	},
	{
		Name: "message.timestamp.type", Type: TypeString, Default: "CreateTime", check: oneOf("CreateTime", "LogAppendTime"), Synonyms: same("log.message.timestamp.type"),
		Doc: "Whether records keep the time that their producer gave them (CreateTime) or get the broker's at arrival (LogAppendTime).",
	},
	{
		Name: "min.cleanable.dirty.ratio", Type: TypeDouble, Default: "0.5", check: between(0, 1), Synonyms: same("log.cleaner.min.cleanable.ratio"),
		Doc: "How large the part that is not compacted yet will have to be, of the whole, before compaction starts.",
	},
	{
		Name: "min.compaction.lag.ms", Type: TypeLong, Default: "0", check: atLeast(0), Synonyms: same("log.cleaner.min.compaction.lag.ms"),
		Doc: "How long a record will be safe from compaction, in milliseconds.",
	},
	{
		Name: "min.insync.replicas", Type: TypeInt, Default: "1", check: atLeast(1), Synonyms: same("min.insync.replicas"),
		Doc: "How many replicas must have a record before acks=all is answered. Accepted for compatibility: a majority of the voters always must.",
	},
	{
		Name: "preallocate", Type: TypeBoolean, Default: "false", Synonyms: same("log.preallocate"),
		Doc: "Whether files get their full size when they are created. Accepted for compatibility: segments always are.",
	},
	{
		Name: "remote.copy.lag.bytes", Type: TypeLong, Default: "-1", check: atLeast(-1), Synonyms: same("log.remote.copy.lag.bytes"),
		Doc: "How many bytes a partition's copy in remote storage may lag behind. Accepted for compatibility.",
	},
	{
		Name: "remote.copy.lag.ms", Type: TypeLong, Default: "-1", check: atLeast(-1), Synonyms: same("log.remote.copy.lag.ms"),
		Doc: "How long a partition's copy in remote storage may lag behind, in milliseconds. Accepted for compatibility.",
	},
	{
		Name: "remote.log.copy.disable", Type: TypeBoolean, Default: "false",
		Doc: "Whether a topic with remote storage stops copying to it. Accepted for compatibility.",
	},
	{
		Name: "remote.log.delete.on.disable", Type: TypeBoolean, Default: "false",
		Doc: "Whether switching remote storage off deletes what is there. Accepted for compatibility.",
	},
	{
		Name: "remote.storage.enable", Type: TypeBoolean, Default: "false", check: noRemoteStorage,
		Doc: "Whether old records move to remote storage. There is none: only false is accepted.",
	},
	{
		Name: "retention.bytes", Type: TypeLong, Default: "-1", Synonyms: same("log.retention.bytes"),
		Doc: "How many bytes of a partition are kept at least before its oldest batches are dropped; below 0 there is no limit. Counts only where cleanup.policy has delete.",
	},
	{
		Name: "retention.ms", Type: TypeLong, Default: weekMS, check: atLeast(-1),
		Synonyms: []Synonym{{"log.retention.ms", 1}, {"log.retention.minutes", 60_000}, {"log.retention.hours", 3_600_000}},
		Doc:      "How long records are kept, in milliseconds, by the largest timestamp of their batch; -1 keeps them for ever. Counts only where cleanup.policy has delete.",
	},
	{
		Name: "segment.bytes", Type: TypeInt, Default: "1073741824", check: atLeast(1 << 20), Synonyms: same("log.segment.bytes"),
		Doc: "The size of a partition's segment files. There are none of one partition alone; it still bounds the size of one batch.",
	},
	{
		Name: "segment.index.bytes", Type: TypeInt, Default: "10485760", check: atLeast(4), Synonyms: same("log.index.size.max.bytes"),
		Doc: "The size of a segment's index. Accepted for compatibility.",
	},
	{
		Name: "segment.jitter.ms", Type: TypeLong, Default: "0", check: atLeast(0),
		Synonyms: []Synonym{{"log.roll.jitter.ms", 1}, {"log.roll.jitter.hours", 3_600_000}},
		Doc:      "A random part of segment.ms that spreads the rolling of segments. Accepted for compatibility.",
	},
	{
		Name: "segment.ms", Type: TypeLong, Default: weekMS, check: atLeast(1),
		Synonyms: []Synonym{{"log.roll.ms", 1}, {"log.roll.hours", 3_600_000}},
		Doc:      "After how many milliseconds a new segment begins. Accepted for compatibility: batches expire one by one.",
	},
	{
		Name: "unclean.leader.election.enable", Type: TypeBoolean, Default: "false", Synonyms: same("unclean.leader.election.enable"),
		Doc: "Whether a replica without all acknowledged records may lead. Accepted for compatibility: it never may.",
	},
}

// TopicConfigKeys are all keys that a topic has, by name. The slice is shared.
func TopicConfigKeys() []ConfigKey { return topicKeys }

func topicKey(name string) (*ConfigKey, bool) { return findKey(topicKeys, name) }

func findKey(keys []ConfigKey, name string) (*ConfigKey, bool) {
	i, ok := slices.BinarySearchFunc(keys, name, func(k ConfigKey, n string) int { return strings.Compare(k.Name, n) })
	if !ok {
		return nil, false
	}
	return &keys[i], true
}

// same are broker keys in the topic key's unit.
func same(names ...string) []Synonym {
	s := make([]Synonym, len(names))
	for i, n := range names {
		s[i] = Synonym{n, 1}
	}
	return s
}

func gzipLevel(s string) error {
	if s == "-1" {
		return nil
	}
	return between(1, 9)(s)
}

func noRemoteStorage(s string) error {
	if strings.EqualFold(s, "true") {
		return core.E(core.Invalid, "there is no remote storage")
	}
	return nil
}

var throttledPair = regexp.MustCompile(`^\d+:\d+$`)

func throttledReplicas(s string) error {
	if s == "*" || s == "" {
		return nil
	}
	for _, item := range splitList(s) {
		if !throttledPair.MatchString(item) {
			return core.E(core.Invalid, "want * or partition:broker pairs")
		}
	}
	return nil
}
