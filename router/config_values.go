package router

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"polylog/core"
)

// TopicConfig is what holds for a topic, typed. Only what somebody uses is here;
// DescribeTopicConfig has every key.
type TopicConfig struct {
	Compact               bool  // cleanup.policy has compact
	Delete                bool  // cleanup.policy has delete
	RetentionMS           int64 // -1: for ever
	RetentionBytes        int64 // below 0: no limit
	MaxMessageBytes       int
	SegmentBytes          int
	LogAppendTime         bool
	TimestampBeforeMaxMS  int64
	TimestampAfterMaxMS   int64
	DeleteRetentionMS     int64
	MinCompactionLagMS    int64
	MaxCompactionLagMS    int64
	MinCleanableDirty     float64
	MinInsyncReplicas     int
	CompressionType       string
	DeadLetterForGroups   bool
	UncleanLeaderElection bool
}

// BrokerConfig is what holds for the broker, typed. Only what somebody uses is
// here; DescribeBrokerConfig has every key.
type BrokerConfig struct {
	NumPartitions               int
	DefaultReplicationFactor    int
	AutoCreateTopics            bool
	DeleteTopics                bool
	MaxPartitions               int // of all topics
	MessageMaxBytes             int
	FetchMaxBytes               int
	OffsetMetadataMaxBytes      int
	OffsetsRetentionMS          int64
	OffsetsRetentionCheckMS     int64
	RetentionCheckMS            int64
	ProducerIDExpirationMS      int64
	GroupInitialRebalanceMS     int64
	GroupMinSessionTimeoutMS    int64
	GroupMaxSessionTimeoutMS    int64
	GroupMaxSize                int
	ConsumerSessionTimeoutMS    int64
	ConsumerHeartbeatIntervalMS int64
	ConsumerGroupMaxSize        int
	ConnectionsMaxIdleMS        int64
	MaxConnections              int
	FetchSessionSlots           int
	TransactionMaxTimeoutMS     int64
}

// brokerView is one version of the broker configuration.
type brokerView struct {
	generation uint64
	values     brokerValues
	config     BrokerConfig
}

// brokerValues are the broker keys that somebody set, at run time or in the
// node's configuration.
type brokerValues map[string]ConfigValue

// brokerCache keeps the last brokerView.
type brokerCache struct{ last atomic.Pointer[brokerView] }

func (r *Router) brokerConfig() *brokerView {
	if v := r.brokers.last.Load(); v != nil && v.generation == r.state.BrokerGeneration() {
		return v
	}
	dynamic, generation := r.state.BrokerConfig()
	v := &brokerView{generation: generation, values: brokerValues{}}
	for k, s := range r.static {
		v.values[k] = ConfigValue{k, s, SourceStatic}
	}
	for k, s := range dynamic {
		v.values[k] = ConfigValue{k, s, SourceDynamicBroker}
	}
	v.config = v.values.parse()
	r.brokers.last.Store(v)
	return v
}

// BrokerConfig is what holds for the broker now.
func (r *Router) BrokerConfig() BrokerConfig { return r.brokerConfig().config }

// BrokerValue is the value of one broker key, "" for those without.
func (r *Router) BrokerValue(key string) string {
	v, _ := r.brokerConfig().values.get(key)
	return v.Value
}

// get is the value that holds for a broker key; false for one without.
func (b brokerValues) get(name string) (ConfigValue, bool) {
	if v, ok := b[name]; ok {
		return v, true
	}
	if k, ok := brokerKey(name); ok && !k.Unset {
		return ConfigValue{name, k.Default, SourceDefault}, true
	}
	return ConfigValue{Name: name, Source: SourceDefault}, false
}

func (b brokerValues) long(name string) int64 {
	v, _ := b.get(name)
	n, err := strconv.ParseInt(strings.TrimSpace(v.Value), 10, 64)
	if err != nil {
		k, _ := brokerKey(name)
		n, _ = strconv.ParseInt(k.Default, 10, 64)
	}
	return n
}

func (b brokerValues) number(name string) int { return int(b.long(name)) }

