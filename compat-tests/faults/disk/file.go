package disk

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// file is an open file.
type file struct {
	*fs.LoopbackFile
	disk *Disk
	ino  uint64
}

var (
	_ fs.FileReader    = (*file)(nil)
	_ fs.FileWriter    = (*file)(nil)
	_ fs.FileFsyncer   = (*file)(nil)
	_ fs.FileAllocater = (*file)(nil)
)

// cut as a length means everything from the offset on.
const cut = int64(-1)

// replaced keeps what a write of n bytes at the offset of a file is going to replace.
func (d *Disk) replaced(ino uint64, path string, at, n int64) error {
	u := d.files[ino]
	if u == nil {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		u = &unflushed{file: f}
		d.files[ino] = u
	}
	if n == cut {
		st, err := u.file.Stat()
		if err != nil {
			return err
		}
		n = max(0, st.Size()-at)
	}
	return u.before(at, n)
}

// self is a path to the file as long as it is open, whatever it is called by now.
func (f *file) self() string {
	fd, _ := f.LoopbackFile.PassthroughFd()
	return fmt.Sprintf("/proc/self/fd/%d", fd)
}

// PassthroughFd keeps the kernel from going past this file system.
func (f *file) PassthroughFd() (int, bool) { return 0, false }

func (f *file) Read(ctx context.Context, buf []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if f.disk.wait(func(Faults) time.Duration { return 0 }).FailRead {
		return nil, syscall.EIO
	}
	return f.LoopbackFile.Read(ctx, buf, off)
}

func (f *file) Write(ctx context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	f.disk.wait(func(f Faults) time.Duration { return f.WriteDelay })
	begin := time.Now()
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	defer func() { f.disk.slow = max(f.disk.slow, time.Since(begin)) }()
	if err := f.disk.replaced(f.ino, f.self(), off, int64(len(data))); err != nil {
		return 0, errnoOf(err)
	}
	return f.LoopbackFile.Write(ctx, data, off)
}

func (f *file) Allocate(ctx context.Context, off, size uint64, mode uint32) syscall.Errno {
	f.disk.wait(func(f Faults) time.Duration { return f.WriteDelay })
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	const keepsData = 0x1 // FALLOC_FL_KEEP_SIZE: only modes with other bits change bytes
	n := int64(size)
	if mode&^keepsData == 0 {
		n = 0
	}
	if err := f.disk.replaced(f.ino, f.self(), int64(off), n); err != nil {
		return errnoOf(err)
	}
	return f.LoopbackFile.Allocate(ctx, off, size, mode)
}

// Fsync makes the file's bytes good, or loses them.
func (f *file) Fsync(_ context.Context, _ uint32) syscall.Errno {
	d := f.disk
	faults := d.wait(func(f Faults) time.Duration { return f.SyncDelay })
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncs++
	u := d.files[f.ino]
	if u == nil {
		if faults.FailSync {
			return syscall.EIO
		}
		return 0
	}
	if faults.FailSync {
		if err := u.rollback(d.rng, true); err != nil {
			return errnoOf(err)
		}
		return syscall.EIO
	}
	delete(d.files, f.ino)
	return errnoOf(u.file.Close())
}
