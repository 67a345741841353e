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
	Skipped int  `json:"skipped"` // the filter did not want them, or nobody knows where they came from
	More    bool `json:"more"`    // there may be more: the call's time or max was over
}

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
	d := redriver{call: c, spec: &spec, from: q, addresses: map[string]string{}}
	if spec.To != nil {
		if d.fixed, err = d.addressOf(spec.To); err != nil {
			return err
		}
	}
	done, err := d.run(wanted)
	if err != nil && done.Moved == 0 {
		return err
	}
	return c.answer(200, done)
}

// redriver is one redrive at work.
type redriver struct {
	*call
	spec      *redriveSpec
	from      *router.Queue
	fixed     string // the queue or topic that all go to; "": each has its own
	addresses map[string]string
}

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
		t, err := d.findTopic(core.Name{Namespace: d.namespace, Name: to.Topic})
		if err != nil {
			return "", err
		}
		if _, err := d.router.Queue(t.Name); core.KindOf(err) != core.NotFound {
			return "", core.E(core.Conflict, "there is a queue with the name of topic %s, and it comes first", t.Name)
		}
		return t.Name.Name, nil
	case to.Queue != "":
		q, err := d.router.Queue(core.Name{Namespace: d.namespace, Name: to.Queue})
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
	s, err := d.router.Subscription(d.ctx, n)
	switch {
	case err != nil:
		return "", err
	case s.Attributes[router.SecretAttribute] == "":
		return "", core.E(core.Conflict, "subscription %s is not pushed: say a topic or a queue", n)
	}
	redrive := webhook.RedriveQueue(n)
	if _, err := d.router.Queue(redrive); core.KindOf(err) == core.NotFound {
		if err := d.needQueue(redrive); err != nil {
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

// originOf is where a dead letter came from; "" where nobody knows, or where that is gone.
func (d *redriver) originOf(dl *router.Delivery) (string, error) {
	if v, ok := message.HeaderOf(&dl.Record, webhook.SubscriptionHeader); ok {
		return d.known("s/"+v.Str(), func() (string, error) { return d.redriveQueue(v.Str()) })
	}
	if len(dl.Deaths) == 0 {
		return "", nil
	}
	name := dl.Deaths[0].Queue
	return d.known("q/"+name.String(), func() (string, error) {
		q, err := d.router.Queue(name)
		if err != nil || q.ID == d.from.ID || name.Namespace != d.namespace {
			return "", err
		}
		return name.Name, nil
	})
}

// known looks a destination up once.
func (d *redriver) known(key string, find func() (string, error)) (string, error) {
	if to, ok := d.addresses[key]; ok {
		return to, nil
	}
	to, err := find()
	if k := core.KindOf(err); k == core.NotFound || k == core.Conflict {
		to, err = "", nil
	}
	if err == nil {
		d.addresses[key] = to
	}
	return to, err
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
		to := d.fixed
		if to == "" {
			if to, err = d.originOf(&dl); err != nil {
				return out, err
			}
		}
		if to == "" || !wanted.Wants(&dl.Record) {
			out.Skipped++
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
		if err := d.move(ctx, &dl, to); err != nil {
			return out, err
		}
		out.Moved++
	}
}

// move puts a message into its queue or topic and takes it out of the dead letters, in one step.
func (d *redriver) move(ctx context.Context, dl *router.Delivery, to string) error {
	m := message.Read(&dl.Record)
	m.ExpiresAt, m.TTL, m.DeliverAt = 0, 0, 0
	m.Exchange, m.RoutingKey = "", ""
	m.Headers = slices.Clone(m.Headers)
	data, err := m.Batch(nil)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	d.router.Transact(d.principal, []router.TxOp{
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
