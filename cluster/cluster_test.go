package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"polylog/core"
	"polylog/core/vfs"
)

// network is three nodes' network: each node is reached through a forwarder with an
// address that never changes, so that nodes can be cut off and restarted.
type network struct {
	tb       testing.TB
	nodes    []*netNode
	sealed   int // segments that converge has compared by their checksums
	proposed int // commands that may have been done
}

type netNode struct {
	h     *harness
	n     *Node
	front net.Listener // what others dial

	mu       sync.Mutex
	back     string // where the node listens; empty: cut off
	isolated bool   // it reaches nobody either
	conns    map[net.Conn]struct{}
	out      map[net.Conn]struct{} // its own to others
	wg       sync.WaitGroup
}

func newNetwork(tb testing.TB, size int) *network {
	return networkOf(tb, size, func(*harness) {})
}

// newCalmNetwork is one without elections that a slow machine would bring about.
func newCalmNetwork(tb testing.TB, size int) *network {
	return networkOf(tb, size, func(h *harness) { h.options.ElectionTimeout = time.Minute })
}

func networkOf(tb testing.TB, size int, change func(*harness)) *network {
	nw := &network{tb: tb}
	for i := range size {
		nd := &netNode{h: newHarness(tb, vfs.NewMem()), front: listen(tb), conns: map[net.Conn]struct{}{}, out: map[net.Conn]struct{}{}}
		nd.h.options.NodeID = fmt.Sprint(i + 1)
		nd.h.options.Join = i > 0
		nd.h.options.trusting = false
		nd.h.options.Advertise = nd.front.Addr().String()
		nd.h.options.DialFunc = nd.dial
		nd.h.options.ElectionTimeout = 800 * time.Millisecond
		change(nd.h)
		nw.nodes = append(nw.nodes, nd)
		nd.wg.Go(nd.forward)
		tb.Cleanup(func() {
			_ = nd.front.Close()
			nd.cut()
			nd.wg.Wait()
		})
	}
	for _, nd := range nw.nodes {
		nd.start(tb)
	}
	return nw
}

func (nd *netNode) start(tb testing.TB) {
	l := listen(tb)
	nd.h.options.Listener = l
	nd.n = nd.h.open()
	nd.heal()
}

func (nd *netNode) heal() {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	nd.back, nd.isolated = nd.h.options.Listener.Addr().String(), false
}

// isolate cuts the node off in both directions.
func (nd *netNode) isolate() {
	nd.cut()
	nd.mu.Lock()
	defer nd.mu.Unlock()
	nd.isolated = true
	for c := range nd.out {
		_ = c.Close()
	}
	clear(nd.out)
}

func (nd *netNode) dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	nd.mu.Lock()
	defer nd.mu.Unlock()
	if nd.isolated {
		return nil, errors.Join(errors.New("isolated"), c.Close())
	}
	nd.out[c] = struct{}{}
	return c, nil
}

// cut ends the node's connections from others and lets in no new ones; its own to
// them stay.
func (nd *netNode) cut() {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	nd.back = ""
	for c := range nd.conns {
		_ = c.Close()
	}
}

func (nd *netNode) forward() {
	for {
		c, err := nd.front.Accept()
		if err != nil {
			return
		}
		nd.wg.Go(func() { nd.pipe(c) })
	}
}

func (nd *netNode) pipe(c net.Conn) {
	defer c.Close() //nolint:errcheck // a forwarder's connection
	nd.mu.Lock()
	back := nd.back
	nd.mu.Unlock()
	if back == "" {
		return
	}
	d, err := net.Dial("tcp", back)
	if err != nil {
		return
	}
	nd.mu.Lock()
	if nd.back != back { // cut off while we dialled
		nd.mu.Unlock()
		_ = d.Close()
		return
	}
	nd.conns[c], nd.conns[d] = struct{}{}, struct{}{}
	nd.mu.Unlock()
	done := make(chan struct{}, 2)
	for _, p := range [][2]net.Conn{{c, d}, {d, c}} {
		nd.wg.Go(func() {
			b := make([]byte, 32<<10)
			for {
				k, err := p[0].Read(b)
				if err == nil {
					_, err = p[1].Write(b[:k])
				}
				if err != nil {
					done <- struct{}{}
					return
				}
			}
		})
	}
	<-done
	_, _ = c.Close(), d.Close()
	nd.mu.Lock()
	delete(nd.conns, c)
	delete(nd.conns, d)
	nd.mu.Unlock()
}

