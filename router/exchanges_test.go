package router_test

import (
	"fmt"
	"testing"

	"polylog/core"
	"polylog/core/message"
	"polylog/router"
	"polylog/router/routertest"
)

// publishTo publishes a message and waits for what became of it.
func publishTo(t testing.TB, r *router.Router, exchange, key, value string) router.Routed {
	t.Helper()
	m := message.Message{Key: []byte(key), Value: []byte(value)}
	batch, err := m.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan router.Routed, 1)
	r.PublishTo(nobody, router.Address{Exchange: core.TopicName(exchange), Keys: []string{key}}, batch, func(out router.Routed) { done <- out })
	return <-done
}

func TestExchanges(t *testing.T) {
	r, _ := routertest.Start(t, nil)
	ctx := timeout(t)
	n := core.TopicName("x")
	x, created, err := r.DeclareExchange(ctx, nobody, n, router.ExchangeConfig{Type: "fanout"})
	if err != nil || !created || x.Type != "fanout" {
		t.Fatal(x, created, err)
	}
	if x, created, err = r.DeclareExchange(ctx, nobody, n, router.ExchangeConfig{Type: "direct"}); err != nil || created || x.Type != "fanout" {
		t.Fatal(x, created, err)
	}
	q := declare(t, r, "q", router.QueueConfig{})
	b := router.Binding{Source: n, Destination: q.Name, Key: "k"}
	if err := r.Bind(ctx, nobody, b); err != nil {
		t.Fatal(err)
	}
	for _, d := range []router.Binding{
		{Source: core.TopicName("none"), Destination: q.Name},
		{Source: n, Destination: core.TopicName("none")},
		{Source: n, Destination: core.TopicName("none"), ToExchange: true},
	} {
		err := r.Bind(ctx, nobody, d)
		missing, ok := err.(*router.MissingError) //nolint:errorlint // as it is
		if !ok || missing.Name.Name != "none" || core.KindOf(err) != core.NotFound {
			t.Errorf("%+v: %v", d, err)
		}
	}
	if out := publishTo(t, r, "x", "any", "1"); out != (router.Routed{Queues: 1}) {
		t.Fatal(out)
	}
	if out := publishTo(t, r, "", "q", "2"); out != (router.Routed{Queues: 1}) {
		t.Fatal(out)
	}
	if out := publishTo(t, r, "none", "q", "3"); core.KindOf(out.Err) != core.NotFound {
		t.Fatal(out)
	}
	c := consume(t, r, router.ConsumeSpec{Queue: q.ID})
	for _, want := range []string{"1", "2"} {
		if d, err := c.Next(ctx); err != nil || string(d.Record.Value) != want {
			t.Fatal(d, err)
		}
	}
	for _, query := range []router.BindingQuery{
		{Source: &n, Limit: 10},
		{Destination: &q.Name, Limit: 10},
		{Source: &n, Destination: &q.Name, Limit: 10},
	} {
		if bs, err := r.BindingsOf(query); err != nil || len(bs) != 1 || fmt.Sprint(bs[0]) != fmt.Sprint(b) {
			t.Fatal(bs, err)
		}
	}
	xs, err := r.Exchanges(core.DefaultNamespace, "amq.match", 10)
	if err != nil || len(xs) != 3 || xs[2].Name != n {
		t.Fatal(xs, err)
	}
	if err := r.DeleteExchange(ctx, nobody, n, true); core.KindOf(err) != core.Conflict {
		t.Fatal(err)
	}
	if err := r.Unbind(ctx, nobody, b); err != nil {
		t.Fatal(err)
	}
	if err := r.DeleteExchange(ctx, nobody, n, true); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Exchange(n); core.KindOf(err) != core.NotFound {
		t.Fatal(err)
	}
}
