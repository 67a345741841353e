package router

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"polylog/core"
	"polylog/router/state"
)

// Queue is a named queue.
type Queue = state.Queue

// QueueConfig is what a queue's creator decides, for ever.
type QueueConfig = state.QueueConfig

// QueueLimits are what bounds a queue.
type QueueLimits = state.QueueLimits

// QueueKind says whose rules a queue follows.
type QueueKind = state.QueueKind

// The kinds of queues.
const (
	Classic = state.Classic // what is given back goes to its old place
	Quorum  = state.Quorum  // ahead of the rest, in the order of return
	Stream  = state.Stream  // a topic's partition
)

// Overflow says what becomes of messages when a queue is too long.
type Overflow = state.Overflow

// The modes.
const (
	DropHead         = state.DropHead         // the first message goes
	RejectPublish    = state.RejectPublish    // the new one is refused
	RejectPublishDLX = state.RejectPublishDLX // the new one is refused and dead-lettered
)

// AckConfig is what a group's creator decides, for ever.
type AckConfig = state.AckConfig

// Death is that a message was given up by a queue, for a reason; once or more often.
type Death = state.Death

// DeathReason says why a message was given up.
type DeathReason = state.DeathReason

// The reasons.
const (
	DeathRejected = state.DeathRejected // a consumer would not have it
	DeathLimit    = state.DeathLimit    // it failed too often
	DeathExpired  = state.DeathExpired  // its time was over
	DeathMaxLen   = state.DeathMaxLen   // the queue was too long
)

// maxQueueName bounds names of queues and groups, in bytes: AMQP's short strings.
const maxQueueName = 255

// CheckQueueName is nil for a legal name of a queue: 1 to 255 bytes of UTF-8 without
// control characters. Otherwise its kind is core.Invalid.
func CheckQueueName(name string) error { return checkName("queue", name) }

func checkName(what, name string) error {
	switch {
	case name == "":
		return core.E(core.Invalid, "%s name is empty", what)
	case len(name) > maxQueueName:
		return core.E(core.Invalid, "%s name has %d bytes, at most %d are allowed", what, len(name), maxQueueName)
	case !utf8.ValidString(name):
		return core.E(core.Invalid, "%s name is not UTF-8", what)
	case strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return core.E(core.Invalid, "%s name %q has a control character", what, name)
	}
	return nil
}

func queueResource(n core.Name) Resource { return Resource{Kind: ResourceQueue, Name: n} }

func errNoQueue(n core.Name) error { return core.E(core.NotFound, "queue %s does not exist", n) }

// DeclareQueue creates a queue, or finds the one of that name: created is false then, and
// its configuration may be another one. A new one whose messages go elsewhere when they die needs the
// rights to read from it and to write there, as in RabbitMQ. Error kinds: Invalid, Denied.
func (r *Router) DeclareQueue(ctx context.Context, p Principal, n core.Name, c QueueConfig) (q *Queue, created bool, err error) {
	if err := r.auth.Authorize(p, OpCreate, queueResource(n)); err != nil {
		return nil, false, err
	}
	if err := CheckQueueName(n.Name); err != nil {
		return nil, false, err
	}
	if n.Namespace == "" {
		return nil, false, core.E(core.Invalid, "queue %q has no namespace", n.Name)
	}
	if err := checkAckConfig(&c.AckConfig); err != nil {
		return nil, false, err
	}
	if err := r.authorizeDeaths(p, n, &c); err != nil {
		if q, found := r.Queue(n); found == nil {
			return q, false, nil // nothing is changed
		}
		return nil, false, err
	}
	cmd := state.DeclareQueue{Name: n, Config: c}
	res, err := r.propose(ctx, cmd.Command())
	if err != nil {
		return nil, false, err
	}
	id, created, err := state.DecodeDeclared(res.Body)
	if err != nil {
		return nil, false, err
	}
	q, err = r.queueByID(id)
	if core.KindOf(err) == core.NotFound {
		// Another node applied it first, or it is gone again.
		if err := r.log.ReadIndex(ctx); err != nil {
			return nil, false, err
		}
		q, err = r.queueByID(id)
	}
	return q, created, err
}

