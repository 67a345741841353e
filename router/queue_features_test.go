package router_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/message"
	"polylog/router"
	"polylog/router/routertest"
	"polylog/router/state"
)

// atRest is a router with a clock that stands still.
func atRest(t *testing.T) (*router.Router, *routertest.Log, *routertest.Clock) {
	t.Helper()
	clock := routertest.NewClock(time.UnixMilli(1_700_000_000_000))
	r, log := routertest.Start(t, func(o *router.Options) { o.Clock = clock.Now })
	return r, log, clock
}

// send publishes a message to the default exchange.
func send(t testing.TB, r *router.Router, q string, m message.Message) router.Routed {
	t.Helper()
	m.RoutingKey, m.Key = q, []byte(q)
	batch, err := m.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan router.Routed, 1)
	r.PublishTo(nobody, router.Address{Exchange: core.TopicName(""), Keys: []string{q}}, batch, func(out router.Routed) { done <- out })
	return <-done
}

func plain(v string) message.Message { return message.Message{Value: []byte(v), Priority: -1} }

// ready waits for a queue to have so many messages that can be delivered.
func ready(t testing.TB, r *router.Router, q *router.Queue, n int64) {
	t.Helper()
	counts(t, r, q, n, 0)
}

// checkTimers does what is due.
func checkTimers(t testing.TB, r *router.Router) {
	t.Helper()
	if err := r.CheckTimers(timeout(t)); err != nil {
		t.Fatal(err)
	}
}

// gone waits for a queue not to be there.
func gone(t testing.TB, r *router.Router, name string) {
	t.Helper()
	ctx := timeout(t)
	for {
		if _, err := r.Queue(core.TopicName(name)); errors.Is(err, core.NotFound) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("queue %s is still there", name)
		}
		checkTimers(t, r)
	}
}

func get(t testing.TB, c *router.Consumer) (d router.Delivery, ok bool, left int64) {
	t.Helper()
	d, ok, left, err := c.Get(timeout(t))
	if err != nil {
		t.Fatal(err)
	}
	return d, ok, left
}

// A queue that nobody consumes loses what has expired when its timer is due, with a history.
func TestMessagesExpireWithoutConsumers(t *testing.T) {
	r, _, clock := atRest(t)
	dead := declare(t, r, "dead", router.QueueConfig{})
	q := declare(t, r, "q", router.QueueConfig{Limits: router.QueueLimits{
		HasTTL: true, TTL: 1000, HasDeadLetter: true, HasDeadLetterKey: true, DeadLetterKey: "dead",
	}})
	send(t, r, "q", plain("a"))
	clock.Advance(400 * time.Millisecond)
	short := plain("b")
	short.ExpiresAt = clock.Now().UnixMilli() + 10
	send(t, r, "q", short) // behind a, so it goes with it
	checkTimers(t, r)
	ready(t, r, q, 2)
	clock.Advance(599 * time.Millisecond)
	checkTimers(t, r)
	ready(t, r, dead, 0)
	clock.Advance(time.Millisecond)
	checkTimers(t, r)
	ready(t, r, q, 0)
	ready(t, r, dead, 2)
	c := consume(t, r, router.ConsumeSpec{Queue: dead.ID})
	for _, v := range []string{"a", "b"} {
		d := next(t, c, v, false)
		want := router.Death{
			Queue: q.Name, Reason: router.DeathExpired, Time: clock.Now().UnixMilli(), Count: 1, Keys: []string{"q"}, First: true, Offset: d.Offset,
		}
		if len(d.Deaths) != 1 || d.Deaths[0].Queue != want.Queue || d.Deaths[0].Reason != want.Reason || d.Deaths[0].Time != want.Time ||
			d.Deaths[0].Count != 1 || !slices.Equal(d.Deaths[0].Keys, want.Keys) || !d.Deaths[0].First || !slices.Equal(d.RoutingKeys, []string{"dead"}) {
			t.Fatalf("%+v, want %+v", d, want)
		}
	}
}

// What a consumer holds does not expire; when it comes back it does, and nobody gets it.
func TestNothingExpiredIsDelivered(t *testing.T) {
	r, _, clock := atRest(t)
	q := declare(t, r, "q", router.QueueConfig{Limits: router.QueueLimits{HasTTL: true, TTL: 1000}})
	send(t, r, "q", plain("a"))
	send(t, r, "q", plain("b"))
	c := consume(t, r, router.ConsumeSpec{Queue: q.ID, Prefetch: 1})
	a := next(t, c, "a", false)
	clock.Advance(2 * time.Second)
	checkTimers(t, r)
	counts(t, r, q, 0, 1)
	send(t, r, "q", plain("c"))
	c.Settle(router.Release, 0, []router.Receipt{a.Receipt}, nil)
	ack(t, c, next(t, c, "c", false).Receipt)
	counts(t, r, q, 0, 0)
}

