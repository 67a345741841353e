package state

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"polylog/core"
	"polylog/core/ackset"
	"polylog/core/message"
)

// randomExchangeCommand is any command about a few exchanges, bindings of any kind between
// them and the queues and topics of the other random commands, and messages.
func randomExchangeCommand(rnd *rand.Rand) core.Command {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	namespace := pick(core.DefaultNamespace, core.DefaultNamespace, core.DefaultNamespace, "v")
	name := func(n string) core.Name { return core.Name{Namespace: namespace, Name: n} }
	exchange := func() core.Name { return name(pick("x", "y", "z", "amq.topic", "amq.direct", "amq.headers", "a", "b")) }
	key := func() string { return pick("", "a", "a.b", "a.b.c", "1", "7") }
	switch n := rnd.IntN(100); {
	case n < 12:
		c := DeclareExchange{Name: exchange(), Config: ExchangeConfig{
			Type:       pick("direct", "fanout", "topic", "headers", "x-random", "x-modulus-hash", "x-consistent-hash"),
			AutoDelete: rnd.IntN(2) == 0, Internal: rnd.IntN(8) == 0,
		}}
		if rnd.IntN(3) == 0 {
			c.Config.Arguments = message.Table{{Name: ArgAlternate, Value: message.String(exchange().Name)}}
		}
		return c.Command()
	case n < 16:
		c := DeleteExchange{Name: exchange(), IfUnused: rnd.IntN(2) == 0}
		return c.Command()
	case n < 50:
		b := Binding{Source: exchange(), Key: pick(key(), "a.*", "#", "a.#.c", "*.*"), ToExchange: rnd.IntN(3) == 0}
		if b.ToExchange {
			b.Destination = exchange()
		} else {
			b.Destination = name(pick("q", "r", "s", "a", "b", "c"))
		}
		if rnd.IntN(3) == 0 {
			b.Arguments = message.Table{
				{Name: argMatch, Value: message.String(pick("all", "any"))},
				{Name: "h", Value: message.Int(message.KindInt32, int64(rnd.IntN(2)))},
			}
		}
		if n < 38 {
			return (&Bind{b}).Command()
		}
		return (&Unbind{b}).Command()
	case n < 52:
		c := CreateNamespace{Name: "v", Attributes: map[string]string{"k": key()}}
		return c.Command()
	case n < 53:
		c := DeleteNamespace{Name: namespace}
		return c.Command()
	case n < 56:
		c := DeclareQueue{Name: name(pick("q", "r", "s"))}
		return c.Command()
	}
	m := message.Message{Value: []byte("v"), Headers: message.Table{{Name: "h", Value: message.Int(message.KindInt64, int64(rnd.IntN(2)))}}}
	if rnd.IntN(2) == 0 {
		m.Key = []byte(key())
	}
	batch, err := m.Batch(nil)
	if err != nil {
		panic(err)
	}
	to := exchange()
	if rnd.IntN(4) == 0 {
		to.Name = ""
	}
	one := PublishCommand(to, []string{pick(key(), "q", "a"), key()}, batch)
	if rnd.IntN(5) > 0 {
		return one
	}
	c := Transact{Publishes: []core.Command{one, PublishCommand(exchange(), []string{key()}, batch)}}
	for range rnd.IntN(3) {
		o := core.Offset(rnd.IntN(20))
		g := GroupSettle{
			Queue: core.QueueID(1 + rnd.IntN(8)), Done: []ackset.Span{{First: o, End: o + 2}}, Rejected: []core.Offset{o + 3},
		}
		if rnd.IntN(2) == 0 {
			g.Letters = []Letter{{Offset: o + 3, Keys: []string{key()}}}
		}
		c.Settle.Term = core.Term(rnd.IntN(3))
		c.Settle.Groups = append(c.Settle.Groups, g)
	}
	return c.Command()
}

// everyExchangeCommand has one of each kind that is about exchanges.
func everyExchangeCommand(t testing.TB) []core.Command {
	x := core.TopicName("x")
	declare := DeclareExchange{Name: x, Config: ExchangeConfig{
		Type: TypeTopic, Durable: true, AutoDelete: true, Arguments: message.Table{{Name: ArgAlternate, Value: message.String("amq.fanout")}},
	}}
	queue := DeclareQueue{Name: core.TopicName("q2")}
	bind := Bind{Binding{Source: x, Destination: core.TopicName("q2"), Key: "a.#", Arguments: message.Table{{Name: "h", Value: message.Bool(true)}}}}
	both := Bind{Binding{Source: x, Destination: core.TopicName("amq.fanout"), ToExchange: true}}
	tap := Bind{Binding{Source: core.TopicName("t"), Destination: core.TopicName("q2"), Key: "#"}}
	unbind := Unbind(bind)
	m := message.Message{Key: []byte("a.b"), Value: []byte("v")}
	batch, err := m.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	transact := Transact{Publishes: []core.Command{
		PublishCommand(x, []string{"a.b"}, batch), PublishCommand(core.TopicName(""), []string{"q2"}, batch),
	}, Settle: Settle{Groups: []GroupSettle{{Queue: 5, Done: []ackset.Span{{First: 0, End: 1}}, Failed: []FailedDelivery{{1, true, 0}}}}}}
	dead := Transact{Settle: Settle{Groups: []GroupSettle{{
		Queue: 5, Rejected: []core.Offset{2}, Letters: []Letter{{Offset: 2, Exchange: "x", Keys: []string{"a.b"}}},
	}}}}
	remove := DeleteExchange{Name: x, IfUnused: true}
	create := CreateNamespace{Name: "v", Attributes: map[string]string{"k": "v"}}
	drop := DeleteNamespace{Name: "v"}
	return []core.Command{
		declare.Command(), queue.Command(), bind.Command(), both.Command(), tap.Command(), PublishCommand(x, []string{"a.b", "c"}, batch),
		transact.Command(), dead.Command(), unbind.Command(), remove.Command(), create.Command(), drop.Command(),
	}
}

