package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// volume is a file system of its own in a sparse file, so that it can be full for real.
type volume struct{ dir string }

// newVolume makes a file system of the size and mounts it.
func newVolume(dir string, size int64) (*volume, error) {
	v := &volume{dir: filepath.Join(dir, "volume")}
	if err := os.MkdirAll(v.dir, 0o755); err != nil {
		return nil, err
	}
	image := filepath.Join(dir, "image")
	f, err := os.Create(image)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return nil, err
	}
	for _, c := range [][]string{
		{"mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image},
		{"mount", "-o", "loop", image, v.dir},
	} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", c[0], err, out)
		}
	}
	return v, nil
}

func (v *volume) unmount() error { return syscall.Unmount(v.dir, 0) }

func (v *volume) ballast() string { return filepath.Join(v.dir, "ballast") }

// fill leaves no more than the given bytes free.
func (v *volume) fill(leave int64) error {
	f, err := os.Create(v.ballast())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for size := int64(0); ; {
		free, err := v.free()
		if err != nil || free <= leave {
			return err
		}
		// The file system needs blocks for itself too, so this takes several rounds.
		step := max(4096, min(free-leave, 1<<30)/2)
		if err := unix.Fallocate(int(f.Fd()), 0, size, step); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return fmt.Errorf("fill %s: %w", v.dir, err)
		}
		size += step
	}
}

// empty gives the space back.
func (v *volume) empty() error { return os.Remove(v.ballast()) }

func (v *volume) free() (int64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(v.dir, &st)
	return int64(st.Bavail) * st.Bsize, err
}
