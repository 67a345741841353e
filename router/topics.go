package router

import (
	"context"
	"sort"
	"strings"

	"polylog/core"
	"polylog/router/state"
)

// Topic is one version of a topic, immutable: a change makes a new one.
type Topic struct {
	Name       core.Name
	ID         core.TopicID
	Partitions []core.QueueID    // by partition number
	Overrides  map[string]string // what was set on the topic itself
	Config     TopicConfig       // what holds: overrides, broker values, defaults
	Internal   bool
	Created    int64 // ms since the epoch
}

// Queue is the queue of a partition.
func (t *Topic) Queue(partition int32) (core.QueueID, bool) {
	if partition < 0 || int(partition) >= len(t.Partitions) {
		return 0, false
	}
	return t.Partitions[partition], true
}

// TopicSpec asks for a topic.
type TopicSpec struct {
	Name         core.Name
	Partitions   int // -1: num.partitions of the broker configuration
	Configs      map[string]string
	Internal     bool
	ValidateOnly bool // check everything, change nothing
}

// derived is what the router keeps with a version of a topic in the state.
type derived struct {
	generation uint64 // of the broker configuration that Config was made from
	topic      *Topic
}

// view is the router's form of a topic, made once per version of the topic and of
// the broker configuration.
func (r *Router) view(t *state.Topic) *Topic {
	b := r.brokerConfig()
	if d, ok := t.Memo.Load().(*derived); ok && d.generation == b.generation {
		return d.topic
	}
	d := &derived{b.generation, &Topic{
		Name:       t.Name,
		ID:         t.ID,
		Partitions: t.Queues,
		Overrides:  t.Overrides,
		Config:     effectiveTopicConfig(t.Overrides, b.values),
		Internal:   t.Internal,
		Created:    t.Created,
	}}
	t.Memo.Store(d)
	return d.topic
}

// Topic finds a topic by name.
func (r *Router) Topic(n core.Name) (*Topic, bool) {
	t, ok := r.state.Topic(n)
	if !ok {
		return nil, false
	}
	return r.view(t), true
}

// TopicByID finds a topic by its id.
func (r *Router) TopicByID(id core.TopicID) (*Topic, bool) {
	t, ok := r.state.TopicByID(id)
	if !ok {
		return nil, false
	}
	return r.view(t), true
}

// TopicOfQueue finds the topic and the partition that a queue is.
func (r *Router) TopicOfQueue(q core.QueueID) (t *Topic, partition int32, ok bool) {
	st, p, ok := r.state.TopicOfQueue(q)
	if !ok {
		return nil, 0, false
	}
	return r.view(st), p, true
}

// Topics are a namespace's topics by name; all namespaces' when it is empty.
func (r *Router) Topics(namespace string) []*Topic {
	all := r.state.Topics()
	ts := make([]*Topic, 0, len(all))
	for _, t := range all {
		if namespace == "" || t.Name.Namespace == namespace {
			ts = append(ts, r.view(t))
		}
	}
	sort.Slice(ts, func(i, j int) bool {
		if c := strings.Compare(ts[i].Name.Namespace, ts[j].Name.Namespace); c != 0 {
			return c < 0
		}
		return ts[i].Name.Name < ts[j].Name.Name
	})
	return ts
}

// MaxPartitions bounds the partitions of one topic.
const MaxPartitions = 100_000

// CheckTopicName is nil for a legal topic name: 1 to 249 of [a-zA-Z0-9._-], neither
// "." nor "..". Otherwise its kind is core.Invalid.
func CheckTopicName(name string) error {
	switch {
	case name == "":
		return core.E(core.Invalid, "topic name is empty")
	case name == "." || name == "..":
		return core.E(core.Invalid, "topic name cannot be %q", name)
	case len(name) > 249:
		return core.E(core.Invalid, "topic name has %d characters, at most 249 are allowed", len(name))
	}
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' {
			continue
		}
		return core.E(core.Invalid, "topic name %q has a character other than ASCII letters, digits, '.', '_' and '-'", name)
	}
	return nil
}

