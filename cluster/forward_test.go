package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/vfs"
)

// caller proposes numbered commands on one node, one after the other, without waiting
// for their outcomes.
type caller struct {
	name string
	node int
	seq  *core.Sequence // nil: what follows a failure is done all the same
	wg   sync.WaitGroup

	mu    sync.Mutex
	ended []core.Kind // outcome of each command
	order []int       // of the outcomes of what was not refused
	where map[int]core.Offset
}

func (c *caller) body(i int) string { return fmt.Sprintf("%s.%d.", c.name, i) }

// propose proposes the next command; pad makes it larger.
func (c *caller) propose(n *Node, pad int) {
	c.mu.Lock()
	i := len(c.ended)
	c.ended = append(c.ended, core.Internal)
	c.mu.Unlock()
	c.wg.Add(1)
	cmd := command(c.body(i) + strings.Repeat("x", pad))
	cmd.Sequence = c.seq
	n.ProposeAsync(cmd, func(r core.Result, err error) {
		defer c.wg.Done()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended[i] = core.KindOf(err)
		if !isRefusal(err) {
			c.order = append(c.order, i)
		}
		if err == nil {
			c.where[i] = r.Offset
		}
	})
}

// check compares the outcomes with what was applied: what was done is there once, what
// was refused is not, and what is there is in the order of the calls; in a sequence, without gaps.
func (c *caller) check(t *testing.T, bodies []string) (done, uncertain, refused int) {
	t.Helper()
	if !slices.IsSorted(c.order) {
		t.Errorf("%s: outcomes in order %v", c.name, c.order)
	}
	count := make([]int, len(c.ended))
	last := -1
	for at, b := range bodies {
		name, rest, _ := strings.Cut(b, ".")
		if name != c.name {
			continue
		}
		var i int
		if _, err := fmt.Sscanf(rest, "%d.", &i); err != nil {
			t.Fatal(err)
		}
		count[i]++
		if i <= last {
			t.Errorf("%s: command %d was done after %d", c.name, i, last)
		}
		if c.seq != nil && i > last+1 {
			t.Errorf("%s: command %d was done, and not %d before it", c.name, i, last+1)
		}
		last = i
		if o, ok := c.where[i]; ok && int(o) != at {
			t.Errorf("%s: command %d is at %d, its result said %d", c.name, i, at, o)
		}
	}
	for i, k := range c.ended {
		switch {
		case k == core.OK:
			done++
			if count[i] != 1 {
				t.Errorf("%s: command %d was acknowledged and is there %d times", c.name, i, count[i])
			}
		case k == core.Uncertain:
			uncertain++
			if count[i] > 1 {
				t.Errorf("%s: command %d is there %d times", c.name, i, count[i])
			}
		case isRefusal(k):
			refused++
			if count[i] != 0 {
				t.Errorf("%s: command %d was refused and is there", c.name, i)
			}
		default:
			t.Errorf("%s: command %d ended with %q", c.name, i, k.Error())
		}
	}
	return done, uncertain, refused
}

func callers(nodes, each int) (all []*caller) {
	for i := range nodes * each {
		all = append(all, &caller{name: fmt.Sprintf("c%d", i), node: i % nodes, where: map[int]core.Offset{}})
	}
	return all
}

// Every node takes commands; results are right and each caller's order is kept.
func TestEveryNodeProposes(t *testing.T) {
	nw := newCalmNetwork(t, 3)
	nw.form()
	all := callers(3, 2)
	var wg sync.WaitGroup
	for _, c := range all {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(c.node)))
			for i := range 300 {
				pad := rnd.IntN(300)
				if i%100 == 50 {
					pad = 3 * core.MaxStreamMessage / 2 // in pieces
				}
				c.propose(nw.nodes[c.node].n, pad)
			}
			c.wg.Wait()
		})
	}
	for _, nd := range nw.nodes { // and some that wait
		wg.Go(func() {
			for i := range 20 {
				body := fmt.Sprintf("waits %s.%d", nd.n.ID(), i)
				r, err := nd.n.Propose(t.Context(), command(body))
				must(t, err)
				if got := nd.h.machine.bodies()[r.Offset]; got != body {
					t.Errorf("result of %q is that of %q", body, got)
				}
			}
		})
	}
	wg.Wait()
	nw.converge()
	for _, c := range all {
		if done, _, _ := c.check(t, nw.leader().h.machine.bodies()); done != 300 {
			t.Errorf("%s: %d done", c.name, done)
		}
	}
	for _, nd := range nw.nodes {
		if nd.n.forwarder.busy.Load() || nd.n.forwarder.bytes != 0 {
			t.Errorf("node %s still has %d bytes to forward", nd.n.ID(), nd.n.forwarder.bytes)
		}
	}
}

