package index

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"polylog/core"
	"polylog/core/vfs"
)

// errClosed is what every operation on a closed store returns.
var errClosed = core.E(core.Closed, "the index is closed")

// Options configures a Store. FS and Dir are required.
type Options struct {
	FS         vfs.FS
	Dir        string // created when missing; the store locks it
	CacheBytes int64  // of Pebble's block cache; default 16 MiB
	Logger     *slog.Logger
	// Fatal is called when Pebble cannot go on (its manifest cannot be written); it
	// should end the process. If it is nil or returns, the store panics.
	Fatal func(error)
}

func (o *Options) setDefaults() {
	if o.CacheBytes <= 0 {
		o.CacheBytes = 16 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

func (o *Options) validate() error {
	if o.FS == nil || o.Dir == "" {
		return core.E(core.Invalid, "index: a file system and a directory are required")
	}
	return nil
}

// Store holds the indexes. One goroutine calls Update and Freeze; everything else
// may be called by any number of goroutines.
type Store struct {
	reader

	opt Options
	db  *pebble.DB

	mu     sync.RWMutex // guards what the package doc says; never held across I/O
	active *overlay
	frozen *overlay // nil unless a checkpoint is unfinished
	base   *base
	closed bool

	writing   sync.Mutex     // held by Write, SaveTo and Close
	bases     sync.WaitGroup // bases not yet released by all readers
	unflushed bool           // Pebble has a batch that is not known to be on disk; guarded by writing
	failed    chan error     // a background error of Pebble that no Write has returned yet

	applied, durable, firstLive atomic.Uint64
	overlayBytes                atomic.Int64

	// The writer's.
	tx   Tx
	live liveRuns
}

// Open opens or creates the store. It is then at the state of the last checkpoint:
// entries after Applied() are to be applied again.
func Open(o Options) (*Store, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Store{opt: o, failed: make(chan error, 1)}
	s.reader = reader{s, liveLayers{s}}
	s.tx.init(s)
	db, err := openPebble(&s.opt, s.backgroundError)
	if err != nil {
		return nil, err
	}
	s.db = db
	s.base = s.newBase()
	if err := s.load(); err != nil {
		s.base.release()
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// load restores what is kept in memory from the base.
func (s *Store) load() error {
	m, ok, err := s.base.loadMeta()
	if err != nil {
		return err
	}
	s.base.empty = !ok
	if err := s.base.loadBuckets(s.live.set); err != nil {
		return err
	}
	s.active = newOverlay(m)
	s.applied.Store(uint64(m.applied))
	s.durable.Store(uint64(m.applied))
	s.firstLive.Store(uint64(s.live.first()))
	return nil
}

func (s *Store) newBase() *base {
	s.bases.Add(1)
	b := &base{snap: s.db.NewSnapshot(), done: s.bases.Done}
	b.refs.Store(1)
	return b
}

// backgroundError keeps the first error for the next Write to return. Pebble calls
// it with its own locks held, and tries what failed again at once: logging only what
// is kept keeps a full disk from filling the log.
func (s *Store) backgroundError(err error) {
	select {
	case s.failed <- err:
		s.opt.Logger.Error("pebble background error", "error", err)
	default:
	}
}

// Applied is the index of the last entry that the state contains.
func (s *Store) Applied() core.LogIndex { return core.LogIndex(s.applied.Load()) }

// Durable is the index of the last entry that the base contains: what a crash
// returns to.
func (s *Store) Durable() core.LogIndex { return core.LogIndex(s.durable.Load()) }

// FirstLive is a lower bound of the log indexes that live runs refer to; 0 when
// there is none. It is that of the current state: a crash brings runs below it back, so
// the log may drop only what is below it as of a checkpoint.
func (s *Store) FirstLive() core.LogIndex { return core.LogIndex(s.firstLive.Load()) }

// OverlayBytes estimates the memory of what changed since the last Freeze.
func (s *Store) OverlayBytes() int64 { return s.overlayBytes.Load() }

// Configuration is the last configuration that was set, not to be changed, and its
// log index.
func (s *Store) Configuration() (core.LogIndex, []byte) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.active.meta.confIndex, s.active.meta.conf
}

// Close waits for a Write under way and for readers, Snapshots included, and closes
// the store. What was not checkpointed is lost, as in a crash. The goroutine that
// calls Update must have stopped. It may be called twice.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	b := s.base
	s.mu.Unlock()
	b.release()
	s.bases.Wait()
	return baseError("close the index", s.db.Close())
}
