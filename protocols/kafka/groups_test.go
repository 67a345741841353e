package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/core"
	"polylog/protocols/kafka/group"
	"polylog/router/routertest"
)

// quick makes groups start at once.
func quick(o *Options) {
	o.Groups = group.Config{InitialDelay: -1, ConsumerInterval: 100 * time.Millisecond}
}

// consumer is a franz-go client in a group. It knows what it was assigned.
type consumer struct {
	*kgo.Client
	stop func()

	mu       sync.Mutex
	assigned map[int32]bool // partitions of the one topic; guarded by mu
	lost     int            // guarded by mu
	broke    []error        // what made the client leave the group's protocol; guarded by mu
	read     []string       // values; guarded by mu
}

// OnGroupManageError implements kgo.HookGroupManageError.
func (c *consumer) OnGroupManageError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broke = append(c.broke, err)
}

// consume runs a consumer of topic t in group g until stop, or the test's end.
func (f *fixture) consume(opts ...kgo.Opt) *consumer {
	f.t.Helper()
	c := &consumer{assigned: map[int32]bool{}}
	change := func(on bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, ps map[string][]int32) {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, p := range ps["t"] {
				if on {
					c.assigned[p] = true
				} else {
					delete(c.assigned, p)
				}
			}
		}
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(f.addr),
		kgo.ConsumerGroup("g"),
		kgo.ConsumeTopics("t"),
		kgo.HeartbeatInterval(100 * time.Millisecond),
		kgo.SessionTimeout(10 * time.Second),
		kgo.RebalanceTimeout(10 * time.Second),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitInterval(100 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.WithHooks(c),
		kgo.OnPartitionsAssigned(change(true)),
		kgo.OnPartitionsRevoked(change(false)),
		kgo.OnPartitionsLost(func(ctx context.Context, cl *kgo.Client, ps map[string][]int32) {
			c.mu.Lock()
			c.lost++
			c.mu.Unlock()
			change(false)(ctx, cl, ps)
		}),
	}, opts...)...)
	if err != nil {
		f.t.Fatal(err)
	}
	c.Client = cl
	var polling sync.WaitGroup
	polling.Go(func() {
		for {
			fs := cl.PollFetches(context.Background())
			if fs.IsClientClosed() {
				return
			}
			c.mu.Lock()
			fs.EachRecord(func(r *kgo.Record) { c.read = append(c.read, string(r.Value)) })
			c.mu.Unlock()
		}
	})
	c.stop = sync.OnceFunc(func() {
		cl.Close()
		polling.Wait()
	})
	f.t.Cleanup(c.stop)
	return c
}

// has is what the consumer is assigned.
func (c *consumer) has() []int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.assigned))
}

func (c *consumer) values() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.read))
}

// eventually waits until ok is true, and fails after a minute.
func eventually(t testing.TB, what func() string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("still not so after a minute: %s", what())
		}
	}
}

// settled waits until the consumers share n partitions: each is somebody's, nobody has
// more than one more than another.
func settled(t testing.TB, n int, cs ...*consumer) {
	t.Helper()
	look := func() (all []int32, sizes []int) {
		for _, c := range cs {
			h := c.has()
			all, sizes = append(all, h...), append(sizes, len(h))
		}
		slices.Sort(all)
		return all, sizes
	}
	eventually(t, func() string { all, sizes := look(); return fmt.Sprintf("%v shared as %v", all, sizes) }, func() bool {
		all, sizes := look()
		return len(all) == n && len(slices.Compact(all)) == n && slices.Max(sizes)-slices.Min(sizes) <= 1
	})
}

// TestRebalances takes a group from one member to five and down to two, and looks that
// every partition always comes to rest with one of them, and every record is read.
func TestRebalances(t *testing.T) {
	for name, opts := range map[string][]kgo.Opt{
		"range":              {kgo.Balancers(kgo.RangeBalancer())},
		"sticky":             {kgo.Balancers(kgo.StickyBalancer())},
		"cooperative-sticky": {kgo.Balancers(kgo.CooperativeStickyBalancer())},
		"server side":        {kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())},
		"server side range":  {kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, quick)
			const partitions = 7
			topic := f.topic("t", partitions, nil)
			var want []string
			publish := func() {
				for range 20 {
					v := fmt.Sprintf("%03d", len(want))
					want = append(want, v)
					q := topic.Partitions[len(want)%partitions]
					if r := routertest.Publish(f.router, q, routertest.Batch(t, 1, v)); r.Err != nil {
						t.Fatal(r.Err)
					}
				}
			}
			publish()
			cs := []*consumer{f.consume(opts...)}
			settled(t, partitions, cs...)
			for len(cs) < 5 {
				cs = append(cs, f.consume(opts...))
				settled(t, partitions, cs...)
				publish()
			}
			all := slices.Clone(cs)
			for len(cs) > 2 {
				cs[0].stop()
				cs = cs[1:]
				settled(t, partitions, cs...)
				publish()
			}
			f.isConsumerGroup("g", strings.HasPrefix(name, "server side"))
			read := func() (vs []string) {
				for _, c := range all {
					vs = append(vs, c.values()...)
				}
				slices.Sort(vs)
				return slices.Compact(vs)
			}
			eventually(t, func() string { return fmt.Sprintf("read %d of %d", len(read()), len(want)) },
				func() bool { return slices.Equal(read(), want) })
			for _, c := range all {
				if c.lost > 0 {
					t.Errorf("a consumer lost partitions %d times", c.lost)
				}
			}
		})
	}
}