// leader waits for a node that leads and is ready.
func (nw *network) leader() *netNode {
	nw.tb.Helper()
	var found *netNode
	waitFor(nw.tb, func() bool {
		for _, nd := range nw.nodes {
			if nd.n != nil && nd.n.IsLeader() {
				found = nd
				return true
			}
		}
		return false
	})
	return found
}

// form makes one cluster of the nodes.
func (nw *network) form() {
	nw.tb.Helper()
	for _, nd := range nw.nodes[1:] {
		addr := nd.front.Addr().String()
		nw.reform(func(ctx context.Context, l *Node) error { return l.AddNonvoter(ctx, nd.n.ID(), addr) })
		nw.reform(func(ctx context.Context, l *Node) error { return l.AddVoter(ctx, nd.n.ID(), addr) })
		waitFor(nw.tb, nd.n.HasVote)
	}
}

// reform has whoever leads change the configuration. That may be somebody else in the middle of it, on a
// slow machine; a change that was done already is no error.
func (nw *network) reform(change func(ctx context.Context, leader *Node) error) {
	nw.tb.Helper()
	ctx, cancel := context.WithTimeout(nw.tb.Context(), time.Minute)
	defer cancel()
	for {
		err := change(ctx, nw.leader().n)
		switch core.KindOf(err) {
		case core.OK:
			return
		case core.NotLeader, core.Unavailable, core.Uncertain:
		default:
			nw.tb.Fatal(err)
		}
	}
}

// propose has whoever leads do a command, and tries again where nothing was done.
func (nw *network) propose(body string) (acked bool) {
	nw.tb.Helper()
	nw.proposed++
	for {
		ctx, cancel := context.WithTimeout(nw.tb.Context(), 20*time.Second)
		_, err := nw.leader().n.Propose(ctx, command(body))
		cancel()
		switch core.KindOf(err) {
		case core.OK:
			return true
		case core.Uncertain:
			return false
		case core.NotLeader, core.Unavailable, core.Closed:
		default:
			nw.tb.Fatal(err)
		}
	}
}

// converge waits until every node has applied the same and holds the same log. Leaders may
// change meanwhile, on a slow machine, which appends something on each node in its turn.
func (nw *network) converge() {
	nw.tb.Helper()
	for acked := false; !acked; {
		acked = nw.propose("end")
	}
	l := nw.leader()
	differs := ""
	defer func() {
		if differs != "" {
			nw.tb.Error(differs)
		}
	}()
	waitFor(nw.tb, func() bool {
		for _, nd := range nw.nodes {
			if differs = nw.difference(nd, l); differs != "" {
				return false
			}
		}
		return true
	})
}

// difference says in what a node differs from another one; empty where in nothing.
func (nw *network) difference(nd, l *netNode) string {
	applied, last := l.h.machine.Applied(), l.n.log.Last()
	if nd.h.machine.Applied() != applied || nd.n.log.Last() != last {
		return fmt.Sprintf("node %s has applied %d of %d, and the other %d of %d", nd.n.ID(), nd.h.machine.Applied(), nd.n.log.Last(), applied, last)
	}
	if nd.h.machine.hash() != l.h.machine.hash() {
		return fmt.Sprintf("node %s has another state at index %d", nd.n.ID(), applied)
	}
	a, b := nd.n.log.Segments(), l.n.log.Segments()
	if len(a) != len(b) || len(a) == 0 {
		return fmt.Sprintf("node %s has %d segments, the other %d", nd.n.ID(), len(a), len(b))
	}
	nw.sealed = len(a) - 1
	for i := l.n.log.First(); i <= last; i++ {
		x, err := nd.n.log.Entry(i)
		if err != nil {
			return err.Error()
		}
		y, err := l.n.log.Entry(i)
		if err != nil {
			return err.Error()
		}
		if x.Term != y.Term || x.Type != y.Type || !bytes.Equal(x.Data, y.Data) || !bytes.Equal(x.Ext, y.Ext) {
			return fmt.Sprintf("node %s has another entry %d", nd.n.ID(), i)
		}
	}
	for i := range len(a) - 1 {
		if a[i] != b[i] {
			return fmt.Sprintf("node %s: sealed segment %+v, the other's is %+v", nd.n.ID(), a[i], b[i])
		}
	}
	return ""
}

