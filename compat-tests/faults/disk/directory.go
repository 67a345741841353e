package disk

import (
	"context"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
)

// listing is what go-fuse's loopback gives for an open directory.
type listing interface {
	fs.FileReaddirenter
	fs.FileSeekdirer
	fs.FileReleasedirer
}

// directory is an open directory.
type directory struct {
	listing
	disk *Disk
	path string
}

var _ fs.FileFsyncdirer = (*directory)(nil)

// OpendirHandle opens a directory.
func (n *node) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	fh, _, errno := n.LoopbackNode.OpendirHandle(ctx, flags)
	if errno != 0 {
		return nil, 0, errno
	}
	return &directory{listing: fh.(listing), disk: n.disk, path: n.path()}, 0, 0
}

// Fsyncdir makes the directory's names good.
func (f *directory) Fsyncdir(_ context.Context, _ uint32) syscall.Errno {
	d := f.disk
	faults := d.wait(func(f Faults) time.Duration { return f.SyncDelay })
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncs++
	if faults.FailSync {
		return syscall.EIO // the names stay as they are until a power cut
	}
	var st syscall.Stat_t
	if err := syscall.Stat(f.path, &st); err != nil {
		return fs.ToErrno(err)
	}
	return errnoOf(d.flushDir(st.Ino))
}