// isConsumerGroup fails unless the group is of the new protocol, or is not.
func (f *fixture) isConsumerGroup(id string, want bool) {
	f.t.Helper()
	code := f.server.groups.do(f.t.Context(), func(_ time.Time, g *group.Coordinator) {
		if _, is := g.DescribeConsumers(id); is != want {
			f.t.Errorf("group %s is of the new protocol: %v, want %v", id, is, want)
		}
	})
	if code != codeNone {
		f.t.Fatalf("code %d", code)
	}
}

// TestTwoMembersThreePartitions is nisshi#625: the second member of a group joins, both
// get partitions, 2 and 1, and nobody is an unknown member.
func TestTwoMembersThreePartitions(t *testing.T) {
	f := start(t, quick)
	f.topic("t", 3, nil)
	a := f.consume()
	settled(t, 3, a)
	b := f.consume()
	settled(t, 3, a, b)
	for _, c := range []*consumer{a, b} {
		c.stop()
		if c.lost > 0 || len(c.broke) > 0 {
			t.Errorf("partitions were lost %d times, errors: %v", c.lost, c.broke)
		}
	}
}

// TestStaticMemberRestarts stops a static member without leaving and starts it again: it
// gets back what it had, and the other one notices nothing.
func TestStaticMemberRestarts(t *testing.T) {
	f := start(t, quick)
	f.topic("t", 4, nil)
	balancer := kgo.Balancers(kgo.RangeBalancer())
	a, b := f.consume(balancer, kgo.InstanceID("a")), f.consume(balancer, kgo.InstanceID("b"))
	settled(t, 4, a, b)
	for _, who := range []struct {
		name string
		c    **consumer
	}{{"a", &a}, {"b", &b}} { // a leader and a follower, in some order
		generation, had, others := f.generation("g"), (*who.c).has(), a
		if *who.c == a {
			others = b
		}
		kept := others.has()
		(*who.c).stop() // franz-go does not leave with an instance id
		*who.c = f.consume(balancer, kgo.InstanceID(who.name))
		eventually(t, func() string { return fmt.Sprintf("%v, want %v", (*who.c).has(), had) },
			func() bool { return slices.Equal((*who.c).has(), had) })
		if g := f.generation("g"); g != generation || !slices.Equal(others.has(), kept) {
			t.Errorf("after the restart of %s: generation %d, was %d; the other has %v, had %v", who.name, g, generation, others.has(), kept)
		}
	}
}

// generation is a group's generation, as the answer to a wrong one does not tell.
func (f *fixture) generation(id string) (generation int32) {
	f.t.Helper()
	code := f.server.groups.do(f.t.Context(), func(_ time.Time, g *group.Coordinator) { generation = g.Generation(id) })
	if code != codeNone {
		f.t.Fatalf("code %d", code)
	}
	return generation
}

// TestCoordinatorMoves takes leadership away and gives it back: the members join again by
// themselves, go on from their commits, and a commit of the old membership is refused.
func TestCoordinatorMoves(t *testing.T) {
	f := start(t, quick)
	topic := f.topic("t", 2, nil)
	publish := func(v string) {
		if r := routertest.Publish(f.router, topic.Partitions[0], routertest.Batch(t, 1, v)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	publish("one")
	a, b := f.consume(), f.consume()
	settled(t, 2, a, b)
	read := func() []string { return slices.Sorted(slices.Values(append(a.values(), b.values()...))) }
	committed := func(n core.Offset) func() bool {
		return func() bool {
			o, ok, err := f.router.FetchOffset("g", topic.Partitions[0])
			if err != nil {
				t.Fatal(err)
			}
			return ok && o.Offset == n
		}
	}
	eventually(t, func() string { return fmt.Sprint("read ", read()) }, committed(1))
	f.log.SetLeader(false)
	eventually(t, func() string { return "groups are still there" }, func() bool {
		f.server.groups.mu.Lock()
		defer f.server.groups.mu.Unlock()
		return f.server.groups.coord.Stats().Groups == 0
	})
	f.log.SetTerm(7)
	f.log.SetLeader(true)
	publish("two")
	eventually(t, func() string { return fmt.Sprint("read ", read()) }, committed(2))
	settled(t, 2, a, b)
	// What was read between the last commit and the move is read again.
	if got := slices.Compact(read()); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("read %q", got)
	}
}