// Leaders fail in the middle, and change: nothing that was acknowledged is lost, nothing
// is done twice, nothing that was refused is done.
func TestForwardingThroughFailures(t *testing.T) {
	rounds := 6
	if testing.Short() {
		rounds = 3
	}
	nw := newNetwork(t, 3)
	nw.form()
	rnd := rand.New(rand.NewPCG(3, 4))
	var all []*caller
	for round := range rounds {
		victim := nw.leader()
		some := callers(3, 2)
		for i, c := range some {
			c.name = fmt.Sprintf("r%dc%d", round, i)
			if i >= len(nw.nodes) {
				c.seq = new(core.Sequence)
			}
		}
		all = append(all, some...)
		var wg sync.WaitGroup
		half := make(chan struct{}, len(some)) // each caller is in the middle
		for _, c := range some {
			n := nw.nodes[c.node].n
			wg.Go(func() {
				for i := range 400 {
					if i == 200 {
						half <- struct{}{}
					}
					c.propose(n, i%50)
				}
				c.wg.Wait()
			})
		}
		for range some {
			<-half
		}
		switch round % 3 {
		case 0: // power failure
			victim.cut()
			old := victim.n
			fs, _ := victim.h.fs.(*vfs.MemFS)
			clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rnd.IntN(101), RNG: rnd})
			_ = old.network.Close() // without a word to anybody
			must(t, old.Close())
			wg.Wait()
			victim.h.fs = clone
			victim.start(t)
		case 1: // it is alone
			victim.isolate()
			nw.otherLeader(victim)
			victim.heal()
			wg.Wait()
		default: // it hands over
			must(t, victim.n.Close())
			wg.Wait()
			victim.start(t)
		}
	}
	nw.converge()
	bodies := nw.leader().h.machine.bodies()
	var done, uncertain, refused int
	for _, c := range all {
		d, u, r := c.check(t, bodies)
		done, uncertain, refused = done+d, uncertain+u, refused+r
	}
	t.Logf("%d done, %d uncertain, %d refused", done, uncertain, refused)
	if done < rounds*3*2*200 {
		t.Errorf("only %d commands were done", done)
	}
}

// otherLeader waits for a leader that is not nd.
func (nw *network) otherLeader(nd *netNode) {
	nw.tb.Helper()
	waitFor(nw.tb, func() bool {
		return slices.ContainsFunc(nw.nodes, func(o *netNode) bool { return o != nd && o.n.IsLeader() })
	})
}

// What is for one term of its node is done there or refused at once: it is never forwarded, and never
// done in a later term.
func TestOneTermOnly(t *testing.T) {
	nw := newCalmNetwork(t, 2)
	nw.form()
	var leader, follower *netNode
	waitFor(t, func() bool {
		for _, nd := range nw.nodes {
			if nd.n.IsLeader() {
				leader = nd
			} else {
				follower = nd
			}
		}
		return leader != nil && follower != nil
	})
	term := leader.n.Term()
	propose := func(n *Node, term core.Term) error {
		cmd := command("x")
		cmd.Term = term
		_, err := n.Propose(t.Context(), cmd)
		return err
	}
	wantKind(t, propose(follower.n, term), core.NotLeader)
	wantKind(t, propose(leader.n, term-1), core.NotLeader)
	wantKind(t, propose(leader.n, term+1), core.NotLeader)
	if err := propose(leader.n, term); err != nil {
		t.Error(err)
	}
}

// Without a leader commands wait, for as long as they may.
func TestForwardingPatience(t *testing.T) {
	nw := newCalmNetwork(t, 1)
	h := newHarness(t, vfs.NewMem())
	h.options.NodeID, h.options.Join, h.options.Listener = "2", true, listen(t)
	n := h.open()
	n.forwarder.patience = 50 * time.Millisecond
	errs := make(chan error, 1)
	n.ProposeAsync(command("too long"), func(_ core.Result, err error) { errs <- err })
	wantKind(t, <-errs, core.Unavailable)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := n.Propose(ctx, command("withdrawn"))
		errs <- err
	}()
	waitFor(t, n.forwarder.anyWaiting)
	cancel()
	wantKind(t, <-errs, core.Unavailable)

	n.forwarder.patience = time.Minute
	n.ProposeAsync(command("in time"), func(_ core.Result, err error) { errs <- err })
	must(t, nw.leader().n.AddNonvoter(t.Context(), "2", h.options.Listener.Addr().String()))
	must(t, <-errs)
	if got := nw.nodes[0].h.machine.bodies(); !slices.Equal(got, []string{"in time"}) {
		t.Fatalf("applied %q", got)
	}
	n.ProposeAsync(command("last"), func(_ core.Result, err error) { errs <- err })
	must(t, n.Close())
	if k := core.KindOf(<-errs); k != core.OK && k != core.Closed {
		t.Fatalf("ended with %q", k.Error())
	}
	n.ProposeAsync(command("late"), func(_ core.Result, err error) { errs <- err })
	wantKind(t, <-errs, core.Closed)
}
