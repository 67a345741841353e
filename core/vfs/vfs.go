// Package vfs is the seam between our storage and a file system. It is Pebble's
// vfs (files without hidden buffering, a memory file system that can be cloned as
// after a power cut, and error injection), so that one file system holds both the
// CommitLog and the indexes and a test crashes the two together.
package vfs

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

type (
	// FS is a file system.
	FS = vfs.FS
	// File is an open file.
	File = vfs.File
	// MemFS is the memory file system: CrashClone gives what a power cut leaves.
	MemFS = vfs.MemFS
	// OpenOption is applied to a file when it is opened.
	OpenOption = vfs.OpenOption
	// DiskWriteCategory labels disk writes.
	DiskWriteCategory = vfs.DiskWriteCategory
	// DiskUsage says how full a disk is.
	DiskUsage = vfs.DiskUsage
	// CrashCloneCfg says how much unsynced data survives a CrashClone.
	CrashCloneCfg = vfs.CrashCloneCfg
)

// Default is the operating system's file system.
var Default = vfs.Default

// NewMem is a memory file system whose CrashClone drops what was never synced.
func NewMem() *MemFS { return vfs.NewCrashableMem() }

// Category labels disk writes for Pebble's statistics.
const Category = vfs.WriteCategoryUnspecified

// SyncDir makes the creation, renaming and removal of files in dir durable.
func SyncDir(fs FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// ReadFile is the whole content of name.
func ReadFile(fs FS, name string) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

// CopyFile makes newname a copy of oldname, and syncs it.
func CopyFile(fs FS, oldname, newname string) error { return vfs.Copy(fs, oldname, newname) }

// WriteFile replaces name by data so that after a crash it holds either its old or
// its new content, whole: write aside, sync, rename, sync the directory.
func WriteFile(fs FS, name string, data []byte) error {
	tmp := name + ".tmp"
	f, err := fs.Create(tmp, Category)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", tmp, err)
	}
	if err := fs.Rename(tmp, name); err != nil {
		return err
	}
	return SyncDir(fs, fs.PathDir(name))
}
