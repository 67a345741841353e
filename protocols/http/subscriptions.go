package httpd

import (
	"slices"
	"strconv"
	"time"

	"polylog/core"
	"polylog/protocols/http/front"
	"polylog/protocols/http/subscription"
	"polylog/protocols/http/webhook"
	"polylog/router"
)

// subscriptionSpec is what a subscription's creator says. The log keeps what it is of and how
// its messages die; the rest is JSON in its attributes.
type subscriptionSpec struct {
	Topic           string `json:"topic,omitempty"`
	Queue           string `json:"queue,omitempty"`
	From            string `json:"from,omitempty"`            // start or end, of a new one
	MaxDeliveries   int    `json:"maxDeliveries,omitempty"`   // 0: any number
	DeadLetterQueue string `json:"deadLetterQueue,omitempty"` // made where it is not there
	subscription.Options
	Push *pushSpec `json:"push,omitempty"` // instead of the options'
}

// check is why a specification is none, or nil.
func (s *subscriptionSpec) check() error {
	switch {
	case (s.Topic == "") == (s.Queue == ""):
		return invalid("a subscription is of a topic or of a queue")
	case s.Queue != "" && (s.Filter != nil || s.MaxDeliveries != 0 || s.DeadLetterQueue != "" || s.From != ""):
		return invalid("a subscription of a queue shares its messages with all others who read it: filter, from, maxDeliveries and deadLetterQueue are the queue's affair")
	case s.From != "" && s.From != "start" && s.From != "end":
		return invalid("from is %.20q, want start or end", s.From)
	case s.MaxDeliveries == 1 && s.Push == nil || s.MaxDeliveries < 0:
		return invalid("maxDeliveries is %d, want 2 or more, or 0 for any number", s.MaxDeliveries)
	}
	return s.Options.Check()
}

// subscriptionJSON is a subscription in answers.
type subscriptionJSON struct {
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	Created   time.Time `json:"created"`
	Orphaned  bool      `json:"orphaned,omitempty"` // what it is of was deleted
	Owner     string    `json:"owner,omitempty"`    // user who has set it, whose rights count for what is pushed
	subscriptionSpec
	Push   *pushJSON   `json:"push,omitempty"`
	Counts *countsJSON `json:"counts,omitempty"`
}

func (c *call) jsonOfSubscription(s *router.Subscription) (j subscriptionJSON, err error) {
	owner, err := subscription.OwnerOf(s)
	if err != nil {
		return j, err
	}
	j = subscriptionJSON{Name: s.Name.Name, Namespace: s.Name.Namespace, Created: front.Time(s.Created)}
	j.Owner = owner.User
	if j.Options, err = subscription.OptionsOf(s); err != nil {
		return j, err
	}
	if j.Push, err = c.jsonOfPush(s, j.Options.Push); err != nil {
		return j, err
	}
	if s.DeliveryLimit > 0 {
		j.MaxDeliveries = s.DeliveryLimit + 1
	}
	j.DeadLetterQueue = s.DeadLetter.Name
	if s.Topic.IsZero() {
		q, err := c.router.QueueByID(s.Queue)
		if j.Orphaned = core.KindOf(err) == core.NotFound; j.Orphaned {
			return j, nil
		}
		if err != nil {
			return j, err
		}
		j.Queue = q.Name.Name
		return j, nil
	}
	t, ok := c.router.TopicByID(s.Topic)
	if j.Orphaned = !ok; ok {
		j.Topic = t.Name.Name
	}
	return j, nil
}

