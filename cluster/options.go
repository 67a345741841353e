package cluster

import (
	"context"
	"log/slog"
	"math"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"polylog/cluster/peer"
	"polylog/core"
	"polylog/core/commitlog"
	"polylog/core/vfs"
)

// Options say how a node is run. The zero value of every field but Machine and Dir
// (or Home) is useful.
type Options struct {
	// FS and Dir are the data directory. Home is the same, already locked by
	// OpenHome, which whoever opens the index in it has to do first; Close then
	// leaves it to its owner.
	FS   vfs.FS
	Dir  string
	Home *Home
	// NodeID names the node for ever. Empty: the directory's own, "1" for a new one.
	NodeID string
	// ClusterID is the cluster that a new directory belongs to; empty: a new one.
	ClusterID string
	// Join says that a new node waits to be added to a cluster, instead of being
	// one of its own.
	Join bool
	// Listener takes other nodes' connections; the Node closes it. Without one the
	// node is alone. Advertise is the address that others dial, the listener's own
	// when empty.
	Listener  net.Listener
	Advertise string
	TLS       *peer.TLS // of node-to-node connections; nil: none
	// DialFunc opens connections to other nodes, an ordinary dialer when nil.
	DialFunc func(ctx context.Context, addr string) (net.Conn, error)

	Machine   StateMachine
	CommitLog commitlog.Options // FS, Dir, Durable and Logger are set by Open

	// Clock gives the entries' time; time.Now when nil.
	Clock  func() time.Time
	Logger *slog.Logger
	// Fatal is called once, when storage failed, and must not return: the process
	// has to end and to recover from its disk. It panics when nil.
	Fatal func(error)
	// Restart is called once, when another state has been put on the disk, and must not
	// return: the process has to start anew with it (guard 7). Fatal when nil.
	Restart func(error)
	// LeaderChanged is called, from one goroutine, after each change of the leader
	// that this node knows, and when this node is ready to lead.
	LeaderChanged func()

	// EntryBytes bounds an entry of several commands (512 KiB).
	EntryBytes int
	// MaxInFlight is how many entries are in raft's hands at a time (8).
	MaxInFlight int
	// Linger is how long commands wait for company while entries are in flight (1 ms).
	Linger time.Duration
	// MaxQueuedBytes is how much may wait before proposers are held back (64 MiB).
	MaxQueuedBytes int
	// CheckpointBytes of the machine's overlay (64 MiB) or CheckpointLogBytes of
	// entries (256 MiB) make a checkpoint due.
	CheckpointBytes    int64
	CheckpointLogBytes int64
	// CheckpointWork is how long applying since the last one may have taken (5 s).
	CheckpointWork time.Duration
	// CheckpointPause is how long after the last checkpoint a sixteenth of CheckpointLogBytes
	// is enough (10 s): what a restart reads again holds up its part in elections.
	CheckpointPause time.Duration
	// TrimPause is the least time between checkpoints that are made to free space (5 s).
	TrimPause time.Duration
	// Admit is why a command that another node forwards must not get into the log, or nil:
	// a code that this program or the cluster does not know would end every member. All
	// are admitted when it is nil itself.
	Admit func(core.Code) error
	// Held is an entry that the node of that id is known to have had on its disk, with all
	// before it, when it was committed; 0 where nothing is known.
	Held func(id string) core.LogIndex
	// Reluctant says that another node should lead rather than this one: it stands for election
	// only when nobody has been elected for some time. Never when nil. It must not block.
	Reluctant func() bool
	// Heir says whether the node of that id may be handed leadership; every one when nil.
	Heir func(id string) bool
	// ElectionTimeout is raft's heartbeat and election time-out (2 s); the leader's
	// lease is half of it. Below 2 s a slow disk costs elections (guard 1).
	ElectionTimeout time.Duration
	// FilesRate bounds what other nodes fetch from this one, in bytes a second, when
	// they are behind the log's retention or repair damage; 0: unbounded.
	FilesRate int64
	// ScrubInterval is the time between two readings of all sealed segments of the log;
	// 0: never. ScrubRate bounds them, in bytes a second; 0: unbounded.
	ScrubInterval time.Duration
	ScrubRate     int64
	// RepairTimeout is how long a start tries to fetch a damaged segment of the log from
	// other nodes (1 min).
	RepairTimeout time.Duration
	// StallLimit is how long a disk write may take before the process ends (10 s).
	StallLimit time.Duration

	commitTimeout time.Duration // raft's; tests set it
	trusting      bool          // votes without asking other members first; for tests
}

