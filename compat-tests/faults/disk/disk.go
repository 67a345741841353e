package disk

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Faults is how the disk behaves; the zero value is a good one.
type Faults struct {
	WriteDelay time.Duration // of each write
	SyncDelay  time.Duration // of each flush
	FailSync   bool          // flushes fail with EIO and lose what they should have kept
	FailRead   bool          // reads fail with EIO
	Hang       bool          // everything waits until the faults change
}

// Disk is a mounted file system.
type Disk struct {
	root   string // the folder below
	undo   string // where removed files wait for their directory's fsync
	server *fuse.Server

	mu     sync.Mutex
	faults Faults
	over   chan struct{} // closed when the present faults end
	files  map[uint64]*unflushed
	names  []change // of directories that were not flushed since, oldest first
	serial int
	rng    *rand.Rand // decides what a failed fsync loses
	syncs  int64
	slow   time.Duration
}

// Mount shows the folder below/files at dir. What a power cut needs is kept in below/undo.
func Mount(below, dir string, seed uint64) (*Disk, error) {
	d := &Disk{
		root: filepath.Join(below, "files"), undo: filepath.Join(below, "undo"),
		over: make(chan struct{}), files: map[uint64]*unflushed{}, rng: rand.New(rand.NewPCG(seed, 1)),
	}
	for _, p := range []string{d.root, d.undo, dir} {
		if err := os.MkdirAll(p, 0o755); err != nil {
			return nil, err
		}
	}
	below0, err := fs.NewLoopbackRoot(d.root)
	if err != nil {
		return nil, err
	}
	root := &node{LoopbackNode: below0.(*fs.LoopbackNode), disk: d}
	// No time-outs: what Crash changes below must be seen at once.
	d.server, err = fs.Mount(dir, root, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, FsName: "polylog-faults", Name: "faults",
	}})
	if err != nil {
		return nil, fmt.Errorf("mount at %s: %w", dir, err)
	}
	return d, nil
}

// Unmount ends the file system; no process may use it any more.
func (d *Disk) Unmount() error {
	d.Set(Faults{})
	err := d.server.Unmount()
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(err, d.forget())
}

// Set changes how the disk behaves. What hung goes on.
func (d *Disk) Set(f Faults) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = f
	close(d.over)
	d.over = make(chan struct{})
}

// Syncs is how many flushes were asked for.
func (d *Disk) Syncs() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs
}

// Slowest is the longest time that a write has taken below since the last call: what the machine's
// own disk, or a lack of processors, adds to the faults.
func (d *Disk) Slowest() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.slow
	d.slow = 0
	return t
}

// Path is where a file lies below, to look at or to damage behind the file system's back.
func (d *Disk) Path(name string) string { return filepath.Join(d.root, name) }

// wait does to a write or flush what the present faults say, and returns them.
func (d *Disk) wait(delay func(Faults) time.Duration) Faults {
	d.mu.Lock()
	f, over := d.faults, d.over
	d.mu.Unlock()
	if f.Hang {
		<-over
		return Faults{}
	}
	if t := delay(f); t > 0 {
		timer := time.NewTimer(t)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-over:
		}
	}
	return f
}

// Wipe puts a new, empty disk in the place of this one; the process must be dead.
func (d *Disk) Wipe() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.forget()
	all, e := os.ReadDir(d.root)
	err = errors.Join(err, e)
	for _, f := range all {
		err = errors.Join(err, os.RemoveAll(filepath.Join(d.root, f.Name())))
	}
	return err
}

// forget lets go of all that a power cut would need.
func (d *Disk) forget() (err error) {
	for _, u := range d.files {
		err = errors.Join(err, u.file.Close())
	}
	for _, c := range d.names {
		err = errors.Join(err, c.settle(), c.close())
	}
	clear(d.files)
	d.names = nil
	return err
}

// Crash is a power cut: what was not flushed is lost. Nothing may use the disk meanwhile, so the
// process must be dead. torn leaves some of it, a disk's sector or a change of a directory here
// and there, as a real one does; without it everything unflushed is lost. It returns how many
// files lost something and how many changes of names were lost.
func (d *Disk) Crash(rng *rand.Rand, torn bool) (files, names int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, u := range d.files {
		if len(u.pieces) > 0 {
			files++
		}
		err = errors.Join(err, u.rollback(rng, torn), u.file.Close())
	}
	clear(d.files)
	keep := 0
	if torn && len(d.names) > 0 {
		keep = rng.IntN(len(d.names) + 1)
	}
	for i, c := range slices.Backward(d.names) {
		if i >= keep {
			names++
			err = errors.Join(err, c.undo(), c.close())
		} else {
			err = errors.Join(err, c.settle(), c.close())
		}
	}
	d.names = nil
	return files, names, err
}
