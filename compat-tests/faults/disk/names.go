package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// change is a change of a directory's names that its next fsync makes good. It refers to
// directories by descriptor, since these can be renamed themselves.
type change struct {
	dirs   []*os.File // that must be flushed; one, or two for a rename from one to another
	inodes []uint64
	undo   func() error
	settle func() error // forgets what undo would have needed
}

func (c change) close() (err error) {
	for _, d := range c.dirs {
		err = errors.Join(err, d.Close())
	}
	return err
}

func nothing() error { return nil }

// openDir opens a directory below and tells its inode.
func openDir(path string) (*os.File, uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, st.Ino, nil
}

// noteCreated has a power cut remove the name from the directory again.
func (d *Disk) noteCreated(dir, name string, isDir bool) error {
	f, ino, err := openDir(dir)
	if err != nil {
		return err
	}
	flags := 0
	if isDir {
		flags = unix.AT_REMOVEDIR
	}
	d.names = append(d.names, change{
		dirs: []*os.File{f}, inodes: []uint64{ino}, settle: nothing,
		undo: func() error { return unix.Unlinkat(int(f.Fd()), name, flags) },
	})
	return nil
}

// aside keeps what the name stands for under a name of its own, and returns how to bring it back
// and how to forget it. A name that stands for nothing needs neither.
func (d *Disk) aside(dir *os.File, name string) (back, forget func() error, err error) {
	d.serial++
	kept := filepath.Join(d.undo, fmt.Sprint(d.serial))
	err = unix.Linkat(int(dir.Fd()), name, unix.AT_FDCWD, kept, 0)
	if errors.Is(err, syscall.ENOENT) {
		return nothing, nothing, nil
	}
	back = func() error { return unix.Renameat(unix.AT_FDCWD, kept, int(dir.Fd()), name) }
	return back, func() error { return os.Remove(kept) }, err
}

// unlink removes a file in a way that a power cut takes back.
func (d *Disk) unlink(dir, name string) error {
	f, ino, err := openDir(dir)
	if err != nil {
		return err
	}
	back, forget, err := d.aside(f, name)
	if err == nil {
		if err = unix.Unlinkat(int(f.Fd()), name, 0); err != nil {
			err = errors.Join(err, forget())
		}
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	d.names = append(d.names, change{dirs: []*os.File{f}, inodes: []uint64{ino}, undo: back, settle: forget})
	return nil
}

// rmdir removes an empty directory; a power cut brings it back, empty.
func (d *Disk) rmdir(dir, name string) error {
	f, ino, err := openDir(dir)
	if err != nil {
		return err
	}
	if err := unix.Unlinkat(int(f.Fd()), name, unix.AT_REMOVEDIR); err != nil {
		return errors.Join(err, f.Close())
	}
	d.names = append(d.names, change{
		dirs: []*os.File{f}, inodes: []uint64{ino}, settle: nothing,
		undo: func() error { return unix.Mkdirat(int(f.Fd()), name, 0o755) },
	})
	return nil
}

// rename moves a file or directory, over another file where there is one.
func (d *Disk) rename(dir, name, newDir, newName string) error {
	from, ino, err := openDir(dir)
	if err != nil {
		return err
	}
	to, newIno, err := openDir(newDir)
	if err != nil {
		return errors.Join(err, from.Close())
	}
	back, forget := nothing, nothing
	var st unix.Stat_t
	if e := unix.Fstatat(int(to.Fd()), newName, &st, unix.AT_SYMLINK_NOFOLLOW); e == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		back, forget, err = d.aside(to, newName)
	}
	if err == nil {
		if err = unix.Renameat(int(from.Fd()), name, int(to.Fd()), newName); err != nil {
			err = errors.Join(err, forget())
		}
	}
	if err != nil {
		return errors.Join(err, from.Close(), to.Close())
	}
	d.names = append(d.names, change{
		dirs: []*os.File{from, to}, inodes: []uint64{ino, newIno}, settle: forget,
		undo: func() error {
			if err := unix.Renameat(int(to.Fd()), newName, int(from.Fd()), name); err != nil {
				return err
			}
			return back()
		},
	})
	return nil
}

// flushDir makes the directory's changes good. A rename between two directories is good as soon as
// one of them is flushed: both are one transaction of any journalling file system.
func (d *Disk) flushDir(ino uint64) (err error) {
	left := d.names[:0]
	for _, c := range d.names {
		if c.inodes[0] == ino || c.inodes[len(c.inodes)-1] == ino {
			err = errors.Join(err, c.settle(), c.close())
		} else {
			left = append(left, c)
		}
	}
	d.names = left
	return err
}