func (b brokerValues) parse() BrokerConfig {
	auto, _ := b.get("auto.create.topics.enable")
	deletion, _ := b.get("delete.topic.enable")
	return BrokerConfig{
		NumPartitions:               b.number("num.partitions"),
		DefaultReplicationFactor:    b.number("default.replication.factor"),
		AutoCreateTopics:            isTrue(auto.Value),
		DeleteTopics:                isTrue(deletion.Value),
		MaxPartitions:               b.number("max.partitions"),
		MessageMaxBytes:             b.number("message.max.bytes"),
		FetchMaxBytes:               b.number("fetch.max.bytes"),
		OffsetMetadataMaxBytes:      b.number("offset.metadata.max.bytes"),
		OffsetsRetentionMS:          b.long("offsets.retention.minutes") * 60_000,
		OffsetsRetentionCheckMS:     b.long("offsets.retention.check.interval.ms"),
		RetentionCheckMS:            b.long("log.retention.check.interval.ms"),
		ProducerIDExpirationMS:      b.long("producer.id.expiration.ms"),
		GroupInitialRebalanceMS:     b.long("group.initial.rebalance.delay.ms"),
		GroupMinSessionTimeoutMS:    b.long("group.min.session.timeout.ms"),
		GroupMaxSessionTimeoutMS:    b.long("group.max.session.timeout.ms"),
		GroupMaxSize:                b.number("group.max.size"),
		ConsumerSessionTimeoutMS:    b.long("group.consumer.session.timeout.ms"),
		ConsumerHeartbeatIntervalMS: b.long("group.consumer.heartbeat.interval.ms"),
		ConsumerGroupMaxSize:        b.number("group.consumer.max.size"),
		ConnectionsMaxIdleMS:        b.long("connections.max.idle.ms"),
		MaxConnections:              b.number("max.connections"),
		FetchSessionSlots:           b.number("max.incremental.fetch.session.cache.slots"),
		TransactionMaxTimeoutMS:     b.long("transaction.max.timeout.ms"),
	}
}

func isTrue(s string) bool { return strings.EqualFold(strings.TrimSpace(s), "true") }

// topicEntry finds what holds for a topic key and every value that was considered.
func topicEntry(k *ConfigKey, overrides map[string]string, b brokerValues) ConfigEntry {
	e := ConfigEntry{Key: k}
	if v, ok := overrides[k.Name]; ok {
		e.Candidates = append(e.Candidates, ConfigValue{k.Name, v, SourceTopic})
	}
	// A value that somebody set comes before every default, whatever its unit.
	for _, s := range k.Synonyms {
		if v, ok := b[s.Name]; ok {
			e.Candidates = append(e.Candidates, ConfigValue{s.Name, scaled(v.Value, s.Scale), v.Source})
		}
	}
	name := k.Name
	for _, s := range k.Synonyms {
		if bk, ok := brokerKey(s.Name); ok && !bk.Unset {
			name = s.Name
			break
		}
	}
	e.Candidates = append(e.Candidates, ConfigValue{name, k.Default, SourceDefault})
	e.Value, e.Source = e.Candidates[0].Value, e.Candidates[0].Source
	return e
}

// scaled is a number in another unit. Negative ones mean "no limit" in any unit.
func scaled(v string, scale int64) string {
	n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
	if scale == 1 || err != nil {
		return v
	}
	switch {
	case n < 0:
		n = -1
	case n > math.MaxInt64/scale:
		n = math.MaxInt64
	default:
		n *= scale
	}
	return strconv.FormatInt(n, 10)
}