// authorizeDeaths checks that p may have a queue's messages go where its configuration says that they
// go when they die.
func (r *Router) authorizeDeaths(p Principal, n core.Name, c *QueueConfig) error {
	if c.DeadLetter.Name == "" && !c.Limits.HasDeadLetter {
		return nil
	}
	if err := r.auth.Authorize(p, OpRead, queueResource(n)); err != nil {
		return err
	}
	if err := r.authorizeDeadLetter(p, &c.AckConfig); err != nil || !c.Limits.HasDeadLetter {
		return err
	}
	return r.auth.Authorize(p, OpWrite, exchangeResource(core.Name{Namespace: n.Namespace, Name: c.Limits.DeadLetterExchange}))
}

// authorizeDeadLetter checks that p may write to the queue that gets a group's dead messages.
func (r *Router) authorizeDeadLetter(p Principal, c *AckConfig) error {
	if c.DeadLetter.Name == "" {
		return nil
	}
	return r.auth.Authorize(p, OpWrite, queueResource(c.DeadLetter))
}

func checkAckConfig(c *AckConfig) error {
	if c.DeliveryLimit < 0 {
		return core.E(core.Invalid, "delivery limit is %d", c.DeliveryLimit)
	}
	if c.DeadLetter.Name != "" {
		return CheckQueueName(c.DeadLetter.Name)
	}
	return nil
}

// Queue finds a queue by name. The error is of kind NotFound when there is none.
func (r *Router) Queue(n core.Name) (*Queue, error) {
	q, err := r.state.Queue(n)
	if err == nil && q == nil {
		err = errNoQueue(n)
	}
	return q, err
}

// QueueByID finds a queue by its id. The error is of kind NotFound when there is none.
func (r *Router) QueueByID(id core.QueueID) (*Queue, error) { return r.queueByID(id) }

func (r *Router) queueByID(id core.QueueID) (*Queue, error) {
	q, err := r.state.QueueByID(id)
	if err == nil && q == nil {
		err = core.E(core.NotFound, "queue %d does not exist", id)
	}
	return q, err
}

// QueueNames are up to limit names of queues of a namespace, in order, after from.
func (r *Router) QueueNames(namespace, from string, limit int) ([]string, error) {
	return state.ReadQueueNames(r.state.Store(), namespace, from, limit, nil)
}

// NumQueues is how many queues a namespace has.
func (r *Router) NumQueues(namespace string) (int64, error) {
	return state.ReadQueueCount(r.state.Store(), namespace)
}

// DeleteQueue deletes a queue with its messages and groups. It says how many messages its
// own group had not settled. Error kinds: NotFound, Denied, Conflict (not empty, in use).
func (r *Router) DeleteQueue(ctx context.Context, p Principal, n core.Name, ifUnused, ifEmpty bool) (messages int64, err error) {
	if err := r.auth.Authorize(p, OpDelete, queueResource(n)); err != nil {
		return 0, err
	}
	q, err := r.Queue(n)
	if err != nil {
		return 0, err
	}
	if ifUnused {
		groups, err := r.state.AckGroups(q.ID)
		if err != nil {
			return 0, err
		}
		for _, g := range groups {
			c, err := r.CountQueue(ctx, q.ID, g)
			if err != nil {
				return 0, err
			}
			if c.Consumers > 0 {
				return 0, core.E(core.Conflict, "queue %s is in use by %d consumers", n, c.Consumers)
			}
		}
	}
	cmd := state.DeleteQueue{Queue: q.ID, IfEmpty: ifEmpty}
	res, err := r.propose(ctx, cmd.Command())
	if err != nil {
		return 0, err
	}
	return state.DecodeCount(res.Body)
}

// Where a new group begins, beside offsets.
const (
	FromStart = state.FromStart // the queue's first message
	FromEnd   = state.FromEnd   // the next one
)

// CreateAckGroup creates a group on a queue, which may be a partition of a topic; created
// is false where there is one of that name. Error kinds: Invalid, Denied, NotFound, Limit.
func (r *Router) CreateAckGroup(ctx context.Context, p Principal, q core.QueueID, group string, from core.Offset, c AckConfig) (created bool, err error) {
	if err := r.authorizeRead(p, q); err != nil {
		return false, err
	}
	if err := checkName("group", group); err != nil {
		return false, err
	}
	if err := checkAckConfig(&c); err != nil {
		return false, err
	}
	if err := r.authorizeDeadLetter(p, &c); err != nil {
		return false, err
	}
	cmd := state.CreateAckGroup{Queue: q, Group: group, From: from, Config: c}
	res, err := r.propose(ctx, cmd.Command())
	if err != nil {
		return false, err
	}
	return len(res.Body) == 1 && res.Body[0] == 1, nil
}

