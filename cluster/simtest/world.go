package simtest

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"polylog/core"
	"polylog/core/commitlog"
	"polylog/core/vfs"
	"polylog/router/state"
)

// Sim is what a run is made of. The zero value of every field but Seed is useful.
type Sim struct {
	Seed   uint64
	Faults int           // how many; 12
	Length time.Duration // of the part with faults, on the world's clock; 30 s
	Script string        // what is played instead of a plan (scripts.go)
	// Flush is the log's policy. Anything but FlushSync breaks the promise, and the
	// simulation has to say so.
	Flush commitlog.FlushPolicy
}

// Stats says what a run has seen.
type Stats struct {
	Acked     int // commands
	Uncertain int
	Reads     int
	Starts    int // processes
	Restarts  int // of processes that asked for it
	Terms     int // the last term
	Entries   int // applied
	Trimmed   int // segments that a node's log has lost at its front
	Performed int // scripts that were played to their end
}

// world is one run: three nodes, their network, their clients, and what is known of what
// was promised.
type world struct {
	sim    Sim
	seed   uint64
	flush  commitlog.FlushPolicy
	net    *network
	nodes  []*node
	logger *slog.Logger
	begin  time.Time

	starts, restarts, crashes atomic.Int64
	done                      chan struct{} // closed: supervisors stop
	loops                     sync.WaitGroup
	failed                    chan struct{} // closed at the first failure
	quiet                     atomic.Bool   // clients are to wait
	replacing                 chan struct{} // holds one while a member is replaced; a mutex would stop the clock
	agreed                    core.LogIndex // up to where all nodes were found to be the same

	mu       sync.Mutex // guards all below
	journal  bytes.Buffer
	failures []string
	applied  map[core.LogIndex]applied
	queues   map[core.QueueID]*queue
	messages []*message
	groups   []*group
	stats    Stats
}

// maxJournal keeps a hopeless run from growing for ever, in bytes.
const maxJournal = 4 << 20

func newWorld(sim Sim) *world {
	if sim.Faults == 0 {
		sim.Faults = 12
	}
	if sim.Length == 0 {
		sim.Length = 30 * time.Second
	}
	const size = 3
	w := &world{
		sim: sim, seed: sim.Seed, flush: sim.Flush, begin: time.Now(),
		net:  newNetwork(size, rand.New(rand.NewPCG(sim.Seed, 1))),
		done: make(chan struct{}), failed: make(chan struct{}), replacing: make(chan struct{}, 1),
		applied: map[core.LogIndex]applied{}, queues: map[core.QueueID]*queue{},
	}
	w.logger = slog.New(slog.NewTextHandler(journal{w}, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.String("at", fmt.Sprintf("%.3f", time.Since(w.begin).Seconds()))
			}
			return a
		},
	}))
	for i := range size {
		nd := &node{w: w, host: i, id: fmt.Sprint("n", i+1), addr: fmt.Sprintf("host%d:7420", i+1), join: i > 0, disk: vfs.NewMem(), up: closedChan()}
		w.nodes = append(w.nodes, nd)
	}
	return w
}

func closedChan() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (w *world) hostOf(at string) int {
	for _, nd := range w.nodes {
		if nd.addr == at {
			return nd.host
		}
	}
	return 0
}

// journal takes the nodes' log lines and the faults.
type journal struct{ w *world }

func (j journal) Write(b []byte) (int, error) {
	j.w.mu.Lock()
	defer j.w.mu.Unlock()
	if j.w.journal.Len() < maxJournal {
		j.w.journal.Write(b)
	}
	return len(b), nil
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(format, args...)
}

func (w *world) failLocked(format string, args ...any) {
	if len(w.failures) == 0 {
		close(w.failed)
	}
	if len(w.failures) < 20 {
		w.failures = append(w.failures, fmt.Sprintf("at %.3f s: ", time.Since(w.begin).Seconds())+fmt.Sprintf(format, args...))
	}
}

// hopeless reports whether something was wrong already.
func (w *world) hopeless() bool {
	select {
	case <-w.failed:
		return true
	default:
		return false
	}
}