// effectiveTopicConfig is what holds for a topic with these overrides.
func effectiveTopicConfig(overrides map[string]string, b brokerValues) TopicConfig {
	text := func(name string) string {
		k, _ := topicKey(name)
		return topicEntry(k, overrides, b).Value
	}
	long := func(name string) int64 {
		n, err := strconv.ParseInt(strings.TrimSpace(text(name)), 10, 64)
		if err != nil {
			// It was checked when it was set; a value that slipped through
			// must not make the topic unusable.
			k, _ := topicKey(name)
			n, _ = strconv.ParseInt(k.Default, 10, 64)
		}
		return n
	}
	policy := splitList(text("cleanup.policy"))
	dirty, err := strconv.ParseFloat(text("min.cleanable.dirty.ratio"), 64)
	if err != nil {
		dirty = 0.5
	}
	return TopicConfig{
		Compact:               slices.Contains(policy, "compact"),
		Delete:                slices.Contains(policy, "delete"),
		RetentionMS:           long("retention.ms"),
		RetentionBytes:        long("retention.bytes"),
		MaxMessageBytes:       int(long("max.message.bytes")),
		SegmentBytes:          int(long("segment.bytes")),
		LogAppendTime:         text("message.timestamp.type") == "LogAppendTime",
		TimestampBeforeMaxMS:  long("message.timestamp.before.max.ms"),
		TimestampAfterMaxMS:   long("message.timestamp.after.max.ms"),
		DeleteRetentionMS:     long("delete.retention.ms"),
		MinCompactionLagMS:    long("min.compaction.lag.ms"),
		MaxCompactionLagMS:    long("max.compaction.lag.ms"),
		MinCleanableDirty:     dirty,
		MinInsyncReplicas:     int(long("min.insync.replicas")),
		CompressionType:       text("compression.type"),
		DeadLetterForGroups:   isTrue(text("errors.deadletterqueue.group.enable")),
		UncleanLeaderElection: isTrue(text("unclean.leader.election.enable")),
	}
}

// DescribeTopicConfig is every topic key with what holds for t.
func (r *Router) DescribeTopicConfig(t *Topic) []ConfigEntry {
	b := r.brokerConfig().values
	entries := make([]ConfigEntry, len(topicKeys))
	for i := range topicKeys {
		entries[i] = topicEntry(&topicKeys[i], t.Overrides, b)
	}
	return entries
}

// DescribeBrokerConfig is every broker key with what holds.
func (r *Router) DescribeBrokerConfig() []ConfigEntry {
	set := r.brokerConfig().values
	entries := make([]ConfigEntry, len(brokerKeys))
	for i := range brokerKeys {
		k := &brokerKeys[i]
		v, ok := set.get(k.Name)
		entries[i] = ConfigEntry{Key: k, Value: v.Value, Source: v.Source, Unset: !ok, Candidates: []ConfigValue{v}}
		if v.Source != SourceDefault && !k.Unset {
			entries[i].Candidates = append(entries[i].Candidates, ConfigValue{k.Name, k.Default, SourceDefault})
		}
	}
	return entries
}

// CheckTopicConfig is nil for a known topic key with a value that it accepts.
func CheckTopicConfig(key, value string) error {
	k, ok := topicKey(key)
	if !ok {
		return core.E(core.Invalid, "unknown topic configuration %s", key)
	}
	return k.checkValue(value)
}

// CheckBrokerConfig is nil for a known broker key with a value that the node's own
// configuration may give it: none but what it is anyway where it is fixed.
func CheckBrokerConfig(key, value string) error {
	k, ok := brokerKey(key)
	if !ok {
		return core.E(core.Invalid, "unknown broker configuration %s", key)
	}
	if err := k.checkValue(value); err != nil || !k.ReadOnly || k.Static || !k.Unset && strings.TrimSpace(value) == k.Default {
		return err
	}
	switch {
	case k.Instead != "":
		return core.E(core.Invalid, "broker configuration %s cannot be set: use %s", key, k.Instead)
	case k.Unset:
		return core.E(core.Invalid, "broker configuration %s cannot be set", key)
	default:
		return core.E(core.Invalid, "broker configuration %s is fixed at %s, it cannot be %q", key, k.Default, value)
	}
}

// checkTopicConfigs checks a whole set of overrides, also against each other.
func checkTopicConfigs(overrides map[string]string, b brokerValues) error {
	for _, k := range sortedKeys(overrides) {
		if err := CheckTopicConfig(k, overrides[k]); err != nil {
			return &ConfigError{err}
		}
	}
	if c := effectiveTopicConfig(overrides, b); c.MinCompactionLagMS > c.MaxCompactionLagMS {
		return &ConfigError{core.E(core.Invalid, "min.compaction.lag.ms of %d is above max.compaction.lag.ms of %d", c.MinCompactionLagMS, c.MaxCompactionLagMS)}
	}
	return nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// ConfigError marks an error as being about a configuration key or value, for
// protocols that have a code of its own for those. Its kind is core.Invalid.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap is the error itself.
func (e *ConfigError) Unwrap() error { return e.Err }
