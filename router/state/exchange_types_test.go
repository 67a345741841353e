package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"polylog/core"
	"polylog/core/message"
)

// switchboard is a state with one exchange, to bind and to publish to without a log.
type switchboard struct {
	t *testing.T
	s *State
	x *exchange
	n uint64 // destinations so far
}

func newSwitchboard(t *testing.T, c ExchangeConfig) *switchboard {
	b := &switchboard{t: t, s: newMachine(t).state}
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	b.x = newExchange(Exchange{Name: core.TopicName("x"), ID: 1, ExchangeConfig: c})
	b.s.routing.stored(b.s.routing.vhosts[core.DefaultNamespace], b.x)
	return b
}

// bind adds a binding to a new queue and returns the queue's id.
func (b *switchboard) bind(key string, arguments ...message.Header) core.QueueID {
	b.n++
	b.change(b.s.routing.bind, core.QueueID(b.n), key, arguments)
	return core.QueueID(b.n)
}

func (b *switchboard) unbind(q core.QueueID, key string, arguments ...message.Header) {
	b.change(func(id bindingID, bd *Binding) { b.s.routing.unbind(id, bd) }, q, key, arguments)
}

func (b *switchboard) change(fn func(bindingID, *Binding), q core.QueueID, key string, arguments message.Table) {
	bd := &Binding{Source: b.x.Name, Key: key, Arguments: sortArguments(arguments)}
	if check := exchangeTypes[b.x.Type].check; check != nil {
		if err := check(bd); err != nil {
			b.t.Fatal(err)
		}
	}
	fn(newBindingID(1, destinationID{toQueue, uint64(q)}, bd), bd)
}

// route is the queues that a message goes to, in order.
func (b *switchboard) route(index int, m *message.Message, keys ...string) []core.QueueID {
	b.t.Helper()
	batch, err := m.Batch(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	var p passage
	for _, k := range keys {
		p.keys = append(p.keys, []byte(k))
	}
	c := cursor{index: core.LogIndex(index)}
	p.begin(core.Run{Ref: core.Ref{Index: c.index, Count: 1}}, batch)
	d, found, err := b.s.match(nil, &c, b.s.routing.vhosts[core.DefaultNamespace], []byte("x"), &p)
	if err != nil || !found {
		b.t.Fatal(found, err)
	}
	qs := slices.Clone(b.s.routing.match.queues[d.queues:d.queuesEnd])
	b.s.routing.match.drop(d)
	slices.Sort(qs)
	return qs
}

// matches is what AMQP says that a pattern means, word by word.
func matches(pattern, key []string) bool {
	switch {
	case len(pattern) == 0:
		return len(key) == 0
	case pattern[0] == "#":
		return matches(pattern[1:], key) || len(key) > 0 && matches(pattern, key[1:])
	case len(key) == 0:
		return false
	}
	return (pattern[0] == "*" || pattern[0] == key[0]) && matches(pattern[1:], key[1:])
}

func words(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ".")
}

// TestTopicPatterns compares random patterns and keys with the definition, while bindings come
// and go; at the end nothing is left of them.
func TestTopicPatterns(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		b := newSwitchboard(t, ExchangeConfig{Type: TypeTopic})
		text := func(alphabet ...string) string {
			ws := make([]string, rnd.IntN(5))
			for i := range ws {
				ws[i] = alphabet[rnd.IntN(len(alphabet))]
			}
			return strings.Join(ws, ".")
		}
		bound := map[core.QueueID]string{}
		for range 200 {
			if len(bound) > 20 {
				for q, pattern := range bound {
					b.unbind(q, pattern)
					delete(bound, q)
					break
				}
			}
			pattern := text("a", "b", "", "*", "#", "#")
			bound[b.bind(pattern)] = pattern
			key := text("a", "b", "", "c")
			var want []core.QueueID
			for q, pattern := range bound {
				if matches(words(pattern), words(key)) {
					want = append(want, q)
				}
			}
			slices.Sort(want)
			if got := b.route(1, &message.Message{}, key); !slices.Equal(got, want) {
				t.Fatalf("seed %d: key %q goes to %v, want %v of %v", seed, key, got, want, bound)
			}
		}
		for q, pattern := range bound {
			b.unbind(q, pattern)
		}
		if root := b.x.table.(*topicTable).root; !root.empty() {
			t.Fatalf("seed %d: %+v is left", seed, root)
		}
	}
}

