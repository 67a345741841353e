package httpd

import (
	"math"
	"time"

	"polylog/core"
	"polylog/protocols/http/front"
	"polylog/router"
)

// queueJSON is a queue in answers.
type queueJSON struct {
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	Created   time.Time `json:"created"`
	queueSpec
	Counts *countsJSON `json:"counts,omitempty"`
}

// queueSpec is what a queue's creator decides.
type queueSpec struct {
	DeliveryLimit   int    `json:"deliveryLimit,omitempty"`
	DeadLetterQueue string `json:"deadLetterQueue,omitempty"` // in the same namespace; made where it is not there
	SingleActive    bool   `json:"singleActive,omitempty"`
}

// countsJSON is what a group of a queue is doing.
type countsJSON struct {
	Ready     int64 `json:"ready"`
	Unsettled int64 `json:"unsettled"` // with consumers
	Delayed   int64 `json:"delayed"`
	Consumers int   `json:"consumers"`
}

func jsonOfQueue(q *router.Queue) queueJSON {
	return queueJSON{
		Name: q.Name.Name, Namespace: q.Name.Namespace, Created: front.Time(q.Created),
		queueSpec: queueSpec{q.DeliveryLimit, q.DeadLetter.Name, q.SingleActive},
	}
}

// queue finds the queue of the path, if the principal may do op with it. A node that does not
// know it asks the leader first.
func (c *call) queue(op router.Operation) (*router.Queue, error) {
	n := c.name("queue")
	if err := c.may(op, router.ResourceQueue, n); err != nil {
		return nil, err
	}
	q, err := c.router.Queue(n)
	if core.KindOf(err) != core.NotFound {
		return q, err
	}
	if err := c.router.Sync(c.ctx); err != nil {
		return nil, err
	}
	return c.router.Queue(n)
}

func listQueues(c *call) error {
	if err := c.onlyQuery("limit", "cursor", "search", "counts"); err != nil {
		return err
	}
	limit, after, err := c.page()
	if err != nil {
		return err
	}
	counts, err := c.flag("counts")
	if err != nil {
		return err
	}
	names, next, err := c.queueNames(after, limit)
	if err != nil {
		return err
	}
	answer := struct {
		Queues []queueJSON `json:"queues"`
		Next   string      `json:"next,omitempty"`
	}{Queues: []queueJSON{}, Next: next}
	for _, name := range names {
		n := core.Name{Namespace: c.namespace, Name: name}
		if c.may(router.OpDescribe, router.ResourceQueue, n) != nil {
			continue
		}
		q, err := c.router.Queue(n)
		if core.KindOf(err) == core.NotFound {
			continue // deleted just now
		}
		if err != nil {
			return err
		}
		j := jsonOfQueue(q)
		if counts {
			if j.Counts, err = c.countsOf(q); err != nil {
				return err
			}
		}
		answer.Queues = append(answer.Queues, j)
	}
	return c.answer(200, answer)
}

// queueNames are up to limit names of queues after one, of those that are searched for.
func (c *call) queueNames(after string, limit int) (names []string, next string, err error) {
	if c.QueryArgs().Peek("search") == nil {
		names, err = c.router.QueueNames(c.namespace, after, limit+1)
		if len(names) > limit {
			names, next = names[:limit], names[limit-1]
		}
		return names, next, err
	}
	found := c.search()
	all, err := c.router.QueueNames(c.namespace, after, searchSteps)
	for i, n := range all {
		if len(names) == limit {
			return names, all[i-1], err
		}
		if found(n) {
			names = append(names, n)
		}
	}
	if len(all) == searchSteps {
		next = all[searchSteps-1]
	}
	return names, next, err
}

// countsOf counts a queue's messages; nil where it has groups alone.
func (c *call) countsOf(q *router.Queue) (*countsJSON, error) {
	if q.GroupOnly {
		return nil, nil
	}
	n, err := c.router.CountQueue(c.ctx, q.ID, "")
	return &countsJSON{n.Ready, n.Unsettled, n.Delayed, n.Consumers}, err
}

func getQueue(c *call) error {
	if err := c.onlyQuery(); err != nil {
		return err
	}
	q, err := c.queue(router.OpDescribe)
	if err != nil {
		return err
	}
	j := jsonOfQueue(q)
	if j.Counts, err = c.countsOf(q); err != nil {
		return err
	}
	return c.answer(200, j)
}

// putQueue declares a queue. One that is there with other properties is a conflict.
func putQueue(c *call) error {
	var spec queueSpec
	if err := c.definition(&spec); err != nil {
		return err
	}
	if spec.DeliveryLimit < -1 || spec.DeliveryLimit > math.MaxInt32 {
		return invalid("deliveryLimit is %d, want -1 (none) to %d", spec.DeliveryLimit, math.MaxInt32)
	}
	config := router.QueueConfig{AckConfig: router.AckConfig{DeliveryLimit: spec.DeliveryLimit, SingleActive: spec.SingleActive}}
	if spec.DeadLetterQueue != "" {
		config.DeadLetter = core.Name{Namespace: c.namespace, Name: spec.DeadLetterQueue}
	}
	if err := c.mayNeedQueue(config.DeadLetter); err != nil {
		return err
	}
	q, created, err := c.router.DeclareQueue(c.ctx, c.principal, c.name("queue"), config)
	if err != nil {
		return err
	}
	j := jsonOfQueue(q)
	if !created && j.queueSpec != spec {
		return core.E(core.Conflict, "queue %s is there with other properties", q.Name)
	}
	if err := c.needQueue(config.DeadLetter); err != nil {
		return err
	}
	if created {
		return c.answer(201, j)
	}
	return c.answer(200, j)
}

func deleteQueue(c *call) error {
	if err := c.onlyQuery("ifUnused", "ifEmpty"); err != nil {
		return err
	}
	unused, err := c.flag("ifUnused")
	if err != nil {
		return err
	}
	empty, err := c.flag("ifEmpty")
	if err != nil {
		return err
	}
	q, err := c.queue(router.OpDelete)
	if err != nil {
		return err
	}
	n, err := c.router.DeleteQueue(c.ctx, c.principal, q.Name, unused, empty)
	if err != nil {
		return err
	}
	return c.answer(200, struct {
		Messages int64 `json:"messages"` // that went with it
	}{n})
}

func purgeQueue(c *call) error {
	q, err := c.queue(router.OpRead)
	if err != nil {
		return err
	}
	n, err := c.router.PurgeQueue(c.ctx, c.principal, q.ID, "")
	if err != nil {
		return err
	}
	return c.answer(200, struct {
		Messages int64 `json:"messages"` // that are gone
	}{n})
}

// peekQueue shows what is not settled, without consuming it.
func peekQueue(c *call) error {
	if err := c.onlyQuery("offset", "limit", "cursor", "maxValueBytes"); err != nil {
		return err
	}
	q, err := c.queue(router.OpRead)
	if err != nil {
		return err
	}
	s := search{queues: []core.QueueID{q.ID}, only: 0, to: math.MaxInt64}
	if err := c.searchArgs(&s); err != nil {
		return err
	}
	if !q.GroupOnly {
		settled, err := c.router.Settled(c.principal, q.ID, "")
		if err != nil {
			return err
		}
		s.skip = settled
	}
	at, err := c.begin(&s)
	if err != nil {
		return err
	}
	return c.browse(&s, at)
}
