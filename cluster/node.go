package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"polylog/cluster/peer"
	"polylog/core"
	"polylog/core/commitlog"
	"polylog/core/vfs"
)

// Node is this process's part in a cluster: its log, its raft node and the way to
// propose commands. All methods may be called from any goroutine.
type Node struct {
	o       Options
	home    *Home
	log     *commitlog.Log
	machine StateMachine
	failure failure
	watch   stallWatch

	stable    *stableStore
	snapshots *snapshotStore
	logs      *logStore
	fsm       *fsm
	network   *peer.Network
	transport transport
	raft      *raft.Raft

	proposer   proposer
	forwarder  forwarder
	leadership leadership
	reader     reader
	remote     remoteReader
	awaited    awaited
	alone      atomic.Bool   // no other node has a place in the configuration
	newestConf atomic.Uint64 // index of the newest stored configuration
	recalled   atomic.Bool   // it may vote; see recall.go
	opened     time.Time
	freshUntil atomic.Int64 // ns after opened; see isFresh

	checkpointDue   chan struct{}
	sinceCheckpoint atomic.Int64  // log bytes applied since the last Freeze
	frozen          time.Time     // when that was; the apply goroutine's, as is
	workSince       time.Duration // that applying took since then
	checkpoints     atomic.Int64
	checkpointing   sync.Mutex // held while a checkpoint is made

	exports   exports
	catchUp   catchUp
	pace      pacer // of what other nodes fetch
	filesSent atomic.Int64

	scrub    scrubber
	unsound  sync.Map     // by base: segments that are damaged and not repaired
	scrubs   atomic.Int64 // rounds
	scrubbed atomic.Int64 // bytes
	damages  atomic.Int64 // segments found damaged
	repaired atomic.Int64 // of those, and of those found at the start

	trimMu  sync.Mutex // held while Trim makes a checkpoint
	trimmed time.Time  // guarded by trimMu; when it made the last one

	stop      chan struct{}  // closed: the goroutines in loops end
	loops     sync.WaitGroup // goroutines that use raft; they end before it
	calls     sync.WaitGroup // goroutines that wait for raft; they end with it
	closeOnce sync.Once
	closeErr  error
}

// Open opens or makes the data directory and starts the node: a new one is a cluster
// of its own, and leads at once. Open does not wait for a leader; Ready does. The
// context bounds nothing but Open itself.
func Open(ctx context.Context, options Options) (*Node, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	home := o.Home
	if home == nil {
		if home, err = OpenHomeIn(o.FS, o.Dir, o.NodeID, o.ClusterID); err != nil {
			return nil, errors.Join(err, closeListener(o.Listener))
		}
	}
	o.FS, o.Dir, o.NodeID = home.fs, home.dir, home.nodeID
	n := &Node{
		o: o, home: home, machine: o.Machine,
		opened:        time.Now(),
		failure:       failure{fatal: o.Fatal, anew: o.Restart, logger: o.Logger},
		pace:          pacer{rate: o.FilesRate},
		checkpointDue: make(chan struct{}, 1),
		stop:          make(chan struct{}),
	}
	n.proposer.init(n)
	n.forwarder.init(n)
	n.leadership.init()
	n.reader.init()
	n.exports.init()
	n.catchUp.init()
	n.scrub.init(&n.o)
	n.remote.init()
	if err = n.openStores(); err == nil {
		err = n.start()
	}
	if err != nil {
		return nil, errors.Join(err, n.closeStores(), closeListener(o.Listener))
	}
	return n, nil
}