// A pattern of many "#" takes no longer than one of many words: trying all ways would take
// longer than the universe has.
func TestHostilePattern(t *testing.T) {
	b := newSwitchboard(t, ExchangeConfig{Type: TypeTopic})
	b.bind(strings.Repeat("#.a.", 500) + "b")
	q := b.bind(strings.Repeat("#.", 1000) + "c")
	if got := b.route(1, &message.Message{}, strings.Repeat("a.", 1500)+"c"); !slices.Equal(got, []core.QueueID{q}) {
		t.Fatal(got)
	}
}

func TestHeadersExchange(t *testing.T) {
	b := newSwitchboard(t, ExchangeConfig{Type: TypeHeaders})
	text := func(name, v string) message.Header { return message.Header{Name: name, Value: message.String(v)} }
	number := func(k message.Kind, name string, v int64) message.Header {
		return message.Header{Name: name, Value: message.Int(k, v)}
	}
	there := func(name string) message.Header { return message.Header{Name: name} }
	all := b.bind("", text("a", "1"), number(message.KindInt32, "n", 5))
	one := b.bind("", text("x-match", "any"), text("a", "1"), text("b", "2"))
	present := b.bind("", text("x-match", "all"), there("c"))
	nothing := b.bind("", text("x-match", "any"))
	every := b.bind("")
	withX := b.bind("", text("x-match", "all-with-x"), text("x-y", "1"))
	withoutX := b.bind("", text("x-match", "all"), text("x-y", "1"))
	anyX := b.bind("", text("x-match", "any-with-x"), text("x-y", "1"), text("a", "9"))
	_ = nothing
	for _, c := range []struct {
		headers message.Table
		want    []core.QueueID
	}{
		{nil, []core.QueueID{every, withoutX}},
		{message.Table{text("a", "1")}, []core.QueueID{one, every, withoutX}},
		{message.Table{text("a", "1"), number(message.KindInt64, "n", 5)}, []core.QueueID{all, one, every, withoutX}},
		{message.Table{text("a", "1"), number(message.KindInt64, "n", 6)}, []core.QueueID{one, every, withoutX}},
		{message.Table{text("b", "2")}, []core.QueueID{one, every, withoutX}},
		{message.Table{text("a", "2")}, []core.QueueID{every, withoutX}},
		{message.Table{there("c")}, []core.QueueID{present, every, withoutX}},
		{message.Table{text("x-y", "1")}, []core.QueueID{every, withX, withoutX, anyX}},
		{message.Table{text("a", "9")}, []core.QueueID{every, withoutX, anyX}},
	} {
		if got := b.route(1, &message.Message{Headers: c.headers}, "key"); !slices.Equal(got, c.want) {
			t.Errorf("%v goes to %v, want %v", c.headers, got, c.want)
		}
	}
	b.unbind(every, "")
	if got := b.route(1, &message.Message{}, "key"); !slices.Equal(got, []core.QueueID{withoutX}) {
		t.Error(got)
	}
	for _, v := range []message.Value{message.String("some"), message.Bool(true)} {
		bd := Binding{Arguments: message.Table{{Name: "x-match", Value: v}}}
		if err := checkHeadersBinding(&bd); core.KindOf(err) != core.Invalid {
			t.Errorf("%s: %v", v, err)
		}
	}
}

