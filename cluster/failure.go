package cluster

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"polylog/core"
)

// failure is the way out when storage can no longer be trusted (guard 4). After a
// failed fsync nobody knows what is on disk, and raft's view of its own log is
// wrong; the only safe thing is to end the process and recover from the disk.
type failure struct {
	once   sync.Once
	err    atomic.Pointer[core.Error]
	fatal  func(error)
	anew   func(error) // Options.Restart
	logger *slog.Logger
}

// fail ends the process. Where Options.Fatal returns (in tests), the node refuses
// everything from then on with the error that is returned here.
func (f *failure) fail(err error) error {
	f.once.Do(func() {
		f.err.Store(core.E(core.Unavailable, "this node has stopped: %v", err))
		f.logger.Error("storage failed, this process must end", "err", err)
		f.fatal(err)
	})
	return f.err.Load()
}

// restart ends the process so that it starts anew with what is on its disk. Until then,
// or where Options.Restart returns, the node refuses everything, as after fail.
func (f *failure) restart(reason error) error {
	f.once.Do(func() {
		f.err.Store(core.E(core.Unavailable, "this node starts anew: %v", reason))
		f.logger.Warn("this process starts anew", "reason", reason)
		f.anew(reason)
	})
	return f.err.Load()
}

// failed is the error that stopped the node, or nil.
func (f *failure) failed() error {
	if e := f.err.Load(); e != nil {
		return e
	}
	return nil
}

// stallWatch notices a disk write of raft's main goroutine that does not come back:
// meanwhile that goroutine answers nobody, but its heartbeats go on, so that no
// other node takes over.
type stallWatch struct {
	seq atomic.Uint64 // odd while a write is under way
}

func (w *stallWatch) enter() { w.seq.Add(1) }
func (w *stallWatch) leave() { w.seq.Add(1) }

// stallTicks is how many looks in a row must find the same write under way. They
// are counted, instead of taking the time, so that a process that was suspended is
// not taken for one whose disk hangs.
const stallTicks = 20

// run calls fail when a write takes longer than limit, until stop is closed.
func (w *stallWatch) run(limit time.Duration, fail func(error) error, stop <-chan struct{}) {
	tick := time.NewTicker(max(limit/stallTicks, time.Millisecond))
	defer tick.Stop()
	var last uint64
	var seen int
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			seq := w.seq.Load()
			if seq%2 == 0 || seq != last {
				last, seen = seq, 0
				continue
			}
			if seen++; seen >= stallTicks {
				_ = fail(fmt.Errorf("a write to the log or the vote file takes longer than %v", limit))
				return
			}
		}
	}
}