func closeListener(l net.Listener) error {
	if l == nil {
		return nil
	}
	if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// openStores opens what is on disk and brings the state machine up to raft's
// snapshot.
func (n *Node) openStores() error {
	fs, dir := n.o.FS, n.o.FS.PathJoin(n.o.Dir, raftName)
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create %s: %w", dir, err)
	}
	if err := vfs.SyncDir(fs, n.o.Dir); err != nil {
		return err
	}
	var err error
	if n.snapshots, err = openSnapshots(fs, dir); err != nil {
		return err
	}
	n.snapshots.install, n.snapshots.saved, n.snapshots.holds = n.installSnapshot, n.snapshotSaved, n.logHolds
	durable, snap := n.machine.Durable(), n.snapshots.latest.Load()
	logDir := fs.PathJoin(n.o.Dir, logName)
	head, err := commitlog.Head(fs, logDir) // before anything in it is changed
	if err == nil {
		err = checkHead(logDir, head, snap)
	}
	if err != nil {
		return err
	}
	isNew := head == 0 && snap == nil && durable == 0
	if n.stable, err = openStable(fs, dir, isNew, n.failure.fail, &n.watch); err != nil {
		return err
	}
	if snap != nil && !snap.installed {
		durable = max(durable, snap.index)
	}
	lo := n.o.CommitLog
	lo.FS, lo.Dir, lo.Logger, lo.Durable = fs, logDir, n.o.Logger, durable
	if err = n.openLog(lo, snap); err != nil {
		return err
	}
	n.fsm = &fsm{machine: n.machine, replay: n.replay, due: n.applied, freeze: n.freeze, conf: n.committedConfiguration}
	n.logs = &logStore{
		log: n.log, fail: n.failure.fail, failed: n.failure.failed, watch: &n.watch, sums: &n.proposer.sums,
		applied:  func() core.LogIndex { return max(core.LogIndex(n.fsm.seen.Load()), n.machine.Applied()) },
		snapshot: n.snapshotIndex, stored: n.storedConfiguration, suspect: n.suspect,
	}
	n.fsm.read = n.logs.read
	if err := n.checkLog(); err != nil {
		return err
	}
	if err := n.checkTerm(); err != nil {
		return err
	}
	if err := n.bootstrap(); err != nil {
		return err
	}
	n.trimDead() // makes room before the replay, which may need some
	return n.replay(n.snapshotIndex())
}

func (n *Node) snapshotIndex() core.LogIndex {
	if s := n.snapshots.latest.Load(); s != nil {
		return s.index
	}
	return 0
}

// start starts raft and our goroutines.
func (n *Node) start() error {
	if err := n.seedTime(); err != nil {
		return err
	}
	n.network = peer.New(peer.Options{
		ClusterID: n.home.clusterID, NodeID: n.o.NodeID,
		Listener: n.o.Listener, Advertise: n.advertised(), TLS: n.o.TLS, DialFunc: n.o.DialFunc, Logger: n.o.Logger,
	})
	n.transport = newTransport(n.network, n.o.NodeID, n.advertised(), n.o.lease(), newRaftLogger(n.o.Logger))
	n.transport.electable, n.transport.inspected = n.electable, make(chan raft.RPC)
	n.transport.read = n.logs.read
	config := raftConfig(&n.o, n.o.NodeID, n.leadership.notify)
	r, err := raft.NewRaft(config, n.fsm, n.logs, n.stable, n.snapshots, n.transport)
	if err != nil {
		return errors.Join(fmt.Errorf("start raft: %w", err), n.transport.Close(), n.network.Close())
	}
	n.raft = r
	if f := n.o.CommitLog.Flush; f != commitlog.FlushSync {
		n.o.Logger.Warn("what is acknowledged may be lost in a power failure", "flush", f.String())
	}
	n.alone.Store(len(n.servers()) == 1 && n.isLoneVoter())
	n.recalled.Store(n.isLoneVoter() || n.o.trusting)
	r.RegisterObserver(n.leadership.observer)
	n.loops.Go(n.inspectLoop)
	n.loops.Go(n.watchLeadership)
	n.loops.Go(n.readLoop)
	n.loops.Go(n.remoteReadLoop)
	n.loops.Go(n.nudgeLoop)
	n.loops.Go(n.doubtLoop)
	n.network.Handle(heldService, n.tellHeld)
	n.loops.Go(n.recallLoop)
	n.loops.Go(n.checkpointLoop)
	n.network.Handle(progressService, n.tellProgress)
	n.loops.Go(n.promoteLoop)
	n.loops.Go(n.catchUpLoop)
	n.loops.Go(n.scrubLoop)
	n.Handle(filesService, n.serveFiles)
	n.HandleAny(BackupService, n.serveBackup)
	n.loops.Go(func() { n.watch.run(n.o.StallLimit, n.failure.fail, n.stop) })
	n.loops.Go(n.proposer.batchLoop)
	n.loops.Go(n.proposer.completeLoop)
	n.loops.Go(n.forwarder.loop)
	n.network.Handle(proposeService, n.serveProposals)
	n.network.Handle(readService, n.serveReads)
	return nil
}