// A time to live of 0 is for a consumer that is ready; nobody else gets the message.
func TestImmediateMessages(t *testing.T) {
	r, _, _ := atRest(t)
	q := declare(t, r, "q", router.QueueConfig{Limits: router.QueueLimits{HasTTL: true}})
	send(t, r, "q", plain("a"))
	ready(t, r, q, 0)
	c := consume(t, r, router.ConsumeSpec{Queue: q.ID, Prefetch: 1})
	send(t, r, "q", plain("b"))
	ack(t, c, next(t, c, "b", false).Receipt)
}

// The next leader takes up what the one before left: nothing that expired is delivered, and
// nothing is dead-lettered twice.
func TestExpiryAcrossLeaders(t *testing.T) {
	clock := routertest.NewClock(time.UnixMilli(1_700_000_000_000))
	set := func(o *router.Options) { o.Clock = clock.Now }
	a, la := routertest.Start(t, set)
	b, lb := routertest.Join(t, la, "2", set)
	dead := declare(t, a, "dead", router.QueueConfig{})
	q := declare(t, a, "q", router.QueueConfig{Limits: router.QueueLimits{
		HasTTL: true, TTL: 1000, HasDeadLetter: true, HasDeadLetterKey: true, DeadLetterKey: "dead",
	}})
	for range 5 {
		send(t, a, "q", plain("x"))
	}
	clock.Advance(time.Second)
	checkTimers(t, a)
	ready(t, a, q, 0)
	for range 5 {
		send(t, a, "q", plain("y"))
	}
	clock.Advance(time.Second)
	lb.SetLeader(true)
	c := consume(t, b, router.ConsumeSpec{Queue: q.ID})
	send(t, b, "q", plain("z"))
	next(t, c, "z", false)
	checkTimers(t, b)
	ready(t, b, dead, 10)
}

// The head is dropped, in the order of age, whether or not anybody consumes.
func TestDropHead(t *testing.T) {
	r, _, _ := atRest(t)
	dead := declare(t, r, "dead", router.QueueConfig{})
	q := declare(t, r, "q", router.QueueConfig{Limits: router.QueueLimits{
		HasMaxLength: true, MaxLength: 2, HasDeadLetter: true, HasDeadLetterKey: true, DeadLetterKey: "dead",
	}})
	for _, v := range []string{"1", "2", "3", "4"} {
		send(t, r, "q", plain(v))
	}
	checkTimers(t, r)
	ready(t, r, dead, 2)
	g := consume(t, r, router.ConsumeSpec{Queue: q.ID, Getter: true})
	three, _, _ := get(t, g)
	four, _, left := get(t, g)
	if string(three.Record.Value) != "3" || string(four.Record.Value) != "4" || left != 0 {
		t.Fatalf("%+v, %+v, %d left", three, four, left)
	}
	send(t, r, "q", plain("5"))
	send(t, r, "q", plain("6"))
	counts(t, r, q, 2, 2)
	g.Settle(router.Release, 0, []router.Receipt{three.Receipt, four.Receipt}, nil)
	ready(t, r, dead, 4)
	c := consume(t, r, router.ConsumeSpec{Queue: dead.ID})
	for _, v := range []string{"1", "2", "3", "4"} {
		if d := next(t, c, v, false); d.Deaths[0].Reason != router.DeathMaxLen {
			t.Fatalf("%+v", d.Deaths)
		}
	}
}

// What is too much because something came back is dead when that is answered, though the dispatcher has not heard
// yet of what was confirmed in between.
func TestDropHeadBeforeTheAnswer(t *testing.T) {
	for name, outcome := range map[string]router.Outcome{"released": router.Release, "failed": router.Fail} {
		t.Run(name, func(t *testing.T) {
			r, _, _ := atRest(t)
			other := declare(t, r, "other", router.QueueConfig{Limits: router.QueueLimits{HasMaxLength: true, MaxLength: 1}})
			dead := declare(t, r, "dead", router.QueueConfig{})
			q := declare(t, r, "q", router.QueueConfig{Limits: router.QueueLimits{
				HasMaxLength: true, MaxLength: 1, HasDeadLetter: true, HasDeadLetterKey: true, DeadLetterKey: "dead",
			}})
			consume(t, r, router.ConsumeSpec{Queue: other.ID, Getter: true})
			g := consume(t, r, router.ConsumeSpec{Queue: q.ID, Getter: true})
			send(t, r, "q", plain("1"))
			one, _, _ := get(t, g)
			tell := r.HoldNews(other.ID)
			defer tell()
			send(t, r, "other", plain("the news of it comes first,"))
			send(t, r, "other", plain("and that it is too long"))
			send(t, r, "q", plain("2"))
			answered := make(chan error, 1)
			g.Settle(outcome, 0, []router.Receipt{one.Receipt}, func(_ []core.Kind, err error) { answered <- err })
			if err := <-answered; err != nil {
				t.Fatal(err)
			}
			if c, err := r.CountQueue(timeout(t), dead.ID, ""); err != nil || c.Ready != 1 {
				t.Fatalf("%+v, %v: nothing is dead", c, err)
			}
		})
	}
}