// process is what runs on the node now, or nil.
func (nd *node) process() *process {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	return nd.p
}

// leader is a process that leads, or nil.
func (w *world) leader() *process {
	for _, nd := range w.nodes {
		if p := nd.process(); p != nil && !p.dead.Load() && p.broker.IsLeader() {
			return p
		}
	}
	return nil
}

// await waits until is, or reports false after a time or a failure.
func (w *world) await(limit time.Duration, is func() bool) bool {
	for end := time.Now().Add(limit); !is(); {
		if w.hopeless() || time.Now().After(end) {
			return false
		}
		pause(20 * time.Millisecond)
	}
	return true
}

// Run runs one world to its end. It belongs into a bubble of testing/synctest: all its
// time is the bubble's.
func Run(sim Sim) (Stats, error) {
	w := newWorld(sim)
	for _, nd := range w.nodes {
		w.loops.Go(nd.supervise)
	}
	plan := &plan{}
	if sim.Script == "" {
		plan = newPlan(w)
	}
	w.play(plan)
	close(w.done)
	w.loops.Wait()
	if !w.hopeless() {
		w.compareDisks()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Starts, w.stats.Restarts = int(w.starts.Load()), int(w.restarts.Load())
	for _, a := range w.applied {
		w.stats.Entries++
		w.stats.Terms = max(w.stats.Terms, int(a.term))
	}
	if len(w.failures) > 0 {
		return w.stats, &Failure{Seed: w.seed, Plan: plan.String(), Failures: w.failures, Journal: w.journal.String()}
	}
	return w.stats, nil
}

// play is the course of a world: form, suffer, heal, agree.
func (w *world) play(plan *plan) {
	if !w.form() || !w.prepare() {
		w.fail("the cluster does not form")
		return
	}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	w.startClients(&clients, stop)
	if w.sim.Script != "" {
		w.perform()
	} else {
		w.suffer(plan)
	}
	w.heal()
	pause(2 * time.Second)
	close(stop)
	ended := make(chan struct{})
	go func() { clients.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(5 * time.Minute):
		w.fail("clients still wait")
		<-ended
	}
	w.agree()
}

// form makes one cluster of the nodes.
func (w *world) form() bool {
	var l *process
	if !w.await(time.Minute, func() bool { l = w.leader(); return l != nil }) {
		return false
	}
	for _, nd := range w.nodes[1:] {
		ctx, cancel := within(30 * time.Second)
		err := l.broker.AddMember(ctx, nd.id, nd.addr)
		cancel()
		if err != nil {
			w.fail("add node %s: %v", nd.id, err)
			return false
		}
	}
	return w.await(time.Minute, func() bool { return l.voters() == len(w.nodes) })
}

func (p *process) voters() (n int) {
	for _, m := range p.broker.Members() {
		if m.Voter {
			n++
		}
	}
	return n
}

// prepare creates the topic that the clients use.
func (w *world) prepare() bool {
	l := w.leader()
	if l == nil {
		return false
	}
	ctx, cancel := within(30 * time.Second)
	defer cancel()
	create := state.CreateTopic{Name: core.TopicName("t"), Partitions: partitions}
	r, err := l.broker.Propose(ctx, create.Command())
	if err != nil || r.Err != nil {
		w.fail("create the topic: %v, %v", r, err)
		return false
	}
	t, _ := l.state.Topic(create.Name)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range t.Queues {
		w.queues[q] = &queue{id: q, content: map[core.Offset]record{}}
	}
	return true
}

// Failure is what went wrong in a world, and what it went through.
type Failure struct {
	Seed     uint64
	Plan     string
	Failures []string
	Journal  string // the nodes' log lines and the faults as they came
}

// Error implements error.
func (f *Failure) Error() string {
	var b bytes.Buffer
	for _, s := range f.Failures {
		fmt.Fprintln(&b, s)
	}
	fmt.Fprintf(&b, "the plan of seed %d was\n%s", f.Seed, f.Plan)
	return b.String()
}