func listSubscriptions(c *call) error {
	if err := c.onlyQuery("limit", "cursor", "search", "pushed", "counts"); err != nil {
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
	wanted, err := c.subscriptionSearch()
	if err != nil {
		return err
	}
	answer := struct {
		Subscriptions []subscriptionJSON `json:"subscriptions"`
		Next          string             `json:"next,omitempty"`
	}{Subscriptions: []subscriptionJSON{}}
	chunk := limit + 1
	if c.QueryArgs().Has("search") || c.QueryArgs().Has("pushed") {
		chunk = readersScan
	}
	for looked := 0; ; {
		all, err := c.router.Subscriptions(c.namespace, after, chunk)
		if err != nil {
			return err
		}
		for _, s := range all {
			if len(answer.Subscriptions) == limit || looked == searchSteps {
				answer.Next = after
				return c.answer(200, answer)
			}
			after = s.Name.Name
			looked++
			if c.may(router.OpDescribe, router.ResourceGroup, s.Name) != nil {
				continue
			}
			j, err := c.jsonOfSubscription(s)
			if err != nil {
				return err
			}
			if !wanted(&j) {
				continue
			}
			if counts && !j.Orphaned {
				if j.Counts, err = c.countsOfSubscription(s); err != nil {
					return err
				}
			}
			answer.Subscriptions = append(answer.Subscriptions, j)
		}
		if len(all) < chunk {
			return c.answer(200, answer)
		}
	}
}

// subscriptionSearch says which subscriptions a call wants of the list: those that have what it searches for in their name,
// what they are of or their endpoint, and those that are pushed, or are not.
func (c *call) subscriptionSearch() (func(*subscriptionJSON) bool, error) {
	found := c.search()
	either := !c.QueryArgs().Has("pushed")
	pushed, err := c.flag("pushed")
	return func(j *subscriptionJSON) bool {
		endpoint := ""
		if j.Push != nil {
			endpoint = j.Push.URL
		}
		return (either || (j.Push != nil) == pushed) && (found(j.Name) || found(j.Topic+j.Queue) || found(endpoint))
	}, err
}

// subscription finds the subscription of the path, if the principal may do op with it.
func (c *call) subscription(op router.Operation) (*router.Subscription, error) {
	n := c.name("subscription")
	if err := c.may(op, router.ResourceGroup, n); err != nil {
		return nil, err
	}
	return c.router.Subscription(c.ctx, n)
}

func getSubscription(c *call) error {
	if err := c.onlyQuery(); err != nil {
		return err
	}
	s, err := c.subscription(router.OpDescribe)
	if err != nil {
		return err
	}
	j, err := c.jsonOfSubscription(s)
	if err != nil {
		return err
	}
	if j.Orphaned {
		return c.answer(200, j)
	}
	if j.Counts, err = c.countsOfSubscription(s); err != nil {
		return err
	}
	return c.answer(200, j)
}

// countsOfSubscription counts the messages of all its partitions.
func (c *call) countsOfSubscription(s *router.Subscription) (*countsJSON, error) {
	src, err := c.sourceOf(s)
	if err != nil {
		return nil, err
	}
	n, err := c.router.CountQueues(c.ctx, src.queues, src.group)
	if err != nil {
		return nil, err
	}
	return &countsJSON{Ready: n.Ready, Unsettled: n.Unsettled, Delayed: n.Delayed}, nil
}

// putSubscription creates a subscription, or changes the options of the one that is there.
func putSubscription(c *call) error {
	spec := subscriptionSpec{Options: subscription.Options{AckDeadlineMs: subscription.DefaultDeadline}}
	if err := c.definition(&spec); err != nil {
		return err
	}
	if spec.Push != nil {
		spec.Options.Push = &spec.Push.Push
	}
	if err := spec.check(); err != nil {
		return err
	}
	s := router.SubscriptionSpec{Name: c.name("subscription"), From: router.FromEnd}
	if spec.From == "start" {
		s.From = router.FromStart
	}
	var err error
	if spec.Topic != "" {
		s.Topic, err = c.findTopic(core.Name{Namespace: c.namespace, Name: spec.Topic})
	} else {
		s.Queue, err = c.router.Queue(core.Name{Namespace: c.namespace, Name: spec.Queue})
	}
	if err != nil {
		return err
	}
	old, err := subscription.Latest(c.ctx, c.router, s.Name) // what the body leaves out stays as it is
	if err != nil && core.KindOf(err) != core.NotFound {
		return err
	}
	if spec.Push != nil && spec.Topic == webhook.AttemptsTopic {
		return core.E(core.Invalid, "%s is not pushed: each attempt would be another message of it", webhook.AttemptsTopic)
	}
	if spec.Push != nil && spec.Topic != "" {
		spec.pushDefaults(s.Name.Name, old)
	}
	s.Config.DeliveryLimit = max(spec.MaxDeliveries-1, 0)
	if spec.DeadLetterQueue != "" {
		s.Config.DeadLetter = core.Name{Namespace: c.namespace, Name: spec.DeadLetterQueue}
	}
	if err := c.mayNeedQueue(s.Config.DeadLetter); err != nil {
		return err
	}
	p, err := c.preparePush(&spec, old)
	if err != nil {
		return err
	}
	if s.Config.Attributes, err = subscription.Attributes(&spec.Options, &p.secrets, c.router.OwnerOf(c.principal)); err != nil {
		return err
	}
	if err := c.needQueue(s.Config.DeadLetter); err != nil {
		return err
	}
	sub, created, err := c.router.SetSubscription(c.ctx, c.principal, s)
	if err != nil {
		return err
	}
	if err := c.endpointChanged(sub, p.moved); err != nil {
		return err
	}
	j, err := c.jsonOfSubscription(sub)
	if err != nil {
		return err
	}
	if j.Push != nil {
		j.Push.Secret = p.generated
	}
	if created {
		return c.answer(201, j)
	}
	return c.answer(200, j)
}

// mayNeedQueue checks, before anything is done, that the caller may have a queue of dead letters, and may
// make it where it is not there. It may have none.
func (c *call) mayNeedQueue(n core.Name) error {
	if n.Name == "" {
		return nil
	}
	if err := c.may(router.OpWrite, router.ResourceQueue, n); err != nil {
		return err
	}
	if _, err := c.router.Queue(n); core.KindOf(err) != core.NotFound {
		return err
	}
	return c.may(router.OpCreate, router.ResourceQueue, n)
}

// needQueue declares a queue where it is not there.
func (c *call) needQueue(n core.Name) error {
	if n.Name == "" {
		return nil
	}
	_, err := c.router.Queue(n)
	if core.KindOf(err) == core.NotFound {
		_, _, err = c.router.DeclareQueue(c.ctx, c.principal, n, router.QueueConfig{Durable: true})
	}
	return err
}

func deleteSubscription(c *call) error {
	if err := webhook.Delete(c.ctx, c.router, c.principal, c.name("subscription")); err != nil {
		return err
	}
	return c.noContent()
}

// seekSpec says where to: exactly one of the three.
type seekSpec struct {
	To      string                 `json:"to"` // start or end
	Time    *timeJSON              `json:"time"`
	Offsets map[string]core.Offset `json:"offsets"` // by partition; others go to the end
}

// seekSubscription moves a subscription to a time or to offsets.
func seekSubscription(c *call) error {
	var spec seekSpec
	if err := c.definition(&spec); err != nil {
		return err
	}
	s, err := c.subscription(router.OpRead)
	if err != nil {
		return err
	}
	src, err := c.sourceOf(s)
	if err != nil {
		return err
	}
	from, to := router.FromEnd, []router.SeekTo(nil)
	switch {
	case spec.To == "start" && spec.Time == nil && spec.Offsets == nil:
		from = router.FromStart
	case spec.To == "end" && spec.Time == nil && spec.Offsets == nil:
	case spec.To == "" && spec.Time != nil && spec.Offsets == nil:
		for _, q := range src.queues {
			o, _, ok, err := c.router.OffsetByTime(c.ctx, q, int64(*spec.Time))
			if err != nil {
				return err
			}
			if ok {
				to = append(to, router.SeekTo{Queue: q, Offset: o})
			}
		}
	case spec.To == "" && spec.Time == nil && len(spec.Offsets) > 0:
		for text, o := range spec.Offsets {
			p, err := strconv.Atoi(text)
			if err != nil || p < 0 || p >= len(src.queues) || o < 0 {
				return invalid("offset %d of partition %.20q: there are %d partitions", o, text, len(src.queues))
			}
			to = append(to, router.SeekTo{Queue: src.queues[p], Offset: o})
		}
		slices.SortFunc(to, func(a, b router.SeekTo) int { return int(a.Queue) - int(b.Queue) })
	default:
		return invalid(`want one of {"to": "start"}, {"to": "end"}, {"time": …} and {"offsets": {"0": 5}}`)
	}
	if err := c.router.SeekSubscription(c.ctx, c.principal, s.Name, from, to); err != nil {
		return err
	}
	return c.noContent()
}