// A queue that refuses what is too much takes more when consumers hold some of it.
func TestRejectPublish(t *testing.T) {
	r, _, _ := atRest(t)
	dead := declare(t, r, "dead", router.QueueConfig{})
	q := declare(t, r, "q", router.QueueConfig{Limits: router.QueueLimits{
		HasMaxLength: true, MaxLength: 1, Overflow: router.RejectPublishDLX, HasDeadLetter: true, HasDeadLetterKey: true, DeadLetterKey: "dead",
	}})
	if out := send(t, r, "q", plain("1")); out.Rejected {
		t.Fatal("the first one was refused")
	}
	if out := send(t, r, "q", plain("2")); !out.Rejected {
		t.Fatal("the second one was not refused")
	}
	ready(t, r, dead, 1)
	c := consume(t, r, router.ConsumeSpec{Queue: q.ID, Prefetch: 1})
	next(t, c, "1", false)
	ctx := timeout(t)
	for send(t, r, "q", plain("3")).Rejected { // until it is known that somebody has the first one
		if ctx.Err() != nil {
			t.Fatal("what is with a consumer takes room")
		}
	}
}

func TestGet(t *testing.T) {
	r, _, _ := atRest(t)
	q := declare(t, r, "q", router.QueueConfig{})
	g := consume(t, r, router.ConsumeSpec{Queue: q.ID, Getter: true})
	if d, ok, left := get(t, g); ok || left != 0 {
		t.Fatalf("got %+v of an empty queue, %d left", d, left)
	}
	publish(t, r, q, "a", "b", "c")
	d, ok, left := get(t, g)
	if !ok || left != 2 || string(d.Record.Value) != "a" || d.Redelivered {
		t.Fatalf("%+v, %v, %d left", d, ok, left)
	}
	ack(t, g, d.Receipt)
	if d, _, _ = get(t, g); string(d.Record.Value) != "b" {
		t.Fatalf("%+v", d)
	}
	if n, err := r.CountQueue(timeout(t), q.ID, ""); err != nil || n.Consumers != 0 || n.Ready != 1 || n.Unsettled != 1 {
		t.Fatalf("%+v, %v", n, err)
	}
	g.Close()
	ready(t, r, q, 2)
	g = consume(t, r, router.ConsumeSpec{Queue: q.ID, Getter: true})
	if d, _, _ = get(t, g); string(d.Record.Value) != "b" || !d.Redelivered {
		t.Fatalf("%+v", d)
	}
}

// What a consumer can take is for it, whoever asks for a message while it is on its way.
func TestGetBesideConsumer(t *testing.T) {
	r, _, _ := atRest(t)
	for i := range 20 {
		q := declare(t, r, fmt.Sprint("q", i), router.QueueConfig{})
		c := consume(t, r, router.ConsumeSpec{Queue: q.ID, Prefetch: 1})
		g := consume(t, r, router.ConsumeSpec{Queue: q.ID, Getter: true})
		send(t, r, q.Name.Name, plain("1"))
		if d, ok, _ := get(t, g); ok {
			t.Fatalf("got %+v, which the consumer waits for", d)
		}
		next(t, c, "1", false)
		send(t, r, q.Name.Name, plain("2")) // for which it has no credit
		if d, ok, _ := get(t, g); !ok || string(d.Record.Value) != "2" {
			t.Fatalf("got %+v, %v", d, ok)
		}
	}
}

// A message that only a ready consumer gets expires when it comes back, though one is ready.
func TestReturnedAtOnceExpires(t *testing.T) {
	r, _, _ := atRest(t)
	q := declare(t, r, "q", router.QueueConfig{Limits: router.QueueLimits{HasTTL: true}})
	c := consume(t, r, router.ConsumeSpec{Queue: q.ID, Prefetch: 2})
	send(t, r, "q", plain("1"))
	d := next(t, c, "1", false)
	c.Settle(router.Release, 0, []router.Receipt{d.Receipt}, nil)
	ready(t, r, q, 0)
	send(t, r, "q", plain("2"))
	next(t, c, "2", false)
}