func TestThreeNodes(t *testing.T) {
	nw := newNetwork(t, 3)
	nw.form()
	for i := range 20 {
		nw.propose(fmt.Sprint(i))
	}
	for range 5 { // the leader derives these checksums, the followers compute them
		nw.propose(strings.Repeat("long", 20<<10))
	}
	first := nw.leader()
	must(t, first.n.ReadIndex(t.Context()))
	for _, nd := range nw.nodes {
		if nd != first {
			propose(t, nd.n, "by way of "+nd.n.ID())
			must(t, nd.n.ReadIndex(t.Context()))
			ready(t, nd.n)
			if m, ok := nd.n.Leader(); !ok || m.ID != first.n.ID() {
				t.Fatalf("node %s takes %v for the leader", nd.n.ID(), m)
			}
		}
	}
	nw.converge()
	if nw.sealed == 0 {
		t.Fatal("no sealed segments were compared")
	}

	// A leader that is closed hands over: the others' time-outs are too long for an
	// election of their own (guard 6).
	for _, nd := range nw.nodes {
		c := nd.n.raft.ReloadableConfig()
		c.HeartbeatTimeout, c.ElectionTimeout = time.Hour, time.Hour
		must(t, nd.n.raft.ReloadConfig(c))
	}
	must(t, first.n.Close())
	first.n = nil
	if nw.leader() == first {
		t.Fatal("a closed node leads")
	}
	first.start(t)
	nw.converge()
}

// Nodes are killed, restarted and cut off while commands come; at the end all have
// the same entries, in the same segments, and the same state, and what was
// acknowledged is in it once.
func TestChaos(t *testing.T) {
	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	nw := newNetwork(t, 3)
	for _, nd := range nw.nodes {
		nd.h.options.CheckpointBytes = 50
	}
	nw.form()
	rnd := rand.New(rand.NewPCG(1, 2))
	var acked []string
	next := 0
	load := func(n int) {
		for range n {
			body := fmt.Sprintf("%05d%s", next, string(make([]byte, rnd.IntN(20_000))))
			next++
			if nw.propose(body) {
				acked = append(acked, body)
			}
		}
	}
	for range rounds {
		load(20)
		victim := nw.nodes[rnd.IntN(3)]
		switch rnd.IntN(3) {
		case 0: // power failure
			victim.cut()
			old := victim.n
			fs, _ := victim.h.fs.(*vfs.MemFS)
			clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rnd.IntN(101), RNG: rnd})
			victim.n = nil
			must(t, old.Close())
			victim.h.fs = clone
			load(20)
			victim.start(t)
		case 1: // others cannot reach it
			victim.cut()
			load(20)
			victim.heal()
		default: // clean restart
			old := victim.n
			victim.n = nil
			must(t, old.Close())
			victim.start(t)
		}
	}
	nw.converge()
	if nw.sealed == 0 {
		t.Fatal("no segment was sealed")
	}
	got := nw.leader().h.machine.bodies()
	count := map[string]int{}
	for _, b := range got {
		count[b]++
	}
	for _, b := range acked {
		if count[b] != 1 {
			t.Fatalf("acknowledged command %.5s is there %d times", b, count[b])
		}
	}
	if len(got) > nw.proposed {
		t.Fatalf("%d commands applied of %d proposed", len(got), nw.proposed)
	}
}

