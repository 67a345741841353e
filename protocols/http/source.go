package httpd

import (
	"context"
	"sync"
	"time"

	"polylog/core"
	"polylog/protocols/http/filter"
	"polylog/protocols/http/subscription"
	"polylog/router"
)

// source is where deliveries come from: a subscription, or a queue.
type source struct {
	queues  []core.QueueID // by partition
	group   string
	options subscription.Options
	filter  *filter.Filter              // what of it the client wants
	ensure  func(context.Context) error // gives new partitions their group; nil: there are none
	single  bool                        // one consumer at a time gets messages
	changed func() bool                 // whether it may be another one by now; nil: it never is
	may     func() error                // why the client may not have the messages any more
}

// sourceOf is a subscription as a source.
func (c *call) sourceOf(s *router.Subscription) (*source, error) {
	options, err := subscription.OptionsOf(s)
	if err != nil {
		return nil, err
	}
	src := &source{group: s.Group, options: options}
	changes := c.router.SubscriptionChanges()
	src.changed = func() bool { return c.router.SubscriptionChanges() != changes }
	if src.filter, err = filter.Compile(options.Filter); err != nil {
		return nil, err
	}
	if s.Topic.IsZero() {
		src.queues = []core.QueueID{s.Queue}
		q, err := c.router.QueueByID(s.Queue)
		if err != nil {
			return nil, err
		}
		src.single = q.SingleActive
		return src, nil
	}
	t, ok := c.router.TopicByID(s.Topic)
	if !ok {
		return nil, core.E(core.NotFound, "the topic of subscription %s was deleted", s.Name)
	}
	src.queues = t.Partitions
	src.changed = func() bool {
		now, ok := c.router.TopicByID(s.Topic)
		return !ok || len(now.Partitions) != len(src.queues) || c.router.SubscriptionChanges() != changes
	}
	src.ensure = func(ctx context.Context) error {
		now, err := subscription.Latest(ctx, c.router, s.Name)
		if err == nil {
			_, _, err = c.router.SetSubscription(ctx, c.principal, router.SubscriptionSpec{
				Name: s.Name, Topic: t, From: router.FromStart, Config: now.AckConfig,
			})
		}
		return err
	}
	return src, nil
}

// source is the subscription or queue of the path, for whoever takes its messages.
func (c *call) source() (*source, error) {
	if c.params.Get("subscription") != "" {
		s, err := c.subscription(router.OpRead)
		if err != nil {
			return nil, err
		}
		src, err := c.sourceOf(s)
		if err == nil {
			src.may = func() error { return c.router.AuthorizeReceive(c.principal, s) }
			err = src.may()
		}
		if err == nil && src.options.Push != nil {
			err = core.E(core.Conflict, "the messages of subscription %s are pushed to its endpoint", s.Name)
		}
		return src, err
	}
	q, err := c.queue(router.OpRead)
	if err != nil {
		return nil, err
	}
	return &source{
		queues: []core.QueueID{q.ID}, single: q.SingleActive,
		options: subscription.Options{AckDeadlineMs: subscription.DefaultDeadline},
		may:     func() error { return c.may(router.OpRead, router.ResourceQueue, q.Name) },
	}, nil
}

// keepers keep groups at work between pulls, for a while: who comes again need not wait until
// the leader has taken the group from the log, and marked what may be delivered.
type keepers struct {
	mu     sync.Mutex // guards what follows
	all    map[keeperKey]*keeper
	closed bool
}

type keeperKey struct {
	queue core.QueueID
	group string
}

type keeper struct {
	consumer *router.Consumer
	timer    *time.Timer // closes it
}

const (
	keepFor    = 10 * time.Second
	maxKeepers = 10_000
)

// keep sees to it that a group stays at work.
func (a *api) keep(ctx context.Context, p router.Principal, q core.QueueID, group string) {
	k := &a.keepers
	key := keeperKey{q, group}
	k.mu.Lock()
	old := k.all[key]
	full := len(k.all) >= maxKeepers || k.closed
	k.mu.Unlock()
	if old != nil && old.timer.Reset(keepFor) || full {
		return
	}
	consumer, err := a.router.Consume(ctx, p, router.ConsumeSpec{Queue: q, Group: group, Idle: true})
	if err != nil {
		return // the pull itself says why
	}
	one := &keeper{consumer: consumer}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.all[key] != nil {
		consumer.Close()
		return
	}
	if k.all == nil {
		k.all = map[keeperKey]*keeper{}
	}
	k.all[key] = one
	one.timer = time.AfterFunc(keepFor, func() { k.end(key, one) })
}

func (k *keepers) end(key keeperKey, one *keeper) {
	k.mu.Lock()
	if k.all[key] == one {
		delete(k.all, key)
	}
	k.mu.Unlock()
	one.consumer.Close()
}

// close ends all of them.
func (k *keepers) close() {
	k.mu.Lock()
	k.closed = true
	all := k.all
	k.all = nil
	k.mu.Unlock()
	for _, one := range all {
		one.timer.Stop()
		one.consumer.Close()
	}
}