func TestAutoDelete(t *testing.T) {
	r, _, _ := atRest(t)
	q := declare(t, r, "q", router.QueueConfig{AutoDelete: true})
	checkTimers(t, r)
	ready(t, r, q, 0) // it never had a consumer
	c, d := consume(t, r, router.ConsumeSpec{Queue: q.ID}), consume(t, r, router.ConsumeSpec{Queue: q.ID})
	c.Close()
	checkTimers(t, r)
	if n, err := r.CountQueue(timeout(t), q.ID, ""); err != nil || n.Consumers != 1 {
		t.Fatalf("%+v, %v", n, err)
	}
	send(t, r, "q", plain("held"))
	next(t, d, "held", false)
	d.Cancel()
	if n, err := r.CountQueue(timeout(t), q.ID, ""); core.KindOf(err) != core.NotFound {
		t.Fatalf("%+v, %v: the last consumer is gone", n, err)
	}
	gone(t, r, "q")
}

// A consumer that leaves before the log knows of it: whoever asks for the queue then is told.
func TestAutoDeleteAtOnce(t *testing.T) {
	r, _, _ := atRest(t)
	for i := range 20 {
		q := declare(t, r, fmt.Sprint("q", i), router.QueueConfig{AutoDelete: true})
		c := consume(t, r, router.ConsumeSpec{Queue: q.ID})
		c.Cancel()
		c.Close()
		if n, err := r.CountQueue(timeout(t), q.ID, ""); core.KindOf(err) != core.NotFound && (err != nil || n.Consumers != 0) {
			t.Fatalf("%+v, %v", n, err)
		}
		gone(t, r, q.Name.Name)
	}
}

// A queue that is deleted with its last consumer goes when that was lost with the leader.
func TestAutoDeleteAcrossLeaders(t *testing.T) {
	clock := routertest.NewClock(time.UnixMilli(1_700_000_000_000))
	set := func(o *router.Options) { o.Clock = clock.Now }
	a, la := routertest.Start(t, set)
	b, lb := routertest.Join(t, la, "2", set)
	lost, kept := declare(t, a, "lost", router.QueueConfig{AutoDelete: true}), declare(t, a, "kept", router.QueueConfig{AutoDelete: true})
	for _, at := range []struct {
		r *router.Router
		q *router.Queue
	}{{a, lost}, {b, kept}} {
		c := consume(t, at.r, router.ConsumeSpec{Queue: at.q.ID})
		send(t, a, at.q.Name.Name, plain("x"))
		next(t, c, "x", false) // so what the log has to know of the consumer is committed
	}
	la.Cut(true)
	lb.SetLeader(true)
	checkTimers(t, b)
	for ctx := timeout(t); ; { // until the consumer has come to the new leader
		n, err := b.CountQueue(ctx, kept.ID, "")
		if err == nil && n.Consumers == 1 {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("%+v, %v", n, err)
		}
	}
	clock.Advance(time.Minute)
	gone(t, b, "lost")
	if _, err := b.Queue(kept.Name); err != nil {
		t.Fatal(err)
	}
}

// A new leader takes no queue for unused, for a while: whoever consumed may be on the way to it. Queues that were declared
// since then have nobody on the way.
func TestUnusedQueuesAcrossLeaders(t *testing.T) {
	clock := routertest.NewClock(time.UnixMilli(1_700_000_000_000))
	set := func(o *router.Options) { o.Clock = clock.Now }
	a, la := routertest.Start(t, set)
	b, lb := routertest.Join(t, la, "2", set)
	unused := router.QueueConfig{Limits: router.QueueLimits{Expires: 1000}}
	old := declare(t, a, "old", unused)
	lb.SetLeader(true)
	checkTimers(t, b)
	declare(t, b, "young", unused)
	clock.Advance(time.Second)
	gone(t, b, "young")
	if _, err := b.Queue(old.Name); err != nil {
		t.Fatal(err)
	}
	clock.Advance(9 * time.Second)
	gone(t, b, "old")
}

