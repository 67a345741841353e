package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// node is a file or directory: go-fuse's loopback, with a memory of what is not flushed.
type node struct {
	*fs.LoopbackNode
	disk *Disk
}

var (
	_ fs.NodeWrapChilder    = (*node)(nil)
	_ fs.NodeCreater        = (*node)(nil)
	_ fs.NodeOpener         = (*node)(nil)
	_ fs.NodeOpendirHandler = (*node)(nil)
	_ fs.NodeMkdirer        = (*node)(nil)
	_ fs.NodeLinker         = (*node)(nil)
	_ fs.NodeUnlinker       = (*node)(nil)
	_ fs.NodeRmdirer        = (*node)(nil)
	_ fs.NodeRenamer        = (*node)(nil)
	_ fs.NodeSetattrer      = (*node)(nil)
	_ fs.NodeFsyncer        = (*node)(nil)
)

// WrapChild makes the children of a node nodes of this file system too.
func (n *node) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{LoopbackNode: child.(*fs.LoopbackNode), disk: n.disk}
}

func (n *node) path() string { return filepath.Join(n.disk.root, n.Path(n.Root())) }

// Create makes a file. Its bytes come and go without the kernel's cache (FOPEN_DIRECT_IO), so that
// what faults do below is seen.
func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	d := n.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := os.Lstat(filepath.Join(n.path(), name))
	created := errors.Is(err, os.ErrNotExist)
	// For reading too: a piece that is replaced has to be read first.
	flags = flags&^syscall.O_ACCMODE | syscall.O_RDWR
	inode, fh, _, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	if created {
		if err := d.noteCreated(n.path(), name, false); err != nil {
			return nil, nil, 0, fs.ToErrno(err)
		}
	}
	return inode, &file{LoopbackFile: fh.(*fs.LoopbackFile), disk: d, ino: out.Ino}, fuse.FOPEN_DIRECT_IO, 0
}

// Open opens a file; cutting it off at the opening is a write like another.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	d := n.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	var st syscall.Stat_t
	if err := syscall.Stat(n.path(), &st); err != nil {
		return nil, 0, fs.ToErrno(err)
	}
	if flags&syscall.O_TRUNC != 0 {
		if err := d.replaced(st.Ino, n.path(), 0, st.Size); err != nil {
			return nil, 0, fs.ToErrno(err)
		}
	}
	fh, _, errno := n.LoopbackNode.Open(ctx, flags)
	if errno != 0 {
		return nil, 0, errno
	}
	return &file{LoopbackFile: fh.(*fs.LoopbackFile), disk: d, ino: st.Ino}, fuse.FOPEN_DIRECT_IO, 0
}

func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	inode, errno := n.LoopbackNode.Mkdir(ctx, name, mode, out)
	if errno == 0 {
		errno = errnoOf(n.disk.noteCreated(n.path(), name, true))
	}
	return inode, errno
}

func (n *node) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	inode, errno := n.LoopbackNode.Link(ctx, target, name, out)
	if errno == 0 {
		errno = errnoOf(n.disk.noteCreated(n.path(), name, false))
	}
	return inode, errno
}

func (n *node) Unlink(_ context.Context, name string) syscall.Errno {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	return errnoOf(n.disk.unlink(n.path(), name))
}

func (n *node) Rmdir(_ context.Context, name string) syscall.Errno {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	return errnoOf(n.disk.rmdir(n.path(), name))
}

func (n *node) Rename(_ context.Context, name string, newParent fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	to, ok := newParent.(*node)
	if !ok || flags != 0 {
		return syscall.ENOTSUP
	}
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	return errnoOf(n.disk.rename(n.path(), name, to.path(), newName))
}

// Setattr is here for its truncations; one without an open file has to find it.
func (n *node) Setattr(ctx context.Context, fh fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	d := n.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if size, ok := in.GetSize(); ok {
		path := n.path()
		if f, ok := fh.(*file); ok {
			path = f.self() // it may have no name any more
		}
		var st syscall.Stat_t
		if err := syscall.Stat(path, &st); err != nil {
			return fs.ToErrno(err)
		}
		if err := d.replaced(st.Ino, path, int64(size), cut); err != nil {
			return errnoOf(err)
		}
	}
	return n.LoopbackNode.Setattr(ctx, fh, in, out)
}

// Fsync of an open file is the file's own affair.
func (n *node) Fsync(ctx context.Context, fh fs.FileHandle, flags uint32) syscall.Errno {
	return fh.(*file).Fsync(ctx, flags)
}

// errnoOf finds the errno in an error that may be joined with others.
func errnoOf(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return syscall.EIO
}