// TestConsistentHash looks that keys are shared out by weight, that a new binding takes keys
// and moves none between the others, and that its end gives them back.
func TestConsistentHash(t *testing.T) {
	b := newSwitchboard(t, ExchangeConfig{Type: TypeConsistentHash})
	light, heavy := b.bind("10"), b.bind("30")
	const n = 8000
	where := func() map[int]core.QueueID {
		m := map[int]core.QueueID{}
		for i := range n {
			qs := b.route(1, &message.Message{}, fmt.Sprint("key-", i))
			if len(qs) != 1 {
				t.Fatalf("key %d goes to %v", i, qs)
			}
			m[i] = qs[0]
		}
		return m
	}
	count := func(m map[int]core.QueueID, q core.QueueID) (c int) {
		for _, at := range m {
			if at == q {
				c++
			}
		}
		return c
	}
	before := where()
	if l, h := count(before, light), count(before, heavy); l+h != n || l < n/6 || l > n/3 {
		t.Fatalf("%d and %d of %d", l, h, n)
	}
	added := b.bind("40")
	after := where()
	for i := range n {
		if after[i] != before[i] && after[i] != added {
			t.Fatalf("key %d moved from %d to %d, and %d was added", i, before[i], after[i], added)
		}
	}
	if c := count(after, added); c < n/3 || c > 2*n/3 {
		t.Fatalf("%d of %d go to the new one", c, n)
	}
	b.unbind(added, "40")
	again := where()
	for i := range n {
		if again[i] != before[i] {
			t.Fatalf("key %d is at %d, was at %d", i, again[i], before[i])
		}
	}
	b.s.routing.destinations[destinationID{toQueue, uint64(heavy)}].gone = true
	if m := where(); count(m, light) != n {
		t.Fatal("keys go to what is gone")
	}
	huge := Binding{Source: b.x.Name, Key: fmt.Sprint(maxWeight)}
	for range maxWeights / maxWeight {
		b.bind(huge.Key)
	}
	if err := b.s.routing.roomFor(b.x, &huge); core.KindOf(err) != core.Limit {
		t.Fatalf("weights of %d: %v", b.x.weights, err)
	}
	for _, key := range []string{"", "x", "-1", "0", "10001", "99999999999999999999"} {
		if err := checkWeight(&Binding{Key: key}); core.KindOf(err) != core.Invalid {
			t.Errorf("weight %q: %v", key, err)
		}
	}
}

// What is hashed may be a header or a property instead of the key.
func TestConsistentHashOfOtherParts(t *testing.T) {
	text := func(name, v string) message.Header { return message.Header{Name: name, Value: message.String(v)} }
	for _, c := range []struct {
		argument message.Header
		message  func(string) *message.Message
	}{
		{text(argHashHeader, "h"), func(v string) *message.Message { return &message.Message{Headers: message.Table{text("h", v)}} }},
		{text(argHashProperty, "message_id"), func(v string) *message.Message { return &message.Message{MessageID: v} }},
		{text(argHashProperty, "correlation_id"), func(v string) *message.Message { return &message.Message{CorrelationID: []byte(v)} }},
		{text(argHashProperty, "timestamp"), func(v string) *message.Message { return &message.Message{Time: int64(len(v)) * 1000} }},
	} {
		b := newSwitchboard(t, ExchangeConfig{Type: TypeConsistentHash, Arguments: message.Table{c.argument}})
		for range 8 {
			b.bind("5")
		}
		seen := map[core.QueueID]bool{}
		for i := range 50 {
			v := strings.Repeat("v", i)
			one, two := b.route(1, c.message(v), "k"), b.route(2, c.message(v), "other")
			if len(one) != 1 || !slices.Equal(one, two) {
				t.Fatalf("%v: %v and %v", c.argument, one, two)
			}
			seen[one[0]] = true
		}
		if len(seen) < 3 {
			t.Errorf("%v: all goes to %v", c.argument, seen)
		}
	}
	for _, arguments := range []message.Table{
		{text(argHashHeader, "h"), text(argHashProperty, "message_id")},
		{text(argHashProperty, "body")},
		{{Name: argHashHeader, Value: message.Bool(true)}},
	} {
		if err := CheckExchange(&ExchangeConfig{Type: TypeConsistentHash, Arguments: arguments}); core.KindOf(err) != core.Invalid {
			t.Errorf("%v: %v", arguments, err)
		}
	}
}

// Random and modulus exchanges send to one queue, all of them in turn of chance.
func TestOneOfMany(t *testing.T) {
	for _, typ := range []string{TypeRandom, TypeModulusHash} {
		b := newSwitchboard(t, ExchangeConfig{Type: typ})
		qs := []core.QueueID{b.bind(""), b.bind(""), b.bind("")}
		b.s.routing.destinations[destinationID{toQueue, uint64(qs[1])}].gone = true
		count := map[core.QueueID]int{}
		for i := range 600 {
			got := b.route(i, &message.Message{}, fmt.Sprint("key-", i))
			if len(got) != 1 {
				t.Fatalf("%s: %v", typ, got)
			}
			count[got[0]]++
		}
		if count[qs[0]] < 100 || count[qs[2]] < 100 || len(count) != 2 {
			t.Errorf("%s: %v", typ, count)
		}
	}
}