func TestUnusedQueuesExpire(t *testing.T) {
	r, _, clock := atRest(t)
	checkTimers(t, r) // it has begun to lead
	limits := router.QueueLimits{Expires: 1000}
	q := declare(t, r, "q", router.QueueConfig{Limits: limits})
	declare(t, r, "r", router.QueueConfig{Limits: limits})
	c := consume(t, r, router.ConsumeSpec{Queue: q.ID})
	ready(t, r, q, 0)
	checkTimers(t, r)
	clock.Advance(time.Second)
	gone(t, r, "r")
	ready(t, r, q, 0)
	c.Close()
	ready(t, r, q, 0)
	checkTimers(t, r)
	if _, err := r.Queue(q.Name); err != nil {
		t.Fatal("gone at once: its time begins when its last consumer leaves")
	}
	for ctx := timeout(t); ctx.Err() == nil; { // it may be told late that the consumer left
		clock.Advance(time.Second)
		checkTimers(t, r)
		if _, err := r.Queue(q.Name); errors.Is(err, core.NotFound) {
			return
		}
	}
	t.Fatal("it does not expire")
}

func TestOwners(t *testing.T) {
	r, _, _ := atRest(t)
	l, err := r.AcquireLease(timeout(t), "amqp:1:7", true)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		declare(t, r, name, router.QueueConfig{Owner: l.Name()})
	}
	if err := r.EndOwner(timeout(t), l); err != nil {
		t.Fatal(err)
	}
	gone(t, r, "a")
	gone(t, r, "b")
	if _, _, err := r.DeclareQueue(timeout(t), nobody, core.TopicName("c"), router.QueueConfig{Owner: l.Name()}); core.KindOf(err) != core.Fenced {
		t.Fatal(err)
	}
}

// Where the deletion fails the lease is given up later, and the queues go with it.
func TestOwnersLater(t *testing.T) {
	r, log, _ := atRest(t)
	l, err := r.AcquireLease(timeout(t), "amqp:1:7", true)
	if err != nil {
		t.Fatal(err)
	}
	declare(t, r, "a", router.QueueConfig{Owner: l.Name()})
	log.Refuse(core.E(core.Unavailable, "no leader"))
	if err := r.EndOwner(timeout(t), l); core.KindOf(err) != core.Unavailable {
		t.Fatal(err)
	}
	log.Refuse(nil)
	for log.Commands(state.CodeReleaseLease) == 0 {
		runtime.Gosched()
	}
	gone(t, r, "a")
}

// A policy holds for the queues that are there.
func TestPoliciesOfLiveQueues(t *testing.T) {
	r, _, clock := atRest(t)
	q := declare(t, r, "orders", router.QueueConfig{})
	g := consume(t, r, router.ConsumeSpec{Queue: q.ID, Getter: true})
	for _, v := range []string{"1", "2", "3"} {
		send(t, r, "orders", plain(v))
	}
	ready(t, r, q, 3)
	policy := router.Policy{
		Namespace: core.DefaultNamespace, Name: "short", Pattern: "^ord",
		Definition: message.Table{{Name: "max-length", Value: message.Int(message.KindInt32, 1)}, {Name: "message-ttl", Value: message.Int(message.KindInt32, 100)}},
	}
	if err := r.SetPolicy(timeout(t), nobody, policy); err != nil {
		t.Fatal(err)
	}
	ready(t, r, q, 1)
	clock.Advance(time.Second)
	if d, ok, _ := get(t, g); ok {
		t.Fatalf("%+v has expired", d)
	}
	if err := r.DeletePolicy(timeout(t), nobody, core.DefaultNamespace, "short", false); err != nil {
		t.Fatal(err)
	}
	send(t, r, "orders", plain("4"))
	send(t, r, "orders", plain("5"))
	ready(t, r, q, 2)
}

// What comes back goes where the kind of the queue says.
func TestReturnsByKind(t *testing.T) {
	for _, c := range []struct {
		name  string
		kind  router.QueueKind
		limit int
		want  []string
	}{
		{"classic", router.Classic, 0, []string{"a", "c", "d"}},
		{"quorum", router.Quorum, 0, []string{"c", "a", "d"}},
		{"quorum-unlimited", router.Quorum, -1, []string{"d", "c", "a"}},
	} {
		r, _, _ := atRest(t)
		q := declare(t, r, c.name, router.QueueConfig{Kind: c.kind, Limits: router.QueueLimits{DeliveryLimit: c.limit}})
		publish(t, r, q, "a", "b", "c", "d")
		g := consume(t, r, router.ConsumeSpec{Queue: q.ID, Getter: true})
		var rs []router.Receipt
		for range 3 {
			d, _, _ := get(t, g)
			rs = append(rs, d.Receipt)
		}
		g.Settle(router.Release, 0, rs[2:], nil)
		g.Settle(router.Release, 0, rs[:1], nil)
		ack(t, g, rs[1])
		for _, v := range c.want {
			if d, _, _ := get(t, g); string(d.Record.Value) != v {
				t.Fatalf("%s: %q, want %q", c.name, d.Record.Value, v)
			}
		}
	}
}
