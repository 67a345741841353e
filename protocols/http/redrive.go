package httpd

import (
	"context"
	"slices"
	"time"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/http/filter"
	"polylog/protocols/http/webhook"
	"polylog/router"
)

// redriveSpec is the body of :redrive.
type redriveSpec struct {
	Filter        *filter.Spec `json:"filter"` // left out: all of them
	To            *redriveTo   `json:"to"`     // left out: where each came from
	Max           int          `json:"max"`    // messages; 1000 where it is left out
	RatePerSecond int          `json:"ratePerSecond"`
}

// redriveTo is where dead letters go: one of the three.
type redriveTo struct {
	Topic        string `json:"topic,omitempty"`
	Queue        string `json:"queue,omitempty"`
	Subscription string `json:"subscription,omitempty"` // one that is pushed: its endpoint gets them, and nobody else
}

const (
	defaultRedrive = 1000
	maxRedrive     = 10_000
	// redriveTime bounds one call. What is left is for the next one.
	redriveTime = 20 * time.Second
	redriveIdle = 200 * time.Millisecond // without a message: there are no more
)

// redriven counts.
type redriven struct {
	Moved   int  `json:"moved"`
	Skipped int  `json:"skipped"` // they stay where they are
	More    bool `json:"more"`    // there may be more: the call's time or max was over
	// Reasons say why messages were skipped; the first maxReasons kinds of them.
	Reasons []skipReason `json:"reasons,omitempty"`
}

type skipReason struct {
	Detail string `json:"detail"`
	Count  int    `json:"count"`
}

const maxReasons = 20

func (r *redriven) skip(why string) {
	r.Skipped++
	i := slices.IndexFunc(r.Reasons, func(s skipReason) bool { return s.Detail == why })
	switch {
	case i >= 0:
		r.Reasons[i].Count++
	case len(r.Reasons) < maxReasons:
		r.Reasons = append(r.Reasons, skipReason{why, 1})
	}
}

const unwanted = "the filter does not want it"

// redrive takes messages out of a queue of dead letters and gives them to whom they came from,
// or to somebody else. Each is moved in one step. What is passed over stays, in its place.
func redrive(c *call) error {
	spec := redriveSpec{Max: defaultRedrive}
	if err := c.definition(&spec); err != nil {
		return err
	}
	if spec.Max < 1 || spec.Max > maxRedrive || spec.RatePerSecond < 0 {
		return invalid("max is %d, want 1 to %d; ratePerSecond is %d, want 0 or more", spec.Max, maxRedrive, spec.RatePerSecond)
	}
	wanted, err := filter.Compile(spec.Filter)
	if err != nil {
		return err
	}
	q, err := c.queue(router.OpRead)
	if err != nil {
		return err
	}
	d := redriver{call: c, spec: &spec, from: q, origins: map[string]origin{}}
	if spec.To != nil {
		if d.fixed, err = d.addressOf(spec.To); err != nil {
			return err
		}
	}
	done, err := d.run(wanted)
	if err != nil && done.Moved == 0 {
		return err
	}
	done.More = done.More || err != nil // what was moved is told, and that it is not all
	return c.answer(200, done)
}

// redriver is one redrive at work.
type redriver struct {
	*call
	spec    *redriveSpec
	from    *router.Queue
	fixed   string // the queue or topic that all go to; "": each has its own
	origins map[string]origin
}

// origin is where dead letters came from: the key under which the default exchange knows it, or why
// they cannot go there.
type origin struct{ to, why string }

// addressOf is the key under which the default exchange knows a destination.
func (d *redriver) addressOf(to *redriveTo) (string, error) {
	given := 0
	for _, text := range []string{to.Topic, to.Queue, to.Subscription} {
		if text != "" {
			given++
		}
	}
	if given != 1 {
		return "", invalid("to has one of topic, queue and subscription")
	}
	switch {
	case to.Topic != "":
		n := core.Name{Namespace: d.namespace, Name: to.Topic}
		if err := d.may(router.OpWrite, router.ResourceTopic, n); err != nil {
			return "", err
		}
		t, err := d.findTopic(n)
		if err != nil {
			return "", err
		}
		if _, err := d.router.Queue(t.Name); core.KindOf(err) != core.NotFound {
			return "", core.E(core.Conflict, "there is a queue with the name of topic %s, and it comes first", t.Name)
		}
		return t.Name.Name, nil
	case to.Queue != "":
		n := core.Name{Namespace: d.namespace, Name: to.Queue}
		if err := d.may(router.OpWrite, router.ResourceQueue, n); err != nil {
			return "", err
		}
		q, err := d.router.Queue(n)
		if err != nil {
			return "", err
		}
		if q.ID == d.from.ID {
			return "", invalid("the messages are in queue %s already", to.Queue)
		}
		return q.Name.Name, nil
	}
	return d.redriveQueue(to.Subscription)
}

