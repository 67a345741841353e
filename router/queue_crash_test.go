package router_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"polylog/cluster"
	"polylog/core"
	"polylog/core/vfs"
	"polylog/index"
	"polylog/router"
	"polylog/router/routertest"
	"polylog/router/state"
)

// realNode is a router on a real log, of a node that is alone.
type realNode struct {
	*router.Router
	home  *cluster.Home
	store *index.Store
	node  *cluster.Node
}

// openReal makes a checkpoint every so many bytes of log; 0: as a broker does.
func openReal(t testing.TB, fs vfs.FS, dir string, checkpoints int64) *realNode {
	t.Helper()
	return openRealAt(t, fs, dir, checkpoints, time.Now)
}

// openRealAt is openReal of a node with a clock of its own.
func openRealAt(t testing.TB, fs vfs.FS, dir string, checkpoints int64, clock func() time.Time) *realNode {
	t.Helper()
	n := new(realNode)
	var err error
	if n.home, err = cluster.OpenHomeIn(fs, dir, "", ""); err != nil {
		t.Fatal(err)
	}
	if n.store, err = index.Open(index.Options{FS: fs, Dir: n.home.IndexDir()}); err != nil {
		t.Fatal(err)
	}
	st, err := state.Open(n.store, state.Options{Level: state.MaxLevel})
	if err != nil {
		t.Fatal(err)
	}
	n.node, err = cluster.Open(timeout(t), cluster.Options{FS: fs, Home: n.home, Machine: st, CheckpointLogBytes: checkpoints, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.node.Ready(timeout(t)); err != nil {
		t.Fatal(err)
	}
	if n.Router, err = router.New(router.Options{Log: n.node, State: st, RetentionInterval: -1, Clock: clock}); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *realNode) close(t testing.TB) {
	t.Helper()
	n.Close()
	if err := n.node.Close(); err != nil {
		t.Error(err)
	}
	if err := n.store.Close(); err != nil {
		t.Error(err)
	}
	if err := n.home.Close(); err != nil {
		t.Error(err)
	}
}

// history is what clients know for certain.
type history struct {
	sync.Mutex
	published map[string]bool // confirmed
	delivered map[string]bool // handed to a consumer
	acking    map[string]bool // an acknowledgement was sent
	acked     map[string]bool // and confirmed
}

func newHistory() *history {
	return &history{
		published: map[string]bool{}, delivered: map[string]bool{}, acking: map[string]bool{}, acked: map[string]bool{},
	}
}

func (h *history) note(set map[string]bool, v string) {
	h.Lock()
	defer h.Unlock()
	set[v] = true
}

// TestPowerFailsUnderConsumers cuts the power while messages are published, delivered,
// acknowledged and given back. Afterwards no message whose acknowledgement was confirmed
// comes again, every other one does, and those that somebody had are flagged.
func TestPowerFailsUnderConsumers(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { powerFails(t, seed) })
	}
}

