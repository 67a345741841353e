package vfs

import "os"

// Op is a kind of change to a file system.
type Op string

// The changes that a hook sees.
const (
	OpCreate  Op = "create"
	OpWrite   Op = "write"
	OpSync    Op = "sync"
	OpSyncDir Op = "syncdir"
	OpRename  Op = "rename"
	OpRemove  Op = "remove"
	OpMkdir   Op = "mkdir"
)

// Hook is called before a change to the file at path. An error takes the change's
// place: tests make disks full, failing or dead with it.
type Hook func(op Op, path string) error

// WithHook is fs with h in front of every change. Its files have no descriptor, so
// that nothing can go past h. h is called from several goroutines.
func WithHook(fs FS, h Hook) FS { return &hookedFS{FS: fs, hook: h} }

type hookedFS struct {
	FS
	hook Hook
}

type hookedFile struct {
	File
	hook Hook
	path string
	sync Op
}

func (fs *hookedFS) Unwrap() FS { return fs.FS }

func (fs *hookedFS) file(f File, err error, path string, sync Op) (File, error) {
	if err != nil {
		return nil, err
	}
	return &hookedFile{File: f, hook: fs.hook, path: path, sync: sync}, nil
}

func (fs *hookedFS) Create(name string, c DiskWriteCategory) (File, error) {
	if err := fs.hook(OpCreate, name); err != nil {
		return nil, err
	}
	f, err := fs.FS.Create(name, c)
	return fs.file(f, err, name, OpSync)
}

func (fs *hookedFS) Open(name string, opts ...OpenOption) (File, error) {
	f, err := fs.FS.Open(name, opts...)
	return fs.file(f, err, name, OpSync)
}

func (fs *hookedFS) OpenReadWrite(name string, c DiskWriteCategory, opts ...OpenOption) (File, error) {
	f, err := fs.FS.OpenReadWrite(name, c, opts...)
	return fs.file(f, err, name, OpSync)
}

func (fs *hookedFS) OpenDir(name string) (File, error) {
	f, err := fs.FS.OpenDir(name)
	return fs.file(f, err, name, OpSyncDir)
}

func (fs *hookedFS) Remove(name string) error {
	if err := fs.hook(OpRemove, name); err != nil {
		return err
	}
	return fs.FS.Remove(name)
}

func (fs *hookedFS) RemoveAll(name string) error {
	if err := fs.hook(OpRemove, name); err != nil {
		return err
	}
	return fs.FS.RemoveAll(name)
}

func (fs *hookedFS) Rename(oldname, newname string) error {
	if err := fs.hook(OpRename, oldname); err != nil {
		return err
	}
	return fs.FS.Rename(oldname, newname)
}

func (fs *hookedFS) ReuseForWrite(oldname, newname string, c DiskWriteCategory) (File, error) {
	if err := fs.hook(OpRename, oldname); err != nil {
		return nil, err
	}
	f, err := fs.FS.ReuseForWrite(oldname, newname, c)
	return fs.file(f, err, newname, OpSync)
}

func (fs *hookedFS) MkdirAll(dir string, perm os.FileMode) error {
	if err := fs.hook(OpMkdir, dir); err != nil {
		return err
	}
	return fs.FS.MkdirAll(dir, perm)
}

func (f *hookedFile) Fd() uintptr { return InvalidFd }

func (f *hookedFile) Write(p []byte) (int, error) {
	if err := f.hook(OpWrite, f.path); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *hookedFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.hook(OpWrite, f.path); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *hookedFile) Sync() error {
	if err := f.hook(f.sync, f.path); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *hookedFile) SyncData() error {
	if err := f.hook(f.sync, f.path); err != nil {
		return err
	}
	return f.File.SyncData()
}