func fuzzRoutingValues(t *testing.T, v []byte) {
	if x, err := decodeExchange(core.TopicName("x"), v); err == nil {
		if got, err := decodeExchange(x.Name, x.encode()); err != nil || !reflect.DeepEqual(got, x) {
			t.Errorf("exchange: %v, %v", got, err)
		}
	}
	if b, err := decodeBinding(v); err == nil {
		if got, err := decodeBinding(b.encode()); err != nil || !reflect.DeepEqual(got, b) {
			t.Errorf("binding: %v, %v", got, err)
		}
	}
	if n, err := decodeNamespace("v", v); err == nil {
		if got, err := decodeNamespace("v", n.encode()); err != nil || !reflect.DeepEqual(got, n) {
			t.Errorf("namespace: %v, %v", got, err)
		}
	}
	if id, ok := parseBindingKey(v); ok {
		for _, k := range [][]byte{id.sourceKey(), id.destinationKey()} {
			if got, ok := parseBindingKey(k); !ok || got != id {
				t.Errorf("binding's key: %+v, %v", got, ok)
			}
		}
	}
}

// checkRouting compares what is in memory with what a restart would find.
func (m *machine) checkRouting() {
	m.t.Helper()
	fresh := &State{store: m.store, all: m.state.all}
	m.must(fresh.loadRouting())
	got, want := m.state.routing.sketch(), fresh.routing.sketch()
	if diff := cmp.Diff(want, got); diff != "" {
		m.t.Fatalf("routing in memory is another one than a restart finds:\n%s", diff)
	}
}

// sketch is what routing is made of, to be compared.
func (r *routing) sketch() map[string]string {
	out := map[string]string{}
	for name, v := range r.vhosts {
		out["vhost "+name] = fmt.Sprint(v.Attributes, slices.Sorted(maps.Keys(v.exchanges)))
	}
	for id, x := range r.exchanges {
		out[fmt.Sprint("exchange ", id)] = fmt.Sprint(x.Name, x.bindings, x.gone, x.as != nil, x.Topic, r.taps[x.Topic] == x)
	}
	for id, d := range r.destinations {
		out[fmt.Sprint("destination ", id)] = fmt.Sprint(d.bindings, d.gone)
	}
	out["deleting"] = fmt.Sprint(slices.Sorted(maps.Keys(r.deleting)))
	r.doomed.ends.Scan(func(k string, next []byte) bool {
		out[fmt.Sprintf("doomed %x", k)] = fmt.Sprintf("%x", next)
		return true
	})
	return out
}

// TestManyBindingsGoInSteps deletes a queue and an exchange with more bindings than one
// command removes, an exchange that goes with its last binding, and loses power in between.
func TestManyBindingsGoInSteps(t *testing.T) {
	m, log := newMachine(t), newEntries()
	apply := func(c core.Command) core.Result {
		t.Helper()
		r := m.state.Apply(log.take(c))[0][0]
		if r.Err != nil {
			t.Fatal(r)
		}
		m.checkRouting()
		return r
	}
	q, x, y := core.TopicName("q"), core.TopicName("x"), core.TopicName("y")
	queue, other := DeclareQueue{Name: q}, DeclareQueue{Name: core.TopicName("other")}
	auto := DeclareExchange{Name: x, Config: ExchangeConfig{Type: TypeTopic, AutoDelete: true}}
	upstream := DeclareExchange{Name: y, Config: ExchangeConfig{Type: TypeFanout, AutoDelete: true}}
	apply(queue.Command())
	apply(other.Command())
	apply(auto.Command())
	apply(upstream.Command())
	apply((&Bind{Binding{Source: y, Destination: x, ToExchange: true}}).Command())
	const n = 3*bindingsAtOnce + 5
	var cs []core.Command
	for i := range n {
		cs = append(cs, (&Bind{Binding{Source: x, Destination: q, Key: fmt.Sprint("a.", i)}}).Command())
		cs = append(cs, (&Bind{Binding{Source: core.TopicName("amq.direct"), Destination: q, Key: fmt.Sprint(i)}}).Command())
	}
	m.state.Apply(log.take(cs...))
	m.checkRouting()
	m.checkpoint()
	publish := PublishCommand(x, []string{"a.7"}, (&script{machine: m, log: log, d: &datadriven.TestData{}}).message())
	if r := apply(publish); r.Offset != 1 {
		t.Fatal(r)
	}
	remove := DeleteQueue{Queue: 1}
	apply(remove.Command())
	if r := apply(publish); r.Offset != 0 {
		t.Fatalf("%v: the queue is gone", r)
	}
	m.crash(log.all)
	m.checkRouting()
	sweep := Sweep{Work: 300}
	steps := 0
	for ; m.state.ToSweep() > 0; steps++ {
		apply(sweep.Command())
		if steps == 3 {
			m.checkpoint()
			m.crash(log.all)
		}
	}
	if steps < 2*n/300 {
		t.Fatalf("only %d steps", steps)
	}
	for _, name := range []core.Name{x, y} { // y went with its binding to x
		if got, err := m.state.Exchange(name); got != nil || err != nil {
			t.Errorf("%v, %v: it goes with its last binding", got, err)
		}
	}
	if got := m.state.routing.sketch(); len(got) != 3 { // the namespace, amq.direct, none deleted
		t.Fatalf("%v is left", got)
	}
}