// CreateTopic creates a topic. Error kinds: Invalid (name, partitions, a name that
// collides with another in '.' and '_'), Invalid as a ConfigError (unknown key, bad value), Exists,
// Denied, Limit.
func (r *Router) CreateTopic(ctx context.Context, p Principal, spec TopicSpec) (*Topic, error) {
	if err := r.auth.Authorize(p, OpCreate, topicResource(spec.Name)); err != nil {
		return nil, err
	}
	if err := CheckTopicName(spec.Name.Name); err != nil {
		return nil, err
	}
	n, err := r.partitionCount(spec.Partitions)
	if err != nil {
		return nil, err
	}
	if err := checkTopicConfigs(spec.Configs, r.brokerConfig().values); err != nil {
		return nil, err
	}
	if err := r.state.CanCreate(spec.Name); err != nil {
		return nil, err
	}
	release, err := r.reservePartitions(n)
	if err != nil {
		return nil, err
	}
	defer release()
	if spec.ValidateOnly {
		return &Topic{
			Name: spec.Name, Partitions: make([]core.QueueID, n), Overrides: spec.Configs,
			Config: effectiveTopicConfig(spec.Configs, r.brokerConfig().values),
		}, nil
	}
	cmd := state.CreateTopic{Name: spec.Name, Partitions: n, Overrides: spec.Configs, Internal: spec.Internal}
	res, err := r.propose(ctx, cmd.Command())
	if err != nil {
		return nil, err
	}
	id, err := state.DecodeTopicID(res.Body)
	if err != nil {
		return nil, err
	}
	if t, ok := r.TopicByID(id); ok {
		return t, nil
	}
	// Another node applied it first, or it is gone again.
	if err := r.log.ReadIndex(ctx); err != nil {
		return nil, err
	}
	if t, ok := r.TopicByID(id); ok {
		return t, nil
	}
	return nil, core.E(core.NotFound, "topic %s was deleted as soon as it was created", spec.Name)
}

func (r *Router) partitionCount(n int) (int, error) {
	if n == -1 {
		n = r.BrokerConfig().NumPartitions
	}
	if n < 1 {
		return 0, core.E(core.Invalid, "number of partitions is %d, want at least 1", n)
	}
	if n > MaxPartitions {
		return 0, core.E(core.Invalid, "number of partitions is %d, want at most %d", n, MaxPartitions)
	}
	return n, nil
}

// ErrDeletionDisabled is DeleteTopic's answer with delete.topic.enable=false.
var ErrDeletionDisabled = core.E(core.Limit, "topics cannot be deleted: delete.topic.enable is false")

// reservePartitions is nil when n more partitions are allowed, counting those that
// others are creating, until release.
func (r *Router) reservePartitions(n int) (release func(), err error) {
	release = func() { r.creating.Add(-int64(n)) }
	creating := r.creating.Add(int64(n))
	limit := r.BrokerConfig().MaxPartitions
	if _, have := r.state.TopicCount(); int64(have)+creating > int64(limit) {
		release()
		return nil, core.E(core.Limit, "%d partitions more than the %d that there are would be above max.partitions, %d", n, have, limit)
	}
	return release, nil
}

// DeleteTopic deletes a topic with its records, group offsets and producers. What it
// takes to remove those happens afterwards, in the background.
func (r *Router) DeleteTopic(ctx context.Context, p Principal, name core.Name) error {
	if err := r.Authorize(p, OpDelete, topicResource(name)); err != nil {
		return err
	}
	if !r.BrokerConfig().DeleteTopics {
		return ErrDeletionDisabled
	}
	t, ok := r.state.Topic(name)
	if !ok {
		return errNoTopic(name)
	}
	cmd := state.DeleteTopic{Name: name, ID: t.ID}
	_, err := r.propose(ctx, cmd.Command())
	return err
}

// CreatePartitions raises a topic's partitions to total.
func (r *Router) CreatePartitions(ctx context.Context, p Principal, name core.Name, total int, validateOnly bool) (*Topic, error) {
	if err := r.auth.Authorize(p, OpAlter, topicResource(name)); err != nil {
		return nil, err
	}
	t, ok := r.state.Topic(name)
	if !ok {
		return nil, errNoTopic(name)
	}
	switch have := len(t.Queues); {
	case total <= have:
		return nil, core.E(core.Invalid, "topic %s has %d partitions, cannot go to %d", name, have, total)
	case total > MaxPartitions:
		return nil, core.E(core.Invalid, "number of partitions is %d, want at most %d", total, MaxPartitions)
	}
	release, err := r.reservePartitions(total - len(t.Queues))
	if err != nil {
		return nil, err
	}
	defer release()
	if validateOnly {
		return r.view(t), nil
	}
	cmd := state.CreatePartitions{Name: name, ID: t.ID, Total: total}
	if _, err := r.propose(ctx, cmd.Command()); err != nil {
		return nil, err
	}
	nt, ok := r.TopicByID(t.ID)
	if !ok {
		return nil, errNoTopic(name)
	}
	return nt, nil
}

func errNoTopic(n core.Name) error { return core.E(core.NotFound, "topic %s does not exist", n) }