// TestRouteByReference routes what is known by its place in the log only: the first key says
// which partition of a topic it goes to, and there are no headers.
func TestRouteByReference(t *testing.T) {
	m, log := newMachine(t), newEntries()
	topic := CreateTopic{Name: core.TopicName("t"), Partitions: 5}
	queue := DeclareQueue{Name: core.TopicName("q")}
	x := core.TopicName("amq.headers")
	m.state.Apply(log.take(topic.Command(), queue.Command(),
		(&Bind{Binding{Source: x, Destination: topic.Name}}).Command(),
		(&Bind{Binding{Source: x, Destination: queue.Name, Arguments: message.Table{{Name: "h"}}}}).Command(),
		AppendCommand(6, batch(t, 3, 1, core.Nobody))))
	p := &passage{keys: [][]byte{[]byte("foobar")}}
	run := core.Run{Ref: core.Ref{Index: 1, Pos: 30, Len: 90, First: 1, Count: 1}}
	p.begin(run, nil)
	c := &cursor{index: 2, time: 7}
	m.must(m.store.Update(func(tx txn) error {
		r, found, err := m.state.routeTo(tx, c, core.DefaultNamespace, x.Name, p)
		if err != nil || !found || r.queues != 1 {
			t.Errorf("%+v, %v, %v", r, found, err)
		}
		if _, found, err = m.state.routeTo(tx, c, core.DefaultNamespace, "none", p); found || err != nil {
			t.Error(found, err)
		}
		if _, found, err = m.state.routeTo(tx, c, "none", x.Name, p); found || err != nil {
			t.Error(found, err)
		}
		return nil
	}))
	at, _ := m.state.Topic(topic.Name)
	runs, err := m.store.Runs(at.Queues[core.PartitionOf([]byte("foobar"), 5)], 0, 10, nil)
	if err != nil || len(runs) != 1 || runs[0].Ref != run.Ref {
		t.Fatalf("%+v, %v", runs, err)
	}
}

// The rings of all hash exchanges are bounded together; one that is deleted makes room.
func TestWeightsOfAllExchanges(t *testing.T) {
	m, e := newMachine(t), newEntries()
	apply := func(c core.Command) core.Result { return m.state.Apply(e.take(c))[0][0] }
	q := DeclareQueue{Name: core.TopicName("q")}
	apply(q.Command())
	bind := func(x string, weight int) error {
		b := Bind{Binding{Source: core.TopicName(x), Destination: q.Name, Key: fmt.Sprint(weight)}}
		if r := apply(b.Command()); r.Err != nil {
			return r.Err
		}
		return nil
	}
	for i := range 3 {
		d := DeclareExchange{Name: core.TopicName(fmt.Sprint("x", i)), Config: ExchangeConfig{Type: TypeConsistentHash}}
		apply(d.Command())
	}
	for x := range 6 {
		if err := bind(fmt.Sprint("x", x/3), maxWeight-x%3); err != nil {
			t.Fatal(err)
		}
	}
	if err := bind("x2", maxWeight); core.KindOf(err) != core.Limit {
		t.Fatalf("%d of weights in all: %v", m.state.routing.weights, err)
	}
	if err := bind("x2", 1); err != nil {
		t.Fatal(err)
	}
	gone := DeleteExchange{Name: core.TopicName("x0")}
	if r := apply(gone.Command()); r.Err != nil {
		t.Fatal(r.Err)
	}
	if err := bind("x2", maxWeight); err != nil {
		t.Fatal(err)
	}
	weights := m.state.routing.weights
	sweep := Sweep{Work: 1000}
	apply(sweep.Command())
	m.must(m.state.loadRouting())
	if m.state.routing.weights != weights {
		t.Errorf("weights of %d, after a restart %d", weights, m.state.routing.weights)
	}
}
