package httpd

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/http/front"
	"polylog/router"
)

// exchangeSpec is what an exchange's creator decides.
type exchangeSpec struct {
	Type       string      `json:"type"` // direct, fanout, topic, headers and others
	AutoDelete bool        `json:"autoDelete,omitempty"`
	Internal   bool        `json:"internal,omitempty"`
	Arguments  headersJSON `json:"arguments,omitempty"`
}

// exchangeJSON is an exchange in answers.
type exchangeJSON struct {
	Name       string       `json:"name"`
	Namespace  string       `json:"namespace"`
	Created    *time.Time   `json:"created,omitempty"` // nil of one that is always there
	Type       string       `json:"type"`
	AutoDelete bool         `json:"autoDelete,omitempty"`
	Internal   bool         `json:"internal,omitempty"`
	OfTopic    bool         `json:"ofTopic,omitempty"` // what is published to it is appended to the topic too
	Arguments  []headerJSON `json:"arguments,omitempty"`
}

func jsonOfTable(t message.Table) (all []headerJSON) {
	for _, h := range t {
		all = append(all, jsonOfHeader(h))
	}
	return all
}

func jsonOfExchange(x *router.Exchange) exchangeJSON {
	return exchangeJSON{
		Name: x.Name.Name, Namespace: x.Name.Namespace, Created: timeOrNil(x.Created), Type: x.Type,
		AutoDelete: x.AutoDelete, Internal: x.Internal, OfTopic: x.Topic != 0, Arguments: jsonOfTable(x.Arguments),
	}
}

func listExchanges(c *call) error {
	if err := c.onlyQuery("limit", "cursor", "search"); err != nil {
		return err
	}
	found := c.search()
	all, next, err := pageOf(c, c.router.Exchanges, func(x *router.Exchange) (name string, wanted bool) {
		return x.Name.Name, found(x.Name.Name) && c.may(router.OpDescribe, router.ResourceExchange, x.Name) == nil
	})
	if err != nil {
		return err
	}
	answer := struct {
		Exchanges []exchangeJSON `json:"exchanges"`
		Next      string         `json:"next,omitempty"`
	}{Exchanges: []exchangeJSON{}, Next: next}
	for _, x := range all {
		answer.Exchanges = append(answer.Exchanges, jsonOfExchange(x))
	}
	return c.answer(200, answer)
}

// exchange finds the exchange of the path. A node that does not know it asks the leader first.
func (c *call) exchange(op router.Operation) (*router.Exchange, error) {
	n := c.name("exchange")
	if err := c.may(op, router.ResourceExchange, n); err != nil {
		return nil, err
	}
	x, err := c.router.Exchange(n)
	if core.KindOf(err) != core.NotFound {
		return x, err
	}
	if err := c.router.Sync(c.ctx); err != nil {
		return nil, err
	}
	return c.router.Exchange(n)
}

func getExchange(c *call) error {
	if err := c.onlyQuery(); err != nil {
		return err
	}
	x, err := c.exchange(router.OpDescribe)
	if err != nil {
		return err
	}
	return c.answer(200, jsonOfExchange(x))
}

// putExchange declares an exchange. One that is there with other properties is a conflict.
func putExchange(c *call) error {
	var spec exchangeSpec
	if err := c.definition(&spec); err != nil {
		return err
	}
	config := router.ExchangeConfig{
		Type: spec.Type, Durable: true, AutoDelete: spec.AutoDelete, Internal: spec.Internal, Arguments: sorted(spec.Arguments),
	}
	x, created, err := c.router.DeclareExchange(c.ctx, c.principal, c.name("exchange"), config)
	switch {
	case err != nil:
		return err
	case created:
		return c.answer(201, jsonOfExchange(x))
	case x.Type != config.Type || x.AutoDelete != config.AutoDelete || x.Internal != config.Internal || !sorted(headersJSON(x.Arguments)).Equal(config.Arguments):
		return core.E(core.Conflict, "exchange %s is there with other properties", x.Name)
	}
	return c.answer(200, jsonOfExchange(x))
}

// sorted are arguments in order of their names.
func sorted(h headersJSON) message.Table {
	t := slices.Clone(message.Table(h))
	slices.SortStableFunc(t, func(a, b message.Header) int { return cmp.Compare(a.Name, b.Name) })
	return t
}

func deleteExchange(c *call) error {
	if err := c.onlyQuery("ifUnused"); err != nil {
		return err
	}
	unused, err := c.flag("ifUnused")
	if err != nil {
		return err
	}
	if err := c.router.DeleteExchange(c.ctx, c.principal, c.name("exchange"), unused); err != nil {
		return err
	}
	return c.noContent()
}