// DeleteAckGroup deletes a group of a queue. What only it had not settled goes.
func (r *Router) DeleteAckGroup(ctx context.Context, p Principal, q core.QueueID, group string) error {
	if err := r.authorizeRead(p, q); err != nil {
		return err
	}
	cmd := state.DeleteAckGroup{Queue: q, Group: group}
	_, err := r.propose(ctx, cmd.Command())
	return err
}

// authorizeRead checks that p may read a queue, or the topic that it is a partition of.
func (r *Router) authorizeRead(p Principal, q core.QueueID) error {
	if t, _, ok := r.state.TopicOfQueue(q); ok {
		return r.auth.Authorize(p, OpRead, topicResource(t.Name))
	}
	def, err := r.queueByID(q)
	if err != nil {
		return err
	}
	return r.auth.Authorize(p, OpRead, queueResource(def.Name))
}

// QueueCounts are what a group of a queue is doing.
type QueueCounts struct {
	Ready     int64 // messages that can be delivered
	Unsettled int64 // messages that are with consumers
	Delayed   int64 // messages that failed and wait for their time
	Consumers int
}

// CountQueue counts the messages and consumers of a group. Where the leader changes meanwhile it
// asks the next one, until ctx ends.
func (r *Router) CountQueue(ctx context.Context, q core.QueueID, group string) (QueueCounts, error) {
	for {
		a, err := r.consumers.ask(ctx, toHub{kind: hubCount, queue: q, group: group})
		if k := core.KindOf(err); k != core.Uncertain && k != core.NotLeader {
			return a.counts, err
		}
		select {
		case <-ctx.Done():
			return QueueCounts{}, err
		case <-time.After(relinkWait):
		}
	}
}

// CountQueues is CountQueue of a group's partitions together; Consumers are those of the one that has most. One on which
// it has no group yet, as a new one, counts nothing.
func (r *Router) CountQueues(ctx context.Context, queues []core.QueueID, group string) (all QueueCounts, err error) {
	for _, q := range queues {
		n, err := r.CountQueue(ctx, q, group)
		if err != nil && core.KindOf(err) != core.NotFound {
			return all, err
		}
		all.Ready += n.Ready
		all.Unsettled += n.Unsettled
		all.Delayed += n.Delayed
		all.Consumers = max(all.Consumers, n.Consumers)
	}
	return all, nil
}

// PurgeQueue settles all messages of a group that are with no consumer, and says how many
// that were.
func (r *Router) PurgeQueue(ctx context.Context, p Principal, q core.QueueID, group string) (int64, error) {
	if err := r.authorizeRead(p, q); err != nil {
		return 0, err
	}
	a, err := r.consumers.ask(ctx, toHub{kind: hubPurge, queue: q, group: group})
	return a.counts.Ready, err
}

// queueDefs keeps definitions of queues that were read lately.
type queueDefs struct {
	mu         sync.RWMutex // guards what follows
	generation uint64
	byID       map[core.QueueID]*Queue
}

// maxQueueDefs bounds them: when it is full it is emptied.
const maxQueueDefs = 1 << 14

// queueDef is the named queue that q is; nil when it is none.
func (r *Router) queueDef(q core.QueueID) (*Queue, error) {
	d := &r.defs
	generation := r.state.QueueGeneration()
	d.mu.RLock()
	def, ok := d.byID[q]
	ok = ok && d.generation == generation
	d.mu.RUnlock()
	if ok {
		return def, nil
	}
	def, err := r.state.QueueByID(q)
	if err != nil || def == nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byID == nil || d.generation < generation || len(d.byID) >= maxQueueDefs {
		d.byID, d.generation = map[core.QueueID]*Queue{}, max(generation, d.generation)
	}
	if d.generation == generation {
		d.byID[q] = def
	}
	return def, nil
}
