// Package routertest gives other packages' tests a whole router without raft and
// disk: its log keeps entries in memory and applies each command at once, through a
// real state machine on a memory file system.
package routertest

import (
	"sync"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/vfs"
	"polylog/index"
	"polylog/router"
	"polylog/router/state"
)

// Clock is a clock that stands still until it is moved.
type Clock struct {
	mu  sync.Mutex
	now time.Time // guarded by mu
}

// NewClock is a clock at the given time.
func NewClock(at time.Time) *Clock { return &Clock{now: at} }

// Now is the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Start is a router on an empty log, whose one node is "1". change, which may be nil,
// sees the options first; Log and State are set. Loops do not run unless
// RetentionInterval is positive. The test's end closes everything.
func Start(t testing.TB, change func(*router.Options)) (*router.Router, *Log) {
	t.Helper()
	return start(t, nil, "1", change)
}

// Join is the router of another node, id, on the log of the cluster that first belongs
// to. It has applied everything when Join returns.
func Join(t testing.TB, first *Log, id string, change func(*router.Options)) (*router.Router, *Log) {
	t.Helper()
	return start(t, first.cluster, id, change)
}

func start(t testing.TB, c *cluster, id string, change func(*router.Options)) (*router.Router, *Log) {
	t.Helper()
	store, err := index.Open(index.Options{FS: vfs.NewMem(), Dir: "index"})
	if err != nil {
		t.Fatal(err)
	}
	st, err := state.Open(store, state.Options{Level: state.MaxLevel})
	if err != nil {
		t.Fatal(err)
	}
	o := router.Options{Clock: time.Now, RetentionInterval: -1}
	if change != nil {
		change(&o)
	}
	if c == nil {
		c = newCluster(o.Clock)
	}
	log := c.newLog(id, st)
	o.Log, o.State = log, st
	r, err := router.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		log.close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, log
}

// Topic creates a topic in the default namespace and returns it.
func Topic(t testing.TB, r *router.Router, name string, partitions int, configs map[string]string) *router.Topic {
	t.Helper()
	topic, err := r.CreateTopic(t.Context(), router.Principal{}, router.TopicSpec{
		Name: core.TopicName(name), Partitions: partitions, Configs: configs,
	})
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

// Publish stores a batch and waits for the outcome.
func Publish(r *router.Router, q core.QueueID, batch []byte) router.PublishResult {
	c := make(chan router.PublishResult, 1)
	r.Publish(router.Principal{}, q, batch, func(res router.PublishResult) { c <- res })
	return <-c
}

// Batch is an uncompressed batch without a producer whose records have these values,
// the key of each its value, all at one time.
func Batch(t testing.TB, ms int64, values ...string) []byte {
	t.Helper()
	var bb core.BatchBuilder
	for _, v := range values {
		bb.Add(ms, []byte(v), []byte(v))
	}
	b, err := bb.Build(nil, core.BatchOptions{Producer: core.Nobody})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