func (o Options) withDefaults() (Options, error) {
	if o.Machine == nil {
		return o, core.E(core.Invalid, "cluster: no state machine")
	}
	if o.Home == nil && o.Dir == "" {
		return o, core.E(core.Invalid, "cluster: no data directory")
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Fatal == nil {
		o.Fatal = func(err error) { panic(err) }
	}
	if o.Restart == nil {
		o.Restart = o.Fatal
	}
	if o.Admit == nil {
		o.Admit = func(core.Code) error { return nil }
	}
	if o.Reluctant == nil {
		o.Reluctant = func() bool { return false }
	}
	if o.Heir == nil {
		o.Heir = func(string) bool { return true }
	}
	if o.Held == nil {
		o.Held = func(string) core.LogIndex { return 0 }
	}
	if o.LeaderChanged == nil {
		o.LeaderChanged = func() {}
	}
	setDefault(&o.EntryBytes, 512<<10)
	setDefault(&o.MaxInFlight, 8)
	setDefault(&o.Linger, time.Millisecond)
	setDefault(&o.MaxQueuedBytes, 64<<20)
	setDefault(&o.CheckpointBytes, 64<<20)
	setDefault(&o.CheckpointLogBytes, 256<<20)
	setDefault(&o.CheckpointWork, 5*time.Second)
	setDefault(&o.CheckpointPause, 10*time.Second)
	setDefault(&o.TrimPause, 5*time.Second)
	setDefault(&o.ElectionTimeout, 2*time.Second)
	setDefault(&o.RepairTimeout, time.Minute)
	setDefault(&o.StallLimit, 10*time.Second)
	setDefault(&o.commitTimeout, 50*time.Millisecond)
	if o.MaxInFlight >= maxAppendEntries {
		return o, core.E(core.Invalid, "cluster: %d entries in flight, want less than %d", o.MaxInFlight, maxAppendEntries)
	}
	return o, nil
}

func setDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// lease is how long a leader leads that hears from no majority.
func (o *Options) lease() time.Duration { return o.ElectionTimeout / 2 }

// maxAppendEntries bounds the entries of one RPC, of one StoreLogs and of one batch
// for the state machine; maxAppendBytes bounds an RPC's bytes. A node that catches up
// waits for its disk once for each RPC.
const maxAppendEntries = 512

// raftConfig is raft's configuration. Raft's own triggers of snapshots are out of
// reach (checkpoint.go has ours), and so is its removal of log entries.
func raftConfig(o *Options, id string, notify chan<- bool) *raft.Config {
	return &raft.Config{
		ProtocolVersion:          raft.ProtocolVersionMax,
		LocalID:                  raft.ServerID(id),
		HeartbeatTimeout:         o.ElectionTimeout,
		ElectionTimeout:          o.ElectionTimeout,
		LeaderLeaseTimeout:       o.lease(),
		CommitTimeout:            o.commitTimeout,
		MaxAppendEntries:         maxAppendEntries,
		BatchApplyCh:             true, // entries that wait for the disk share its next sync
		ShutdownOnRemove:         false,
		TrailingLogs:             math.MaxUint64 / 2,
		SnapshotInterval:         math.MaxInt64 / 4,
		SnapshotThreshold:        math.MaxUint64 / 2,
		NoSnapshotRestoreOnStart: true,
		RestoreCommittedLogs:     false, // guard 3
		NoLegacyTelemetry:        true,
		NotifyCh:                 notify,
		Logger:                   newRaftLogger(o.Logger),
	}
}
