package simtest

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"polylog/cluster"
	"polylog/core"
	"polylog/core/commitlog"
	"polylog/core/vfs"
	"polylog/index"
	"polylog/router/state"
)

// node is a host: a disk, an address, and the process that runs on it, if any. Its
// supervisor starts a process whenever there is none and there should be.
type node struct {
	w    *world
	host int
	addr string

	clock   atomic.Int64 // ns that its clock is ahead
	shy     atomic.Bool  // it leaves elections to others
	badSync atomic.Int32 // so many syncs of the log or the vote file fail, once they come

	trap trap

	slowVotes atomic.Int64 // ns that a sync of the vote file takes: nobody else waits for it meanwhile

	mu   sync.Mutex
	id   string     // guarded by mu, as is all below
	join bool       // a new disk is one of a node that joins
	disk *vfs.MemFS // what the next process finds
	p    *process   // nil: down, or not up yet
	up   chan struct{}
}

// process is one run of a broker's storage half on a node.
type process struct {
	node   *node
	id     string
	mem    *vfs.MemFS
	home   *cluster.Home
	store  *index.Store
	state  *state.State
	broker *cluster.Node

	dead    atomic.Bool // nothing that it does counts from now on
	ioError atomic.Bool // a sync has failed
	cutOff  bool        // guarded by network.mu
	once    sync.Once
	closing atomic.Bool   // somebody closes what is open
	gone    chan struct{} // closed: left is set
	left    *vfs.MemFS    // what it leaves on the disk
}

const (
	dataDir      = "data"
	clusterID    = "Y2x1c3RlcidzIHRlc3Rpbg"
	segmentBytes = 16 << 10
	cacheBytes   = 64 << 10 // of the log
)

// supervise keeps the node's process running until the world ends.
func (nd *node) supervise() {
	for {
		nd.mu.Lock()
		up := nd.up
		nd.mu.Unlock()
		select {
		case <-up:
		case <-nd.w.done:
			return
		}
		p, err := nd.boot()
		if err != nil {
			if !p.dead.Load() && !p.ioError.Load() {
				nd.w.fail("node %s does not start: %v", p.id, err)
			}
			p.crash(50, true)
		} else {
			nd.present(p)
		}
		select {
		case <-p.gone:
		case <-nd.w.done:
			p.stop()
			<-p.gone
		}
		nd.mu.Lock()
		nd.p = nil
		if nd.id == p.id { // else another disk has taken its place
			nd.disk = p.left
		}
		nd.mu.Unlock()
		nd.w.loops.Go(p.release)
		pause(50 * time.Millisecond)
	}
}

// present shows a process that is up to clients and faults, unless its disk was taken
// out or its power cut while it started.
func (nd *node) present(p *process) {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	select {
	case <-nd.up:
		if nd.id == p.id {
			nd.p = p
			return
		}
	default:
	}
	p.crash(50, false)
}

// replace puts another, empty disk in, of a node that is to join.
func (nd *node) replace(id string) {
	nd.mu.Lock()
	p := nd.p
	nd.id, nd.join, nd.disk = id, true, vfs.NewMem()
	nd.mu.Unlock()
	if p != nil {
		p.crash(50, false)
	}
}

// power switches the node off or on. Off, it loses what percent of what was not synced.
func (nd *node) power(on bool, percent int, tell bool) {
	nd.mu.Lock()
	select {
	case <-nd.up:
		if !on {
			nd.up = make(chan struct{})
		}
	default:
		if on {
			close(nd.up)
		}
	}
	p := nd.p
	nd.mu.Unlock()
	if !on && p != nil {
		p.crash(percent, tell)
	}
}

func (nd *node) name() string {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	return nd.id
}

// boot starts a process. After an error what is open is left to release.
func (nd *node) boot() (*process, error) {
	w := nd.w
	nd.mu.Lock()
	p := &process{node: nd, id: nd.id, mem: nd.disk, gone: make(chan struct{})}
	join := nd.join
	nd.mu.Unlock()
	w.net.reboot(nd.host)
	fs := vfs.WithHook(p.mem, p.change)
	var err error
	if p.home, err = cluster.LockHome(fs, dataDir, p.id); err != nil {
		return p, err
	}
	if p.home.IsNew() {
		settle := p.home.Found
		if join {
			settle = p.home.Join
		}
		if err := settle(clusterID); err != nil {
			return p, err
		}
	}
	if p.store, err = index.Open(index.Options{FS: fs, Dir: p.home.IndexDir(), CacheBytes: 1 << 20, Fatal: p.fatal}); err != nil {
		return p, err
	}
	if p.state, err = state.Open(p.store, state.Options{Fatal: p.fatal, Level: state.MaxLevel}); err != nil {
		return p, err
	}
	p.broker, err = cluster.Open(context.Background(), cluster.Options{
		Home: p.home, Listener: w.net.listen(nd.host, p, nd.addr), Advertise: nd.addr,
		DialFunc: func(ctx context.Context, to string) (net.Conn, error) { return w.net.dial(ctx, p, to, w.hostOf(to)) },
		Machine:  &witness{State: p.state, p: p},
		Clock:    func() time.Time { return time.Now().Add(time.Duration(nd.clock.Load())) },
		Logger:   w.logger.With("node", p.id), Fatal: p.fatal, Restart: p.restart,
		Reluctant: nd.shy.Load, Heir: func(id string) bool { return !w.isShy(id) },
		Held:               func(id string) core.LogIndex { return p.state.Sightings()[id].Held },
		CheckpointLogBytes: 48 << 10, TrimPause: 100 * time.Millisecond, ElectionTimeout: time.Second,
		CommitLog: commitlog.Options{SegmentBytes: segmentBytes, CacheBytes: cacheBytes, Flush: w.flush},
	})
	w.starts.Add(1)
	return p, err
}