// advertised is the address under which other nodes reach this one.
func (n *Node) advertised() string {
	switch {
	case n.o.Advertise != "":
		return n.o.Advertise
	case n.o.Listener != nil:
		return n.o.Listener.Addr().String()
	}
	return "node-" + n.o.NodeID // not an address: nobody else knows it
}

// bootstrap makes a new node a cluster of its own: the first entry of its log says
// that it is the only voter. It may be called again after a crash in the middle.
func (n *Node) bootstrap() error {
	if n.log.Last() > 0 || n.snapshots.latest.Load() != nil || n.o.Join || n.home.joined {
		return nil
	}
	if n.machine.Durable() > 0 || n.stable.term > 1 || n.stable.vote.candidate != nil {
		return core.E(core.Corrupt, "the log is empty but this node has been used: the directory %s/%s is missing or was replaced", n.o.Dir, logName)
	}
	if err := n.stable.SetUint64([]byte(keyTerm), 1); err != nil {
		return err
	}
	err := n.logs.StoreLog(&raft.Log{
		Index: 1, Term: 1, Type: raft.LogConfiguration,
		Data: raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{
			ID: raft.ServerID(n.o.NodeID), Address: raft.ServerAddress(n.advertised()),
		}}}),
	})
	if err != nil {
		return err
	}
	return n.log.Sync() // whatever the flush policy: without this entry the node is lost
}

// seedTime makes the time of new entries go on from the log's last commands.
func (n *Node) seedTime() error {
	at, err := lastTime(n.log)
	n.fsm.time.Store(max(n.fsm.time.Load(), at))
	return err
}

// lastTime is the time of the last commands in the log, 0 when there are none.
func lastTime(log *commitlog.Log) (int64, error) {
	for i := log.Last(); i > 0 && i >= log.First(); i-- {
		e, err := log.Entry(i)
		if err != nil {
			return 0, fmt.Errorf("read the log's last entries: %w", err)
		}
		if raft.LogType(e.Type) == raft.LogCommand {
			return core.Entry{Data: e.Data}.Time(), nil
		}
	}
	return 0, nil
}

// ReadAt reads a part of an entry's data, as commitlog.Log.ReadAt.
func (n *Node) ReadAt(i core.LogIndex, pos, length uint32, buf []byte) ([]byte, core.Term, error) {
	b, term, err := n.log.ReadAt(i, pos, length, buf)
	if err != nil {
		n.suspect(i, err)
	}
	return b, term, err
}

// Lend is a part of an applied entry's data where it lies, as commitlog.Log.Lend. Raft never
// truncates such an entry.
func (n *Node) Lend(i core.LogIndex, pos, length uint32, front []byte) (core.Extent, core.Term, error) {
	e, term, err := n.log.Lend(i, pos, length, front)
	if err != nil {
		n.suspect(i, err)
	}
	return e, term, err
}

// FirstAfterTerm is the index of the first entry of a term after t, the index after
// the last entry when there is none.
func (n *Node) FirstAfterTerm(t core.Term) core.LogIndex { return n.log.FirstAfterTerm(t) }

// ID is this node's id.
func (n *Node) ID() string { return n.home.nodeID }

// ClusterID is the cluster's id, a Kafka UUID.
func (n *Node) ClusterID() string { return n.home.clusterID }