func powerFails(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	fs := vfs.NewMem()
	n := openReal(t, fs, "data", 64<<10)
	q := declare(t, n.Router, "q", router.QueueConfig{})
	h := newHistory()
	enough := 200 + rnd.IntN(800)
	reached := make(chan struct{})
	stop := make(chan struct{})
	var clients sync.WaitGroup
	clients.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			vs := []string{fmt.Sprint(i, "a"), fmt.Sprint(i, "b"), fmt.Sprint(i, "c")}
			if res := routertest.Publish(n.Router, q.ID, routertest.Batch(t, 1, vs...)); res.Err == nil {
				for _, v := range vs {
					h.note(h.published, v)
				}
			}
		}
	})
	var once sync.Once
	for k := range 2 {
		c := consume(t, n.Router, router.ConsumeSpec{Queue: q.ID, Prefetch: 1 + k*20})
		mine := rand.New(rand.NewPCG(seed, uint64(k)))
		clients.Go(func() {
			for {
				d, err := c.Next(timeout(t))
				if err != nil {
					return
				}
				v := string(d.Record.Value)
				h.note(h.delivered, v)
				switch mine.IntN(5) {
				case 0:
					c.Settle(router.Release, 0, []router.Receipt{d.Receipt}, nil)
				case 1:
					c.Settle(router.Fail, 0, []router.Receipt{d.Receipt}, nil)
				default:
					h.note(h.acking, v)
					c.Settle(router.Done, 0, []router.Receipt{d.Receipt}, func(kinds []core.Kind, err error) {
						if err != nil || kinds[0] != core.OK {
							return
						}
						h.note(h.acked, v)
						h.Lock()
						defer h.Unlock()
						if len(h.acked) == enough {
							once.Do(func() { close(reached) })
						}
					})
				}
			}
		})
	}
	select {
	case <-reached:
	case <-timeout(t).Done():
		t.Fatal("nothing goes on")
	}
	h.Lock()
	before := &history{
		published: clone(h.published), delivered: clone(h.delivered), acking: clone(h.acking), acked: clone(h.acked),
	}
	left := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rnd.IntN(101), RNG: rnd})
	h.Unlock()
	close(stop)
	n.close(t)
	clients.Wait()

	n = openReal(t, left, "data", 64<<10)
	defer n.close(t)
	last := "the last one"
	publish(t, n.Router, q, last)
	c := consume(t, n.Router, router.ConsumeSpec{Queue: q.ID})
	seen := map[string]bool{}
	for {
		d, err := c.Next(timeout(t))
		if err != nil {
			t.Fatal(err)
		}
		v := string(d.Record.Value)
		if v == last {
			break
		}
		if before.acked[v] {
			t.Errorf("%s came again, redelivered %v, after its acknowledgement was confirmed", v, d.Redelivered)
		}
		if before.delivered[v] && !d.Redelivered {
			t.Errorf("%s was delivered before, and is not flagged", v)
		}
		if seen[v] {
			t.Errorf("%s came twice", v)
		}
		seen[v] = true
	}
	flagged := 0
	for v := range before.published {
		if !seen[v] && !before.acking[v] {
			t.Errorf("%s is lost", v)
		}
		if seen[v] && before.delivered[v] {
			flagged++
		}
	}
	t.Logf("%d published, %d acknowledged, %d came again, %d of them flagged for good reason",
		len(before.published), len(before.acked), len(seen), flagged)
}

func clone(m map[string]bool) map[string]bool {
	c := make(map[string]bool, len(m))
	for k := range m {
		c[k] = true
	}
	return c
}

// BenchmarkQueues publishes, consumes and acknowledges, on a real log on the disk. One
// message is one iteration; 1,000 publishes are under way at a time, consumers have a prefetch
// of 256, and acknowledgements are confirmed.
func BenchmarkQueues(b *testing.B) {
	for _, queues := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("queues=%d", queues), func(b *testing.B) {
			n := openReal(b, vfs.Default, b.TempDir(), 0)
			defer n.close(b)
			benchmarkQueues(b, n.Router, queues)
		})
	}
}

func benchmarkQueues(b *testing.B, r *router.Router, queues int) {
	ready := make(chan *router.Consumer, 1<<16)
	ids := make([]core.QueueID, queues)
	for i := range ids {
		q := declare(b, r, fmt.Sprint("queue-", i), router.QueueConfig{})
		ids[i] = q.ID
		var c *router.Consumer
		var once sync.Mutex
		once.Lock()
		c, err := r.Consume(timeout(b), nobody, router.ConsumeSpec{Queue: q.ID, Prefetch: 256, Wake: func() {
			once.Lock()
			defer once.Unlock()
			select {
			case ready <- c:
			default:
			}
		}})
		if err != nil {
			b.Fatal(err)
		}
		once.Unlock()
		defer c.Close()
	}
	message := routertest.Batch(b, 1, string(make([]byte, 100)))
	room := make(chan struct{}, 1000)
	var settled sync.WaitGroup
	settled.Add(b.N)
	b.ResetTimer()
	began := time.Now()
	go func() {
		for i := range b.N {
			room <- struct{}{}
			r.Publish(nobody, ids[i%queues], message, func(res router.PublishResult) {
				if res.Err != nil {
					b.Error(res.Err)
				}
				<-room
			})
		}
	}()
	stop := make(chan struct{})
	var takers sync.WaitGroup
	takers.Go(func() {
		var ds []router.Delivery
		var rs []router.Receipt
		for {
			select {
			case <-stop:
				return
			case c := <-ready:
				var err error
				if ds, err = c.Take(ds[:0], 256); err != nil {
					b.Error(err)
					return
				}
				rs = nil
				for _, d := range ds {
					rs = append(rs, d.Receipt)
				}
				if len(rs) > 0 {
					c.Settle(router.Done, 0, rs, func(kinds []core.Kind, err error) {
						if err != nil {
							b.Error(err)
						}
						settled.Add(-len(kinds))
					})
				}
			}
		}
	})
	settled.Wait()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "msg/s")
	close(stop)
	takers.Wait()
}