// bindingSpec is a binding of the exchange of the path: to a queue, or a topic where no queue
// has the name, or to an exchange.
type bindingSpec struct {
	Queue     string      `json:"queue,omitempty"`
	Exchange  string      `json:"exchange,omitempty"`
	Key       string      `json:"key"`
	Arguments headersJSON `json:"arguments,omitempty"`
}

// binding reads the body.
func (c *call) binding() (b router.Binding, err error) {
	var spec bindingSpec
	if err := c.definition(&spec); err != nil {
		return b, err
	}
	if (spec.Queue == "") == (spec.Exchange == "") {
		return b, invalid("a binding leads to a queue or to an exchange")
	}
	return router.Binding{
		Source: c.name("exchange"), ToExchange: spec.Exchange != "", Key: spec.Key, Arguments: sorted(spec.Arguments),
		Destination: core.Name{Namespace: c.namespace, Name: spec.Queue + spec.Exchange},
	}, nil
}

// maxBindings bounds what one answer has.
const maxBindings = 10_000

func listBindings(c *call) error {
	if err := c.onlyQuery(); err != nil {
		return err
	}
	x, err := c.exchange(router.OpDescribe)
	if err != nil {
		return err
	}
	all, err := c.router.BindingsOf(router.BindingQuery{Source: &x.Name, Limit: maxBindings})
	if err != nil {
		return err
	}
	type bindingJSON struct {
		Queue     string       `json:"queue,omitempty"`
		Exchange  string       `json:"exchange,omitempty"`
		Key       string       `json:"key"`
		Arguments []headerJSON `json:"arguments,omitempty"`
	}
	answer := struct {
		Bindings []bindingJSON `json:"bindings"`
	}{Bindings: []bindingJSON{}}
	for _, b := range all {
		j := bindingJSON{Queue: b.Destination.Name, Key: b.Key, Arguments: jsonOfTable(b.Arguments)}
		if b.ToExchange {
			j.Queue, j.Exchange = "", b.Destination.Name
		}
		answer.Bindings = append(answer.Bindings, j)
	}
	return c.answer(200, answer)
}

func bind(c *call) error {
	b, err := c.binding()
	if err != nil {
		return err
	}
	if err := c.router.Bind(c.ctx, c.principal, b); err != nil {
		return err
	}
	return c.noContent()
}

func unbind(c *call) error {
	b, err := c.binding()
	if err != nil {
		return err
	}
	if err := c.router.Unbind(c.ctx, c.principal, b); err != nil {
		return err
	}
	return c.noContent()
}

// publishToExchange publishes each message by its routing key, which is its key where it says
// none. The result says how many queues and topics got it.
func publishToExchange(c *call) error {
	ms, err := c.messages()
	if err != nil {
		return err
	}
	if err := c.noIdempotencyKey(); err != nil {
		return err
	}
	x, err := c.exchange(router.OpWrite)
	if err != nil {
		return err
	}
	results := make([]resultJSON, len(ms))
	var mu sync.Mutex // guards results, left and late
	left, late := len(ms), false
	all := make(chan struct{})
	done := func(i int, r resultJSON) {
		mu.Lock()
		defer mu.Unlock()
		if !late {
			results[i] = r
		}
		if left--; left == 0 {
			close(all)
		}
	}
	for i := range ms {
		m := &ms[i]
		if m.err == nil && m.partition >= 0 {
			m.fail("an exchange has no partitions")
		}
		m.Exchange = x.Name.Name
		refused := cmp.Or(m.err, c.vouch(m))
		batch, err := m.Batch(nil)
		if err = cmp.Or(refused, err); err != nil {
			done(i, failure(err))
			continue
		}
		c.router.PublishTo(c.principal, router.Address{Exchange: x.Name, Keys: []string{m.RoutingKey}}, batch, func(r router.Routed) {
			done(i, resultOfRouted(r))
		})
	}
	select {
	case <-all:
	case <-c.ctx.Done():
		mu.Lock()
		late = true
		for i := range results {
			if results[i].Status == 0 {
				results[i] = failure(core.E(core.Uncertain, "it was not confirmed in %s: it may be stored, or not", front.CallTimeout))
			}
		}
		mu.Unlock()
	}
	return c.answerEach(results)
}

func resultOfRouted(r router.Routed) resultJSON {
	switch {
	case r.Err != nil:
		return failure(r.Err)
	case r.Rejected:
		return resultJSON{Status: 429, Code: "queue_full", Detail: "a queue is full and did not take it; others may have", Retryable: true, Queues: &r.Queues}
	}
	return resultJSON{Status: 200, Queues: &r.Queues}
}