func (w *world) isShy(id string) bool {
	return slices.ContainsFunc(w.nodes, func(nd *node) bool { return nd.shy.Load() && nd.name() == id })
}

// change is the hook in front of every change to the disk.
func (p *process) change(op vfs.Op, path string) error {
	p.node.trap.spring(p, path)
	if op != vfs.OpSync || !strings.Contains(path, "/log/") && !strings.Contains(path, "/raft/") {
		return nil
	}
	if slow := time.Duration(p.node.slowVotes.Load()); slow > 0 && strings.Contains(path, "/raft/") {
		<-time.After(slow) // a disk that takes its time
	}
	for k := p.node.badSync.Load(); k > 0; k = p.node.badSync.Load() {
		if p.node.badSync.CompareAndSwap(k, k-1) {
			p.ioError.Store(true)
			if strings.Contains(path, "/raft/") {
				// Raft panics at an error that comes back from the vote file, and Fatal,
				// which comes first, must not return: the process ends here.
				p.crash(50, true)
				return nil
			}
			return errors.New("input/output error")
		}
	}
	return nil
}

// trap cuts the power in front of a change to the disk: elsewhere processes die only
// while they wait, for the clock goes on no sooner.
type trap struct {
	changes atomic.Int32 // so many are made yet; 0: it is not set
	percent atomic.Int32
	votes   atomic.Bool // of the vote file and the snapshot record only
}

func (t *trap) set(f fault) {
	limit := 60
	if f.kind == "trap-vote" {
		limit = 8
	}
	t.arm(1+int(f.amount/time.Microsecond)%limit, f.percent, f.kind == "trap-vote")
}

// arm has the trap spring at a change from now on, the first is 1.
func (t *trap) arm(change, percent int, votes bool) {
	t.percent.Store(int32(percent))
	t.votes.Store(votes)
	t.changes.Store(int32(change))
}

func (t *trap) spring(p *process, path string) {
	if t.changes.Load() == 0 || p.dead.Load() || t.votes.Load() && !strings.Contains(path, "/raft/") {
		return
	}
	if t.changes.Add(-1) == 0 {
		p.node.w.logger.Warn("power cut", "node", p.id, "before a change of", path)
		p.crash(int(t.percent.Load()), false)
	}
}

// fatal is the end of a process whose storage has failed: what was not synced may be
// lost.
func (p *process) fatal(err error) {
	p.node.w.logger.Info("process ends", "node", p.id, "err", err)
	p.crash(50, true)
}

// restart is the end of a process that wants to start anew.
func (p *process) restart(err error) {
	p.node.w.logger.Info("process restarts", "node", p.id, "reason", err)
	p.node.w.restarts.Add(1)
	p.crash(100, true)
}

// crash ends the process in the middle of what it does. percent is the chance of each
// block and name that was not synced to be on the disk afterwards: 100 is kill -9, less a
// power cut. First nothing of it counts any more, then it is cut off, then its disk is
// copied: so whatever others have got of it, its disk is at least as new.
func (p *process) crash(percent int, tell bool) {
	p.once.Do(func() {
		p.die()
		p.node.w.net.sever(p, tell)
		p.left = p.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(p.node.w.seed, uint64(p.node.w.crashes.Add(1))))})
		close(p.gone)
	})
}

func (p *process) die() {
	p.node.w.mu.Lock() // no observation is half made
	p.dead.Store(true)
	p.node.w.mu.Unlock()
}

// end says that the process has ended by itself.
func (p *process) end(left *vfs.MemFS, tell bool) {
	p.once.Do(func() {
		p.die()
		p.node.w.net.sever(p, tell)
		p.left = left
		close(p.gone)
	})
}

// stop ends the process in good order.
func (p *process) stop() {
	if p.closing.CompareAndSwap(false, true) {
		p.close()
		p.end(p.mem, true)
	}
}

// release closes what the process has open, so that its goroutines end. When it is dead
// nobody hears of it.
func (p *process) release() {
	if p.closing.CompareAndSwap(false, true) {
		p.close()
	}
}

func (p *process) close() {
	var err error
	if p.broker != nil {
		err = p.broker.Close()
	}
	if p.store != nil {
		err = errors.Join(err, p.store.Close())
	}
	if p.home != nil {
		err = errors.Join(err, p.home.Close())
	}
	if err != nil && !p.dead.Load() && !p.ioError.Load() {
		p.node.w.fail("node %s does not stop well: %v", p.id, err)
	}
}

// witness is the state machine, and compares what each replica applies with what the
// others have.
type witness struct {
	*state.State
	p *process
}

// Apply implements cluster.StateMachine.
func (m *witness) Apply(entries []core.Entry) [][]core.Result {
	sums := make([]applied, len(entries))
	for i, e := range entries {
		sums[i] = applied{term: e.Term, data: crc32.ChecksumIEEE(e.Data)}
	}
	results := m.State.Apply(entries)
	w := m.p.node.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.p.dead.Load() {
		return results
	}
	for i, e := range entries {
		sums[i].results = crc32.ChecksumIEEE(fmt.Append(nil, results[i]))
		if was, ok := w.applied[e.Index]; !ok {
			w.applied[e.Index] = sums[i]
		} else if was != sums[i] {
			w.failLocked("node %s has applied another entry %d than others: %+v, not %+v", m.p.id, e.Index, sums[i], was)
		}
	}
	return results
}

// applied is what was applied at an index.
type applied struct {
	term          core.Term
	data, results uint32 // checksums
}

func pause(d time.Duration) { <-time.After(d) }