// A leader that reaches no majority confirms no reads and acknowledges nothing; when
// the others are back the command is there or is not, but once at most.
func TestLeaderWithoutMajority(t *testing.T) {
	nw := newNetwork(t, 3)
	nw.form()
	// On a slow machine a leader may have lost its lease before it takes the command,
	// which then waits for the next leader. It is tried again then.
	tries := 0
	for kind := core.OK; kind != core.Uncertain; tries++ {
		l := nw.leader()
		for _, nd := range nw.nodes {
			if nd != l {
				nd.isolate()
			}
		}
		answer := make(chan error, 1)
		l.n.ProposeAsync(command("maybe"), func(_ core.Result, err error) { answer <- err })
		short := func(do func(context.Context) error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			wantKind(t, do(ctx), core.Unavailable)
		}
		waitFor(t, func() bool { return l.n.raft.State() != raft.Leader })
		short(l.n.ReadIndex)
		short(func(ctx context.Context) error {
			_, err := l.n.Propose(ctx, command("no"))
			return err
		})
		for _, nd := range nw.nodes {
			nd.heal()
		}
		if kind = core.KindOf(<-answer); kind != core.Uncertain && kind != core.OK && kind != core.Unavailable {
			t.Fatalf("a command without majority ends as %s", kind.Error())
		}
	}
	nw.converge()
	for _, nd := range nw.nodes {
		got := nd.h.machine.bodies()
		maybe := 0
		for _, b := range got {
			switch b {
			case "maybe":
				maybe++
			case "no":
				t.Fatal("a command was done that was withdrawn")
			}
		}
		if maybe > tries || got[len(got)-1] != "end" {
			t.Fatalf("applied %q", got)
		}
	}
}

// ReadIndex with a non-voter in the configuration commits a barrier.
func TestReadIndexWithNonvoter(t *testing.T) {
	nw := newNetwork(t, 2)
	l := nw.leader().n
	if !l.alone.Load() {
		t.Fatal("a new node is not alone")
	}
	must(t, l.AddNonvoter(t.Context(), "2", nw.nodes[1].front.Addr().String()))
	if l.alone.Load() {
		t.Fatal("two nodes, and the first is alone")
	}
	before := l.raft.LastIndex()
	must(t, l.ReadIndex(t.Context()))
	if l.raft.LastIndex() != before+1 {
		t.Fatal("no barrier")
	}
	must(t, l.AddVoter(t.Context(), "2", nw.nodes[1].front.Addr().String()))
	before = l.raft.LastIndex()
	must(t, l.ReadIndex(t.Context()))
	if l.raft.LastIndex() != before {
		t.Fatal("a barrier without need")
	}
	must(t, l.RemoveMember(t.Context(), "2"))
	waitFor(t, l.alone.Load)
	c := l.raft.ReloadableConfig()
	if c.ElectionTimeout != l.o.ElectionTimeout || raftConfig(&l.o, "1", nil).LeaderLeaseTimeout != l.o.ElectionTimeout/2 {
		t.Fatal("time-outs changed with the members")
	}
}

// Any node reaches any node's services, by the id that it has in the cluster.
func TestStreamsBetweenNodes(t *testing.T) {
	nw := newCalmNetwork(t, 3)
	nw.form()
	for _, nd := range nw.nodes {
		waitFor(t, func() bool { return len(nd.n.Members()) == 3 })
		nd.n.Handle("who", func(peer string, s core.Stream) error {
			return s.Send([]byte(peer + " to " + nd.n.ID()))
		})
	}
	for _, a := range nw.nodes {
		for _, b := range nw.nodes {
			s, err := a.n.OpenStream(t.Context(), b.n.ID(), "who")
			must(t, err)
			got, err := s.Recv()
			must(t, err)
			if want := a.n.ID() + " to " + b.n.ID(); string(got) != want {
				t.Fatalf("got %q, want %q", got, want)
			}
			if _, err := s.Recv(); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
	}
	_, err := nw.nodes[0].n.OpenStream(t.Context(), "9", "who")
	wantKind(t, err, core.NotFound)
}

// Followers apply what is committed without waiting for raft's next call.
func TestNudge(t *testing.T) {
	nw := networkOf(t, 3, func(h *harness) {
		h.options.ElectionTimeout, h.options.commitTimeout = time.Minute, time.Hour
	})
	nw.form()
	for i := range 10 {
		propose(t, nw.nodes[i%3].n, fmt.Sprint(i))
		for _, nd := range nw.nodes {
			waitFor(t, func() bool { return len(nd.h.machine.bodies()) == i+1 })
		}
	}
}