// redriveQueue is the queue from which a subscription's endpoint gets messages once more.
func (d *redriver) redriveQueue(name string) (string, error) {
	n := core.Name{Namespace: d.namespace, Name: name}
	if err := d.may(router.OpWrite, router.ResourceGroup, n); err != nil {
		return "", err
	}
	s, err := d.router.Subscription(d.ctx, n)
	switch {
	case err != nil:
		return "", err
	case s.Attributes[router.SecretAttribute] == "":
		return "", core.E(core.Conflict, "subscription %s is not pushed: say a topic or a queue", n)
	}
	redrive := webhook.RedriveQueue(n)
	if _, err := d.router.Queue(redrive); core.KindOf(err) == core.NotFound {
		if _, _, err := d.router.DeclareQueue(d.ctx, d.mover(), redrive, router.QueueConfig{Durable: true}); err != nil {
			return "", err
		}
		// Whoever pushes has to look at the subscription again.
		note, err := d.router.Endpoint(n)
		if err != nil {
			return "", err
		}
		if err := d.router.NoteEndpoint(d.ctx, s, note); err != nil {
			return "", err
		}
	}
	return redrive.Name, nil
}

// originOf is where a dead letter came from.
func (d *redriver) originOf(dl *router.Delivery) (origin, error) {
	if v, ok := message.HeaderOf(&dl.Record, webhook.SubscriptionHeader); ok {
		return d.known("s/"+v.Str(), func() (string, error) { return d.redriveQueue(v.Str()) })
	}
	if len(dl.Deaths) == 0 {
		return origin{why: "nobody knows where it came from: say in to where it goes"}, nil
	}
	name := dl.Deaths[0].Queue
	return d.known("q/"+name.String(), func() (string, error) {
		if err := d.may(router.OpWrite, router.ResourceQueue, name); err != nil {
			return "", err
		}
		q, err := d.router.Queue(name)
		switch {
		case core.KindOf(err) == core.NotFound:
			if _, ok := d.router.Topic(name); ok {
				return "", core.E(core.Conflict, "it died in a subscription of topic %s, and to publish it there again is for you to say, in to", name.Name)
			}
			return "", err
		case err != nil:
			return "", err
		case q.ID == d.from.ID:
			return "", core.E(core.Conflict, "it died in this queue")
		case name.Namespace != d.namespace:
			return "", core.E(core.Conflict, "it died in another namespace")
		}
		return name.Name, nil
	})
}

// known looks an origin up once.
func (d *redriver) known(key string, find func() (string, error)) (origin, error) {
	if o, ok := d.origins[key]; ok {
		return o, nil
	}
	to, err := find()
	o := origin{to: to}
	if k := core.KindOf(err); k == core.NotFound || k == core.Conflict || k == core.Denied {
		o, err = origin{why: err.Error()}, nil
	}
	if err == nil {
		d.origins[key] = o
	}
	return o, err
}

func (d *redriver) run(wanted *filter.Filter) (out redriven, err error) {
	consumer, err := d.router.Consume(d.ctx, d.principal, router.ConsumeSpec{Queue: d.from.ID, Prefetch: 2 * maxRedrive})
	if err != nil {
		return out, err
	}
	defer consumer.Close() // what was passed over goes back
	ctx, cancel := context.WithTimeout(d.ctx, redriveTime)
	defer cancel()
	pace := time.NewTimer(0)
	defer pace.Stop()
	for {
		if out.Moved == d.spec.Max || out.Moved+out.Skipped == 2*maxRedrive {
			out.More = true
			return out, nil
		}
		next, stop := context.WithTimeout(ctx, redriveIdle)
		dl, err := consumer.Next(next)
		stop()
		if err != nil {
			out.More = ctx.Err() != nil
			if core.KindOf(err) == core.Unavailable {
				err = nil
			}
			return out, err
		}
		if !wanted.Wants(&dl.Record) {
			out.skip(unwanted)
			continue
		}
		o := origin{to: d.fixed}
		if o.to == "" {
			if o, err = d.originOf(&dl); err != nil {
				return out, err
			}
		}
		if o.to == "" {
			out.skip(o.why)
			continue
		}
		if d.spec.RatePerSecond > 0 {
			select {
			case <-pace.C:
			case <-ctx.Done():
				out.More = true
				return out, nil
			}
			pace.Reset(time.Second / time.Duration(d.spec.RatePerSecond))
		}
		if err := d.move(ctx, &dl, o.to); err != nil {
			return out, err
		}
		out.Moved++
	}
}

// mover is who moves messages where the caller was found to have the right to: to read from here, and to
// write to what it has named, or what a message came from. The default exchange, by which they go, is
// not what the caller asks for.
func (d *redriver) mover() router.Principal { return router.Trusted("redrive", d.principal.Host) }

// there is nil while a queue or topic of that name is: it was looked up when the first message went to it.
func (d *redriver) there(to string) error {
	n := core.Name{Namespace: d.namespace, Name: to}
	if _, ok := d.router.Topic(n); ok {
		return nil
	}
	_, err := d.router.Queue(n)
	return err
}

// move puts a message into its queue or topic and takes it out of the dead letters, in one step.
func (d *redriver) move(ctx context.Context, dl *router.Delivery, to string) error {
	if err := d.there(to); err != nil {
		return err
	}
	m := message.Read(&dl.Record)
	m.ExpiresAt, m.TTL, m.DeliverAt = 0, 0, 0
	m.Exchange, m.RoutingKey = "", ""
	m.Headers = slices.Clone(m.Headers)
	data, err := m.Batch(nil)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	d.router.Transact(d.mover(), []router.TxOp{
		{To: router.Address{Exchange: core.Name{Namespace: d.namespace}, Keys: []string{to}}, Batch: data},
		{Queue: d.from.ID, Outcome: router.Done, Receipts: []router.Receipt{dl.Receipt}},
	}, func(_ []router.Routed, err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return core.E(core.Uncertain, "a message was not confirmed to be moved in %s", redriveTime)
	}
}
