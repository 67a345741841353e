package publish

import (
	"context"
	"time"

	"polylog/core"
	"polylog/router"
)

// createWait bounds how long a request waits for the topic that it makes.
const createWait = 5 * time.Second

// Find finds a topic. A node that does not know it asks the leader first. Error kinds: NotFound,
// Invalid, Unavailable.
func Find(ctx context.Context, r *router.Router, n core.Name) (*router.Topic, error) {
	if t, ok := r.Topic(n); ok {
		return t, nil
	}
	if err := router.CheckTopicName(n.Name); err != nil {
		return nil, err
	}
	if err := r.Sync(ctx); err != nil {
		return nil, err
	}
	if t, ok := r.Topic(n); ok {
		return t, nil
	}
	return nil, core.E(core.NotFound, "topic %s does not exist", n)
}

// FindOrCreate finds the topic that is published to, or makes it, where the configuration allows
// that, as Kafka's producers have it.
func FindOrCreate(ctx context.Context, r *router.Router, p router.Principal, n core.Name) (*router.Topic, error) {
	if t, ok := r.Topic(n); ok {
		return t, nil
	}
	if err := r.Authorize(p, router.OpWrite, router.Resource{Kind: router.ResourceTopic, Name: n}); err != nil {
		return nil, err
	}
	t, err := Find(ctx, r, n)
	if core.KindOf(err) != core.NotFound || !r.BrokerConfig().AutoCreateTopics {
		return t, err
	}
	create, cancel := context.WithTimeout(ctx, createWait)
	defer cancel()
	t, err = r.CreateTopic(create, p, router.TopicSpec{Name: n, Partitions: -1})
	if core.KindOf(err) == core.Exists {
		return Find(ctx, r, n) // another call was faster
	}
	return t, err
}
